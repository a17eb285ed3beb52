"""The additive model of an interference matrix: how much is the victim, how much the partner, and what remains."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciops.arrays.short import fields_text
from sciops.evaluation.interference.inputs import off_diagonal
from sciops.evaluation.interference.matrix import seed_matrices, task_names


@dataclass(frozen=True)
class AdditiveModel:
    """I_ij = mean + vulnerability_i + aggressiveness_j + rest_ij for i ≠ j, by least squares.

    tasks : names
    mean : of the entries off the diagonal
    vulnerability, aggressiveness : (tasks,) effects of rows and of columns, each of sum 0
    rest : (tasks, tasks), what the sum does not explain: of sum 0 in every row and column
    explained : R², 1 − Σ rest² / Σ (I − mean)²; NaN where all entries are equal
    adjusted : R² adjusted for the n(n − 1) − (2n − 1) degrees of freedom of the rest
    noise : Σ rest² that the spread over seeds alone leads to, over Σ rest²: about 1 where the rest is noise, small
        where pairs interact; NaN with one seed
    """

    tasks: tuple[str, ...]
    mean: float
    vulnerability: np.ndarray
    aggressiveness: np.ndarray
    rest: np.ndarray
    explained: float
    adjusted: float
    noise: float

    __repr__ = fields_text

    @property
    def fitted(self) -> np.ndarray:
        """(tasks, tasks) mean + vulnerability_i + aggressiveness_j, 0 on the diagonal."""
        sums = self.mean + self.vulnerability[:, None] + self.aggressiveness
        return np.where(np.eye(len(self.tasks), dtype=bool), 0.0, sums)

    def rows(self) -> list[dict[str, Any]]:
        """One row per task: task, vulnerability, aggressiveness, for a table or a DataFrame."""
        effects = zip(self.tasks, self.vulnerability.tolist(), self.aggressiveness.tolist())
        return [{"task": task, "vulnerability": v, "aggressiveness": a} for task, v, a in effects]

    def to_xarray(self) -> Any:
        """An xarray.Dataset over (victim, partner): rest, fitted, vulnerability and aggressiveness."""
        import xarray

        pair = ("victim", "partner")
        arrays = {"rest": (pair, self.rest), "fitted": (pair, self.fitted)}
        effects = {"vulnerability": ("victim", self.vulnerability), "aggressiveness": ("partner", self.aggressiveness)}
        names = {"victim": list(self.tasks), "partner": list(self.tasks)}
        numbers_of = {"mean": self.mean, "explained": self.explained, "adjusted": self.adjusted, "noise": self.noise}
        return xarray.Dataset({**arrays, **effects}, coords=names, attrs=numbers_of)


def additive_model(scores: Any, *, tasks: Iterable[str] | None = None) -> AdditiveModel:
    """Fits an interference matrix by a sum of row and column effects; the diagonal is left out.

    With row sums R_i, column sums C_i and the mean m of the n(n − 1) entries::

        vulnerability_i  = ((n − 1)(R_i − (n − 1)m) + C_i − (n − 1)m) / (n (n − 2))
        aggressiveness_i = ((n − 1)(C_i − (n − 1)m) + R_i − (n − 1)m) / (n (n − 2))

    These differ from the means of rows and columns: without the diagonal, a task's row does not hold its own column.

    Parameters
    ----------
    scores : InterferenceMatrix, or array_like of shape (tasks, tasks) or (seeds, tasks, tasks)
        At least three tasks.
    tasks : names, optional
        By default those of the matrix.

    Returns
    -------
    AdditiveModel

    Raises
    ------
    ValueError
        Shapes, names or numbers that do not fit.

    Notes
    -----
    `noise` needs no assumption on how the entries of one seed depend on each other: the rest is a linear function of
    the matrix, so that the mean square of the rests of (I_s − mean over seeds) over seeds (seeds − 1) is an unbiased
    estimate of what noise adds to Σ rest².
    """
    cube = seed_matrices(scores, least=3)
    seeds, n = cube.shape[:2]
    names = task_names(scores, tasks, n)
    values = cube.mean(0)
    mean, victims, partners, rest = _fit(values)
    left = float(np.square(rest).sum())
    whole = float(np.square(off_diagonal(values) - mean).sum())
    varied = whole > 1e-24 * max(1e-300, float(np.square(values).max()))
    explained = 1 - left / whole if varied else math.nan
    free = n * (n - 1) - (2 * n - 1)
    noise = math.nan
    if seeds > 1 and left > 0:
        noise = sum(float(np.square(_fit(one - values)[3]).sum()) for one in cube) / (seeds * (seeds - 1)) / left
    adjusted = 1 - (1 - explained) * (n * (n - 1) - 1) / free
    return AdditiveModel(names, mean, victims, partners, rest, explained, adjusted, noise)


def _fit(matrix: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """(mean, effects of rows, of columns, rest) of a matrix with zeros on its diagonal."""
    n = len(matrix)
    mean = float(off_diagonal(matrix).mean())
    r, c = (matrix.sum(axis) - (n - 1) * mean for axis in (1, 0))
    victims, partners = ((n - 1) * r + c) / (n * (n - 2)), ((n - 1) * c + r) / (n * (n - 2))
    rest = matrix - mean - victims[:, None] - partners
    np.fill_diagonal(rest, 0.0)
    return mean, victims, partners, rest
