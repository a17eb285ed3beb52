"""Conformal sets cover as often as they say: order statistics, the Beta law, worst perturbations."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from sciops.grids import Grid
from sciops.robustness import ball_scores, band_scores, calibrate, coverage, field_norm, fraction_scores


def test_threshold_is_an_order_statistic_with_the_correction():
    scores = np.array([5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 8.0, 7.0, 6.0])
    for alpha, k in ((0.1, 9), (0.2, 8), (0.25, 8), (0.5, 5), (0.7, 3), (0.9, 1), (0.95, 1)):
        found = calibrate(scores, alpha=alpha)
        assert (found.index, found.threshold) == (k, float(k)), alpha
    few = calibrate(scores, alpha=0.09)
    assert few.index == 10 and few.threshold == math.inf and bool(few.covers(np.array([1e300])).all())
    with pytest.raises(ValueError, match="everything"):
        few.coverage_law()
    assert calibrate(torch.zeros(0), alpha=0.5).threshold == math.inf
    assert not bool(calibrate(scores, alpha=0.5).covers(torch.tensor([math.nan]))[0])


def test_coverage_follows_the_beta_law():
    rng = np.random.default_rng(0)
    n, alpha, repeats = 20, 0.25, 4000
    shares = []
    for _ in range(repeats):
        found = calibrate(rng.exponential(size=n), alpha=alpha)
        shares.append(1 - math.exp(-found.threshold))  # the coverage given this calibration set, exactly
    k, rest = found.coverage_law()
    assert (k, rest) == (16, 5)
    assert stats.kstest(shares, stats.beta(k, rest).cdf).pvalue > 1e-3
    assert stats.kstest(shares, stats.beta(k - 1, rest + 1).cdf).pvalue < 1e-3  # the neighbours are told apart
    assert np.mean(shares) == pytest.approx(k / (n + 1), abs=4 * np.std(shares) / math.sqrt(repeats))


def test_coverage_report_holds_the_share_as_often_as_it_says():
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(400):
        report = coverage(calibrate(rng.random(30), alpha=0.1), rng.random(50), probability=0.9)
        inside.append(report.low <= report.share <= report.high)
        assert report.expected == 28 / 31 and report.test_samples == 50
    assert np.mean(inside) >= 0.9 - 4 * math.sqrt(0.09 / 400)
    law = stats.betabinom(50, 28, 3)
    assert law.cdf(round(report.high * 50)) >= 0.95 and law.cdf(round(report.low * 50) - 1) <= 0.05
    everything = coverage(calibrate(rng.random(3), alpha=0.1), rng.random(5))
    assert (everything.share, everything.low) == (1.0, 1.0)


@pytest.mark.parametrize("kind", ["ball", "band"])
def test_inflated_sets_hold_under_the_worst_perturbations(kind):
    """G and S linear with the worst direction known: at every δ of the ball the coverage is that of the clean set."""
    grid = Grid((6,))
    rng = np.random.default_rng(2)
    score = ball_scores if kind == "ball" else band_scores
    model, truth = 1.5, -0.7  # multiples of a: Lipschitz constants in both norms
    noise = lambda m: rng.normal(size=(m, 1, 6))  # noqa: E731
    a, eta = noise(200), noise(200)
    scores = score(model * a, truth * a + eta, grid)
    found = calibrate(scores[:100], alpha=0.2)
    robust = found.inflated(0.3, lipschitz_model=1.5, lipschitz_truth=0.7)
    assert robust.threshold == pytest.approx(found.threshold + 2.2 * 0.3) and robust.index == found.index
    a, eta, clean = a[100:], eta[100:], scores[100:]
    error = truth * a + eta - model * a
    size = (field_norm(error, grid) if kind == "ball" else np.abs(error).max((1, 2)))[:, None, None]
    delta = -0.3 * error / size  # along the error, in the ball of the norm: lengthens it by (1.5 + 0.7)·0.3
    worst = score(model * (a + delta), truth * (a + delta) + eta, grid)
    assert np.allclose(worst, clean + 2.2 * 0.3)
    assert np.array_equal(robust.covers(worst), found.covers(clean)) and found.covers(worst).mean() < 0.7
    with pytest.raises(ValueError, match="epsilon=-1"):
        found.inflated(-1, lipschitz_model=1, lipschitz_truth=1)


def test_scores_are_norms_maxima_and_fractions():
    grid = Grid((5, 4))
    rng = np.random.default_rng(3)
    p, u, e = rng.normal(size=(3, 2, 5, 4)), rng.normal(size=(3, 2, 5, 4)), rng.random((1, 2, 5, 4)) + 0.5
    ratio = np.abs(u - p) / e
    w = np.broadcast_to(grid.weights(), (2, 5, 4))
    assert np.allclose(ball_scores(p, u, grid), np.sqrt((w * (u - p) ** 2).sum((1, 2, 3))))
    assert np.allclose(band_scores(p, u, grid, scale=e), ratio.max((1, 2, 3)))
    for fraction in (0.2, 0.5, 0.9, 1.0):
        t = fraction_scores(p, u, grid, fraction=fraction, scale=e)
        for i in range(3):
            share = lambda s, i=i: float(w[ratio[i] <= s].sum() / w.sum())  # noqa: E731
            below = ratio[i][ratio[i] < t[i]].max(initial=-1)
            assert share(t[i]) >= fraction - 1e-12 and share(below) < fraction
    assert np.array_equal(t, band_scores(p, u, grid, scale=e))
    as_torch = fraction_scores(torch.tensor(p), torch.tensor(u), grid, fraction=0.5, scale=torch.tensor(e))
    assert torch.equal(as_torch, torch.tensor(fraction_scores(p, u, grid, fraction=0.5, scale=e)))


def test_fractions_of_points_are_covered_as_often_as_stated():
    grid = Grid((40,), centering="periodic")
    rng = np.random.default_rng(4)
    shares = []
    for _ in range(60):
        errors = rng.normal(size=(60, 1, 40)) * rng.exponential(size=(60, 1, 1))
        found = calibrate(fraction_scores(errors[:40], 0 * errors[:40], grid, fraction=0.9), alpha=0.1)
        inside = (np.abs(errors[40:]) <= found.threshold).mean((1, 2))
        shares.append((inside >= 0.9 - 1e-12).mean())
    assert np.mean(shares) >= 0.9 - 4 * math.sqrt(0.09 / (60 * 20)) and np.mean(shares) < 0.96


def test_refusals():
    grid = Grid((4,))
    for make, message in (
        (lambda: calibrate(np.zeros((2, 2)), alpha=0.1), r"\(2, 2\); expected \(n,\)"),
        (lambda: calibrate(np.zeros(3), alpha=1.0), "alpha=1.0"),
        (lambda: calibrate(np.array([1.0, np.nan]), alpha=0.1), "NaN"),
        (lambda: ball_scores(np.zeros((1, 4)), np.zeros((2, 4)), grid), r"\(1, 4\) and truth \(2, 4\)"),
        (lambda: band_scores(np.zeros((1, 4)), np.zeros((1, 4)), grid, scale=0.0), "scale has the value 0"),
        (lambda: fraction_scores(np.zeros((1, 4)), np.zeros((1, 4)), grid, fraction=0.0), "fraction=0.0"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
