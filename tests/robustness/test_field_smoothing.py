"""Smoothing bounds: exact indices, exact shifts of linear maps, violations at most as often as stated."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from sciops.grids import Grid
from sciops.robustness import (
    Centers,
    GaussianFieldNoise,
    WhiteNoise,
    certify_centers,
    field_norm,
    mean_lipschitz,
    mean_sampling_error,
    mean_shift,
    mean_smoothing,
    median_smoothing,
    smooth_centers,
)
from sciops.robustness.statistics.order_statistics import lower_index, shifted, upper_index

GRID = Grid((6,), centering="periodic")


def test_order_statistics_are_the_extreme_ones_that_hold():
    assert (lower_index(10_000, shifted(0.5, -0.5), 5e-4), upper_index(10_000, shifted(0.5, 0.5), 5e-4)) == (2934, 7067)
    for n in (1, 2, 7, 40):
        for p in (0.0, 1e-9, 0.02, 0.3, 0.5, 0.9, 1.0):
            for alpha in (1e-4, 0.05, 0.4):
                low = max([0, *(k for k in range(1, n + 1) if stats.binom.cdf(k - 1, n, p) <= alpha)])
                high = min([n + 1, *(k for k in range(1, n + 1) if stats.binom.sf(k - 1, n, p) <= alpha)])
                assert lower_index(n, p, alpha) == low
                assert upper_index(n, p, alpha) == high, (n, p, alpha)


@pytest.mark.parametrize("noise", [WhiteNoise(0.7), GaussianFieldNoise(0.7, smoothness=1.0)])
def test_median_of_a_linear_quantity_moves_within_its_bounds(noise):
    """q = ⟨c, a⟩ has q(a + ξ) ~ N(⟨c, a⟩, ‖C^{1/2}c‖²), so that medians move by exactly ⟨c, δ⟩."""
    generator = torch.Generator().manual_seed(0)
    c = torch.randn(GRID.shape, dtype=torch.float64, generator=generator)
    law = noise if isinstance(noise, GaussianFieldNoise) else None
    root = law.field(torch.eye(6, dtype=torch.float64), GRID).T if law else 0.7 * torch.eye(6, dtype=torch.float64)
    radius, n, alpha, repeats = 0.5, 300, 0.1, 200
    deviation = (root.T @ c).norm()
    delta = radius * root @ (root.T @ c) / deviation  # the worst shift of that norm
    assert float(noise.norm(delta[None], GRID)) == pytest.approx(radius)
    assert float(c @ delta) == pytest.approx(radius * float(deviation))

    a = torch.randn(repeats, 1, *GRID.shape, dtype=torch.float64, generator=generator)
    bounds = median_smoothing(
        lambda x: (x[:, 0] * c).sum(1), a, GRID, noise=noise, radius=radius, samples=n, alpha=alpha, seed=1
    )
    middle = (a[:, 0] * c).sum(1)
    high, low = bounds.upper < middle + c @ delta, bounds.lower > middle - c @ delta
    assert bounds.lower_index == lower_index(n, shifted(0.5, -radius), alpha / 2)
    # each side fails with probability alpha/2: five standard deviations above it are no accident
    for violations in (high, low):
        assert float(violations.double().mean()) <= alpha / 2 + 5 * math.sqrt(alpha / 2 / repeats)
    assert (bounds.upper - middle).mean() < 0.85 * deviation  # and the bounds are not idle: 0.5 is exact
    assert float((bounds.value - middle).abs().max()) < 5 * float(deviation) * 1.25 / math.sqrt(n)


def test_median_bounds_of_several_quantities_share_alpha_and_may_abstain():
    a = np.zeros((2, 1, 6))
    noise = WhiteNoise(1.0)
    bounds = median_smoothing(
        lambda x: x[:, 0], a, GRID, noise=noise, radius=0.3, samples=500, alpha=0.06, quantile=0.4, seed=0
    )
    assert isinstance(bounds.lower, np.ndarray) and bounds.lower.shape == (2, 6)
    z = stats.norm.ppf(0.4)
    assert bounds.lower_index == lower_index(500, stats.norm.cdf(z - 0.3), 0.06 / 12)
    assert bounds.upper_index == upper_index(500, stats.norm.cdf(z + 0.3), 0.06 / 12)
    draws = noise.draw(GRID, 1000, seed=0).numpy()
    assert np.array_equal(bounds.value[1], np.sort(draws[500:], 0)[199])
    few = median_smoothing(lambda x: x[:, 0, 0], a, GRID, noise=noise, radius=3.0, samples=20, alpha=0.01, seed=0)
    assert (
        (few.lower_index, few.upper_index) == (0, 21) and np.all(few.lower == -np.inf) and np.all(few.upper == np.inf)
    )


def test_mean_bounds_are_those_of_the_extreme_functions():
    b, big = 0.8, 1e9
    assert mean_lipschitz(b) == pytest.approx(b * math.sqrt(2 / math.pi))
    assert mean_lipschitz(b, big) == pytest.approx(mean_lipschitz(b), rel=1e-6)
    assert mean_lipschitz(b, 0.01) == pytest.approx(0.01)  # a slope too small to be clipped stays
    assert mean_lipschitz(b, 0.0) == 0 and mean_shift(b, 0.0) == 0
    # the sign function and the ramp reach them: E clip(L(ξ + t)) by quadrature
    z = np.linspace(-12, 12, 400_001)
    density = stats.norm.pdf(z) * (z[1] - z[0])
    for slope in (0.3, 1.0, 5.0):
        mean = lambda t: float((np.clip(slope * (z + t), -b, b) * density).sum())  # noqa: B023, E731
        assert (mean(1e-3) - mean(-1e-3)) / 2e-3 == pytest.approx(mean_lipschitz(b, slope), rel=1e-5)
    for r in (0.1, 1.0, 4.0):
        sign = 2 * b * (stats.norm.cdf(r / 2) - stats.norm.cdf(-r / 2))
        assert mean_shift(b, r) == pytest.approx(sign, rel=1e-12) and mean_shift(b, r) <= r * mean_lipschitz(b)
        assert mean_shift(b, r, lipschitz=0.2) == pytest.approx(min(sign, r * mean_lipschitz(b, 0.2)))


def test_sampled_mean_keeps_its_distance_and_its_shift():
    grid, noise, bound, alpha = Grid((5,)), WhiteNoise(0.6, "field"), 1.0, 0.1
    matrix = torch.randn(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    operator = lambda x: x @ matrix.T  # noqa: E731
    a = torch.zeros(40, 1, 5, dtype=torch.float64)
    delta = noise.draw(grid, 1, seed=7)
    delta = delta / noise.norm(delta, grid)
    how = dict(noise=noise, radius=1.0, bound=bound, alpha=alpha)
    exact = [mean_smoothing(operator, x, grid, samples=30_000, seed=0, **how) for x in (a[:1], a[:1] + delta)]
    assert 0.05 < float(exact[0].clipped[0]) < 1
    small = mean_smoothing(operator, a, grid, samples=50, seed=1, **how)
    assert small.sampling_error == pytest.approx((1 + math.sqrt(2 * math.log(10))) / math.sqrt(50))
    distance = field_norm(small.mean - exact[0].mean, grid)
    assert (distance > small.sampling_error).double().mean() <= alpha and distance.max() > 0.1 * small.sampling_error
    moved = float(field_norm(exact[1].mean - exact[0].mean, grid)[0])
    assert 0.05 < moved <= exact[0].shift + 2 * exact[0].sampling_error
    # a Lipschitz constant in ‖·‖_h enters through the reach of the noise
    root = torch.as_tensor(grid.weights()).sqrt()
    slope = float(torch.linalg.matrix_norm(root[:, None] * matrix / root, 2)) * noise.reach(grid)
    with_slope = mean_smoothing(operator, a[:1], grid, samples=10, seed=0, lipschitz=slope, **how)
    assert with_slope.shift == mean_shift(1.0, 1.0, lipschitz=slope) <= exact[0].shift


def test_center_smoothing_of_a_linear_operator_covers_every_shift():
    grid = Grid((4,), centering="periodic")
    matrix = torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    operator = lambda x: x @ matrix.T  # noqa: E731
    noise, radius, repeats = WhiteNoise(0.3, "field"), 0.4, 8
    a = torch.randn(1, 1, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    _, sigma, right = torch.linalg.svd(matrix)
    delta = radius * 0.3 * right[0] * 2  # ‖·‖_h is half the Euclidean norm on four points
    assert float(noise.norm(delta[None], grid)) == pytest.approx(radius)
    how = dict(noise=noise, slack=0.1, alpha=0.01, samples=1500, batch_size=1500)
    bounds, moves = [], []
    for i in range(repeats):
        here = smooth_centers(operator, a, grid, seed=2 * i, **how)
        there = smooth_centers(operator, a + delta, grid, seed=2 * i + 1, **how)
        certificate = certify_centers(operator, a, here, grid, radius=radius, seed=2 * i, **how)
        assert not bool(here.abstained[0]) and not bool(there.abstained[0])
        bounds.append(float(certificate.epsilon[0]))
        moves.append(float(field_norm(here.center - there.center, grid)[0]))
    assert all(move <= bound for move, bound in zip(moves, bounds))
    exact = float(field_norm((operator((a + delta) - a)), grid)[0])
    assert exact == pytest.approx(float(sigma[0]) * radius * 0.3)
    assert exact < min(bounds) and max(bounds) < 60 * exact


def test_center_radius_is_three_times_a_quantile_of_the_distances():
    grid, noise = Grid((4,), centering="periodic"), WhiteNoise(1.0)
    a = torch.zeros(1, 1, 4, dtype=torch.float64)
    centers = Centers(torch.zeros_like(a), torch.zeros(1), torch.ones(1), torch.tensor([False]))
    seen = []

    def metric(y, c):
        seen.append(d := (y - c).flatten(1).abs().amax(1))
        return d

    n = 800
    for interval in ("exact", "hoeffding"):
        seen.clear()
        certificate = certify_centers(
            lambda x: x, a, centers, grid, noise=noise, radius=0.0, samples=n, interval=interval, metric=metric, seed=0
        )
        assert certificate.quantile == pytest.approx(0.55)
        hoeffding = math.ceil((0.55 + math.sqrt(math.log(200) / (2 * n))) * n)
        index = upper_index(n, 0.55, 0.005) if interval == "exact" else hoeffding
        assert certificate.index == index <= hoeffding
        assert float(certificate.epsilon[0]) == 3 * float(torch.cat(seen).sort().values[index - 1])
    # the largest of four normals: the quantile lies above the true one
    assert float(certificate.epsilon[0]) / 3 > stats.norm.ppf((1 + 0.55**0.25) / 2)
    far = certify_centers(lambda x: x, a, centers, grid, noise=noise, radius=9.0, samples=n, seed=0)
    assert far.index == n + 1 and float(far.epsilon[0]) == math.inf
    abstained = Centers(torch.zeros_like(a), torch.zeros(1), torch.ones(1), torch.tensor([True]))
    none = certify_centers(lambda x: x, a, abstained, grid, noise=noise, radius=0.1, samples=n, seed=0)
    assert float(none.epsilon[0]) == math.inf


def test_centers_lie_in_the_ball_that_holds_half_and_abstain_where_none_is_steady():
    grid, noise = Grid((4,), centering="periodic"), WhiteNoise(0.1)
    a = np.array([[[1.0, 2.0, 3.0, 4.0]], [[0.0, 0.0, 0.0, 0.0]]])
    centers = smooth_centers(lambda x: x, a, grid, noise=noise, samples=2000, seed=0)
    assert isinstance(centers.center, np.ndarray) and not centers.abstained.any()
    # half of the outputs is within 0.1·√χ²₄'s median; twice that radius is always enough
    half = 0.5 * 0.1 * math.sqrt(stats.chi2.ppf(0.5, 4))
    assert np.all(centers.radius <= 2 * half) and np.all(centers.radius >= 0.95 * half)
    assert np.all(np.asarray(field_norm(centers.center - a, grid)) <= 2 * half + half)
    assert np.allclose(centers.enclosed, 0.5, atol=0.06)

    calls = []

    def unsteady(x):  # the fresh outputs are elsewhere
        calls.append(len(x))
        return x + (10.0 if sum(calls) > 2030 else 0.0)

    away = smooth_centers(unsteady, a[:1], grid, noise=noise, samples=2000, seed=0)
    assert away.abstained[0] and away.enclosed[0] < 0.1


def test_refusals():
    a, noise = torch.zeros(1, 1, 6), WhiteNoise(1.0)
    with pytest.raises(ValueError, match="radius=-1"):
        median_smoothing(lambda x: x[:, 0, 0], a, GRID, noise=noise, radius=-1, seed=0)
    with pytest.raises(ValueError, match="alpha=0"):
        mean_sampling_error(1.0, 10, 0)
    with pytest.raises(ValueError, match="bound=0"):
        mean_shift(0, 1.0)
    with pytest.raises(ValueError, match=r"\(1, 6\); expected \(batch, channels"):
        median_smoothing(lambda x: x, torch.zeros(1, 6), GRID, noise=noise, radius=0.1, seed=0)
    with pytest.raises(ValueError, match="pass at least 1199"):
        smooth_centers(lambda x: x, a, GRID, noise=noise, samples=1198, seed=0)
    smooth_centers(lambda x: x, a, GRID, noise=noise, samples=1199, seed=0)
    with pytest.raises(ValueError, match="slack=0.5"):
        smooth_centers(lambda x: x, a, GRID, noise=noise, slack=0.5, seed=0)
