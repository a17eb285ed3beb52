"""Several explanations of an interference matrix at once: a regression whose p values permute tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciops.evaluation.interference.inputs import check_permutations, generator, off_diagonal, square
from sciops.evaluation.interference.mantel import task_orders
from sciops.evaluation.interference.matrix import mean_matrix

_DEPENDENT = 1e-10  # share of a predictor that the others leave


@dataclass(frozen=True)
class MatrixRegression:
    """values ≈ intercept + Σ_k slope_k predictor_k off the diagonal, by least squares.

    intercept : float
    slopes : predictor → change of the values per unit of it, the other predictors held
    p : predictor → two-sided p value, that the slope is 0 given the others
    explained : R²
    permutations : how many orders of the tasks stand behind p
    """

    intercept: float
    slopes: dict[str, float]
    p: dict[str, float]
    explained: float
    permutations: int

    def rows(self) -> list[dict[str, Any]]:
        """One row per predictor: predictor, slope, p, for a table or a DataFrame."""
        return [{"predictor": name, "slope": slope, "p": self.p[name]} for name, slope in self.slopes.items()]


def matrix_regression(
    values: Any, predictors: Mapping[str, Any], *, rng: np.random.Generator, permutations: int = 9999
) -> MatrixRegression:
    """Regresses a matrix between tasks on several others, which shows what one explains beyond the rest.

    Each slope is tested by double semi-partialling: what the other predictors leave of its predictor has its rows and
    columns permuted together, and the statistic is the partial correlation, a monotone function of |t|.

    Parameters
    ----------
    values : InterferenceMatrix, or array_like of shape (tasks, tasks)
    predictors : name → array_like of shape (tasks, tasks)
    rng : numpy.random.Generator
    permutations : int
        At least 99. Where the tasks have at most one more order than that, all orders are taken.

    Returns
    -------
    MatrixRegression

    Raises
    ------
    ValueError
        Shapes or numbers that do not fit; no predictors, or more than the entries can tell apart; one that is constant
        or a sum of the others.

    References
    ----------
    Dekker, Krackhardt & Snijders, Sensitivity of MRQAP tests to collinearity and autocorrelation conditions (2007).
    """
    target = mean_matrix(values, least=3)
    given = {name: square(matrix, f"predictor {name!r}", least=3) for name, matrix in predictors.items()}
    n = len(target)
    for name, matrix in given.items():
        if matrix.shape != target.shape:
            raise ValueError(f"predictor {name!r} has shape {matrix.shape}, values {target.shape}: expected the same")
    if not 0 < len(given) < n * (n - 1) - 1:
        raise ValueError(f"{len(given)} predictors for {n * (n - 1)} entries: expected at least 1 and fewer")
    check_permutations(permutations)
    rng = generator(rng)
    y = off_diagonal(target)
    columns = {name: off_diagonal(matrix) for name, matrix in given.items()}
    slopes, p, count = {}, {}, 0
    inside = ~np.eye(n, dtype=bool)
    for name, column in columns.items():
        others = _basis([one for other, one in columns.items() if other != name], len(y))
        own, rest = _less(column, others), _less(y, others)
        if np.square(own).sum() <= _DEPENDENT * np.square(column - column.mean()).sum() or not np.ptp(column):
            raise ValueError(f"predictor {name!r} is constant or a sum of the others: leave it out")
        slopes[name] = float(own @ rest) / float(own @ own)
        matrix = np.zeros_like(target)
        matrix[inside] = own
        length = math.sqrt(float(rest @ rest)) or 1.0
        observed, reached, count = abs(float(own @ rest)) / math.sqrt(float(own @ own)) / length, 0, 0
        for block in task_orders(n, permutations, rng):
            moved = off_diagonal(matrix[block[:, :, None], block[:, None, :]])
            left = np.square(moved).sum(1) - np.square(moved @ others).sum(1)  # of it, what the others do not explain
            size = np.sqrt(np.maximum(left, _DEPENDENT * np.square(moved).sum(1)))
            reached += int((np.abs(moved @ rest) / size / length >= observed - 1e-9).sum())
            count += len(block)
        p[name] = reached / count
    intercept = float(y.mean() - sum(slope * columns[name].mean() for name, slope in slopes.items()))
    fitted = intercept + sum(slope * columns[name] for name, slope in slopes.items())
    whole = float(np.square(y - y.mean()).sum())
    explained = 1 - float(np.square(y - fitted).sum()) / whole if whole > 0 else math.nan
    return MatrixRegression(intercept, slopes, p, explained, count - 1)


def _basis(columns: list[np.ndarray], length: int) -> np.ndarray:
    """Orthonormal columns (length, ·) that span the constant and the given ones."""
    stacked = np.stack([np.ones(length), *columns], 1)
    left, sizes, _ = np.linalg.svd(stacked / np.linalg.norm(stacked, axis=0).clip(1e-300), full_matrices=False)
    return np.asarray(left[:, sizes > 1e-10])


def _less(column: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """What is left of a column outside the span of a basis."""
    return np.asarray(column - basis @ (basis.T @ column))
