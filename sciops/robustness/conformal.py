"""Split conformal prediction for fields: sets that contain the true solution with a stated probability."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import torch

from sciops.arrays.kinds import as_tensor
from sciops.arrays.scale import widened
from sciops.grids import Grid, check_on_grid
from sciops.robustness.checks import check_level
from sciops.robustness.field_norm import field_norm

__all__ = ["Conformal", "Coverage", "ball_scores", "band_scores", "calibrate", "coverage", "fraction_scores"]


@dataclass(frozen=True)
class Conformal:
    """{u : score(u) ≤ threshold}, calibrated on n exchangeable pairs.

    threshold : q, inf where n is too small for alpha
    index : k, the order statistic of the scores, counted from 1
    samples : n
    alpha : 1 − the coverage asked for
    """

    threshold: float
    index: int
    samples: int
    alpha: float

    def covers(self, scores: Any) -> Any:
        """Whether each score is within the threshold, (batch,) bool."""
        return scores <= self.threshold

    def inflated(self, epsilon: float, *, lipschitz_model: float, lipschitz_truth: float) -> Conformal:
        """The set with threshold q + (L_G + L_S) ε, which covers the truth S(a + δ) around G(a + δ) for all ‖δ‖ ≤ ε.

        For scores that are a norm of u − G(a), such as `ball_scores`, and both constants from the norm of δ to that
        norm. A weighted norm ‖(u − G)/E‖ multiplies them by 1/min E, for an E that does not move with a. Coverage is
        over a; the perturbation may be the worst one.
        """
        for name, value in dict(
            epsilon=epsilon, lipschitz_model=lipschitz_model, lipschitz_truth=lipschitz_truth
        ).items():
            if not value >= 0:
                raise ValueError(f"{name}={value}: expected a number of at least 0")
        return replace(self, threshold=self.threshold + (lipschitz_model + lipschitz_truth) * epsilon)

    def coverage_law(self) -> tuple[int, int]:
        """The parameters (k, n + 1 − k) of the Beta law of the coverage, given the calibration set.

        The law is that for continuous scores. Raises ValueError for an infinite threshold, whose coverage is 1.
        """
        if self.index > self.samples:
            raise ValueError(f"{self.samples} samples give no threshold at alpha={self.alpha}: the set is everything")
        return self.index, self.samples + 1 - self.index


@dataclass(frozen=True)
class Coverage:
    """The result of `coverage`.

    share : of the test samples that are covered
    expected : k/(n + 1), the mean over calibration sets
    low, high : interval of the share for this number of test samples at the given probability, if all are exchangeable
    test_samples : their number
    """

    share: float
    expected: float
    low: float
    high: float
    test_samples: int


def calibrate(scores: Any, *, alpha: float) -> Conformal:
    """The conformal threshold from the scores of calibration pairs: q = s_(k), k = ⌈(n + 1)(1 − α)⌉; q = ∞ when k > n.

    Parameters
    ----------
    scores : array (n,)
        Of calibration pairs that the model was not trained on.
    alpha : float
        1 − the coverage asked for.

    Returns
    -------
    Conformal
        Coverage of an exchangeable new pair is in [1 − α, 1 − α + 1/(n + 1)], the upper end for continuous scores.

    Raises
    ------
    ValueError
        For NaN scores, which have no order, and for alpha outside (0, 1).
    """
    tensor, _ = as_tensor(scores, "scores")
    if tensor.ndim != 1:
        raise ValueError(f"scores have shape {tuple(tensor.shape)}; expected (n,)")
    check_level(alpha=alpha)
    if bool(tensor.isnan().any()):
        raise ValueError("scores hold NaN: leave the samples out whose truth is unknown, and only those")
    n = len(tensor)
    # the decimal that was written: 1 − 0.7 in binary would make ⌈10·0.3⌉ = 4
    k = math.ceil((n + 1) * (1 - Fraction(str(float(alpha)))))
    threshold = math.inf if k > n else float(tensor.sort().values[k - 1])
    return Conformal(threshold, k, n, alpha)


def coverage(conformal: Conformal, scores: Any, *, probability: float = 0.95) -> Coverage:
    """The share of test scores within the threshold, and the interval in which the Beta–binomial law expects it.

    scores : (m,) of test pairs. Given a calibration set the share is Beta(k, n + 1 − k); m test pairs make it
    Beta–binomial,
        whose central interval is returned.
    """
    from scipy.stats import betabinom

    tensor, _ = as_tensor(scores, "scores")
    check_level(probability=probability)
    m = len(tensor)
    if tensor.ndim != 1 or not m:
        raise ValueError(f"scores have shape {tuple(tensor.shape)}; expected (m,), at least one")
    share = float(conformal.covers(tensor).double().mean())
    if conformal.index > conformal.samples:
        return Coverage(share, 1.0, 1.0, 1.0, m)
    law = betabinom(m, *conformal.coverage_law())
    tail = (1 - probability) / 2
    return Coverage(
        share, conformal.index / (conformal.samples + 1), float(law.ppf(tail)) / m, float(law.ppf(1 - tail)) / m, m
    )


def ball_scores(prediction: Any, truth: Any, grid: Grid) -> Any:
    """Scores of a ball in L²: ‖u − G(a)‖_h per sample, (batch, ..., *grid) → (batch,)."""
    p, t, restore = _pair(prediction, truth, grid)
    return restore(field_norm(t - p, grid))


def band_scores(prediction: Any, truth: Any, grid: Grid, *, scale: Any = 1.0) -> Any:
    """Scores of a band that contains u at all points at once: max_x |u − G(a)|/E(x) per sample. The set is G ± qE.

    scale : E > 0, a number or anything that broadcasts against the fields, such as a spread learnt on training data
    """
    ratio, restore = _ratio(prediction, truth, grid, scale)
    return restore(ratio.flatten(1).amax(1))


def fraction_scores(prediction: Any, truth: Any, grid: Grid, *, fraction: float, scale: Any = 1.0) -> Any:
    """Scores of a band that contains u on a given fraction of the domain's measure.

    The smallest t with |u − G(a)| ≤ tE on at least that fraction, per sample. With probability 1 − α the calibrated
    band then contains u on that fraction of the domain: the (α, δ) statement of UQNO (arXiv:2402.01960), δ = 1 −
    fraction. fraction = 1 gives `band_scores`.
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction={fraction}: expected a share of the domain, above 0 and at most 1")
    ratio, restore = _ratio(prediction, truth, grid, scale)
    weights = (
        torch.as_tensor(grid.weights(), dtype=torch.float64, device=ratio.device).expand(ratio.shape[1:]).flatten()
    )
    values, order = ratio.flatten(1).sort(dim=1)
    share = weights[order].cumsum(1) / weights.sum()
    first = (share >= fraction - 1e-12).int().argmax(1)
    return restore(values.gather(1, first[:, None])[:, 0])


def _ratio(prediction: Any, truth: Any, grid: Grid, scale: Any):
    p, t, restore = _pair(prediction, truth, grid)
    e = as_tensor(scale, "scale")[0].to(p)
    if not bool((e > 0).all()):
        raise ValueError(f"scale has the value {float(e.min()):g}: expected positive numbers")
    return (t - p).abs() / e, restore


def _pair(prediction: Any, truth: Any, grid: Grid):
    (p, restore), (t, _) = as_tensor(prediction, "prediction"), as_tensor(truth, "truth")
    if p.shape != t.shape:
        raise ValueError(f"prediction has shape {tuple(p.shape)} and truth {tuple(t.shape)}: expected the same")
    check_on_grid(p, grid, "prediction")
    p = widened(p)  # half precision ends at 65504, which t − p passes
    return p, t.to(p), restore
