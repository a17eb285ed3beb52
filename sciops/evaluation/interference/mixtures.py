"""Mixtures of three and more tasks: what the pairs predict for them, and what was measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sciops.arrays.short import fields_text
from sciops.evaluation.interference.inputs import numbers
from sciops.evaluation.interference.matrix import InterferenceMatrix, Score, mean_matrix, score_losses, task_names

Combination = Literal["sum", "mean"]


@dataclass(frozen=True)
class MixtureScores:
    """Predicted and measured interference of tasks in mixtures, one entry for each task of each mixture.

    mixtures, tasks : (entries,) the mixture, a tuple of names, and the victim
    predicted : (entries,) from the pairs
    measured : (entries,) mean over the seeds
    errors : (entries,) standard errors of `measured` over the seeds; NaN with one seed
    """

    mixtures: tuple[tuple[str, ...], ...]
    tasks: tuple[str, ...]
    predicted: np.ndarray
    measured: np.ndarray
    errors: np.ndarray

    __repr__ = fields_text

    @property
    def rank_correlation(self) -> float:
        """Spearman's, over all entries; NaN where there are fewer than three or all are equal.

        Entries of one mixture come from one model: do not take an ordinary p value for it.
        """
        from scipy.stats import spearmanr

        if len(self.tasks) < 3 or not np.ptp(self.predicted) or not np.ptp(self.measured):
            return math.nan
        return float(spearmanr(self.predicted, self.measured).statistic)

    @property
    def error(self) -> float:
        """Root mean square of predicted − measured, in the unit of the scores."""
        return float(np.sqrt(np.square(self.predicted - self.measured).mean()))

    def rows(self) -> list[dict[str, Any]]:
        """One row per entry: mixture, task, predicted, measured, error, for a table or a DataFrame."""
        entries = zip(self.mixtures, self.tasks, self.predicted, self.measured, self.errors)
        return [
            {"mixture": " + ".join(m), "task": t, "predicted": float(a), "measured": float(b), "error": float(e)}
            for m, t, a, b, e in entries
        ]


def predict_mixture(
    values: Any, mixture: Iterable[str], *, how: Combination = "sum", tasks: Iterable[str] | None = None
) -> dict[str, float]:
    """What each task of a mixture is expected to lose, from the pairs: Σ_j I_ij over the others, or their mean.

    Parameters
    ----------
    values : InterferenceMatrix, or array_like of shape (tasks, tasks)
    mixture : names of tasks, at least two
    how : {"sum", "mean"}
        "sum" where each further partner adds what it adds in a pair, as for the budget "per_task"; "mean" where
        partners replace one another (arXiv:1905.07553).
    tasks : names, optional
        By default those of the matrix.

    Returns
    -------
    dict
        Task → score.

    Raises
    ------
    ValueError
        Unknown, repeated or fewer than two names; an unknown combination.
    """
    matrix = mean_matrix(values)
    names = task_names(values, tasks, len(matrix))
    members = _members(mixture, names)
    if how not in ("sum", "mean"):
        raise ValueError(f"how={how!r}: expected 'sum' or 'mean'")
    place = [names.index(name) for name in members]
    sums = matrix[np.ix_(place, place)].sum(1) / (1 if how == "sum" else len(place) - 1)
    return dict(zip(members, sums.tolist()))


def mixture_scores(
    values: Any,
    alone: Mapping[str, Sequence[float]],
    losses: Mapping[tuple[str, ...], Mapping[str, Sequence[float]]],
    *,
    how: Combination = "sum",
    score: Score | None = None,
    tasks: Iterable[str] | None = None,
) -> MixtureScores:
    """Compares what the pairs predict for larger mixtures with what was measured.

    Parameters
    ----------
    values : InterferenceMatrix, or array_like of shape (tasks, tasks)
        Scores of pairs, trained with the same examples per task as the mixtures.
    alone : task → losses, one per seed
        Held-out losses of the tasks trained alone.
    losses : mixture → task → losses, one per seed
        Held-out losses of each task of each mixture, seeds in the same order.
    how : {"sum", "mean"}
        See `predict_mixture`.
    score : optional
        By default that of the matrix, as in `interference_matrix`.
    tasks : names, optional
        By default those of the matrix.

    Returns
    -------
    MixtureScores

    Raises
    ------
    ValueError
        No mixtures; names, shapes or numbers that do not fit.
    """
    if not losses:
        raise ValueError("losses is empty: expected at least one mixture")
    unit: Score = score or (values.score if isinstance(values, InterferenceMatrix) else "relative")
    entries, measured = [], []
    for mixture, by_task in losses.items():
        predicted = predict_mixture(values, mixture, how=how, tasks=tasks)
        for task, value in predicted.items():
            if task not in by_task or task not in alone:
                raise ValueError(f"mixture {mixture}: no losses of {task!r} alone and in the mixture")
            pair = numbers(alone[task], f"alone[{task!r}]"), numbers(by_task[task], f"losses[{mixture}][{task!r}]")
            measured.append(score_losses(*pair, score=unit))
            entries.append((tuple(mixture), task, value))
    if len({len(one) for one in measured}) > 1:
        raise ValueError("the tasks have different numbers of seeds: expected the same for all")
    by_seed = np.array(measured)
    seeds = by_seed.shape[1]
    errors = by_seed.std(1, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.full(len(by_seed), np.nan)
    mixtures, names, predictions = zip(*entries)
    return MixtureScores(mixtures, names, np.array(predictions), by_seed.mean(1), errors)


def _members(mixture: Iterable[str], names: tuple[str, ...]) -> tuple[str, ...]:
    members = tuple(mixture) if not isinstance(mixture, str) else (mixture,)
    unknown = [name for name in members if name not in names]
    if unknown or len(set(members)) < max(2, len(members)):
        raise ValueError(f"mixture={list(members)}: expected at least two different names of {', '.join(names)}")
    return members
