"""Which tasks to train together: agglomerative groups of an interference matrix, and the best ones by search."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sciops.arrays.short import fields_text
from sciops.evaluation.interference.matrix import mean_matrix, task_names
from sciops.evaluation.interference.mixtures import Combination, predict_mixture
from sciops.values import check_whole

MOST_SEARCHED = 12
"""Most tasks of `best_groups`, whose search takes 3^tasks steps."""


@dataclass(frozen=True)
class TaskGroups:
    """A partition of tasks into groups, each to be trained as one mixture.

    tasks : names
    groups : the groups, tuples of names in the order of `tasks`
    cost : predicted interference, summed over all tasks; a task by itself costs 0
    tree : (tasks − 1, 4) the merges as `scipy.cluster.hierarchy` has them, with heights from 0 on; None for groups that
        were found by search
    base : what to add to the heights of the tree to have mean interferences, the least one of a pair
    """

    tasks: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    cost: float
    tree: np.ndarray | None = None
    base: float = 0.0

    __repr__ = fields_text


def group_tasks(
    values: Any,
    groups: int,
    *,
    linkage: Literal["average", "complete", "single"] = "average",
    how: Combination = "mean",
    tasks: Iterable[str] | None = None,
) -> TaskGroups:
    """Groups tasks that harm each other little, by agglomeration of (I + Iᵀ)/2.

    Begins with single tasks and joins, again and again, the two groups whose tasks interfere least with each other, on
    average ("average"), in their worst pair ("complete") or in their best one ("single").

    Parameters
    ----------
    values : InterferenceMatrix, or array_like of shape (tasks, tasks)
    groups : int
        Number of groups, 1 to tasks.
    linkage : {"average", "complete", "single"}
    how : {"mean", "sum"}
        Of the cost, see `predict_mixture`.
    tasks : names, optional
        By default those of the matrix.

    Returns
    -------
    TaskGroups

    Raises
    ------
    ValueError
        Shapes, names, numbers or options that do not fit.

    Notes
    -----
    scipy wants distances of at least 0: the least interference is taken from all of them, which changes neither the
    order of the merges nor their distances from each other.
    """
    from scipy.cluster.hierarchy import cut_tree
    from scipy.cluster.hierarchy import linkage as merge
    from scipy.spatial.distance import squareform

    matrix, names = _named(values, tasks)
    _check(groups, len(names), how)
    if linkage not in ("average", "complete", "single"):
        raise ValueError(f"linkage={linkage!r}: expected 'average', 'complete' or 'single'")
    mutual = (matrix + matrix.T) / 2
    pairs = squareform(mutual, checks=False)
    base = float(pairs.min())
    tree = merge(pairs - base, method=linkage)
    labels = cut_tree(tree, n_clusters=groups).ravel()
    return _groups(matrix, names, labels.tolist(), how, tree=tree, base=base)


def best_groups(
    values: Any, groups: int, *, how: Combination = "mean", tasks: Iterable[str] | None = None
) -> TaskGroups:
    """The partition into a number of groups with the least predicted interference, by search over all of them.

    values, groups, how, tasks : as in `group_tasks`; at most 12 tasks

    Raises ValueError for more tasks, and as `group_tasks`.
    """
    matrix, names = _named(values, tasks)
    n = len(names)
    _check(groups, n, how)
    if n > MOST_SEARCHED:
        raise ValueError(f"{n} tasks are too many to search: at most {MOST_SEARCHED}; group_tasks takes any number")
    costs = _costs_of_sets(matrix, how)
    best, chosen = costs.copy(), [np.arange(2**n)]  # best[S]: least cost of S in k groups
    best[0] = np.inf
    for _ in range(groups - 1):
        least, first = np.full(2**n, np.inf), np.zeros(2**n, dtype=np.int64)
        for whole in range(1, 2**n):
            lowest = whole & -whole
            rest = part = whole ^ lowest
            while True:  # every subset of `whole` with its lowest task, but `whole` itself
                part = (part - 1) & rest if part else -1
                if part < 0:
                    break
                cost = costs[part | lowest] + best[whole ^ part ^ lowest]
                if cost < least[whole]:
                    least[whole], first[whole] = cost, part | lowest
        best = least
        chosen.append(first)
    labels, left = [0] * n, 2**n - 1
    for label, first in enumerate(reversed(chosen)):
        for i in range(n):
            if first[left] >> i & 1:
                labels[i] = label
        left ^= int(first[left])
    return _groups(matrix, names, labels, how)


def _groups(matrix: np.ndarray, names: tuple[str, ...], labels: list[int], how: Combination, **more: Any) -> TaskGroups:
    found = [tuple(name for name, own in zip(names, labels) if own == label) for label in dict.fromkeys(labels)]
    costs = (sum(predict_mixture(matrix, one, how=how, tasks=names).values()) for one in found if len(one) > 1)
    return TaskGroups(names, tuple(found), float(sum(costs)), **more)


def _costs_of_sets(matrix: np.ndarray, how: Combination) -> np.ndarray:
    """Σ_i of what the tasks of a set lose, for all 2^n sets; task i is in the set S where S >> i & 1."""
    n = len(matrix)
    both, costs, sizes = matrix + matrix.T, np.zeros(2**n), np.zeros(2**n, dtype=np.int64)
    for i in range(n):
        below = np.arange(2**i)  # sets of the tasks before i
        members = below[:, None] >> np.arange(i) & 1
        costs[2**i : 2 ** (i + 1)] = costs[: 2**i] + members @ both[i, :i]
        sizes[2**i : 2 ** (i + 1)] = sizes[: 2**i] + 1
    return costs if how == "sum" else costs / np.maximum(sizes - 1, 1)


def _named(values: Any, tasks: Iterable[str] | None) -> tuple[np.ndarray, tuple[str, ...]]:
    matrix = mean_matrix(values)
    return matrix, task_names(values, tasks, len(matrix))


def _check(groups: int, count: int, how: str) -> None:
    check_whole(groups=groups)
    if groups > count:
        raise ValueError(f"groups={groups}: expected a whole number from 1 to {count}, the number of tasks")
    if how not in ("sum", "mean"):
        raise ValueError(f"how={how!r}: expected 'sum' or 'mean'")
