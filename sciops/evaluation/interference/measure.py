"""Which trainings an interference matrix takes, and the matrix from a function that trains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple, get_args

import numpy as np

from sciops.evaluation.interference.inputs import named
from sciops.evaluation.interference.matrix import Budget, InterferenceMatrix, Score, interference_matrix


class MixtureTraining(NamedTuple):
    """One training. mixture : the tasks that one model learns. share : examples of each, over those it sees alone."""

    mixture: tuple[str, ...]
    share: float


def pair_trainings(tasks: Iterable[str], *, budget: Budget = "per_task") -> list[MixtureTraining]:
    """The trainings of an interference matrix, for each seed: every task alone, then every pair once.

    tasks : names, at least two
    budget : "per_task" gives pairs the share 1, so that a pair takes twice the steps; "total" gives them ½, the same
        steps, and adds every task alone with the share ½, the control of the dilution

    returns : n + n(n − 1)/2 trainings, n more for "total"
    """
    given = list(tasks)
    names = named(given, len(given))
    if len(names) < 2:
        raise ValueError(f"tasks={given}: expected at least two")
    if budget not in get_args(Budget):
        raise ValueError(f"budget={budget!r}: expected one of {', '.join(get_args(Budget))}")
    share = 1.0 if budget == "per_task" else 0.5
    shorter = [] if budget == "per_task" else [MixtureTraining((name,), share) for name in names]
    alone = [MixtureTraining((name,), 1.0) for name in names]
    return [*alone, *shorter, *(MixtureTraining(pair, share) for pair in combinations(names, 2))]


def measure_interference(
    train: Callable[[tuple[str, ...], int, float], Mapping[str, float]],
    tasks: Sequence[str],
    *,
    seeds: Iterable[int],
    score: Score = "relative",
    budget: Budget = "per_task",
) -> InterferenceMatrix:
    """The interference matrix of whatever a function trains.

    Parameters
    ----------
    train : callable
        ``train(mixture, seed, share)`` trains one model from the beginning on the tasks `mixture` and returns the
        held-out loss of each of them. `share` is the number of examples that each task sees, over that of a training
        alone: a training takes share · len(mixture) times the steps of one alone, with the schedule stretched alike.
        Seed, initial weights and the examples of a task should be the same in all mixtures: the seeds are paired.
    tasks : names
    seeds : ints
        At least 5 for verdicts.
    score, budget : as in `interference_matrix` and `pair_trainings`

    Returns
    -------
    InterferenceMatrix

    Raises
    ------
    ValueError
        No seeds; a training that does not return the losses of its tasks; as in `interference_matrix`.

    Examples
    --------
    >>> losses = {("a",): {"a": 1.0}, ("b",): {"b": 4.0}, ("a", "b"): {"a": 2.0, "b": 5.0}}
    >>> measure_interference(lambda mixture, seed, share: losses[mixture], ["a", "b"], seeds=[0]).values.tolist()
    [[0.0, 1.0], [0.25, 0.0]]
    """
    names, numbers_of_seeds = named(tasks, len(tasks)), list(seeds)
    if not numbers_of_seeds:
        raise ValueError("seeds is empty: expected at least one, and 5 for verdicts")
    place = {name: i for i, name in enumerate(names)}
    alone = np.full((len(numbers_of_seeds), len(names)), np.nan)
    shorter, together = alone.copy(), np.full((*alone.shape, len(names)), np.nan)
    for mixture, share in pair_trainings(names, budget=budget):
        for s, seed in enumerate(numbers_of_seeds):
            losses = train(mixture, seed, share)
            if missing := [name for name in mixture if name not in losses]:
                raise ValueError(f"train({mixture}, {seed}, {share}) returned no loss of {', '.join(missing)}")
            where = [place[name] for name in mixture]
            for i, name in zip(where, mixture):
                if len(mixture) == 1:
                    (alone if share == 1 else shorter)[s, i] = losses[name]
                else:
                    together[s, i, where[1 - where.index(i)]] = losses[name]
    control = None if budget == "per_task" else shorter
    return interference_matrix(alone, together, tasks=names, score=score, budget=budget, shorter=control)
