"""Helmholtz with a coefficient that varies: dense solves, made solutions, orders in space, gradients, refusals."""

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.pde import helmholtz, poisson
from sciops.pde.elliptic.eigenbasis import boundaries_of, inside
from sciops.pde.elliptic.minres import minres

BOXES = [
    (Grid((9,), (-1, 2), "periodic"), None),
    (Grid((8, 7), ((0, 1), (0, 2)), "periodic"), None),
    (Grid((9, 8), ((0, 1), (0, 2)), "node"), "dirichlet"),
    (Grid((8, 6), ((0, 1), (0, 2)), "cell"), ("neumann", "dirichlet")),
    (Grid((9, 8), ((0, 1), (0, 2)), "node"), "neumann"),
    (Grid((7, 6), ((0, 1), (0, 2)), "cell"), ("neumann", "periodic")),
    (Grid((5, 4, 6), ((0, 1), (0, 2), (0, 1)), "cell"), "dirichlet"),
]
boxes = pytest.mark.parametrize("box", BOXES, ids=lambda box: f"{box[0].centering}-{box[0].shape}-{box[1]}")


def _random(grid, seed, samples=2):
    return np.random.default_rng(seed).standard_normal((samples, *grid.shape))


def _dense(grid, boundary, scheme):
    """−Δ of the scheme as a matrix over the unknowns, and where they are: column by column of its inverse, Poisson's
    screened solve."""
    held = np.zeros(grid.shape, bool)
    held[inside(grid, boundaries_of(grid, boundary))] = True
    units = np.eye(grid.size).reshape(-1, *grid.shape)[held.ravel()]
    inverse = helmholtz.solve(units, grid, screening=1.0, boundary=boundary, scheme=scheme).u[:, held].T
    return np.linalg.inv(inverse) - np.eye(len(units)), held


@boxes
@pytest.mark.parametrize("scheme", ["spectral", "finite-volume"])
def test_against_a_dense_solve(box, scheme):
    grid, boundary = box
    a, f = np.exp(0.5 * _random(grid, 0)), _random(grid, 1)
    laplacian, held = _dense(grid, boundary, scheme)
    for name, value, sign in (("wavenumber", np.array([3.3, 9.1]), -1), ("screening", np.array([2.0, 30.0]), 1)):
        solution = helmholtz.solve(
            f, grid, **{name: value}, coefficient=a, boundary=boundary, scheme=scheme, tol=1e-11, max_iterations=500
        )
        for i in range(2):
            matrix = laplacian + np.diag(sign * value[i] ** 2 * a[i][held])
            exact = np.linalg.solve(matrix, f[i][held])
            np.testing.assert_allclose(solution.u[i][held], exact, rtol=0, atol=1e-8 * np.abs(exact).max())
            assert not solution.u[i][~held].any()
        assert (solution.residual <= 1e-11).all() and (solution.iterations > 0).all()


def test_a_coefficient_of_one_is_the_direct_solve():
    grid = Grid((33, 25), ((0, 1), (0, 2)))
    f = _random(grid, 2)
    direct = helmholtz.solve(f, grid, wavenumber=[4.0, 11.0])
    iterated = helmholtz.solve(f, grid, wavenumber=[4.0, 11.0], coefficient=np.ones(grid.shape), tol=1e-10)
    np.testing.assert_allclose(iterated.u, direct.u, rtol=0, atol=1e-8 * np.abs(direct.u).max())
    assert direct.iterations is None and iterated.iterations.dtype.kind == "i"


@pytest.mark.parametrize("scheme", ["spectral", "finite-volume"])
def test_the_order_in_space_of_a_made_solution(scheme):
    """u odd and a even about the walls, both smooth: f = −Δu − k²a u in closed form."""
    errors, k = [], 7.0
    for n in (7, 13) if scheme == "spectral" else (33, 65):
        grid = Grid((n, n))
        x, y = (np.pi * v for v in grid.meshgrid())
        a = np.exp(0.5 * np.cos(x) * np.cos(2 * y))
        # sin x · g(cos x, cos y) sin y with g = exp(½cos x): its second derivatives by hand
        e = np.exp(0.5 * np.cos(x))
        u = np.sin(x) * e * np.sin(y)
        along_x = np.sin(y) * e * np.sin(x) * (0.25 * np.sin(x) ** 2 - 1.5 * np.cos(x) - 1)
        f = np.pi**2 * (u - along_x) - k**2 * a * u
        got = helmholtz.solve(f, grid, wavenumber=k, coefficient=a, scheme=scheme, tol=1e-11).u
        errors.append(np.abs(got - u).max())
    if scheme == "spectral":
        assert errors[1] < 1e-11 and errors[1] < 1e-4 * errors[0]
    else:
        assert abs(np.log2(errors[0] / errors[1]) - 2) < 0.15


def test_a_value_on_the_walls_by_what_the_docstring_says():
    """u = b on the walls: in one dimension with a = 1, u = b cos(k(x − ½))/cos(k/2) for f = 0."""
    grid, k, b = Grid((65,)), 6.0, 0.3
    x = grid.coordinates()[0]
    w = helmholtz.solve(np.full(65, k**2 * b), grid, wavenumber=k, coefficient=np.ones(65), scheme="finite-volume").u
    np.testing.assert_allclose(b + w, b * np.cos(k * (x - 0.5)) / np.cos(k / 2), atol=2e-3)


def test_more_modes_below_k_take_more_iterations_but_a_finer_grid_does_not():
    counts = {}
    for n in (33, 65):
        grid = Grid((n, n))
        x, y = grid.meshgrid()
        a = np.exp(0.3 * np.cos(3 * np.pi * x) * np.cos(2 * np.pi * y))
        f = np.exp(-60 * ((x - 0.4) ** 2 + (y - 0.6) ** 2))
        for k in (3.0, 10.0):
            counts[n, k] = int(helmholtz.solve(f, grid, wavenumber=k, coefficient=a).iterations)
    assert counts[65, 3.0] < counts[65, 10.0] < 200
    assert abs(counts[65, 10.0] - counts[33, 10.0]) <= 16


def test_gradients_to_source_and_coefficient():
    for grid, boundary in ((Grid((6, 5)), "dirichlet"), (Grid((5, 4)), "neumann")):
        f, a = (torch.tensor(v[0], requires_grad=True) for v in (_random(grid, 3), np.exp(0.3 * _random(grid, 4))))

        def solve(f, a, grid=grid, boundary=boundary):
            return helmholtz.solve(f, grid, wavenumber=5.0, coefficient=a, boundary=boundary, tol=1e-13).u

        torch.autograd.gradcheck(solve, (f, a), fast_mode=True)


def test_kinds_and_batches():
    grid = Grid((12, 10), centering="cell")
    f, a = _random(grid, 5, 3), np.exp(0.3 * _random(grid, 6, 3))
    want = helmholtz.solve(f, grid, wavenumber=6.0, coefficient=a)
    for i in range(3):
        alone = helmholtz.solve(f[i], grid, wavenumber=6.0, coefficient=a[i])
        np.testing.assert_allclose(alone.u, want.u[i], rtol=0, atol=1e-7 * np.abs(want.u[i]).max())
        assert np.ndim(alone.residual) == 0 and np.ndim(alone.iterations) == 0
    single = helmholtz.solve(torch.tensor(f).float(), grid, wavenumber=6.0, coefficient=a)
    assert single.u.dtype == torch.float32 and (single.residual < 1e-8).all()
    np.testing.assert_allclose(single.u, want.u, rtol=0, atol=1e-5 * np.abs(want.u).max())
    assert not helmholtz.solve(0 * f, grid, wavenumber=6.0, coefficient=a).u.any()


def test_minres_of_a_singular_preconditioned_start_and_of_a_zero_source():
    """An f that is one eigenvector is solved in one step, beside a zero that stays zero."""
    values = torch.tensor([-2.0, 0.5, 3.0], dtype=torch.float64)
    f = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
    u, residual, count = minres(lambda x: values * x, lambda x: x, f, torch.ones(3, dtype=torch.float64), 1e-14, 50)
    torch.testing.assert_close(u, f / values, rtol=0, atol=1e-14)
    assert count[1] == 0 and (residual <= 1e-14).all()


def test_refusals():
    grid = Grid((8, 6), centering="periodic")
    f, a = np.ones((2, 8, 6)), np.ones((8, 6))
    for options, words in (
        ({"coefficient": np.ones((6, 8))}, r"coefficient has shape \(6, 8\)"),
        ({"coefficient": -a}, "expected finite numbers of at least 0"),
        ({"coefficient": np.full((8, 6), np.nan)}, "expected finite numbers of at least 0"),
        ({"coefficient": 0 * a}, "that is Poisson's"),
        ({"coefficient": a, "tol": 0.0}, "tol=0.0: expected a relative residual"),
        ({"coefficient": a, "max_iterations": 0}, "max_iterations=0"),
    ):
        with pytest.raises(ValueError, match=words):
            helmholtz.solve(f, grid, wavenumber=1.0, **options)
    rough = _random(grid, 7)
    with pytest.raises(RuntimeError, match=r"sample 0: residual .* after 2 iterations, expected 1e-08"):
        helmholtz.solve(rough, grid, wavenumber=9.0, coefficient=np.exp(rough[:1]), max_iterations=2)
    assert (poisson.solve(rough - rough.mean((1, 2), keepdims=True), grid).iterations) is None


@pytest.mark.gpu
def test_on_a_gpu_as_on_the_cpu():
    grid = Grid((20, 17), centering="cell")
    f, a = torch.tensor(_random(grid, 8)), torch.tensor(np.exp(0.3 * _random(grid, 9)))
    there = helmholtz.solve(f.cuda(), grid, wavenumber=[3.0, 5.0], coefficient=a.cuda())
    assert there.u.is_cuda and there.residual.is_cuda
    here = helmholtz.solve(f, grid, wavenumber=[3.0, 5.0], coefficient=a)
    torch.testing.assert_close(there.u.cpu(), here.u, rtol=0, atol=1e-8)
