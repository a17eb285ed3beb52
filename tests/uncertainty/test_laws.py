"""Laws of fields: moments, samples, density, modes, scores and distances, each against a naive reference in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sciops import Grid
from sciops.uncertainty import (
    Law,
    crps,
    empirical,
    energy_score,
    moment_errors,
    nearest_error,
    repeated,
    wasserstein2,
    weight_calibration,
)

GRID = Grid((6,))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def law(batch: int = 3, n: int = 4, seed: int = 0, spread: bool = True) -> Law:
    drawn = seeded(seed)
    points = torch.randn(batch, n, 2, 6, dtype=torch.float64, generator=drawn)
    weights = torch.rand(batch, n, dtype=torch.float64, generator=drawn) + 0.1
    s2 = 0.1 + torch.rand(batch, n, 2, 6, dtype=torch.float64, generator=drawn)
    return Law(points, weights / weights.sum(1, keepdim=True), s2 if spread else None, GRID)


def norm(u: torch.Tensor) -> float:
    return math.sqrt(float((u**2 * torch.from_numpy(GRID.weights())).sum()))


def test_moments_are_those_of_the_samples():
    one = law(1)
    drawn = one.sample(40_000, seeded())[0]
    torch.testing.assert_close(drawn.mean(0), one.mean[0], rtol=0, atol=0.03)
    torch.testing.assert_close(drawn.var(0), one.variance[0], rtol=0, atol=0.06)
    bare = one.sample(50, seeded(), noise=False)[0]
    assert all(any(torch.equal(field, point) for point in one.points[0]) for field in bare)
    assert torch.equal(one.sample(3, seeded(1)), one.sample(3, seeded(1)))
    points_alone = law(1, spread=False)
    assert (points_alone.variance < one.variance).all()
    with pytest.raises(ValueError, match="no spread"):
        points_alone.sample(2, seeded(), noise=True)
    with pytest.raises(ValueError, match="no spread"):
        _ = points_alone.distortion


def test_the_density_is_that_of_the_mixture_and_integrates_to_one():
    points = torch.tensor([-1.0, 0.5], dtype=torch.float64).view(1, 2, 1, 1)
    one = Law(
        points,
        torch.tensor([[0.3, 0.7]], dtype=torch.float64),
        torch.tensor([0.2, 0.5], dtype=torch.float64).view(1, 2, 1, 1),
    )
    y = torch.linspace(-12, 12, 4001, dtype=torch.float64)
    many = Law(*(v.expand(4001, *v.shape[1:]) for v in (one.points, one.weights, one.spread)))
    density = many.log_density(y.view(-1, 1, 1)).exp()
    assert float(torch.trapezoid(density, y)) == pytest.approx(1, abs=1e-10)
    naive = 0.3 * math.exp(-0.5 * 1.0 / 0.2) / math.sqrt(2 * math.pi * 0.2)
    naive += 0.7 * math.exp(-0.5 * 0.25 / 0.5) / math.sqrt(2 * math.pi * 0.5)
    assert float(one.log_density(torch.zeros(1, 1, 1).double())) == pytest.approx(math.log(naive), rel=1e-12)


def test_points_within_each_others_spread_are_one_mode():
    points = torch.tensor([0.0, 0.1, 5.0, 0.15], dtype=torch.float64).view(1, 4, 1, 1)
    spread = torch.full((1, 4, 1, 1), 0.01, dtype=torch.float64)
    one = Law(points, torch.tensor([[0.2, 0.3, 0.4, 0.1]], dtype=torch.float64), spread)
    modes = one.modes()
    assert [mode.points for mode in modes] == [(1, 0, 3), (2,)]
    assert modes[0].weight == pytest.approx(0.6) and float(modes[0].field) == pytest.approx((0.03 + 0.015) / 0.6)
    within = (0.2 * 0.075**2 + 0.3 * 0.025**2 + 0.1 * 0.075**2) / 0.6
    assert float(modes[0].spread) == pytest.approx(0.01 + within)
    assert len(one.modes(merge=0)) == 4 and [mode.points for mode in one.modes(least=0.5)] == [(1, 0, 3)]
    order = one.sorted()
    assert order.weights[0].tolist() == [0.4, 0.3, 0.2, 0.1] and float(order.points[0, 0]) == 5
    assert one.heaviest(2).weights[0].tolist() == pytest.approx([4 / 7, 3 / 7])


def test_a_law_states_what_does_not_fit():
    good = law()
    for points, weights, spread, words in (
        (good.points, good.weights[:, :2], None, "expected"),
        (good.points, good.weights, good.points[:1], "spread has shape"),
        (good.points, 2 * good.weights, None, "sum 1"),
        (good.points, torch.tensor([[-0.5, 1.5, 0.0, 0.0]]).expand(3, 4), None, "at least 0"),
        (good.points[:, :0], good.weights[:, :0], None, "n ≥ 1"),
    ):
        with pytest.raises(ValueError, match=words):
            Law(points, weights, spread)
    broken = Law(torch.full((1, 2, 1, 3), torch.nan), torch.full((1, 2), torch.nan))
    assert torch.isnan(broken.mean).all()
    assert law(0).sample(3, seeded()).shape == (0, 3, 2, 6) and law(0).mean.shape == (0, 2, 6)


def test_the_energy_score_and_the_crps_are_the_naive_sums():
    pytest.importorskip("scoringrules")
    one, y = law(), torch.randn(3, 2, 6, dtype=torch.float64, generator=seeded(9))
    w = torch.from_numpy(GRID.weights())
    for b in range(3):
        f, p, n = one.points[b], one.weights[b].tolist(), range(4)
        energy = sum(p[i] * norm(f[i] - y[b]) for i in n)
        energy -= 0.5 * sum(p[i] * p[j] * norm(f[i] - f[j]) for i in n for j in n)
        assert float(energy_score(one, y)[b]) == pytest.approx(energy, rel=1e-12)
        each = sum(p[i] * (f[i] - y[b]).abs() for i in n)
        each = each - 0.5 * sum(p[i] * p[j] * (f[i] - f[j]).abs() for i in n for j in n)
        assert float(crps(one, y)[b]) == pytest.approx(float((each * w).sum() / (2 * w.sum())), rel=1e-12)
    alone = Law(one.points[:, :1], torch.ones(3, 1).double(), None, GRID)
    torch.testing.assert_close(energy_score(alone, y), nearest_error(alone, y, relative=False))
    with pytest.raises(ValueError, match=r"y has shape \(2, 2, 6\)"):
        energy_score(one, y[:2])


def test_the_nearest_point_and_the_moments():
    one, y = law(), torch.randn(3, 2, 6, dtype=torch.float64, generator=seeded(9))
    least = [min(norm(f - t) for f in points) for points, t in zip(one.points, y)]
    np.testing.assert_allclose(nearest_error(one, y, relative=False), least)
    np.testing.assert_allclose(nearest_error(one, y.numpy()), [a / norm(t) for a, t in zip(least, y)])
    assert torch.isinf(nearest_error(one, torch.zeros_like(y))).all()
    mean, std = moment_errors(one, one.mean * 1.1, one.std * 0.8)
    torch.testing.assert_close(mean, torch.full_like(mean, 1 / 11))
    torch.testing.assert_close(std, torch.full_like(std, 0.25))


def test_the_wasserstein_distance_is_that_of_sorted_numbers_and_of_the_cells():
    pytest.importorskip("ot")
    a, b = (torch.randn(40, 1, 1, dtype=torch.float64, generator=seeded(s)) for s in (0, 1))
    sorted_distance = math.sqrt(float((a.flatten().sort().values - b.flatten().sort().values).square().mean()))
    assert float(wasserstein2(empirical(a), empirical(b))) == pytest.approx(sorted_distance, rel=1e-7)
    y, f = (torch.randn(n, 2, 6, dtype=torch.float64, generator=seeded(n)) for n in (30, 3))
    d = torch.tensor([[norm(one - point) ** 2 for point in f] for one in y])
    weights = torch.bincount(d.argmin(1), minlength=3).double() / 30
    cells = Law(f[None], weights[None], None, GRID)
    assert float(wasserstein2(cells, empirical(y, GRID))) ** 2 == pytest.approx(float(d.min(1).values.mean()), rel=1e-7)
    alike = Law(f[None], torch.full((1, 3), 1 / 3).double(), None, GRID)
    assert wasserstein2(alike, empirical(y, GRID)) > wasserstein2(cells, empirical(y, GRID))
    with pytest.raises(ValueError, match="one grid"):
        wasserstein2(cells, empirical(y))
    with pytest.raises(ValueError, match="one batch"):
        wasserstein2(law(), empirical(y, GRID))


def test_inputs_that_occur_more_than_once():
    x = torch.zeros(5, 1, 2)
    x[2], x[4] = 1.0, 1.0
    assert repeated(x) == [[0, 1, 3], [2, 4]] and repeated(torch.randn(4, 1, 3)) == []


def test_calibration_of_weights_counts_pairs():
    random = np.random.default_rng(0)
    p = random.dirichlet(np.ones(3), 20_000)
    won = (random.random((20_000, 1)) > p.cumsum(1)).sum(1)
    fair = weight_calibration(p, won)
    assert fair.error < 0.01 and fair.count.sum() == 60_000
    assert fair.log_loss == pytest.approx(-np.log(p[np.arange(20_000), won]).mean())
    sharp = p**3 / (p**3).sum(1, keepdims=True)
    assert weight_calibration(sharp, won).error > 0.1 and weight_calibration(sharp, won).log_loss > fair.log_loss
    two = weight_calibration(np.array([[0.2, 0.8], [0.2, 0.8]]), np.array([0, 1]), bins=2)
    np.testing.assert_allclose([two.predicted, two.observed], [[0.2, 0.8], [0.5, 0.5]])
    assert two.error == pytest.approx(0.3) and two.count.tolist() == [2, 2]
    for weights, winners in (
        (p[:2], won[:3]),
        (p[:0], won[:0]),
        (p[:2], np.array([0, 3])),
        (p[:2], np.array([0, 0.5])),
    ):
        with pytest.raises(ValueError, match="winners"):
            weight_calibration(weights, winners)
