"""Bounds on class probabilities from logged votes, without the classifier."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np

from sciops.robustness.checks import check_choice
from sciops.robustness.smoothing.certificate import Interval
from sciops.robustness.smoothing.partitioning import (
    Partition,
    bucket_bounds,
    choose_partition,
    class_partition,
    every_class,
    one_bucket,
)
from sciops.robustness.statistics.intervals import randomized_lower
from sciops.robustness.statistics.sequences import planned_lower

_FIXED = {
    "clopper_pearson": one_bucket,
    "randomized": one_bucket,
    "sequence": one_bucket,
    "bonferroni": every_class,
    "cpm": class_partition,
}


def bounds_from_counts(
    selection: Any, counts: Any, *, alpha: float, interval: Interval = "auto", rng: np.random.Generator | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bounds on class probabilities from logged votes, by any of the intervals of `certify`.

    Parameters
    ----------
    selection, counts : array (inputs, classes)
        Votes of two independent samples, such as the logged ones of a long run.
    alpha : float
        Level at which both bounds hold together.
    interval : str
        As in `certify`; empirical Bernstein takes the votes as 0 and 1.
    rng : numpy.random.Generator, optional
        Needed for "randomized" alone.

    Returns
    -------
    tuple of arrays (inputs,)
        The class that is tested, a lower bound on its p_A, and an upper bound on every other p_c. The bounds are
        arguments of `cohen_radius`.

    Raises
    ------
    ValueError
        For shapes that differ, counts that are not whole numbers (such as sums of soft outputs), an unknown interval,
        and for "randomized" without an rng.
    """
    check_choice(get_args(Interval), interval=interval)
    selection, counts = np.asarray(selection, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    if selection.shape != counts.shape or counts.ndim != 2:
        raise ValueError(f"selection {selection.shape} and counts {counts.shape}: expected one shape (inputs, classes)")
    if not ((counts >= 0) & (counts == np.rint(counts)) & np.isfinite(counts)).all():
        raise ValueError("counts that are not whole numbers of at least 0: expected votes, not sums or shares")
    uniform = None
    if interval == "randomized":
        if rng is None:
            raise ValueError("interval='randomized' draws: pass rng=np.random.default_rng(seed)")
        uniform = rng.uniform(size=len(counts))
    n = counts.sum(1)
    partition = partition_for(interval, selection, float(n.max()), alpha)
    if interval == "empirical_bernstein":
        rest = np.arange(counts.shape[1]) >= partition.singles[:, None]
        pooled = np.where(rest, np.take_along_axis(counts, partition.order, 1), 0.0).sum(1)
        lower, upper = bucket_bounds(partition, counts, n, alpha, squares=counts, pooled_squares=pooled)
    else:
        lower, upper = count_bounds(interval, partition, counts, n, alpha, most=int(n.max()), uniform=uniform)
    return partition.order[:, 0], lower, upper


def partition_for(interval: Interval, selection: Any, samples: float, alpha: float) -> Partition:
    """The buckets that an interval puts the classes in."""
    if interval in _FIXED:
        return _FIXED[interval](selection)
    return choose_partition(selection, samples, alpha)


def count_bounds(
    interval: Interval,
    partition: Partition,
    counts: np.ndarray,
    n: np.ndarray,
    alpha: float,
    *,
    most: int,
    uniform: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """(lower bound on p_A, upper bound on every other p_c) from votes; `most` is the planned end of a sequence."""
    if interval not in ("sequence", "randomized"):
        return bucket_bounds(partition, counts, n, alpha)
    first = np.take_along_axis(counts, partition.order[:, :1], 1)[:, 0]
    if interval == "sequence":
        lower = planned_lower(first, n, alpha, most=most)
    else:
        lower = randomized_lower(first, n, alpha, uniform)
    return lower, 1 - lower
