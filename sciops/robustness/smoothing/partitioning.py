"""Bounds on the most likely class and on all others together: which classes share a bucket, and how α is divided.

Classes are sorted by counts of a selection sample. The first few have a bucket each; the rest have one together (a
bucket's mass bounds each member's) or one each. Buckets and shares are fixed before the estimation sample is drawn, so
that the union bound runs over buckets, not classes. p_B is cut at 1 − p_A, which holds on the same event.
Class partitioning (CPM): arXiv:2504.02412.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.robustness.smoothing.partition_choice import best_shapes
from sciops.robustness.statistics.intervals import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    empirical_bernstein_radius,
    sample_variance,
)


@dataclass(frozen=True)
class Partition:
    """Buckets of the classes of each input, and the shares of α that their bounds get.

    order : (inputs, classes) int      classes by falling selection counts; the first is the one to certify
    singles : (inputs,) int            the first `singles` of the order have a bucket each
    pooled : (inputs,) bool            the rest: one bucket together (True) or one each
    shares : (inputs, 3)               of α: for the first class, for each other single, for each bucket of the rest;
                                       they sum to at most 1 over the buckets. A share of 0 is no bound.
    """

    order: np.ndarray
    singles: np.ndarray
    pooled: np.ndarray
    shares: np.ndarray

    def pooled_classes(self) -> np.ndarray:
        """(inputs, classes) bool: members of the bucket that the rest shares."""
        rank = np.empty_like(self.order)
        np.put_along_axis(rank, self.order, np.arange(rank.shape[1])[None], 1)
        return (rank >= self.singles[:, None]) & self.pooled[:, None]


def one_bucket(selection: Any) -> Partition:
    """One bucket for the first class, with all of α, and p_B = 1 − p_A (Cohen).

    selection : counts (inputs, classes)
    """
    order = _order(selection)
    return _partition(order, np.ones(len(order), int), True, (1.0, 0.0, 0.0))


def every_class(selection: Any) -> Partition:
    """A bucket for every class, with α/K each (Bonferroni). With two classes p_B = 1 − p_A costs no share."""
    order = _order(selection)
    classes = order.shape[1]
    if classes <= 2:
        return one_bucket(selection)
    return _partition(order, np.full(len(order), classes), False, (1 / classes, 1 / classes, 0.0))


def class_partition(selection: Any) -> Partition:
    """Class partitioning (CPM): buckets for the first classes, and one for the rest.

    The first and second class have a bucket each, and further classes while the rest has more counts than the second. α
    is shared equally. Two buckets need no share for the second.
    """
    counts = _counts(selection)
    order = _order(counts)
    ranked = np.take_along_axis(counts, order, 1)
    classes = ranked.shape[1]
    if classes <= 2:
        return one_bucket(selection)
    beyond = ranked.sum(1, keepdims=True) - ranked.cumsum(1)  # column j: counts of the classes after j + 1 singles
    fits = beyond[:, 1:] <= ranked[:, 1:2] + 1e-9 * ranked.sum(1, keepdims=True)
    singles = 2 + fits.argmax(1)
    share = 1 / (singles + (singles < classes))
    return _partition(order, singles, True, np.stack([share, share, share], 1))


def choose_partition(selection: Any, samples: float, alpha: float) -> Partition:
    """The partition with the largest expected radius for `samples` estimation samples at level α.

    Candidates: `one_bucket`; `every_class`; and 2, 3, 4, 6 or 10 singles with half of α to the first class, a small
    part (0.02 or 0.2) to the rest, as one bucket or one each, and what is left to the other singles equally. Each is
    judged by its mean radius over class probabilities that the selection counts make likely, with mass for classes not
    seen. The choice is a function of the counts, and valid because the estimation sample is fresh.
    """
    counts = _counts(selection)
    order = _order(counts)
    return _partition(order, *best_shapes(np.take_along_axis(counts, order, 1), samples, alpha))


def bucket_bounds(
    partition: Partition,
    totals: Any,
    samples: Any,
    alpha: float,
    *,
    squares: Any = None,
    pooled_squares: Any = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(lower bounds on p_A, upper bounds on every other p_c), together at level α for each input.

    totals : (inputs, classes)     counts of a fresh sample: Clopper–Pearson; or, with `squares`, sums of outputs in the
                                   probability simplex: empirical Bernstein
    samples : n, or (inputs,)
    squares : (inputs, classes)    sums of the squared outputs
    pooled_squares : (inputs,)     sums of the pooled rest's squared mass
    """
    totals = np.asarray(totals, dtype=np.float64)
    inputs, classes = totals.shape
    n = np.broadcast_to(np.asarray(samples, dtype=np.float64), (inputs,))
    ranked = np.take_along_axis(totals, partition.order, 1)
    rank = np.arange(classes)
    single = (rank >= 1) & (rank < partition.singles[:, None])
    rest = rank >= np.maximum(partition.singles, 1)[:, None]
    pool = partition.pooled & (partition.singles < classes)
    pooled_total = np.where(rest, ranked, 0.0).sum(1)
    levels = alpha * partition.shares
    if squares is None:
        lower = clopper_pearson_lower(ranked[:, 0], n, levels[:, 0])
        most_single = np.where(single, ranked, 0.0).max(1)  # the bound grows with the count
        most_rest = np.where(pool, np.minimum(pooled_total, n), np.where(rest, ranked, 0.0).max(1))
        upper_single = clopper_pearson_upper(most_single, n, levels[:, 1])
        upper_rest = clopper_pearson_upper(most_rest, n, levels[:, 2])
    else:
        squares = np.take_along_axis(np.asarray(squares, dtype=np.float64), partition.order, 1)
        variance = sample_variance(ranked, squares, n[:, None])
        share = np.where(rank == 0, levels[:, :1], np.where(single, levels[:, 1:2], levels[:, 2:]))
        width = empirical_bernstein_radius(variance, n[:, None], share)
        mean = ranked / n[:, None]
        lower = np.maximum(mean[:, 0] - width[:, 0], 0.0)
        upper_single = np.where(single, mean + width, 0.0).max(1)
        upper_rest = np.where(rest, mean + width, 0.0).max(1)
        if pool.any():
            if pooled_squares is None:
                raise ValueError("a pooled rest needs pooled_squares, the sums of its squared mass, for its variance")
            spread = empirical_bernstein_radius(sample_variance(pooled_total, pooled_squares, n), n, levels[:, 2])
            upper_rest = np.where(pool, pooled_total / n + spread, upper_rest)
    upper = np.maximum(np.where(single.any(1), upper_single, 0.0), np.where(rest.any(1), upper_rest, 0.0))
    return lower, np.minimum(upper, 1 - lower)


def expected_bounds(
    partition: Partition, soft: Tensor, samples: int, alpha: float
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """`bucket_bounds` by counts, and by sums, of `samples` samples that are like those given.

    soft : (inputs, n₀, classes) outputs in the simplex
    """
    rest = torch.from_numpy(partition.pooled_classes()).to(soft)[:, None]
    statistics = (soft.sum(1), soft.square().sum(1), (soft * rest).sum(-1).square().sum(1))
    sums, squares, pooled = (samples / soft.shape[1] * value.cpu().numpy() for value in statistics)
    shared = (partition, np.minimum(sums, samples), samples, alpha)
    return bucket_bounds(*shared), bucket_bounds(*shared, squares=squares, pooled_squares=pooled)


def _counts(selection: Any) -> np.ndarray:
    counts = np.asarray(selection, dtype=np.float64)
    if counts.ndim != 2 or counts.shape[1] < 2 or (counts < 0).any():
        raise ValueError(
            f"selection has shape {counts.shape}: expected counts (inputs, classes) of at least two classes"
        )
    return counts


def _order(selection: Any) -> np.ndarray:
    return np.argsort(-_counts(selection), axis=1, kind="stable")


def _partition(order: np.ndarray, singles: Any, pooled: Any, shares: Any) -> Partition:
    inputs = len(order)
    return Partition(
        order=order,
        singles=np.broadcast_to(np.asarray(singles), (inputs,)),
        pooled=np.broadcast_to(np.asarray(pooled, dtype=bool), (inputs,)),
        shares=np.broadcast_to(np.asarray(shares, dtype=np.float64), (inputs, 3)),
    )
