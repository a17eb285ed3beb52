"""Optimal quantizers with known points, identities of the distortion, shares and losses against naive references."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from scipy.special import ndtr
from scipy.stats import norm
from torch import nn

from sciops import Grid, build_model
from sciops.models import Quantized
from sciops.models.distributions import Heads
from sciops.uncertainty import (
    Law,
    Schedule,
    distortion,
    expanded,
    keep_points_used,
    lloyd,
    nearest,
    quantization_losses,
    shares,
    split_unused,
    squared_distances,
)

# N(0, 1): n → (points ≥ 0, their weights, distortion)
GAUSSIAN = {
    1: ([0.0], [1.0], 1.0),
    2: ([0.797885], [0.5], 0.36338023),
    3: ([0.0, 1.224006], [0.459464, 0.270268], 0.19017404),
    4: ([0.452780, 1.510418], [0.336851, 0.163149], 0.11748185),
    5: ([0.0, 0.764568, 1.724147], [0.297749, 0.244441, 0.106684], 0.07994113),
    6: ([0.317716, 1.000106, 1.893595], [0.245024, 0.181007, 0.073969], 0.05797765),
    8: ([0.245094, 0.756005, 1.343909, 2.151946], [0.191656, 0.161475, 0.106631, 0.040238], 0.03454776),
}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=seeded(seed))


def line(density, low, high, count=20001):
    """(samples (count, 1), weights) of a density on a fine line."""
    y = np.linspace(low, high, count)
    w = density(y)
    return torch.from_numpy(y)[:, None], torch.from_numpy(w / w.sum())


def found(law: Law) -> tuple[np.ndarray, np.ndarray]:
    """Points of numbers in rising order, and their weights."""
    order = law.points[0, :, 0].argsort()
    return law.points[0, order, 0].numpy(), law.weights[0, order].numpy()


def exact_lloyd(n: int) -> tuple[np.ndarray, np.ndarray, float]:
    """The optimal quantizer of N(0, 1) by Lloyd's map with the integrals of the density in closed form."""
    f = norm.ppf((np.arange(n) + 0.5) / n)
    for _ in range(3000):
        ends = np.concatenate([[-np.inf], (f[1:] + f[:-1]) / 2, [np.inf]])
        p = np.diff(ndtr(ends))
        new = -np.diff(np.exp(-0.5 * ends**2)) / np.sqrt(2 * np.pi) / p
        if np.abs(new - f).max() < 1e-15:
            break
        f = new
    return f, p, 1 - float((p * f**2).sum())


@pytest.mark.parametrize("n", GAUSSIAN)
def test_the_optimal_quantizers_of_the_gaussian(n):
    points, weights, least = GAUSSIAN[n]
    f, p, d = exact_lloyd(n)
    half = n // 2
    np.testing.assert_allclose(f[half:], points, atol=1e-6)
    np.testing.assert_allclose(p[half:], weights, atol=1e-6)
    assert d == pytest.approx(least, abs=1e-8)
    y, w = line(norm.pdf, -8, 8)
    law = lloyd(y, n, seeded(), weights=w, starts=1, steps=2000)
    own, mass = found(law)
    np.testing.assert_allclose(own, f, atol=1.2e-2)  # Lloyd's map stops where no sample of the line changes its cell
    np.testing.assert_allclose(mass, p, atol=5e-3)
    assert float(law.distortion) == pytest.approx(least, abs=1e-5)


def test_two_points_of_the_gaussian_in_closed_form():
    f, p, d = exact_lloyd(2)
    assert f[1] == pytest.approx(math.sqrt(2 / math.pi), abs=1e-12) and d == pytest.approx(1 - 2 / math.pi, abs=1e-12)
    f, _, d = exact_lloyd(32)
    assert 32**2 * d == pytest.approx(2.5648, abs=2e-4)  # on its way to √3 π/2
    assert 16**2 * exact_lloyd(16)[2] < 32**2 * d < math.sqrt(3) * math.pi / 2


def test_uniform_laplace_plane_and_mixture():
    n, count = 5, 1000
    y = torch.from_numpy((np.arange(count) + 0.5) / count)[:, None]
    own = lloyd(y, n, seeded(), steps=5000)
    np.testing.assert_allclose(found(own)[0], (2 * np.arange(1, n + 1) - 1) / (2 * n), atol=2e-3)
    assert float(own.distortion) == pytest.approx(1 / (12 * n**2) - 1 / (12 * count**2), abs=1e-6)
    y, w = line(lambda v: np.exp(-np.abs(v)), -30, 30)
    two = lloyd(y, 2, seeded(), weights=w)
    np.testing.assert_allclose(found(two)[0], [-1, 1], atol=6e-2)  # the map converges slowly: D hardly changes there
    assert float(two.distortion) == pytest.approx(1, abs=3e-3)
    axis = np.linspace(-6, 6, 81)
    plane = torch.from_numpy(np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2))
    two = lloyd(plane, 2, seeded(), weights=torch.from_numpy(norm.pdf(plane.numpy()).prod(1)))
    assert float(two.distortion) == pytest.approx(2 - 2 / math.pi, abs=2e-3)  # any direction: no points to compare
    for a, s, m, d in ((0.3, 0.5, 0.468673, 0.120346), (1.0, 0.3, 1.000067, 0.089866)):
        exact = s * math.sqrt(2 / math.pi) * math.exp(-(a**2) / (2 * s**2)) + a * (1 - 2 * norm.cdf(-a / s))
        assert exact == pytest.approx(m, abs=1e-6) and a**2 + s**2 - exact**2 == pytest.approx(d, abs=1e-6)
        y, w = line(lambda v, a=a, s=s: norm.pdf(v, a, s) + norm.pdf(v, -a, s), -5, 5)
        two = lloyd(y, 2, seeded(), weights=w)
        np.testing.assert_allclose(found(two)[0], [-m, m], atol=2e-3)
        assert float(two.distortion) == pytest.approx(d, abs=1e-5)


def test_the_distortion_is_the_squared_wasserstein_distance_with_the_weights_of_the_cells():
    y, f = randn(60, 3), randn(4, 3, seed=1)
    cell = nearest(y, f.expand(60, 4, 3))
    counts = torch.bincount(cell, minlength=4)

    def exact(counts: torch.Tensor) -> float:
        cost = (y[:, None] - f.repeat_interleave(counts, 0)).square().sum(-1).numpy()
        rows, columns = linear_sum_assignment(cost)
        return cost[rows, columns].mean()

    least = distortion(y, f.expand(60, 4, 3))
    assert exact(counts) == pytest.approx(least, rel=1e-13)
    assert exact(torch.tensor([15, 15, 15, 15])) > least * 1.01


def test_at_the_optimum_mean_variance_and_test_functions():
    y = randn(400, 2) * torch.tensor([1.0, 0.3], dtype=torch.float64)
    law = lloyd(y, 6, seeded())
    torch.testing.assert_close(law.mean[0], y.mean(0), rtol=0, atol=1e-13)
    torch.testing.assert_close(law.variance[0], y.var(0, correction=0), rtol=1e-12, atol=0)
    between_points = (law.weights[0, :, None] * (law.points[0] - law.mean[0]).square()).sum()
    missing = y.var(0, correction=0).sum() - between_points
    assert float(missing) == pytest.approx(float(law.distortion), rel=1e-12)  # what the points alone do not report

    def gap(g) -> float:
        return float(g(y).mean() - (law.weights[0] * g(law.points[0])).sum())

    d = float(law.distortion)
    assert abs(gap(lambda v: v.norm(dim=1))) <= math.sqrt(d)  # Lipschitz constant 1
    assert abs(gap(lambda v: v.sum(1).cos())) <= 0.5 * 2 * d  # gradient with Lipschitz constant 2
    assert gap(lambda v: v.norm(dim=1)) >= 0 and gap(lambda v: v.exp().sum(1)) >= 0  # convex: from below


def test_more_points_never_hurt_and_units_scale():
    y, f = randn(50, 2, 3), randn(1, 3, 2, 3, seed=2).expand(50, 3, 2, 3)
    more = torch.cat([f, randn(1, 1, 2, 3, seed=3).expand(50, 1, 2, 3)], 1)
    assert distortion(y, more) <= distortion(y, f)
    first, second = (lloyd(v, 3, seeded(5)) for v in (y, -2.5 * y + 7))
    torch.testing.assert_close(second.points, -2.5 * first.points + 7)
    torch.testing.assert_close(second.distortion, 6.25 * first.distortion)


def test_distances_are_integrals_and_refuse_what_does_not_fit():
    grid = Grid((5,))
    y, f = randn(2, 3, 5), randn(2, 4, 3, 5, seed=1)
    naive = [
        [float(((a - b) ** 2 * torch.from_numpy(grid.weights())).sum()) for b in points] for a, points in zip(y, f)
    ]
    np.testing.assert_allclose(squared_distances(y, f, grid), naive, rtol=1e-14)
    np.testing.assert_allclose(squared_distances(y.numpy(), f.numpy()), ((y[:, None] - f) ** 2).sum((2, 3)))
    assert isinstance(squared_distances(y.numpy(), f.numpy()), np.ndarray)
    assert squared_distances(torch.full((1, 1), 300.0).half(), torch.zeros(1, 2, 1).half())[0, 0] == 90000
    with pytest.raises(ValueError, match=r"y has shape \(2, 3, 5\) and points \(4, 3, 5\)"):
        squared_distances(y, f[0], grid)
    with pytest.raises(ValueError, match="not on the grid"):
        squared_distances(y, f, Grid((6,)))
    with pytest.raises(ValueError, match="real numbers"):
        squared_distances(y.to(torch.complex128), f)
    assert math.isnan(distortion(y[:0], f[:0]))


def test_shares_between_all_and_the_nearest():
    d = torch.tensor([[1.0, 4.0, 2.0], [3.0, 3.0, 9.0]], dtype=torch.float64)
    hard = torch.tensor([[1.0, 0, 0], [1, 0, 0]], dtype=torch.float64)  # the first of two at one distance
    assert torch.equal(shares(d), hard)
    torch.testing.assert_close(shares(d, temperature=1e-3)[0], hard[0])
    torch.testing.assert_close(shares(d, temperature=1e9), torch.full_like(d, 1 / 3), rtol=1e-8, atol=0)
    torch.testing.assert_close(shares(d, temperature=2.0), torch.exp(-d / 2) / torch.exp(-d / 2).sum(1, keepdim=True))
    torch.testing.assert_close(shares(d, relaxation=0.2)[0], torch.tensor([0.8, 0.1, 0.1], dtype=torch.float64))
    assert torch.equal(shares(d[:, :1], relaxation=0.2), torch.ones(2, 1, dtype=torch.float64))
    assert not shares(d.requires_grad_(), temperature=1.0).requires_grad
    for wrong in ({"temperature": -1.0}, {"relaxation": 1.0}, {"temperature": 1.0, "relaxation": 0.1}):
        with pytest.raises(ValueError, match="temperature="):
            shares(d, **wrong)


def test_the_temperature_falls_geometrically_from_the_farthest_point_to_far_below_the_distortion():
    schedule, start, least = Schedule(hard_share=0.5), torch.tensor(64.0), torch.tensor(0.25)
    steps = [float(schedule.temperature(s, start, least)) for s in (0.0, 0.125, 0.25, 0.375)]
    assert steps[0] == pytest.approx(64)
    np.testing.assert_allclose(np.divide(steps[1:], steps[:-1]), (0.25e-3 / 64) ** 0.25, rtol=1e-5)
    assert float(schedule.temperature(0.5, start, least)) == 0
    assert torch.equal(schedule.shares(torch.tensor([[2.0, 1.0]]), 0.7, start, least), torch.tensor([[0.0, 1.0]]))
    relaxed = Schedule("relaxed", relaxation=0.4)
    assert float(relaxed.shares(torch.tensor([[2.0, 1.0]]), 0.375, start, least)[0, 0]) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("n", "schedule", "first", "ratio"),
    [
        (2, "hard", None, 2.752),
        (4, "hard", None, 8.512),
        (4, "annealed", 1.0, 8.512),  # below the farthest distance: as dead as without annealing
        (2, "annealed", 1000.0, 1.0),
        (4, "annealed", 1000.0, 1.0),
        (2, "relaxed", None, 1.0),
    ],
)
def test_points_that_start_far_away_are_dead_unless_the_first_temperature_exceeds_their_distance(
    n, schedule, first, ratio
):
    """N(0, 1), one point at 0 and the others at 16, 17, …: a dead training has the distortion of one point alone."""
    y, w = line(norm.pdf, -6, 6, 241)
    f = torch.tensor([0.0, *range(16, 15 + n)], dtype=torch.float64).requires_grad_()
    rule, start, least = Schedule(schedule), torch.tensor(first or 0.0), torch.tensor(GAUSSIAN[n][2])
    steps = 400
    for step in range(steps):
        d = (y - f).square()
        q = rule.shares(d, step / steps, start, least)
        (gradient,) = torch.autograd.grad((w * (q * d).sum(1)).sum(), f)
        with torch.no_grad():  # each at the rate of its own mass, as the map of Lloyd
            f -= 0.25 * gradient / (w[:, None] * q).sum(0).clamp(min=1e-3)
            f += 1e-9 * torch.linspace(-1, 1, n, dtype=torch.float64)  # what a training has by its noise
    final = float((w * (y - f.detach()).square().min(1).values).sum())
    assert final / GAUSSIAN[n][2] == pytest.approx(ratio, rel=4e-3)


def quantized(points: int = 3, seed: int = 0, **options) -> Quantized:
    torch.manual_seed(seed)
    trunk = nn.Conv1d(2, 6, 1)
    return Quantized(trunk, 2, 1, points=points, features=6, **options).double().train()


def test_the_loss_and_its_gradients_are_those_of_the_naive_formula():
    grid, x, y = Grid((7,)), randn(5, 2, 7), randn(5, 1, 7, seed=1)
    model = quantized(schedule="hard")
    losses = quantization_losses(model, x, y, grid, done=0.0)
    w, naive = torch.from_numpy(grid.weights()), []
    heads = Heads(*(value.detach() for value in model.heads(x, grid)))
    for b in range(5):
        d = [float((w * (y[b, 0] - heads.points[b, i, 0]) ** 2).sum()) for i in range(3)]
        i = int(np.argmin(d))
        s2, r2 = heads.log_spread[b, i, 0].exp(), (y[b, 0] - heads.points[b, i, 0]) ** 2
        naive.append(d[i] - float(heads.logits[b].log_softmax(0)[i]) + 0.5 * float((s2.log() + r2 / s2).mean()))
    np.testing.assert_allclose(losses.detach(), naive, rtol=1e-12)
    losses.sum().backward()
    won = nearest(y, heads.points, grid)
    rows = model.point_head.weight.grad.view(3, -1)
    for i in range(3):
        assert bool((rows[i] == 0).all()) == bool((won != i).all())  # exactly 0 for a point that is never the nearest
    d = squared_distances(y, model.heads(x, grid).points, grid).min(1).values.sum()
    own = torch.autograd.grad(d, [model.model.weight, model.point_head.weight])
    torch.testing.assert_close(own, (model.model.weight.grad, model.point_head.weight.grad))  # weights, spread: none


def test_the_limits_of_the_annealed_loss():
    grid, x, y = Grid((7,)), randn(4, 2, 7), randn(4, 1, 7, seed=1)
    model = quantized(schedule="annealed").eval()
    d = squared_distances(y, model.heads(x, grid).points, grid)
    rest = quantization_losses(model, x, y, grid, done=1.0) - d.min(1).values
    model.start.fill_(1e12)
    torch.testing.assert_close(quantization_losses(model, x, y, grid, done=0.0) - rest, d.mean(1))
    model.start.fill_(1e-9)
    torch.testing.assert_close(quantization_losses(model, x, y, grid, done=0.0) - rest, d.min(1).values)


def test_statistics_of_a_training():
    grid, x, y = Grid((7,)), randn(6, 2, 7), randn(6, 1, 7, seed=1)
    model = quantized()
    d = squared_distances(y, model.heads(x, grid).points.detach(), grid)
    quantization_losses(model, x, y, grid, done=0.3)
    assert float(model.start) == float(d.max()) and float(model.distortion) == pytest.approx(
        float(d.min(1).values.mean())
    )
    share = torch.bincount(d.argmin(1), minlength=3) / 6
    torch.testing.assert_close(model.usage, (0.99 / 3 + 0.01 * share).double())
    assert int(model.updates) == 1 and model.progress == 0.3
    before = model.usage.clone()
    quantization_losses(model.eval(), x, y, grid)
    quantization_losses(model.train(), x[:0], y[:0], grid)
    assert torch.equal(model.usage, before)  # neither evaluation nor an empty batch counts


def test_an_unused_point_becomes_a_copy_of_the_busiest():
    x, grid = randn(3, 2, 7), Grid((7,))
    model = quantized()
    optimizer = torch.optim.Adam(model.parameters())
    quantization_losses(model, x, randn(3, 1, 7, seed=1), grid).sum().backward()
    optimizer.step()
    model.usage.copy_(torch.tensor([0.01, 0.8, 0.19]))
    before = model.cells(x, grid)
    assert split_unused(model, seeded(), optimizer=optimizer) == [(0, 1)]
    after = model.cells(x, grid)
    torch.testing.assert_close(after.points[:, 0], before.points[:, 1], rtol=0, atol=0.2)
    assert not torch.equal(after.points[:, 0], after.points[:, 1]) and torch.equal(
        after.points[:, 1:], before.points[:, 1:]
    )
    torch.testing.assert_close(after.weights[:, 0], after.weights[:, 1])
    torch.testing.assert_close(after.spread[:, 0], before.spread[:, 1])
    ratio = (after.weights[:, 0] + after.weights[:, 1]) / after.weights[:, 2]
    torch.testing.assert_close(ratio, before.weights[:, 1] / before.weights[:, 2])
    torch.testing.assert_close(model.usage, torch.tensor([0.4, 0.4, 0.19], dtype=torch.float64))
    averages = optimizer.state[model.point_head.weight]["exp_avg"].view(3, -1)
    assert not averages[0].any() and averages[1].any()


def test_the_watch_acts_in_the_hard_share_alone():
    model = quantized(points=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    handle = keep_points_used(nn.Sequential(model), optimizer, every=10)
    for done, moved in ((0.5, False), (0.8, True), (0.95, False)):
        model.usage.copy_(torch.tensor([0.0, 1.0]))
        model.updates.fill_(20)
        model.progress, before = done, model.point_head.weight.clone()
        optimizer.step()
        assert torch.equal(before, model.point_head.weight) != moved, done
    handle.remove()
    keep_points_used(nn.Linear(1, 1), optimizer).remove()
    with pytest.raises(ValueError, match="every=0"):
        keep_points_used(model, optimizer, every=0)


def test_a_model_of_one_point_becomes_one_of_several():
    x, grid = randn(3, 2, 7), Grid((7,))
    one = quantized(points=1)
    three = expanded(one, 3, seeded(), noise=0.0)
    before, after = one.cells(x, grid), three.cells(x, grid)
    torch.testing.assert_close(after.points, before.points.expand(3, 3, 1, 7))
    torch.testing.assert_close(after.weights, torch.full((3, 3), 1 / 3, dtype=torch.float64))
    assert len(torch.unique(expanded(one, 3, seeded()).cells(x, grid).points[0, :, 0, 0])) == 3
    five = expanded(three, 5, seeded(), noise=0.0).cells(x, grid)
    torch.testing.assert_close(five.weights[0], torch.tensor([1, 1, 2, 1, 1], dtype=torch.float64) / 6)
    with pytest.raises(ValueError, match="points=2: the model has 3"):
        expanded(three, 2, seeded())


def test_lloyd_refuses_what_it_cannot_quantize_and_takes_equal_samples():
    with pytest.raises(ValueError, match="points=0"):
        lloyd(randn(4, 1), 0, seeded())
    with pytest.raises(ValueError, match="finite"):
        lloyd(torch.full((4, 1), torch.nan), 2, seeded())
    same = lloyd(np.ones((6, 2)), 3, seeded())
    assert (
        float(same.distortion) == 0 and float(same.weights.sum()) == pytest.approx(1) and bool((same.points == 1).all())
    )


def test_points_by_name_need_a_network():
    with pytest.raises(ValueError, match="expected the name of a model after the colon"):
        build_model("quantized:")
    with pytest.raises(ValueError, match="quantized: points=0"):
        build_model("quantized:fno", points=0)
    with pytest.raises(ValueError, match="model 'points:fno'"):
        build_model("points:fno")
    with pytest.raises(ValueError, match="returned 5 channels, expected features=6"):
        Quantized(nn.Conv1d(1, 5, 1), 1, 1, points=2, features=6)(torch.zeros(1, 1, 4))
