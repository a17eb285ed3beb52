"""Whether clusters whose embeddings scatter more are those with more errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's correlation, with its 95 % interval over resamples of the members.

    value : NaN where one of the two is constant
    low, high : of the percentile bootstrap
    members : number
    """

    value: float
    low: float
    high: float
    members: int


def relative_scatter(
    embeddings: Any, classes: Any, clusters: Any, *, whiten: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """How far the samples of each cluster scatter about its own class means, over what all clusters' do.

    With n_sp samples of class p in cluster s, their sum of squares SS_sp about their mean, and V_p = Σ_s SS_sp /
    Σ_s (n_sp − 1)::

        V_s = Σ_p SS_sp / Σ_p (n_sp − 1) V_p

    1 is average. Cells of one sample say nothing of scatter and are left out. Classes that scatter more do not count
    more, so that which classes a cluster has does not change its scatter.

    Parameters
    ----------
    embeddings : (samples, D)
    classes, clusters : (samples,) labels
    whiten : whether distances are measured in units of the covariance within cells, by which no direction of large
        variance decides alone

    Returns
    -------
    names : (clusters,) sorted
    scatter : (clusters,) NaN for a cluster with one sample in each class

    Raises
    ------
    ValueError
        Lengths differ, embeddings are not finite, or no cluster has two samples of a class.
    """
    h, y, s = np.asarray(embeddings, dtype=np.float64), np.asarray(classes), np.asarray(clusters).astype(str)
    if h.ndim != 2 or not len(h) == len(y) == len(s):
        raise ValueError(f"embeddings {h.shape}, {len(y)} classes, {len(s)} clusters: expected (samples, features)")
    if not np.isfinite(h).all():
        raise ValueError("embeddings are not finite")
    names, cluster = np.unique(s, return_inverse=True)
    of_class = np.unique(y, return_inverse=True)[1]
    _, cell, count = np.unique(cluster * (of_class.max() + 1) + of_class, return_inverse=True, return_counts=True)
    sums = np.zeros((len(count), h.shape[1]))
    np.add.at(sums, cell, h)
    inner = h - (sums / count[:, None])[cell]
    freedom = len(h) - len(count)
    if freedom < 1:
        raise ValueError(f"{len(h)} samples in {len(count)} cells: expected two samples of a class in some cluster")
    if whiten:
        values, axes = np.linalg.eigh(inner.T @ inner / freedom)
        kept = values > 1e-10 * max(values[-1], 1e-300)
        inner = inner @ axes[:, kept] / np.sqrt(values[kept])
    squares = (inner**2).sum(axis=1)
    # (n − 1) of a cell, dealt to its samples
    degrees = 1.0 - 1.0 / count[cell]
    per_class = [np.bincount(of_class, weights=w) for w in (squares, degrees)]
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = (per_class[0] / per_class[1])[of_class]
        expected = np.where(degrees > 0, degrees * expected, 0.0)
        found = np.bincount(cluster, weights=squares) / np.bincount(cluster, weights=expected)
    return names, found


def rank_correlation(
    first: Any, second: Any, *, given: Any = None, groups: Any = None, draws: int = 2000, seed: int = 0
) -> RankCorrelation:
    """Spearman's correlation of two quantities of clusters or classes, other things held equal.

    The partial correlation is that of the residuals of both after a linear regression of ranks on the ranks of `given`
    and on indicators of `groups`.

    Parameters
    ----------
    first, second : (members,) such as the scatter and the error of each cluster
    given : (members,) or (members, quantities) held equal, such as the number of samples
    groups : (members,) labels held equal; resamples are drawn within them
    draws, seed : resamples of members

    Returns
    -------
    RankCorrelation

    Raises
    ------
    ValueError
        Lengths differ, a value is not finite, or there are fewer than 5 members.
    """
    x, y = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    held = np.empty((len(x), 0)) if given is None else np.asarray(given, dtype=float).reshape(len(x), -1)
    labels = np.zeros(len(x), int) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    if x.ndim != 1 or not len(x) == len(y) == len(held) == len(labels):
        raise ValueError(f"{len(x)}, {len(y)}, {len(held)} and {len(labels)} values: expected equal numbers")
    if len(x) < 5:
        raise ValueError(f"{len(x)} members: expected at least 5")
    if not (np.isfinite(x).all() and np.isfinite(y).all() and np.isfinite(held).all()):
        raise ValueError("first, second or given holds NaN or infinity: leave these members out")
    rng = np.random.default_rng(seed)
    parts = [np.flatnonzero(labels == label) for label in range(labels.max() + 1)]
    found = []
    for _ in range(draws):
        rows = np.concatenate([rng.choice(part, len(part)) for part in parts])
        found.append(_partial(x[rows], y[rows], held[rows], labels[rows]))
    known = [value for value in found if not np.isnan(value)]
    low, high = np.quantile(known, [0.025, 0.975]) if known else (np.nan, np.nan)
    return RankCorrelation(_partial(x, y, held, labels), float(low), float(high), len(x))


def _partial(x: np.ndarray, y: np.ndarray, held: np.ndarray, labels: np.ndarray) -> float:
    from scipy.stats import rankdata

    columns = [rankdata(column) for column in held.T]
    design = np.stack([*columns, *(labels == label for label in np.unique(labels))], axis=1).astype(float)
    residuals = []
    for values in (x, y):
        ranks = rankdata(values)
        rest = ranks - design @ np.linalg.lstsq(design, ranks, rcond=None)[0]
        if rest @ rest <= 1e-18 * (ranks @ ranks):
            return float("nan")
        residuals.append(rest / np.sqrt(rest @ rest))
    return float(residuals[0] @ residuals[1])


def neighbour_purity(
    embeddings: Any,
    classes: Any,
    groups: Any,
    clusters: Any,
    *,
    neighbours: int = 10,
    samples: int = 1000,
    seed: int = 0,
) -> dict[str, float]:
    """Share of the nearest samples of a group that have the same class: separability without a probe.

    Neighbours are looked for in the same group and other clusters; every group is cut to equally many samples, since
    more samples have nearer neighbours.

    Parameters
    ----------
    embeddings : (samples, D)
    classes, groups, clusters : (samples,) labels
    neighbours : number
    samples, seed : at most this many of each group; of their choice

    Returns
    -------
    group → mean share

    Raises
    ------
    ValueError
        Lengths differ, or a sample has fewer than `neighbours` others.
    """
    h, y = np.asarray(embeddings, dtype=np.float64), np.asarray(classes)
    g, s = np.asarray(groups).astype(str), np.asarray(clusters).astype(str)
    if h.ndim != 2 or not len(h) == len(y) == len(g) == len(s):
        raise ValueError(
            f"embeddings {h.shape}, {len(y)} classes, {len(g)} groups, {len(s)} clusters: not equally many"
        )
    rng = np.random.default_rng(seed)
    size = min(int(np.unique(g, return_counts=True)[1].min()), samples)
    found = {}
    for level in np.unique(g):
        rows = rng.permutation(np.flatnonzero(g == level))[:size]
        x = h[rows]
        squares = (x**2).sum(axis=1)
        distance = squares[:, None] + squares[None] - 2 * x @ x.T
        distance[s[rows][:, None] == s[rows][None]] = np.inf
        if (np.isfinite(distance).sum(axis=1) < neighbours).any():
            raise ValueError(f"neighbours={neighbours}: a sample of {level!r} has fewer outside its cluster")
        nearest = np.argpartition(distance, neighbours - 1, axis=1)[:, :neighbours]
        found[str(level)] = float((y[rows][nearest] == y[rows][:, None]).mean())
    return found
