"""The scheme: order 2 on smooth problems for every kind of grid, and the failures known from other packages."""

from __future__ import annotations

import numpy as np
import pytest

from sciops.grids import Grid
from sciops.pde import darcy


def manufactured(grid: Grid):
    """(a, u, f) with a = 1 + ½ sin(3x+1) cos(2y), u = sin(πx/X) sin(2πy/Y) on (0, X) × (0, Y)."""
    (_, X), (_, Y) = grid.domain
    x, y = grid.meshgrid()
    k, l = np.pi / X, 2 * np.pi / Y
    a = 1 + 0.5 * np.sin(3 * x + 1) * np.cos(2 * y)
    u = np.sin(k * x) * np.sin(l * y)
    ax, ay = 1.5 * np.cos(3 * x + 1) * np.cos(2 * y), -np.sin(3 * x + 1) * np.sin(2 * y)
    ux, uy = k * np.cos(k * x) * np.sin(l * y), l * np.sin(k * x) * np.cos(l * y)
    return a, u, -(ax * ux + ay * uy - a * (k**2 + l**2) * u)


def error(grid: Grid) -> float:
    a, u, f = manufactured(grid)
    return np.abs(darcy.solve(a, grid, forcing=f, tol=1e-10).u - u).max()


def test_error_is_a_constant_times_h_squared():
    constants = [error(Grid((n, n))) * (n - 1) ** 2 for n in (17, 33, 65, 100, 129, 257, 421)]
    assert np.allclose(constants, constants[-1], rtol=0.01)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda n: Grid((n, 2 * n - 1), ((0, 1), (0, 3.0))), id="rectangle"),
        pytest.param(lambda n: Grid((2 * n - 1, n)), id="unequal-spacing"),
        pytest.param(lambda n: Grid((n, n), centering="cell"), id="cells"),
        pytest.param(
            lambda n: Grid((n, n), ((0, 1 - 0.4 / (n - 0.6)),) * 2, domain=((0, 1),) * 2),
            id="short-of-the-wall",
        ),
    ],
)
def test_order_two_on_every_kind_of_grid(make):
    errors = np.array([error(make(n)) for n in (20, 40, 80, 160)])
    rates = np.log2(errors[:-1] / errors[1:])
    assert rates[-1] > 1.9 and rates.min() > 1.75, rates


def test_consistent_where_a_wrong_cross_term_is_not():
    """a = 1.25 + 0.75 sin sin: a scheme with the factor of a/x wrong stays 12 % off; here each halving gains 4."""
    grids = [Grid((n, n)) for n in (32, 63, 125, 249)]

    def solution(grid):
        x, y = grid.meshgrid()
        return darcy.solve(1.25 + 0.75 * np.sin(2 * np.pi * x) * np.sin(2 * np.pi * y), grid, tol=1e-10).u

    fine = Grid((497, 497))
    reference = solution(fine)
    errors = []
    for grid in grids:
        (stride, _) = grid.strides_in(fine)
        on_coarse = reference[::stride, ::stride]
        errors.append(np.linalg.norm(solution(grid) - on_coarse) / np.linalg.norm(on_coarse))
    rates = np.log2(np.array(errors[:-1]) / errors[1:])
    assert rates.min() > 1.9 and errors[0] < 5e-3, (errors, rates)


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_any_number_of_levels_on_small_grids(backend):
    """Every size from one unknown upwards, odd and even on each axis: no level runs over its edge."""
    rng = np.random.default_rng(3)
    for nx in range(3, 20):
        for ny in (3, 4, nx, 21 - nx + 3):
            a = np.exp(rng.standard_normal((2, nx, ny)))
            solved = darcy.solve(a, Grid((nx, ny)), backend=backend)
            direct = darcy.solve(a, Grid((nx, ny)), backend="direct")
            assert (solved.residual <= 1e-8).all()
            assert np.abs(solved.u - direct.u).max() <= 1e-7 * direct.u.max()


def test_faces_keep_ellipticity_and_the_wall_is_zero(field):
    """Every face lies between its two coefficients, so between 3 and 12; the wall rows are exactly zero."""
    import torch

    from sciops.pde.darcy import five_point as scheme

    a = np.where(field("2", 64, 3) > 1.5, 12.0, 3.0)
    axes = scheme.axes_of(Grid((64, 64)))
    for faces in scheme.conductances(torch.from_numpy(a)[:, None], axes):
        assert 3.0 * (1 - 1e-14) <= faces.min() and faces.max() <= 12.0 * (1 + 1e-14)
        assert set(np.round(faces.unique().numpy(), 6)) == {3.0, 4.8, 12.0}
    u = darcy.solve(a).u
    assert all((edge == 0).all() for edge in (u[:, 0], u[:, -1], u[:, :, 0], u[:, :, -1]))


def test_grid_short_of_the_wall_equals_dense_reference(reference_matrix):
    rng = np.random.default_rng(5)
    grid = Grid((16, 16), ((0, 390 / 420),) * 2, domain=((0, 1),) * 2)
    a, f = np.exp(rng.standard_normal((16, 16))), rng.standard_normal((16, 16))
    A, area = reference_matrix(a, grid)
    expected = np.zeros((16, 16))
    expected[1:, 1:] = np.linalg.solve(A.toarray(), (area * f[1:, 1:]).ravel()).reshape(15, 15)
    for backend in ("numba", "torch", "direct"):
        u = darcy.solve(a, grid, forcing=f, tol=1e-11, backend=backend).u
        assert np.abs(u - expected).max() <= 1e-10 * np.abs(expected).max()
    # the last free node is 30/420 from its wall, not 26/420 and not at it
    assert (u[-1, 1:] != 0).all()
    assert np.abs(u - darcy.solve(a, forcing=f).u).max() > 0.05 * np.abs(u).max()
