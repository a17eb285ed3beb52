"""The interference matrix: what a task loses when it is trained together with another one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from sciops.arrays.short import fields_text
from sciops.evaluation.interference.inputs import named, numbers, square
from sciops.evaluation.paired import half_widths

Score = Literal["relative", "log_ratio", "perplexity"]
Budget = Literal["per_task", "total"]


@dataclass(frozen=True)
class InterferenceMatrix:
    """What every task loses by every partner; rows are victims, columns are partners, the diagonal is 0.

    tasks : names
    scores : (seeds, tasks, tasks) float64; scores[s, i, j] > 0 where task i lost by being trained with j, < 0 where it
        gained
    score : the unit, as in `interference_matrix`
    budget : "per_task" (each task sees as many examples of its own as alone) or "total" (half as many)
    dilution : (seeds, tasks), what each task loses by half the examples alone; None where that was not measured
    """

    tasks: tuple[str, ...]
    scores: np.ndarray
    score: Score
    budget: Budget
    dilution: np.ndarray | None = None

    __repr__ = fields_text

    @property
    def values(self) -> np.ndarray:
        """(tasks, tasks), the mean over the seeds."""
        return self.scores.mean(0)

    @property
    def errors(self) -> np.ndarray:
        """(tasks, tasks), standard errors of `values` over the seeds, which are paired; NaN with one seed."""
        seeds = len(self.scores)
        return self.scores.std(0, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.full(self.scores.shape[1:], np.nan)

    @property
    def vulnerability(self) -> np.ndarray:
        """(tasks,), the mean of each row: what a task loses by the others."""
        return self.values.sum(1) / (len(self.tasks) - 1)

    @property
    def aggressiveness(self) -> np.ndarray:
        """(tasks,), the mean of each column: what the others lose by a task."""
        return self.values.sum(0) / (len(self.tasks) - 1)

    @property
    def net(self) -> InterferenceMatrix:
        """What is left of the budget "total" without the dilution: scores[s, i, j] − dilution[s, i], diagonal 0.

        Raises ValueError where the dilution was not measured.
        """
        if self.dilution is None:
            raise ValueError("the dilution was not measured: pass shorter=, losses alone with half of the examples")
        rest = np.where(np.eye(len(self.tasks), dtype=bool), 0.0, self.scores - self.dilution[:, :, None])
        return InterferenceMatrix(self.tasks, rest, self.score, self.budget)

    def decided(self, level: float = 0.95) -> np.ndarray:
        """(tasks, tasks) of True where the t interval over seeds does not hold 0; nowhere with one seed.

        Each entry errs by itself: of n (n − 1) entries without an effect, a share of 1 − level is expected here.
        """
        return np.abs(self.values) > half_widths(self.scores.transpose(1, 2, 0)[..., None], level=level).seeds

    def rows(self) -> list[dict[str, Any]]:
        """One row per ordered pair: victim, partner, value, error, decided, for a table or a DataFrame."""
        values, errors, decided = self.values, self.errors, self.decided()
        return [
            {
                "victim": victim,
                "partner": partner,
                "value": float(values[i, j]),
                "error": float(errors[i, j]),
                "decided": bool(decided[i, j]),
            }
            for i, victim in enumerate(self.tasks)
            for j, partner in enumerate(self.tasks)
            if i != j
        ]

    def to_xarray(self) -> Any:
        """An xarray.Dataset over (seed, victim, partner): scores, value, error, and dilution where it was measured."""
        import xarray

        pair = ("victim", "partner")
        arrays: dict[str, Any] = {"scores": (("seed", *pair), self.scores)}
        arrays |= {"value": (pair, self.values), "error": (pair, self.errors)}
        if self.dilution is not None:
            arrays["dilution"] = (("seed", "victim"), self.dilution)
        names = {"victim": list(self.tasks), "partner": list(self.tasks)}
        return xarray.Dataset(arrays, coords=names, attrs={"score": self.score, "budget": self.budget})


def interference_matrix(
    alone: Any,
    together: Any,
    *,
    tasks: Iterable[str] | None = None,
    score: Score = "relative",
    budget: Budget = "per_task",
    shorter: Any = None,
) -> InterferenceMatrix:
    """The interference matrix of held-out losses of tasks trained alone and in pairs.

    With ℓ_i of task i alone and ℓ_ij of the same task trained with j, for every seed::

        relative     (ℓ_ij − ℓ_i) / mean over seeds of ℓ_i     share of the loss alone
        log_ratio    ln ℓ_ij − ln ℓ_i                          for errors that span decades, such as relative L²
        perplexity   exp(ℓ_ij − ℓ_i) − 1                       losses in nats: growth of the perplexity

    Parameters
    ----------
    alone : array_like of shape (tasks,) or (seeds, tasks)
    together : array_like of shape (tasks, tasks) or (seeds, tasks, tasks)
        together[s, i, j] is the loss of task i, the victim, in the model trained with j. One model of a pair gives both
        [s, i, j] and [s, j, i]. The diagonal does not count; it may be NaN. Seed s of both arrays belongs together: the
        same initial weights and examples of task i.
    tasks : names, optional
    score : {"relative", "log_ratio", "perplexity"}
    budget : {"per_task", "total"}
        What the pairs were trained on: as many examples of each task as alone, or half as many. It is kept with the
        result and changes no number.
    shorter : array_like of the shape of `alone`, optional
        Losses alone with half of the examples: the control of the budget "total", see `InterferenceMatrix.net`.

    Returns
    -------
    InterferenceMatrix

    Raises
    ------
    ValueError
        Shapes, names or options that do not fit; NaN, infinity or masked values; losses that are not positive with
        "relative" or "log_ratio".

    Notes
    -----
    Scores of the losses' ratio do not change when all losses of a task are multiplied by a number. Losses of different
    tasks are not compared with each other.

    References
    ----------
    Alastruey et al., Interference Matrix (arXiv:2508.02256), for the design; its exact score is not known to us.
    Standley et al., Which tasks should be learned together in multi-task learning? (arXiv:1905.07553).

    Examples
    --------
    >>> found = interference_matrix([1.0, 4.0], [[0, 2.0], [5.0, 0]], tasks=["a", "b"])
    >>> found.values.tolist()  # a loses 100 % by b, b loses 25 % by a
    [[0.0, 1.0], [0.25, 0.0]]
    """
    if budget not in get_args(Budget):
        raise ValueError(f"budget={budget!r}: expected one of {', '.join(get_args(Budget))}")
    single, pairs = np.atleast_2d(numbers(alone, "alone")), numbers(together, "together")
    pairs = pairs[None] if pairs.ndim == 2 else pairs
    seeds, count = single.shape if single.ndim == 2 else (0, 0)
    if pairs.shape != (seeds, count, count) or count < 2 or not seeds:
        raise ValueError(
            f"alone has shape {np.shape(alone)} and together {np.shape(together)}: expected (seeds, tasks) and (seeds, "
            "tasks, tasks) of at least two tasks"
        )
    names, diagonal = named(tasks, count), np.eye(count, dtype=bool)
    own = np.broadcast_to(single[:, :, None], pairs.shape)
    scores = score_losses(own, np.where(diagonal, own, pairs), score=score)
    dilution = None
    if shorter is not None:
        half = np.atleast_2d(numbers(shorter, "shorter"))
        if half.shape != single.shape:
            raise ValueError(f"shorter has shape {half.shape}, alone {single.shape}: expected the same")
        dilution = score_losses(single, half, score=score)
    return InterferenceMatrix(names, scores, score, budget, dilution)


def score_losses(alone: Any, together: Any, *, score: Score = "relative") -> np.ndarray:
    """What was lost between two arrays of losses, seed by seed, in the unit of `interference_matrix`.

    alone, together : (seeds, ...) of equal shapes
    returns : (seeds, ...) float64

    Raises ValueError for other shapes, unknown scores, and losses that are not finite or, where they are divided by,
    not positive.
    """
    a, b = numbers(alone, "alone"), numbers(together, "together")
    if a.shape != b.shape or a.ndim < 1 or not a.size:
        raise ValueError(f"losses of shapes {a.shape} and {b.shape}: expected the same, seeds first")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("losses hold NaN or infinity: leave out the seeds or tasks whose trainings failed")
    if score == "perplexity":
        return np.expm1(b - a)
    if score not in get_args(Score):
        raise ValueError(f"score={score!r}: expected one of {', '.join(get_args(Score))}")
    if not ((a > 0).all() and (b > 0).all()):
        raise ValueError(f"score={score!r} divides losses: expected positive ones; 'perplexity' takes any")
    return np.log(b) - np.log(a) if score == "log_ratio" else (b - a) / a.mean(0)


def mean_matrix(values: Any, *, least: int = 2) -> np.ndarray:
    """(tasks, tasks) with zeros on the diagonal, of an `InterferenceMatrix` or an array; see `square`."""
    return square(values.values if isinstance(values, InterferenceMatrix) else values, "values", least=least)


def seed_matrices(scores: Any, *, least: int = 2) -> np.ndarray:
    """(seeds, tasks, tasks) with zeros on the diagonals, of an `InterferenceMatrix` or an array, of one seed too."""
    given = numbers(scores.scores if isinstance(scores, InterferenceMatrix) else scores, "scores")
    if given.ndim not in (2, 3) or not given.size:
        raise ValueError(f"scores have shape {given.shape}: expected (tasks, tasks) or (seeds, tasks, tasks)")
    return np.stack([square(one, "scores", least=least) for one in (given[None] if given.ndim == 2 else given)])


def task_names(values: Any, tasks: Iterable[str] | None, count: int) -> tuple[str, ...]:
    """The names given, else those of an `InterferenceMatrix`, else numbers."""
    return named(values.tasks if tasks is None and isinstance(values, InterferenceMatrix) else tasks, count)
