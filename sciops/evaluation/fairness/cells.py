"""Rates of the cells of several factors together, each drawn towards what the factors alone predict."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sciops.evaluation.fairness.observations import Observations, cluster_table


@dataclass(frozen=True)
class Cell:
    """One joint level of the factors.

    levels : one of each factor
    clusters, exposure : how much is known
    pooled, macro : rates
    low, high : 95 % interval of the pooled rate, from the spread between clusters
    ratio : pooled rate over that of all rows
    shrunken : empirical Bayes estimate of the rate
    suppressed : fewer clusters than asked for: the cell's own rate is not to be read by itself
    """

    levels: tuple[str, ...]
    clusters: int
    exposure: float
    pooled: float
    macro: float
    low: float
    high: float
    ratio: float
    shrunken: float
    suppressed: bool


@dataclass(frozen=True)
class CellTable:
    """All cells that occur, and how much of their spread the factors explain one by one.

    spread : τ of the cells' log rates about one mean
    spread_beyond : τ about the additive model
    explained : 1 − τ²_additive / τ²_null, between 0 and 1: near 1 the factors act without interaction; NaN where the
        cells do not differ
    """

    factors: tuple[str, ...]
    cells: tuple[Cell, ...]
    spread: float
    spread_beyond: float
    explained: float


def intersectional_cells(
    observations: Observations, factors: tuple[str, ...], *, fewest_clusters: int = 10
) -> CellTable:
    """Rates of every cell of the factors, with shrinkage and a mark on cells with few clusters.

    With y_c the log pooled rate of a cell, se_c its standard error over clusters, and η̂_c the additive model
    Σ_j β_j,a_j fitted to the y_c with weights 1/(τ² + se_c²)::

        θ̂_c = w_c y_c + (1 − w_c) η̂_c,   w_c = τ² / (τ² + se_c²)

    τ² by the moment equation of Paule and Mandel. A cell without errors counts half an error.

    Parameters
    ----------
    observations : Observations
    factors : at least one
    fewest_clusters : cells with fewer are marked as suppressed

    Returns
    -------
    CellTable, its cells sorted by their levels

    Raises
    ------
    ValueError
        A factor is unknown or none is given; no cell has two clusters.
    """
    if not factors:
        raise ValueError(f"factors: expected at least one of {', '.join(observations.factors)}")
    for name in factors:
        observations.factor(name)
    table = cluster_table(observations)
    levels = [tuple(row) for row in zip(*(table.factors[name].tolist() for name in factors))]
    names = sorted(set(levels))
    index = np.array([names.index(level) for level in levels])
    errors, exposure = (np.bincount(index, weights=values) for values in (table.errors, table.exposure))
    clusters = np.bincount(index)
    counted = np.where(errors > 0, errors, 0.5)
    y = np.log(counted / exposure)
    squares = np.bincount(index, weights=(table.errors - (errors / exposure)[index] * table.exposure) ** 2)
    many = clusters > 1
    if not many.any():
        raise ValueError("every cell holds one cluster: nothing is known of the spread within cells; use fewer factors")
    variance = np.full(len(names), np.nan)
    # a cell whose clusters agree perfectly still has the noise of its counts
    variance[many] = np.maximum(
        (squares / counted**2 * clusters / np.maximum(clusters - 1, 1))[many], (1.0 / counted)[many] * 1e-3
    )
    variance[~many] = float((variance[many] * clusters[many]).mean())
    additive = _indicators(names)
    null_spread, _ = _paule_mandel(y, variance, np.ones((len(names), 1)))
    spread, predicted = _paule_mandel(y, variance, additive)
    weight = spread / (spread + variance)
    shrunken = np.exp(weight * y + (1 - weight) * predicted)
    overall = float(errors.sum() / exposure.sum())
    half = 1.959963984540054 * np.sqrt(variance)
    macro = np.bincount(index, weights=table.rate) / clusters
    found = tuple(
        Cell(
            levels=names[c],
            clusters=int(clusters[c]),
            exposure=float(exposure[c]),
            pooled=float(errors[c] / exposure[c]),
            macro=float(macro[c]),
            low=float(np.exp(y[c] - half[c])),
            high=float(np.exp(y[c] + half[c])),
            ratio=float(errors[c] / exposure[c]) / overall if overall else math.nan,
            shrunken=float(shrunken[c]),
            suppressed=bool(clusters[c] < fewest_clusters),
        )
        for c in range(len(names))
    )
    explained = math.nan if null_spread == 0 else float(np.clip(1 - spread / null_spread, 0.0, 1.0))
    return CellTable(tuple(factors), found, math.sqrt(null_spread), math.sqrt(spread), explained)


def _indicators(names: list[tuple[str, ...]]) -> np.ndarray:
    """(cells, columns) of the additive model: the intercept, and every level but the first of every factor."""
    columns = [np.ones(len(names))]
    for place in range(len(names[0])):
        for level in sorted({name[place] for name in names})[1:]:
            columns.append(np.array([float(name[place] == level) for name in names]))
    return np.stack(columns, axis=1)


def _paule_mandel(y: np.ndarray, variance: np.ndarray, x: np.ndarray) -> tuple[float, np.ndarray]:
    """(τ², fitted values): Σ (y − ŷ)² / (τ² + v) equals its degrees of freedom, or τ² = 0."""
    from scipy.optimize import brentq

    freedom = len(y) - int(np.linalg.matrix_rank(x))

    def fitted(spread: float) -> np.ndarray:
        root = 1.0 / np.sqrt(spread + variance)
        beta, *_ = np.linalg.lstsq(x * root[:, None], y * root, rcond=None)
        return x @ beta

    def excess(spread: float) -> float:
        return float(((y - fitted(spread)) ** 2 / (spread + variance)).sum()) - freedom

    if freedom <= 0 or excess(0.0) <= 0:
        return 0.0, fitted(0.0)
    top = 1.0
    while excess(top) > 0:
        top *= 4.0
    spread = float(brentq(excess, 0.0, top, xtol=1e-12))
    return spread, fitted(spread)
