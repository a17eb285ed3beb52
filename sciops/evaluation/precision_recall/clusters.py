"""Samples as histograms: k-means on both clouds together, and how many of each fall into a cluster."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sciops.arrays.kinds import like
from sciops.evaluation.precision_recall.preparation import clouds

_PAIRS = 2**22  # distances held at a time


def histograms(
    reference: Any,
    generated: Any,
    *,
    clusters: int | None = None,
    restarts: int = 5,
    iterations: int = 100,
    seed: int = 0,
) -> tuple[Any, Any]:
    """Counts (clusters,) of both clouds over the clusters of k-means on their union.

    Parameters
    ----------
    reference, generated : array (samples, features)
        numpy or torch; see `prepared`.
    clusters : int, optional
        Default a tenth of the smaller cloud, at least 2 (arXiv:1806.00035).
    restarts, iterations, seed
        As in `k_means`.

    Returns
    -------
    tuple of array
        float64 counts, in the kind of the reference; clusters that hold no sample are kept.

    Raises
    ------
    ValueError
        The clouds do not fit each other, or an option is out of range.
    """
    x, y, _ = clouds(reference, generated)
    labels, bins = clustered(x, y, clusters, restarts, iterations, seed)
    counts = (torch.bincount(part, minlength=bins).double() for part in labels.split([len(x), len(y)]))
    p, q = (like(reference, count) for count in counts)
    return p, q


def clustered(
    x: Tensor, y: Tensor, clusters: int | None, restarts: int, iterations: int, seed: int
) -> tuple[Tensor, int]:
    """(labels of x and y one after the other, number of clusters)."""
    bins = max(2, round(min(len(x), len(y)) / 10)) if clusters is None else clusters
    union = torch.cat([x, y])
    return k_means(union, bins, restarts=restarts, iterations=iterations, seed=seed)[1], bins


def k_means(
    x: Tensor, clusters: int, *, restarts: int = 5, iterations: int = 100, seed: int = 0
) -> tuple[Tensor, Tensor, float]:
    """Lloyd's k-means from the k-means++ start, the best of several restarts.

    Parameters
    ----------
    x : Tensor
        (samples, features).
    clusters : int
        At most as many as samples.
    restarts, iterations : int
        Starts, and most iterations of each; an iteration that moves no sample is the last.
    seed : int
        Of a generator on the CPU, so that every device has the same starts.

    Returns
    -------
    tuple
        Centres (clusters, features), labels (samples,) int64, and the sum of squared distances. A cluster that loses
        all samples keeps its centre.

    Raises
    ------
    ValueError
        More clusters than samples, or an option below 1.
    """
    for name, value in (("clusters", clusters), ("restarts", restarts), ("iterations", iterations)):
        if int(value) != value or value < 1:
            raise ValueError(f"{name}={value!r}: expected a whole number of at least 1")
    if clusters > len(x):
        raise ValueError(f"clusters={clusters}: there are {len(x)} samples; pass at most as many clusters")
    x = x - x.mean(0)  # products of matrices lose the digits of a common offset
    random = torch.Generator().manual_seed(seed)
    best: tuple[Tensor, Tensor, float] | None = None
    for _ in range(restarts):
        centres = _spread_centres(x, clusters, random)
        labels = x.new_full((len(x),), -1, dtype=torch.int64)
        for _ in range(iterations):
            new = _nearest(x, centres)
            if torch.equal(new, labels):
                break
            labels = new
            counts = torch.bincount(labels, minlength=clusters).to(x.dtype)[:, None]
            sums = torch.zeros_like(centres).index_add_(0, labels, x)
            centres = torch.where(counts > 0, sums / counts.clamp_min(1), centres)
        cost = float((x - centres[labels]).square().sum())
        if best is None or cost < best[2]:
            best = (centres, labels, cost)
    assert best is not None
    return best


def _spread_centres(x: Tensor, clusters: int, random: torch.Generator) -> Tensor:
    """k-means++: each centre is a sample, drawn with the squared distance from the nearest earlier one as weight."""
    chosen = [int(torch.randint(len(x), (1,), generator=random))]
    squares = (x - x[chosen[0]]).square().sum(1)
    for _ in range(clusters - 1):
        weights = squares.double().cpu().cumsum(0)
        drawn = torch.rand(1, generator=random, dtype=torch.float64)
        if weights[-1] > 0:
            at = min(int(torch.searchsorted(weights, drawn * weights[-1], right=True)), len(x) - 1)
        else:  # every sample is a centre already
            at = int(drawn * len(x))
        chosen.append(at)
        squares = torch.minimum(squares, (x - x[at]).square().sum(1))
    return x[chosen]


def _nearest(x: Tensor, centres: Tensor) -> Tensor:
    half = 0.5 * centres.square().sum(1)
    size = max(1, _PAIRS // len(centres))
    return torch.cat([(half - part @ centres.T).argmin(1) for part in x.split(size)])
