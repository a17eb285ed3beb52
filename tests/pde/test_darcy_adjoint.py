import pytest
import torch

from sciops.grids import Grid
from sciops.pde import adjoint, darcy

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


def test_the_gradient_of_the_compliance_is_known():
    """J = h²Σ f u has λ = u, so that scaling a by 1 + ε changes J by −εJ: ⟨∂J/∂a, a⟩ = −J exactly."""
    grid = Grid((33, 33))
    a = _coefficient(3, grid).requires_grad_()
    compliance = adjoint.solve(a, grid, tol=1e-12).sum((1, 2)) / 32**2
    (g,) = torch.autograd.grad(compliance.sum(), a)
    torch.testing.assert_close((g * a).sum((1, 2)), -compliance, rtol=1e-10, atol=0)
    # more conductance anywhere lets the same sources out at a lower pressure
    assert (g <= 0).all() and (g[:, 1:-1, 1:-1] < 0).all()


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
    with pytest.raises(ValueError, match="nodes that reach the walls"):
        adjoint.solve(a, Grid((17, 17), centering="cell"))
    with pytest.raises(ValueError):
        adjoint.solve(-a, grid)
