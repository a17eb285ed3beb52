"""Paired comparison of two predictors on the same samples, with the spread over training seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Verdict:
    """Mean of the per-sample differences first − second, its bootstrap interval, and how often the first is better.

    difference : mean over seeds and samples, in the unit of the errors
    low, high : ends of the bootstrap interval of that mean
    win_rate : share of (seed, sample) pairs in which the first error is smaller; ties count half
    seeds, samples : how many of each
    """

    difference: float
    low: float
    high: float
    win_rate: float
    seeds: int
    samples: int

    @property
    def winner(self) -> str:
        """ "first", "second", or "tie" when the interval holds zero."""
        if self.low <= 0.0 <= self.high:
            return "tie"
        return "first" if self.high < 0.0 else "second"


def paired_verdict(first: Any, second: Any, *, level: float = 0.95, resamples: int = 4000, seed: int = 0) -> Verdict:
    """Δ = first − second, sample by sample: mean, two-level percentile bootstrap, win rate.

    first, second : (samples,) or (seeds, samples)   errors of the two predictors on the same samples
    level : coverage of the interval
    resamples : bootstrap draws; each draws seeds and samples with replacement (with one seed, samples alone)

    Raises ValueError when the shapes differ, are empty, or a value is not finite.
    """
    a, b = (np.atleast_2d(np.asarray(e, dtype=np.float64)) for e in (first, second))
    if a.shape != b.shape or a.ndim != 2 or a.size == 0:
        raise ValueError(f"errors of shapes {np.shape(first)} and {np.shape(second)}: expected equal (seeds, samples)")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("errors hold NaN or infinity: leave the failed samples out of both")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level={level}: expected a share between 0 and 1, such as 0.95")
    delta = a - b
    seeds, samples = delta.shape
    rng = np.random.default_rng(seed)
    # Multinomial counts stand for draws with replacement: mean of a resample = counts · values / number drawn.
    rows = rng.multinomial(seeds, np.full(seeds, 1 / seeds), resamples) / seeds
    columns = rng.multinomial(samples, np.full(samples, 1 / samples), resamples) / samples
    means = np.einsum("rs,sn,rn->r", rows, delta, columns, optimize=True)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    win_rate = float(np.mean((delta < 0) + 0.5 * (delta == 0)))
    return Verdict(float(delta.mean()), float(low), float(high), win_rate, seeds, samples)
