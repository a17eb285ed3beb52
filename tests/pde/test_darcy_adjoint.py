import importlib

import pytest
import torch

from sciops.grids import Grid
from sciops.pde import darcy
from sciops.pde.darcy import adjoint

TOL = 1e-13


def _coefficient(batch, grid, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(batch, *grid.shape, generator=generator, dtype=torch.float64) * 4 + 0.5


@pytest.mark.parametrize("grid", [Grid((6, 7)), Grid((5, 5), extent=((0, 2), (0, 0.5)))], ids=["unit", "rectangle"])
def test_gradients_are_those_of_differences(grid):
    a = _coefficient(2, grid).requires_grad_()
    f = (_coefficient(2, grid, seed=1) - 2).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda a, f: adjoint.solve(a, grid, forcing=f, tol=TOL), (a, f), eps=1e-6, atol=1e-8
    )
    one = torch.tensor(1.7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda f: adjoint.solve(a.detach(), grid, forcing=f, tol=TOL), one, atol=1e-8)


D, N, R, P = "dirichlet", "neumann", "robin", "periodic"
WALLS = {
    "values": (Grid((5, 6)), {}, {"values": {"x": (6, 0), "y": ("2x5", 1.0)}}),
    "mixed": (
        Grid((5, 4), ((0, 2), (0, 1))),
        {"x": (D, N), "y": (N, R)},
        {"values": {"x": (4, 0)}, "flux": {"x": (0, 4)}},
    ),
    "cells": (Grid((4, 5), centering="cell"), {"x": R, "y": (D, R)}, {"values": {"y": (4, 0)}, "flux": {"x": 5}}),
    "short": (Grid((5, 5), (0, 0.9), domain=(0, 1)), {"x": (N, R), "y": D}, {"flux": {"x": (0, 5)}}),
    "closed": (Grid((4, 5)), N, {"flux": {"x": (5, 0)}}),
    "periodic": (Grid((4, 6), centering="periodic"), P, {}),
    "tube": (Grid((4, 6), centering="cell"), {"x": P, "y": (N, D)}, {"flux": {"y": (4, 0)}, "values": {"y": (0, 4)}}),
}


@pytest.mark.parametrize("name", WALLS)
@pytest.mark.parametrize("tensor", [False, True], ids=["scalar", "tensor"])
def test_gradients_with_respect_to_everything_are_those_of_differences(name, tensor):
    """Coefficient, source, wall values, fluxes and transfer coefficients; 4 stands for a tensor of four numbers."""
    grid, boundary, given = WALLS[name]
    draw = torch.Generator().manual_seed(3)
    inputs = [torch.rand(2, *((2,) if tensor else ()), *grid.shape, generator=draw, dtype=torch.float64) + 0.5]
    inputs.append(torch.rand(grid.shape, generator=draw, dtype=torch.float64))
    if R in str(boundary):
        words = {axis: (word, word) if isinstance(word, str) else word for axis, word in boundary.items()}
        sides = [[grid.shape[1 - "xy".index(axis)] if word == R else 0 for word in words[axis]] for axis in "xy"]
        given = given | {"transfer": dict(zip("xy", map(tuple, sides)))}

    def made(entry):
        if isinstance(entry, dict):
            return {axis: made(part) for axis, part in entry.items()}
        if isinstance(entry, tuple):
            return tuple(map(made, entry))
        if isinstance(entry, float) or not entry:
            return float(entry)
        shape = [int(n) for n in entry.split("x")] if isinstance(entry, str) else [entry]
        inputs.append(torch.rand(shape, generator=draw, dtype=torch.float64) + 0.3)
        return [len(inputs) - 1]

    def filled(entry, values):
        if isinstance(entry, dict):
            return {axis: filled(part, values) for axis, part in entry.items()}
        if isinstance(entry, tuple):
            return tuple(filled(part, values) for part in entry)
        return values[entry[0]] if isinstance(entry, list) else entry

    plan = {key: made(entry) for key, entry in given.items()}

    def solve(*values):
        data = {key: filled(entry, values) for key, entry in plan.items()}
        return adjoint.solve(
            values[0], grid, forcing=values[1], boundary=boundary, tensor=tensor, mean="project", tol=TOL, **data
        )

    inputs = [value.requires_grad_() for value in inputs]
    assert len(inputs) > 2 or name == "periodic"
    assert torch.autograd.gradcheck(solve, inputs, eps=1e-6, atol=1e-7, fast_mode=True)


def test_the_gradient_of_the_compliance_is_known():
    """J = h²Σ f u has λ = u, so that scaling a by 1 + ε changes J by −εJ: ⟨∂J/∂a, a⟩ = −J exactly."""
    grid = Grid((33, 33))
    a = _coefficient(3, grid).requires_grad_()
    compliance = adjoint.solve(a, grid, tol=1e-12).sum((1, 2)) / 32**2
    (g,) = torch.autograd.grad(compliance.sum(), a)
    torch.testing.assert_close((g * a).sum((1, 2)), -compliance, rtol=1e-10, atol=0)
    # more conductance anywhere lets the same sources out at a lower pressure
    assert (g <= 0).all() and (g[:, 1:-1, 1:-1] < 0).all()


def test_modules_are_there_by_the_names_the_pages_give_them():
    import sciops.pde

    for name in sciops.pde.__all__:
        assert importlib.import_module(f"sciops.pde.{name}") is getattr(sciops.pde, name)
    assert sciops.pde.darcy.adjoint is adjoint


def test_values_dtypes_and_refusals():
    grid = Grid((17, 17))
    a = _coefficient(2, grid)
    assert torch.equal(adjoint.solve(a, grid), darcy.solve(a, grid).u)
    single = a.float().requires_grad_()
    adjoint.solve(single, grid, tol=1e-10).square().mean().backward()
    exact = a.float().double().requires_grad_()
    adjoint.solve(exact, grid, tol=1e-10).square().mean().backward()
    assert single.grad.dtype == torch.float32
    torch.testing.assert_close(single.grad.double(), exact.grad, rtol=1e-4, atol=1e-9)
    with pytest.raises(ValueError, match=r"expected \(batch, nx, ny\)"):
        adjoint.solve(a[0], grid)
    with pytest.raises(ValueError, match=r"expected \(batch, 2, nx, ny\)"):
        adjoint.solve(a, grid, tensor=True)
    with pytest.raises(ValueError, match="expected a positive finite number"):
        adjoint.solve(-a, grid)
    for wrong in (a.numpy(), torch.ones(2, 17, 17, dtype=torch.int64)):  # whole numbers would take u down to zero
        with pytest.raises(TypeError, match="expected a tensor of floating dtype"):
            adjoint.solve(wrong, grid)
