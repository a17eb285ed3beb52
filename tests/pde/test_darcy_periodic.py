"""Periodic axes: a dense reference, translations, the direct Poisson solver, laminates, order 2, refusals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.pde import darcy, poisson
from sciops.pde.darcy import five_point as scheme
from sciops.pde.darcy.batched import multigrid as mg
from sciops.pde.darcy.batched.hierarchy import dense as matrix_of
from sciops.pde.darcy.galerkin import interpolated

D, N, R, P = "dirichlet", "neumann", "robin", "periodic"
BOTH = pytest.mark.parametrize("backend", ["torch", "direct"])
MIXTURES = [(P, P), (P, (D, D)), ((N, N), P), ((D, N), P), (P, (R, N))]
KINDS = pytest.mark.parametrize("kinds", MIXTURES, ids=["pp", "pdd", "nnp", "dnp", "prn"])


def dense(a, grid: Grid, kinds) -> tuple[np.ndarray, np.ndarray]:
    """(A, areas) by loops over cells and their four sides; a is (2, nx, ny), robin sides transfer 2."""
    (nx, ny), (hx, hy) = grid.shape, grid.spacing
    A = np.zeros((nx * ny,) * 2)
    for (i, j), (k, step) in itertools.product(np.ndindex(nx, ny), itertools.product((0, 1), (1, -1))):
        here, other = i * ny + j, [i, j]
        other[k] += step
        width, h = (hy, hx) if k == 0 else (hx, hy)
        if kinds[k] == P:
            other[k] %= grid.shape[k]
        elif not 0 <= other[k] < grid.shape[k]:
            word = kinds[k][0 if step < 0 else 1]
            if word == D:
                A[here, here] += a[k, i, j] * width / (h / 2)
            elif word == R:
                A[here, here] += width / (1 / 2.0 + h / 2 / a[k, i, j])
            continue
        c = 2 / (1 / a[k, i, j] + 1 / a[k, other[0], other[1]]) * width / h
        A[here, here] += c
        A[here, other[0] * ny + other[1]] -= c
    return A, np.full(nx * ny, hx * hy)


def options(kinds) -> dict:
    transfer = {"transfer": {"y": (2.0, 0)}} if kinds == MIXTURES[-1] else {}
    return {"boundary": {"x": kinds[0], "y": kinds[1]}, "mean": "project", **transfer}


@KINDS
@BOTH
def test_solutions_equal_a_dense_assembly(kinds, backend):
    rng = np.random.default_rng(0)
    for shape in [(8, 8), (6, 12), (5, 7), (1, 4), (2, 2), (3, 16), (16, 2), (20, 24)]:
        grid = Grid(shape, ((0, 1), (0, 1.7)), "cell")
        a, f = np.exp(rng.standard_normal((2, 2, *shape))), rng.standard_normal((2, *shape))
        solution = darcy.solve(a, grid, forcing=f, tensor=True, tol=1e-12, backend=backend, **options(kinds))
        again = darcy.residual(a, solution.u, grid, f, tensor=True, **options(kinds))
        assert np.allclose(again, solution.residual, atol=2 * solution.floor.max())
        for i in range(2):
            A, area = dense(a[i], grid, kinds)
            b = area * f[i].ravel()
            if not {"dirichlet", "robin"} & {word for pair in kinds for word in pair}:
                b -= b.mean()
            expected = np.linalg.lstsq(A, b, rcond=None)[0].reshape(shape)
            assert np.abs(solution.u[i] - expected).max() <= 1e-9 * max(np.abs(expected).max(), 1e-12), shape


@BOTH
def test_translations_translate(backend, field):
    a, f = field("100", 48, 1)[0], np.random.default_rng(0).standard_normal((48, 48))
    one = darcy.solve(a, forcing=f, boundary=P, mean="project", tol=1e-11, backend=backend).u
    other = darcy.solve(
        np.roll(a, (5, -9), (0, 1)),
        forcing=np.roll(f, (5, -9), (0, 1)),
        boundary=P,
        mean="project",
        tol=1e-11,
        backend=backend,
    ).u
    assert np.abs(np.roll(one, (5, -9), (0, 1)) - other).max() <= 1e-8 * np.abs(one).max()
    assert abs(one.mean()) <= 1e-14 * np.abs(one).max()


def test_a_constant_coefficient_is_the_direct_poisson_solver():
    grid = Grid((24, 40), ((0, 1), (0, 3)), "periodic")
    f = np.random.default_rng(0).standard_normal((2, 24, 40))
    f -= f.mean((1, 2), keepdims=True)
    exact = poisson.solve(f, grid, scheme="finite-volume").u
    assert np.abs(darcy.solve(np.ones((2, 24, 40)), grid, forcing=f, boundary=P, tol=1e-12).u - exact).max() <= 1e-12


@BOTH
def test_a_laminate_conducts_by_its_harmonic_mean_across_and_its_arithmetic_mean_along(backend):
    """The cell problem −∇·(a∇w) = ∇·(a e): the flux a(e + ∇w) is the effective coefficient."""
    n = 32
    layers = np.exp(np.random.default_rng(0).standard_normal(n))
    a = np.broadcast_to(layers[:, None], (n, n)).copy()
    face = 2 / (1 / layers + 1 / np.roll(layers, -1))  # between i and i + 1
    f = np.broadcast_to(((face - np.roll(face, 1)) * n)[:, None], (n, n))
    w = darcy.solve(a, forcing=f, boundary=P, mean="project", tol=1e-12, backend=backend).u
    flux = face * (1 + (np.roll(w, -1, 0) - w)[:, 0] * n)
    assert np.abs(flux - 1 / np.mean(1 / layers)).max() <= 1e-10
    assert darcy.solve(a, forcing=0.0, boundary=P, backend=backend).u.max() == 0.0  # e along the layers: w = 0


@KINDS
@pytest.mark.parametrize("tensor", [False, True], ids=["scalar", "tensor"])
def test_order_two(kinds, tensor):
    """u = sin 2πx cos 2πy + ½ where both axes wrap round, with a wall's own factor where it does not."""

    def error(m):
        grid = Grid((m, m), centering="cell")

        def parts(x, y):
            px, py = (2 * np.pi if word == P else 1.3 for word in kinds)
            u = np.sin(px * x + 0.2) * np.cos(py * y + 0.1)
            ux, uy = px * np.cos(px * x + 0.2) * np.cos(py * y + 0.1), -py * np.sin(px * x + 0.2) * np.sin(py * y + 0.1)
            ax = 2 + np.sin(2 * np.pi * x) * np.cos(2 * np.pi * y)
            ax_x = 2 * np.pi * np.cos(2 * np.pi * x) * np.cos(2 * np.pi * y)
            ay, ay_y = ax, -2 * np.pi * np.sin(2 * np.pi * x) * np.sin(2 * np.pi * y)
            if tensor:
                ay, ay_y = 9 + 4 * np.sin(2 * np.pi * y), 8 * np.pi * np.cos(2 * np.pi * y)
            return u, (ax * ux, ay * uy), -(ax_x * ux - ax * px**2 * u + ay_y * uy - ay * py**2 * u), np.stack([ax, ay])

        u, _, f, a = parts(*grid.meshgrid())
        data = {name: {"x": [0.0, 0.0], "y": [0.0, 0.0]} for name in ("values", "flux")}
        for k, end in itertools.product((0, 1), (0, 1)):
            if kinds[k] != P:
                along, word = grid.coordinates()[1 - k], kinds[k][end]
                there, fluxes, _, _ = parts(*((end + 0 * along, along) if k == 0 else (along, end + 0 * along)))
                flux = fluxes[k] * (1 if end else -1) + (2.0 * there if word == R else 0.0)
                data["values" if word == D else "flux"]["xy"[k]][end] = there if word == D else flux
        solution = darcy.solve(
            a if tensor else a[0], grid, forcing=f, tensor=tensor, tol=1e-10, **data, **options(kinds)
        )
        if not {"dirichlet", "robin"} & {word for pair in kinds for word in pair}:
            u = u - u.mean()
        return np.sqrt(np.mean((solution.u - u) ** 2))

    errors = [error(m) for m in (24, 48, 96)]
    assert abs(np.log2(errors[1] / errors[2]) - 2.0) < 0.1, errors


def test_iterations_do_not_grow_with_the_grid(field):
    for n in (32, 96, 128):
        f = np.cos(2 * np.pi * np.arange(n) / n)[:, None] * np.ones(n)
        for kind, ceiling in (("100", 16), ("lognormal1", 10)):
            for kinds in MIXTURES:
                solution = darcy.solve(field(kind, n, 2), Grid((n, n), centering="cell"), forcing=f, **options(kinds))
                assert (solution.status == "ok").all() and (solution.iterations <= ceiling).all(), (n, kind, kinds)


def interpolation(level, coarse) -> torch.Tensor:
    (mx, my), (cx, cy) = level.shape, coarse
    matrix = torch.zeros(mx * my, cx * cy, dtype=torch.float64)
    for i, j in np.ndindex(cx, cy):
        matrix[((2 * i + 1) % mx) * my + (level.steps[1] * (j + 1) - 1) % my, i * cy + j] = 1.0
        for k, (dx, dy) in enumerate(interpolated(level.steps)):
            p, q = 2 * i + 1 + dx, level.steps[1] * (j + 1) - 1 + dy
            weight = level.weights[0, k, i + 1, j + 1]
            if (p < mx or level.wraps[0]) and (q < my or level.wraps[1]):
                matrix[(p % mx) * my + q % my, i * cy + j] += weight
    return matrix


@pytest.mark.parametrize("wraps", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("rows_alone", [0, 1])
def test_coarse_operators_are_galerkin_products_and_the_cycle_is_symmetric(wraps, rows_alone):
    shape, rng = (16, 24), np.random.default_rng(0)
    kinds = tuple((P, P) if round_ else (N, D) for round_ in wraps)
    axes = scheme.axes_of(Grid(shape, centering="cell"), kinds)
    a = scheme.padded(torch.from_numpy(np.exp(rng.standard_normal((1, 1, *shape)))), axes)
    singular = all(wraps)
    hierarchy = mg.build(*scheme.conductances(a, axes), torch.float64, rows_alone, singular, wraps)
    assert len(hierarchy.levels) > 2
    for fine, coarse in zip(hierarchy.levels, hierarchy.levels[1:]):
        matrix, A, stored = interpolation(fine, coarse.shape), matrix_of(fine)[0], matrix_of(coarse)[0]
        assert (stored - matrix.T @ A @ matrix).abs().max() <= 2e-15 * A.abs().max() * 10
        assert torch.equal(stored, stored.T)
    finest = hierarchy.levels[0]

    def inverse(x):
        f = torch.zeros_like(finest.inverse)
        finest.square(f)[:, 1:-2, 1:-2] = torch.from_numpy(x)
        return finest.square(mg.cycle(hierarchy, f))[0, 1:-2, 1:-2].numpy()

    x, y = rng.standard_normal((2, *shape))
    if singular:
        x, y = x - x.mean(), y - y.mean()
    Bx, By = inverse(x), inverse(y)
    assert (Bx * x).sum() > 0 and abs((Bx * y).sum() - (By * x).sum()) <= 1e-13 * np.sqrt(
        (Bx * x).sum() * (By * y).sum()
    )


def test_what_does_not_coarsen_goes_to_the_direct_solver():
    f = np.cos(2 * np.pi * np.arange(75) / 75)[:, None] * np.ones(75)
    solution = darcy.solve(np.ones((75, 75)), forcing=f, boundary=P, mean="project")
    assert solution.status == "fallback_ok" and solution.residual <= 1e-8


def test_bad_periodic_calls_say_what_was_expected():
    a, cells = np.ones((2, 10, 10)), Grid((10, 10), centering="cell")
    for grid, given, message in [
        (None, {"boundary": P}, "periodic ones, need 0"),
        (None, {"boundary": {"x": P}}, r"the x axis is periodic and the grid has nodes.*'cell' where the other axis"),
        (Grid((10, 10), centering="periodic"), {"boundary": {"x": P}}, "grid is periodic and the y axis has walls"),
        (Grid((10, 10), centering="periodic"), {}, "grid is periodic and the x axis has walls"),
        (cells, {"boundary": {"x": (P, D)}}, "periodic at both ends or at neither"),
        (cells, {"boundary": {"x": P}, "values": {"x": 1.0}}, "that side is 'periodic': boundary 'dirichlet' there"),
        (cells, {"boundary": {"x": P}, "backend": "numba"}, "backend='torch' for periodic ones"),
        (Grid((10, 10), 1.0, "cell", 2.0), {"boundary": {"x": P}}, "expected all of it"),
    ]:
        with pytest.raises(ValueError, match=message):
            darcy.solve(a, grid, **given)
