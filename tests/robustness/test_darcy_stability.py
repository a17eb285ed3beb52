"""The energy estimate of the discrete Darcy problem against solves."""

import math

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.pde import darcy
from sciops.robustness import darcy_lipschitz, neighbour_ratio


def test_energy_estimate_of_the_darcy_problem_holds_and_is_that_of_the_continuous_one():
    grid, rng = Grid((17, 17)), np.random.default_rng(0)
    largest = 0.0
    for _ in range(20):
        a = 1 + rng.random((1, 17, 17))
        delta = 0.2 * rng.choice([-1.0, 1.0], size=a.shape) if rng.random() < 0.5 else np.full_like(a, -0.2)
        u, v = (darcy.solve(x, grid, tol=1e-12).u[0] for x in (a, a + delta))
        moved = math.sqrt(float((grid.weights() * (u - v) ** 2).sum())) / 0.2
        ratio = neighbour_ratio(torch.from_numpy(a), 0.2)
        bound = darcy_lipschitz(grid, 0.8, ratio)
        assert moved <= bound
        largest = max(largest, moved / bound)
    assert largest > 0.02
    # constant coefficients: 1/(π√2)·‖1‖_{H⁻¹}/a², ‖1‖²_{H⁻¹} = 0.0351443
    fine = darcy_lipschitz(Grid((129, 129)), 1.0, 1.0)
    assert fine == pytest.approx(math.sqrt(0.0351443) / (math.pi * math.sqrt(2)), rel=2e-3)
    a = torch.tensor([[1.0, 3.0], [1.0, 1.0]])
    assert neighbour_ratio(a, 0.5) == pytest.approx(3.5 / 0.5)


@pytest.mark.parametrize("centering", ["node", "cell"])
def test_the_estimate_grows_with_the_third_power_of_the_box(centering):
    """u, its integral and its norm are in the lengths of the grid: 1/√λ₁ grows with ℓ, ‖1‖_{H⁻¹} with ℓ²."""
    unit = darcy_lipschitz(Grid((17, 13), centering=centering), 1.0, 2.0)
    wide = darcy_lipschitz(Grid((17, 13), (0.0, 3.0), centering), 1.0, 2.0)
    assert wide == pytest.approx(27 * unit, rel=1e-9)
