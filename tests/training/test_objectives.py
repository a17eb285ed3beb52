"""Losses against naive float64 loops, analytic derivatives of plane waves, and gradients where a norm vanishes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from sciops import metrics
from sciops.grids import Grid
from sciops.training import OBJECTIVES
from sciops.training.objectives import LABEL_OBJECTIVES, TOKEN_OBJECTIVES, difference_energy

FIELDS = [name for name in OBJECTIVES if name not in LABEL_OBJECTIVES + TOKEN_OBJECTIVES]

GRIDS = [
    Grid((5, 7), extent=((0, 1), (0, 2))),
    Grid((6, 4), centering="cell"),
    Grid((4, 5), centering="periodic"),
    Grid((9,)),
    Grid((3, 4, 5), centering="periodic"),
]


def naive_difference_energy(u: np.ndarray, grid: Grid) -> float:
    """Σ_axes mean of ((u_{j+1} − u_j)/h)², one difference at a time."""
    total = 0.0
    for axis, (n, h) in enumerate(zip(grid.shape, grid.spacing)):
        values = []
        for channel in range(u.shape[0]):
            for index in itertools.product(*map(range, grid.shape)):
                nearby = list(index)
                nearby[axis] += 1
                if nearby[axis] == n:
                    if grid.centering != "periodic":
                        continue
                    nearby[axis] = 0
                values.append(((u[(channel, *nearby)] - u[(channel, *index)]) / h) ** 2)
        total += math.fsum(values) / len(values)
    return total


def naive(name: str, p: np.ndarray, u: np.ndarray, grid: Grid) -> float:
    e = p - u
    squares = math.fsum(e.ravel() ** 2), math.fsum(u.ravel() ** 2)
    energies = naive_difference_energy(e, grid), naive_difference_energy(u, grid)
    return {
        "relative_l2": math.sqrt(squares[0] / squares[1]),
        "relative_mse": squares[0] / squares[1],
        "mse": squares[0] / e.size,
        "nrmse": np.mean([math.sqrt(math.fsum(a.ravel() ** 2) / math.fsum(b.ravel() ** 2)) for a, b in zip(e, u)]),
        "relative_gradient": math.sqrt(energies[0] / energies[1]),
        "h1": math.sqrt((squares[0] / e.size + energies[0]) / (squares[1] / u.size + energies[1])),
    }[name]


@pytest.mark.parametrize("grid", GRIDS, ids=lambda g: f"{g.centering}{g.shape}")
@pytest.mark.parametrize("name", FIELDS)
def test_objectives_equal_a_naive_loop_to_round_off(name, grid):
    rng = np.random.default_rng(0)
    p, u = rng.standard_normal((2, 3, 2, *grid.shape))
    values = OBJECTIVES[name](torch.from_numpy(p), torch.from_numpy(u), grid)
    expected = [naive(name, p[i], u[i], grid) for i in range(3)]
    assert values.shape == (3,)
    np.testing.assert_allclose(values.numpy(), expected, rtol=1e-13)


@pytest.mark.parametrize("n", [8, 17, 33])
def test_difference_energy_of_a_plane_wave_is_the_exact_one_times_the_squared_symbol(n):
    grid = Grid((n, n + 3), extent=((0, 2), (0, 3)), centering="periodic")
    x, y = grid.meshgrid()
    k, l = 2 * math.pi * 2 / 2, 2 * math.pi * 3 / 3
    u = torch.from_numpy(np.sin(k * x + l * y + 0.3))[None, None]
    exact = [q**2 / 2 * (math.sin(q * h / 2) / (q * h / 2)) ** 2 for q, h in zip((k, l), grid.spacing)]
    assert difference_energy(u, grid).item() == pytest.approx(sum(exact), rel=1e-12)


def test_difference_energy_converges_to_the_integral_at_second_order_on_nodes():
    errors = []
    for n in (17, 33, 65, 129):
        grid = Grid((n,))
        u = torch.from_numpy(np.sin(math.pi * grid.coordinates()[0]))[None, None]
        errors.append(abs(difference_energy(u, grid).item() - math.pi**2 / 2))
    rates = [math.log2(a / b) for a, b in zip(errors, errors[1:])]
    assert all(rate == pytest.approx(2, abs=0.05) for rate in rates)


def test_relative_l2_is_the_unweighted_metric_and_its_square_the_mse():
    p, u = torch.randn(2, 4, 2, 6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    grid = Grid((6, 5))
    ours = OBJECTIVES["relative_l2"](p, u, grid)
    torch.testing.assert_close(ours, metrics.relative_l2(p, u), rtol=1e-14, atol=0)
    torch.testing.assert_close(ours**2, OBJECTIVES["relative_mse"](p, u, grid), rtol=1e-14, atol=0)


@pytest.mark.parametrize("name", ["relative_l2", "relative_mse", "relative_gradient", "h1"])
def test_relative_objectives_are_invariant_under_the_units_of_the_field(name):
    p, u = torch.randn(2, 3, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    grid = Grid((8, 8))
    torch.testing.assert_close(
        OBJECTIVES[name](p * 1e5, u * 1e5, grid), OBJECTIVES[name](p, u, grid), rtol=1e-13, atol=0
    )


def test_nrmse_is_that_of_the_metrics_and_does_not_see_the_units_of_a_channel():
    p, u = torch.randn(2, 3, 2, 8, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    units, grid = torch.tensor([1e5, 1e-3], dtype=torch.float64).view(1, 2, 1, 1), Grid((8, 6), centering="periodic")
    nrmse = OBJECTIVES["nrmse"]
    torch.testing.assert_close(nrmse(p, u), metrics.nrmse(p, u, grid), rtol=1e-13, atol=0)
    torch.testing.assert_close(nrmse(units * p, units * u), nrmse(p, u), rtol=1e-13, atol=0)
    assert (OBJECTIVES["relative_l2"](units * p, units * u) - nrmse(p[:, :1], u[:, :1])).abs().max() < 1e-10
    still = u * torch.tensor([1.0, 0.0], dtype=torch.float64).view(1, 2, 1, 1)
    assert (nrmse(still, still) == 0).all() and (nrmse(p, still) < 10).all()  # not immense


@pytest.mark.parametrize("name", FIELDS)
def test_gradients_match_finite_differences_and_vanish_where_the_error_does(name):
    grid = Grid((4, 5))
    p, u = torch.randn(2, 2, 1, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    p.requires_grad_(True)
    assert torch.autograd.gradcheck(lambda q: OBJECTIVES[name](q, u, grid), (p,))
    exact = u.clone().requires_grad_(True)
    loss = OBJECTIVES[name](exact, u, grid).sum()
    loss.backward()
    assert loss.item() == 0 and (exact.grad == 0).all()


@pytest.mark.parametrize("name", ["relative_l2", "relative_mse", "relative_gradient", "h1"])
def test_a_vanishing_target_counts_as_met_only_when_met(name):
    zero, one = torch.zeros(1, 1, 4, 4), torch.arange(16.0).view(1, 1, 4, 4)
    grid = Grid((4, 4))
    assert OBJECTIVES[name](zero, zero, grid).item() == 0
    assert OBJECTIVES[name](one, zero, grid).item() > 1e30
