"""The Mantel test: whether two matrices between the same tasks go together, with a p value that holds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations as orders
from typing import Any, Literal

import numpy as np

from sciops.evaluation.interference.inputs import check_permutations, generator, off_diagonal, square
from sciops.evaluation.interference.matrix import mean_matrix

_BLOCK = 1 << 22  # numbers that are permuted at a time


@dataclass(frozen=True)
class Mantel:
    """Correlation of two matrices off their diagonals.

    correlation : Spearman's or Pearson's
    slope : change of the first matrix per unit of the second, by least squares. For a predictor of zeros and ones, the
        mean where it is 1 less the mean where it is 0
    p : share of permutations of the tasks that give a correlation at least as large, the matrices as they are included
    low, high : central 95 % of the slopes under these permutations, that is without a relation
    permutations : how many were drawn, or all n! of them where `exact`
    exact : whether all were taken
    """

    correlation: float
    slope: float
    p: float
    low: float
    high: float
    permutations: int
    exact: bool


def mantel(
    values: Any,
    predictor: Any,
    *,
    rng: np.random.Generator,
    method: Literal["spearman", "pearson"] = "spearman",
    alternative: Literal["two-sided", "greater", "less"] = "two-sided",
    permutations: int = 9999,
) -> Mantel:
    """Correlates two matrices between the same tasks and tests it by permuting the tasks of one.

    The entries of a matrix are not independent: those of a row share a task. An ordinary p value of their correlation
    is therefore too small. Permuting rows and columns together keeps that dependence.

    Parameters
    ----------
    values : InterferenceMatrix, or array_like of shape (tasks, tasks)
        Need not be symmetric; the diagonal does not count.
    predictor : array_like of shape (tasks, tasks)
        What may explain it: an overlap, a distance, 1 where two tasks have something in common.
    rng : numpy.random.Generator
        Draws the permutations. Where there are at most `permutations` + 1 of them, all are taken.
    method : {"spearman", "pearson"}
        Of the correlation; the slope is always that of the numbers themselves.
    alternative : {"two-sided", "greater", "less"}
    permutations : int
        At least 99.

    Returns
    -------
    Mantel

    Raises
    ------
    ValueError
        Shapes, numbers or options that do not fit; a matrix whose entries are all equal.

    Notes
    -----
    With few tasks p cannot be small: n tasks have n! orders, 6 of three. A predictor that many orders leave as it is,
    such as one pair of tasks that share something, has still fewer different values.

    References
    ----------
    Mantel, The detection of disease clustering and a generalized regression approach (1967).
    """
    first, second = mean_matrix(values, least=3), square(predictor, "predictor", least=3)
    if first.shape != second.shape:
        raise ValueError(f"values has shape {first.shape}, the predictor {second.shape}: expected the same tasks")
    if method not in ("spearman", "pearson") or alternative not in ("two-sided", "greater", "less"):
        raise ValueError(
            f"method={method!r}, alternative={alternative!r}: expected 'spearman' or 'pearson', and 'two-sided', "
            "'greater' or 'less'"
        )
    check_permutations(permutations)
    rng = generator(rng)
    raw = [_centred(matrix, name) for matrix, name in ((first, "values"), (second, "predictor"))]
    used = [_centred(_ranked(matrix), name) for matrix, name in ((first, "values"), (second, "predictor"))]
    used = used if method == "spearman" else raw
    sizes, norm = [math.sqrt(float(np.square(one).sum())) for one in used], float(np.square(raw[1]).sum())
    sign = {"two-sided": 1.0, "greater": 1.0, "less": -1.0}[alternative]

    def directed(correlations: np.ndarray) -> np.ndarray:
        return np.abs(correlations) if alternative == "two-sided" else sign * correlations

    observed = float((used[0] * used[1]).sum()) / (sizes[0] * sizes[1])
    reached, slopes = 0, []
    for block in task_orders(len(first), permutations, rng):
        found = permuted_products(used[0], used[1], block) / (sizes[0] * sizes[1])
        reached += int((directed(found) >= directed(np.array(observed)) - 1e-9).sum())
        slopes.append(permuted_products(raw[0], raw[1], block) / norm)
    all_slopes = np.concatenate(slopes)
    exact = _exact(len(first), permutations)
    low, high = np.quantile(all_slopes, [0.025, 0.975])
    return Mantel(
        correlation=observed,
        slope=float((raw[0] * raw[1]).sum()) / norm,
        p=reached / len(all_slopes),
        low=float(low),
        high=float(high),
        permutations=len(all_slopes) if exact else len(all_slopes) - 1,
        exact=exact,
    )


def task_orders(n: int, permutations: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Blocks (block, n) of orders of n tasks, the given one first: all of them, or that one and drawn ones."""
    if _exact(n, permutations):
        yield np.array(list(orders(range(n))))
        return
    yield np.arange(n)[None]
    left = permutations
    while left:
        now = min(left, max(1, _BLOCK // n**2))
        yield rng.permuted(np.tile(np.arange(n), (now, 1)), axis=1)
        left -= now


def permuted_products(first: np.ndarray, second: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Σ_ij first_ij · second_π(i)π(j) for every order π of a block (block, n)."""
    moved = second[block[:, :, None], block[:, None, :]]
    return np.asarray(moved.reshape(len(block), -1) @ first.ravel())


def _exact(n: int, permutations: int) -> bool:
    return n < 12 and math.factorial(n) <= permutations + 1


def _centred(matrix: np.ndarray, name: str) -> np.ndarray:
    """The matrix less its mean off the diagonal, where it is 0."""
    entries = off_diagonal(matrix)
    if np.ptp(entries) <= 1e-12 * np.abs(entries).max():
        raise ValueError(f"all entries of {name} are equal: there is nothing to correlate")
    centred = matrix - entries.mean()
    np.fill_diagonal(centred, 0.0)
    return centred


def _ranked(matrix: np.ndarray) -> np.ndarray:
    """The ranks of the entries off the diagonal in their places; equal entries share the mean of their ranks."""
    from scipy.stats import rankdata

    ranks = np.zeros_like(matrix)
    ranks[~np.eye(len(matrix), dtype=bool)] = rankdata(off_diagonal(matrix))
    return ranks
