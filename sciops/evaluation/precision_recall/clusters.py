"""Samples as histograms: k-means on both clouds together, and how many of each fall into a cluster."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from sciops.arrays.kinds import like
from sciops.evaluation.precision_recall.preparation import clouds
from sciops.values import check_whole


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
    """Lloyd's k-means of scikit-learn from the greedy k-means++ start, the best of several restarts.

    Parameters
    ----------
    x : Tensor
        (samples, features).
    clusters : int
        At most as many as samples.
    restarts, iterations : int
        Starts, and most iterations of each; an iteration that moves no sample is the last.
    seed : int
        Of the starts. Clusters are found on the CPU.

    Returns
    -------
    tuple
        Centres (clusters, features), labels (samples,) int64, and the sum of squared distances. There are
        fewer clusters than asked for, the rest without samples, where there are fewer different samples.

    Raises
    ------
    ImportError
        Without scikit-learn, naming the command that installs it.
    ValueError
        More clusters than samples, or an option below 1.
    """
    check_whole(clusters=clusters, restarts=restarts, iterations=iterations)
    if clusters > len(x):
        raise ValueError(f"clusters={clusters}: there are {len(x)} samples; pass at most as many clusters")
    found = _sklearn().KMeans(
        clusters, n_init=int(restarts), max_iter=int(iterations), tol=0.0, random_state=seed, algorithm="lloyd"
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Number of distinct clusters")  # of equal samples; stated in the docstring
        found.fit((x - x.mean(0)).detach().cpu().numpy())  # about the mean: a common offset costs digits
    centres, labels = (torch.from_numpy(v).to(x.device) for v in (found.cluster_centers_, found.labels_))
    return centres.to(x.dtype), labels.long(), float(found.inertia_)


def _sklearn() -> Any:
    try:
        from sklearn import cluster
    except ImportError:
        raise ImportError("clusters need scikit-learn: pip install 'sciops[audit]'") from None
    return cluster
