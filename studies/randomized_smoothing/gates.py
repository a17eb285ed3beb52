"""Whether certificates keep their level, by trials whose true answer is known, with a gate that would notice.

A gate at level α takes as many trials as it needs to tell α from 1.3α: certificates that are wrong with probability α
pass but for one run in a million, and with probability 1.3α fail but for one run in a thousand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy import stats

from sciops.grids import Grid
from sciops.robustness.conformal import calibrate
from sciops.robustness.field_norm import field_norm
from sciops.robustness.smoothing.center import certify_centers, smooth_centers
from sciops.robustness.smoothing.classifier import certify
from sciops.robustness.smoothing.counts import bounds_from_counts
from sciops.robustness.smoothing.mean import mean_smoothing
from sciops.robustness.smoothing.median import median_smoothing
from sciops.robustness.smoothing.partitioning import bucket_bounds, choose_partition
from sciops.robustness.smoothing.simplex_maps import SimplexMap
from sciops.robustness.statistics.sequences import planned_lower
from studies.kit.tables import print_table
from studies.randomized_smoothing.cases import INTERVALS

Trial = Callable[[float, int, np.random.Generator], int]  # (α, trials, rng) → violations

LEAST_TRIALS = 20_000
RATIO = 1.3
_FALSE_ALARM, _MISSED = 1e-6, 1e-3


@dataclass(frozen=True)
class Gate:
    """A test of "violated with probability at most α".

    trials : independent ones
    most : violations that pass
    false_alarm : probability that a certificate of level α fails
    power : probability that one of level RATIO·α fails
    """

    alpha: float
    trials: int
    most: int
    false_alarm: float
    power: float


def gate(alpha: float) -> Gate:
    """The gate at level α with the fewest trials of at least LEAST_TRIALS that has the power."""
    trials = LEAST_TRIALS
    while True:
        most = int(stats.binom.ppf(1 - _FALSE_ALARM, trials, alpha))
        power = float(stats.binom.sf(most, trials, RATIO * alpha))
        if power >= 1 - _MISSED:
            return Gate(alpha, trials, most, float(stats.binom.sf(most, trials, alpha)), power)
        trials = int(1.1 * trials)


def certificates() -> dict[str, tuple[float, Trial]]:
    """By name: the level that the certificate states, and its trials."""
    two, three = (0.6, 0.4), (0.45, 0.35, 0.2)
    ten = (0.4, 0.2, *(0.05,) * 8)
    found: dict[str, tuple[float, Trial]] = {}
    for p in (two, three, ten):
        for interval in INTERVALS:
            found[f"votes, {len(p)} classes, {interval}"] = 0.05, partial(vote_misses, p=p, interval=interval)
    found["votes, 2 classes, auto, α = 0.001"] = 0.001, partial(vote_misses, p=two, interval="auto")
    found["soft outputs, empirical Bernstein"] = 0.05, soft_misses
    found["sequence, at any of 20 looks"] = 0.05, sequence_misses
    for interval in ("auto", "randomized"):
        found[f"certify, votes, {interval}"] = 0.05, partial(certify_misses, simplex="argmax", interval=interval)
    found["certify, softmax, auto"] = 0.05, partial(certify_misses, simplex=SimplexMap("softmax", 2.0), interval="auto")
    found["median smoothing"] = 0.05, median_misses
    found["mean smoothing, sampling error"] = 0.05, mean_misses
    found["center smoothing"] = 0.05, center_misses
    found["conformal set"] = 0.05, conformal_misses
    return found


def run_gates(names: tuple[str, ...], seed: int, bar: Any) -> list[dict[str, Any]]:
    """One row a certificate: level, trials, violations, what passes, the gate's power, and whether it passed."""
    rows, known = [], certificates()
    for name in names:
        alpha, trial = known[name]
        limit = gate(alpha)
        violations = trial(alpha, limit.trials, np.random.default_rng([seed, list(known).index(name)]))
        rows.append(
            {
                "certificate": name,
                "alpha": alpha,
                "trials": limit.trials,
                "violations": violations,
                "most": limit.most,
                "power": limit.power,
                "false_alarm": limit.false_alarm,
                "passed": violations <= limit.most,
            }
        )
        bar.update()
    return rows


def gate_faults(rows: list[dict[str, Any]]) -> list[str]:
    """A sentence for every certificate that broke its level."""
    return [
        f"{row['certificate']}: {row['violations']} of {row['trials']} trials violated at α = {row['alpha']:g}, "
        f"at most {row['most']} pass"
        for row in rows
        if not row["passed"]
    ]


def show_gates(rows: list[dict[str, Any]]) -> None:
    """The table of the gates."""
    print(f"levels: violations in trials with a known truth; power: probability that {RATIO:g} α would fail")
    share = ("rate/α", lambda row: f"{row['violations'] / row['trials'] / row['alpha']:.2f}")
    passed = ("", lambda row: "passed" if row["passed"] else "FAILED")
    columns = "certificate; α=alpha:g; trials; violations", share, "allowed=most; power:.5f", passed
    print_table(rows, *columns)


def vote_misses(alpha: float, trials: int, rng: np.random.Generator, *, p: tuple[float, ...], interval: str) -> int:
    """Votes of known probabilities: p_A below its lower bound, or another p_c above the upper one."""
    probabilities, n = np.array(p), 60 if len(p) == 3 else 200
    selection, counts = rng.multinomial(12, probabilities, trials), rng.multinomial(n, probabilities, trials)
    rows, times = np.concatenate([selection, counts], 1), np.ones(trials, int)
    if interval != "randomized":  # a function of the counts: many trials have the same
        rows, times = np.unique(rows, axis=0, return_counts=True)
    selection, counts = np.split(rows, 2, axis=1)
    first, lower, upper = bounds_from_counts(selection, counts, alpha=alpha, interval=interval, rng=rng)
    others = np.array([np.delete(probabilities, c).max() for c in range(len(p))])
    return int(times[(lower > probabilities[first]) | (upper < others[first])].sum())


def soft_misses(alpha: float, trials: int, rng: np.random.Generator) -> int:
    """Dirichlet outputs, which are soft: means below and above the bounds on the buckets that counts chose."""
    weights, n, part = np.array([1.0, 0.5, 0.3, 0.2]), 100, 1000
    mean, violations = weights / weights.sum(), 0
    for first in range(0, trials, part):
        f = rng.dirichlet(weights, (min(part, trials - first), n))
        selection = rng.multinomial(12, mean, len(f))
        partition = choose_partition(selection, n, alpha)
        pooled = (f * partition.pooled_classes()[:, None]).sum(-1)
        lower, upper = bucket_bounds(
            partition, f.sum(1), n, alpha, squares=(f**2).sum(1), pooled_squares=(pooled**2).sum(1)
        )
        top = partition.order[:, 0]
        others = np.where(np.arange(4) == top[:, None], 0.0, mean).max(1)
        violations += int(((lower > mean[top]) | (upper < others)).sum())
    return violations


def sequence_misses(alpha: float, trials: int, rng: np.random.Generator) -> int:
    """Bernoulli sums with a look after every 20 of 400: the planned lower bound above the mean at any of them."""
    p, block, looks = 0.7, 20, 20
    sums = rng.binomial(block, p, (trials, looks)).cumsum(1)
    n = block * np.arange(1, looks + 1)
    at = np.arange(block * looks + 1)
    wrong = [planned_lower(at[: m + 1], m, alpha, most=block * looks) > p for m in n]
    return int(np.stack([bad[k] for bad, k in zip(wrong, sums.T)]).any(0).sum())


def plane(x: torch.Tensor) -> torch.Tensor:
    """Two classes parted at 0 in one dimension, with logits that saturate symmetrically."""
    score = x[:, 0].tanh()
    return torch.stack([score, -score], 1)


def certify_misses(
    alpha: float, trials: int, rng: np.random.Generator, *, simplex: SimplexMap | str, interval: str
) -> int:
    """Inputs at a known distance from the boundary of `plane`: a larger radius, or the wrong label."""
    distance, generator = 0.25, torch.Generator().manual_seed(int(rng.integers(1 << 31)))
    how = {"alpha": alpha, "interval": interval, "simplex": simplex, "generator": generator}
    how |= {"sigma": 0.5, "samples": 100, "selection_samples": 10, "batch_size": 1 << 18}
    found = certify(plane, torch.full((trials, 1), distance, dtype=torch.float64), **how)
    return int(((found.radius > distance) | (found.label == 1)).sum())


@dataclass(frozen=True)
class PlainNoise:
    """White noise of deviation 1, drawn in one piece for all samples of a field."""

    def draw(self, grid: Grid, samples: int, *, seed: int, first: int = 0) -> torch.Tensor:
        return torch.from_numpy(np.random.default_rng([seed, first]).standard_normal((samples, *grid.shape)))

    def norm(self, delta: torch.Tensor, grid: Grid) -> torch.Tensor:
        return field_norm(delta, None)

    def reach(self, grid: Grid) -> float:
        return float(grid.weights().max()) ** 0.5


_POINT = Grid((1,), centering="cell")  # fields of one number: every law is known


def median_misses(alpha: float, trials: int, rng: np.random.Generator) -> int:
    """The value itself, whose median moves by r: bounds that do not hold −r and r."""
    fields, seed, r = torch.zeros(trials, 1, 1, dtype=torch.float64), int(rng.integers(1 << 31)), 0.4
    bounds = median_smoothing(
        lambda x: x[:, 0, 0], fields, _POINT, noise=PlainNoise(), radius=r, samples=100, alpha=alpha, seed=seed
    )
    return int(((bounds.lower > -r) | (bounds.upper < r)).sum())


def mean_misses(alpha: float, trials: int, rng: np.random.Generator) -> int:
    """The sign, whose mean at 0 is 0: sample means further off than the sampling error."""
    fields, seed = torch.zeros(trials, 1, 1, dtype=torch.float64), int(rng.integers(1 << 31))
    found = mean_smoothing(
        torch.sign, fields, _POINT, noise=PlainNoise(), radius=0.1, bound=1.0, samples=40, alpha=alpha, seed=seed
    )
    return int((field_norm(found.mean, _POINT) > found.sampling_error).sum())


def center_misses(alpha: float, trials: int, rng: np.random.Generator) -> int:
    """The identity: smoothed outputs at a and at a + δ further apart than ε, and neither abstains.

    α is parted between smoothing, certificate and candidates, (½ − slack)^candidates.
    """
    fields = torch.zeros(trials, 1, 1, dtype=torch.float64)
    here, there, third = (int(seed) for seed in rng.integers(1 << 31, size=3))
    slack, candidates, r = 0.2, 6, 0.3
    level = (alpha - (0.5 - slack) ** candidates) / 2
    common = {"noise": PlainNoise(), "samples": 70, "slack": slack, "alpha": level}
    at = smooth_centers(lambda x: x, fields, _POINT, candidates=candidates, seed=here, **common)
    moved = smooth_centers(lambda x: x, fields + r, _POINT, candidates=candidates, seed=there, **common)
    bound = certify_centers(lambda x: x, fields, at, _POINT, radius=r, seed=third, **common)
    away = field_norm(moved.center - at.center, _POINT)
    return int(((away > bound.epsilon) & ~at.abstained & ~moved.abstained).sum())


def conformal_misses(alpha: float, trials: int, rng: np.random.Generator) -> int:
    """Exponential scores: one new score above a threshold of 19 others, which happens with probability 1/20."""
    scores = rng.exponential(size=(trials, 20))
    return sum(not bool(calibrate(row[:19], alpha=alpha).covers(row[19])) for row in scores)
