"""Attacks in random-field coefficients mean the same on every grid; flips keep two phases and beat their rivals."""

from itertools import combinations

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.pde.darcy import adjoint
from sciops.random_fields import gaussian_random_field, two_phase
from sciops.robustness import (
    GaussianFieldNoise,
    coefficient_attack,
    distance_to_solver,
    field_norm,
    phase_flip_attack,
    self_difference,
)

LAW = GaussianFieldNoise(0.5, tau=2.0, smoothness=1.5, modes=4)


def test_linear_objective_is_attacked_to_its_norm_on_the_ball_of_coefficients():
    grid = Grid((9, 9))
    c = torch.randn(grid.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    g = torch.zeros(2, 1, *grid.shape, dtype=torch.float64)
    radius = torch.tensor([0.5, 2.0], dtype=torch.float64)
    found = coefficient_attack(lambda x: (x[:, 0] * c).sum((1, 2)), g, grid, law=LAW, radius=radius, seed=0)
    unit = LAW.field(torch.eye(16, dtype=torch.float64).reshape(16, 4, 4), grid)
    exact = radius * (unit * c).sum((1, 2)).norm()
    torch.testing.assert_close(found.value, exact, rtol=1e-3, atol=0)
    assert (found.value <= exact * (1 + 1e-12)).all() and (found.size <= radius * (1 + 1e-9)).all()
    torch.testing.assert_close(found.size, LAW.norm(found.delta, grid))


def test_attack_is_the_same_on_every_grid():
    """Log-normal coefficients of the Darcy equation: values on two grids differ by the discretisation alone."""
    values, deltas = [], []
    for n in (17, 33):
        grid = Grid((n, n))
        g = torch.from_numpy(gaussian_random_field(grid, 1, tau=3, alpha=2, seed=0, modes=8))[:, None]

        def solution(x, grid=grid):
            return adjoint.solve(x[:, 0], grid, tol=1e-10)[:, None]

        found = coefficient_attack(
            self_difference(solution, torch.exp(g), grid),
            g,
            grid,
            law=LAW,
            radius=1.0,
            transform=torch.exp,
            steps=15,
            restarts=1,
            seed=0,
        )
        assert float(found.size[0]) <= 1 + 1e-9
        values.append(float(found.value[0]))
        deltas.append(found.delta[0, 0, :: (n - 1) // 16, :: (n - 1) // 16])
    assert values[1] == pytest.approx(values[0], rel=0.02)
    assert float((deltas[0] - deltas[1]).norm() / deltas[0].norm()) < 0.05


def test_bounded_fields_stay_above_their_bound_and_in_the_ball():
    grid, least = Grid((9, 9)), 0.05
    a = torch.full((2, 1, 9, 9), 0.2, dtype=torch.float64)
    a[0, 0, 4, 4] = least
    objective = lambda x: -(x.flatten(1).mean(1))  # noqa: E731   pushes down
    found = coefficient_attack(objective, a, grid, law=LAW, radius=0.6, lower=least, steps=20, seed=0)
    assert float((a + found.delta).min()) >= least - 1e-12
    assert (found.size <= 0.6).all() and float((a + found.delta)[1].min()) < least + 0.02
    with pytest.raises(ValueError, match="below lower=0.1"):
        coefficient_attack(objective, a, grid, law=LAW, radius=0.6, lower=0.1, seed=0)
    with pytest.raises(ValueError, match="law.modes=None"):
        coefficient_attack(objective, a, grid, law=GaussianFieldNoise(1.0), radius=0.6, seed=0)


def two_phase_field(grid, batch):
    return torch.from_numpy(two_phase(gaussian_random_field(grid, batch, tau=3, alpha=2, seed=2, modes=8)))[:, None]


def test_flips_of_a_linear_objective_are_the_best_subset():
    grid = Grid((3, 3), centering="periodic")
    a = torch.from_numpy(two_phase(np.array([[1, -1, 1], [-1, -1, 1], [1, 1, -1.0]]), 3.0, 12.0))[None, None]
    c = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    objective = lambda x: (x[:, 0] * c).sum((1, 2))  # noqa: E731
    found = phase_flip_attack(objective, a, grid, budget=3 / 9)
    other = 15.0 - a
    best = -np.inf
    for count in range(4):
        for points in combinations(range(9), count):
            mask = torch.zeros(9, dtype=torch.bool)
            mask[list(points)] = True
            best = max(best, float(objective(torch.where(mask.reshape(1, 1, 3, 3), other, a))[0]))
    assert float(found.value[0]) == pytest.approx(best, rel=1e-12)
    assert float(found.size[0]) == pytest.approx(9 * np.sqrt(int((found.delta != 0).sum()) / 9), rel=1e-12)


@pytest.mark.parametrize("interface_only", [False, True])
def test_flips_keep_two_phases_the_budget_and_beat_random_flips(interface_only):
    grid, budget = Grid((17, 17)), 0.02
    a = two_phase_field(grid, 2)

    def solution(x):
        return adjoint.solve(x[:, 0], grid, tol=1e-10)[:, None]

    objective = self_difference(solution, a, grid)
    found = phase_flip_attack(objective, a, grid, budget=budget, steps=5, swaps=5, interface_only=interface_only)
    x = a + found.delta
    assert set(x.unique().tolist()) == {3.0, 12.0}
    weights = torch.as_tensor(grid.weights())
    measure = ((found.delta[:, 0] != 0) * weights).sum((1, 2))
    assert (measure <= budget * (1 + 1e-9)).all() and (measure > 0.5 * budget).all()
    torch.testing.assert_close(found.value, objective(x), rtol=1e-9, atol=0)
    torch.testing.assert_close(found.size, 9 * measure.sqrt())
    assert (found.history.diff(dim=0)[5:] >= 0).all()
    flips = found.delta != 0
    if interface_only:
        inner = a[:, 0]
        neighbours = torch.stack(
            [
                (torch.nn.functional.pad(inner, (1, 1, 1, 1), mode="replicate")[:, i : i + 17, j : j + 17] != inner)
                for i, j in ((0, 1), (2, 1), (1, 0), (1, 2))
            ]
        )
        assert bool((~flips[:, 0] | neighbours.any(0)).all())
    rng = np.random.default_rng(0)
    for _ in range(10):
        points = torch.zeros(2, 17 * 17, dtype=torch.bool)
        for row, count in zip(points, flips.flatten(1).sum(1)):
            row[torch.from_numpy(rng.choice(17 * 17, int(count), replace=False))] = True
        random = objective(torch.where(points.reshape(a.shape), 15.0 - a, a))
        assert (random < found.value).all()


def test_flips_find_errors_of_a_surrogate_against_the_solver():
    grid = Grid((9, 9))
    a = two_phase_field(grid, 1)
    with torch.no_grad():
        u = adjoint.solve(a[:, 0], grid)[:, None]
    found = phase_flip_attack(distance_to_solver(lambda x: u + 0 * x, grid), a, grid, budget=0.05)
    assert float(found.value[0]) > 0.05 * float(field_norm(u, grid)[0])


def test_flip_refusals():
    grid = Grid((4,))
    with pytest.raises(ValueError, match="and 3 values; expected"):
        phase_flip_attack(lambda x: x.sum(), torch.tensor([[[1.0, 2.0, 3.0, 1.0]]]), grid, budget=0.1)
    with pytest.raises(ValueError, match="budget=2"):
        phase_flip_attack(lambda x: x.sum(), torch.tensor([[[1.0, 2.0, 2.0, 1.0]]]), grid, budget=2)
