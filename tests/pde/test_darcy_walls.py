"""Values and fluxes on the walls, and diagonal tensors: exact solutions, order 2, conservation, a dense reference."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.pde import darcy
from sciops.pde.darcy import five_point as scheme

ENGINES = pytest.mark.parametrize("backend", ["numba", "torch", "direct"])
BOTH = pytest.mark.parametrize("backend", ["numba", "torch"])
CENTRED = pytest.mark.parametrize("centering", ["node", "cell"])
D, N = "dirichlet", "neumann"
MIXTURES = [
    ((D, D), (D, D)),
    ((N, D), (D, D)),
    ((D, D), (N, N)),
    ((D, N), (N, D)),
    ((N, N), (D, N)),
    ((N, N), (N, N)),
]
KINDS = pytest.mark.parametrize("kinds", MIXTURES, ids=["".join(w[0] for pair in k for w in pair) for k in MIXTURES])
SPOT = {"boundary": "neumann", "forcing": 0.0}


def boundary(kinds):
    return {"x": kinds[0], "y": kinds[1]}


def naive(ax, ay, f, grid: Grid, kinds, v, g) -> np.ndarray:
    """One sample by loops over cells and their four sides into a dense matrix; v, g: (axis, end) → numbers along the
    side. Without a given value the matrix is singular: least squares, and the weighted mean is removed."""
    points, cells = grid.coordinates(), grid.centering == "cell"
    nx, ny = grid.shape

    def given(k, i):
        """Whether grid line i of axis k lies on a wall with a given value."""
        return any(
            kinds[k][end] == D and abs(points[k][i] - grid.domain[k][end]) < 1e-9 * grid.spacing[k] for end in (0, -1)
        )

    def edge(k, i, step):
        """Where the cell of line i ends in direction step."""
        n = grid.shape[k]
        if 0 <= i + step < n:
            return 0.5 * (points[k][i] + points[k][i + step])
        end = 0 if step < 0 else -1
        wall = grid.domain[k][end]
        return wall if cells or kinds[k][end] == N else 0.5 * (points[k][i] + wall)

    unknown = [(i, j) for i in range(nx) for j in range(ny) if not given(0, i) and not given(1, j)]
    number = {p: row for row, p in enumerate(unknown)}
    A, b, area = np.zeros((len(unknown),) * 2), np.zeros(len(unknown)), np.zeros(len(unknown))
    for (i, j), row in number.items():
        width = [edge(k, p, 1) - edge(k, p, -1) for k, p in ((0, i), (1, j))]
        area[row] = width[0] * width[1]
        b[row] += f[i, j] * area[row]
        for k, step in itertools.product((0, 1), (-1, 1)):
            a, end = (ax, ay)[k], 0 if step < 0 else -1
            other = (i + step, j) if k == 0 else (i, j + step)
            here, along = ((i, j), (j, i))[k]
            if 0 <= other[k] < grid.shape[k]:
                face = 2 / (1 / a[i, j] + 1 / a[other])
                c = face * width[1 - k] / abs(points[k][other[k]] - points[k][here])
                A[row, row] += c
                if other in number:
                    A[row, number[other]] -= c
                else:
                    b[row] += c * v[k, end][along]
            elif kinds[k][end] == N:
                b[row] += g[k, end][along] * width[1 - k]
            else:
                c = a[i, j] * width[1 - k] / abs(grid.domain[k][end] - points[k][here])
                A[row, row] += c
                b[row] += c * v[k, end][along]
    u = np.full(grid.shape, np.nan)
    if all(word == N for pair in kinds for word in pair):
        b -= area * b.sum() / area.sum()
        x = np.linalg.lstsq(A, b, rcond=None)[0]
        x -= (area * x).sum() / area.sum()
    else:
        x = np.linalg.solve(A, b)
    u[tuple(np.array(unknown).T)] = x
    return u


def sides(grid: Grid, rng) -> dict:
    return {(k, end): rng.standard_normal(grid.shape[1 - k]) for k in (0, 1) for end in (0, -1)}


def pairs(data: dict, kinds, kind: str) -> dict:
    """{(k, end): array} as the solver takes it, zero on the sides of the other kind."""
    return {
        axis: tuple(data[k, end] if kinds[k][end] == kind else 0.0 for end in (0, -1)) for k, axis in enumerate("xy")
    }


GRIDS = {
    "nodes": Grid((9, 12), ((0, 1), (0, 0.6))),
    "cells": Grid((10, 7), ((0, 1), (-1, 0.6)), "cell"),
    "short": Grid((8, 9), ((0, 0.9), (0.2, 1.0)), domain=((0, 1), (0, 1))),
    "cells-short": Grid((6, 9), ((0.1, 0.9), (0, 1)), "cell", domain=((0, 1), (0, 1.2))),
}


@KINDS
@pytest.mark.parametrize("name", GRIDS)
def test_three_engines_equal_a_dense_assembly(kinds, name):
    grid, rng = GRIDS[name], np.random.default_rng(7)
    a = np.exp(rng.standard_normal((3, 2, *grid.shape)))
    a[1, 0] *= 200.0
    a[2, 1] *= 200.0
    f, v, g = rng.standard_normal((3, *grid.shape)), sides(grid, rng), sides(grid, rng)
    for tensor in (True, False):
        given = a if tensor else a[:, 0]
        expected = np.stack([naive(p[0], p[1] if tensor else p[0], q, grid, kinds, v, g) for p, q in zip(a, f)])
        walls = dict(boundary=boundary(kinds), values=pairs(v, kinds, D), flux=pairs(g, kinds, N), mean="project")
        inside = np.isfinite(expected[0])
        for backend in ("numba", "torch", "direct"):
            solution = darcy.solve(given, grid, forcing=f, tensor=tensor, tol=2e-12, backend=backend, **walls)
            error = np.abs(solution.u - expected)[:, inside].max((1,)) / np.abs(expected[:, inside]).max((1,))
            assert error.max() <= 1e-10, (backend, tensor, error)
            again = darcy.residual(given, solution.u, grid, f, tensor=tensor, **walls)
            assert np.allclose(again, solution.residual, rtol=0.1, atol=2 * solution.floor.max())


def manufactured(grid: Grid, tensor: bool):
    """(a, u, f, {side: u there}, {side: A ∂u/∂n there}) of u = sin(2x + ½) e^{y/2} + x²y, not zero on any wall."""

    def parts(x, y):
        u = np.sin(2 * x + 0.5) * np.exp(y / 2) + x**2 * y
        ux, uxx = 2 * np.cos(2 * x + 0.5) * np.exp(y / 2) + 2 * x * y, -4 * np.sin(2 * x + 0.5) * np.exp(y / 2) + 2 * y
        uy, uyy = 0.5 * np.sin(2 * x + 0.5) * np.exp(y / 2) + x**2, 0.25 * np.sin(2 * x + 0.5) * np.exp(y / 2)
        ax, ax_x = 1 + 0.5 * np.sin(3 * x + 1) * np.cos(2 * y), 1.5 * np.cos(3 * x + 1) * np.cos(2 * y)
        if tensor:
            ay, ay_y = 7 * np.exp(np.sin(2 * x - 3 * y)), -21 * np.cos(2 * x - 3 * y) * np.exp(np.sin(2 * x - 3 * y))
        else:
            ay, ay_y = ax, -np.sin(3 * x + 1) * np.sin(2 * y)
        return u, (ax * ux, ay * uy), -(ax_x * ux + ax * uxx + ay_y * uy + ay * uyy), np.stack([ax, ay])

    u, _, f, a = parts(*grid.meshgrid())
    value, flux = {}, {}
    for k, end in itertools.product((0, 1), (0, -1)):
        wall, along = grid.domain[k][end], grid.coordinates()[1 - k]
        there, fluxes, _, _ = parts(*((wall + 0 * along, along) if k == 0 else (along, wall + 0 * along)))
        value[k, end], flux[k, end] = there, fluxes[k] * (1 if end else -1)
    return a if tensor else a[0], u, f, value, flux


def error(grid: Grid, kinds, tensor: bool) -> float:
    a, u, f, value, flux = manufactured(grid, tensor)
    solution = darcy.solve(
        a,
        grid,
        forcing=f,
        tensor=tensor,
        boundary=boundary(kinds),
        values=pairs(value, kinds, D),
        flux=pairs(flux, kinds, N),
        mean="project",
        tol=1e-11,
    )
    if all(word == N for pair in kinds for word in pair):
        x, y = scheme.axes_of(grid, kinds)
        u = u - np.average(u, weights=np.outer(x.dual, y.dual))
    return np.sqrt(np.mean((solution.u - u) ** 2))


@KINDS
@CENTRED
@pytest.mark.parametrize("tensor", [False, True], ids=["scalar", "tensor"])
def test_order_two_for_every_mixture(kinds, centering, tensor):
    errors = [error(Grid((m + (centering == "node"),) * 2, centering=centering), kinds, tensor) for m in (48, 96, 192)]
    rates = np.log2(np.array(errors[:-1]) / errors[1:])
    assert abs(rates[-1] - 2.0) < 0.1, (errors, rates)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda m: Grid((m + 1, 2 * m + 1), ((0, 1), (0, 3.0))), id="rectangle"),
        pytest.param(lambda m: Grid((4 * m, m), centering="cell"), id="unequal-spacing"),
        pytest.param(lambda m: Grid((m, m), ((0, 1 - 0.4 / (m - 0.6)),) * 2, domain=((0, 1),) * 2), id="short"),
    ],
)
@pytest.mark.parametrize("kinds", [MIXTURES[3], MIXTURES[4]], ids=["dnnd", "nndn"])
def test_order_two_on_every_kind_of_grid(make, kinds):
    errors = [error(make(m), kinds, True) for m in (40, 80, 160)]
    rates = np.log2(np.array(errors[:-1]) / errors[1:])
    assert abs(rates[-1] - 2.0) < 0.1, (errors, rates)


@ENGINES
@CENTRED
def test_flow_cell_and_given_flux_are_linear_exactly(backend, centering):
    grid = Grid((30, 17), ((0, 2), (0, 1)), centering)
    x = grid.coordinates()[0][:, None]
    options = dict(forcing=0.0, backend=backend, tol=1e-12)
    cell = darcy.solve(np.full(grid.shape, 7.0), grid, boundary={"y": N}, values={"x": (1, 0)}, **options)
    assert np.abs(cell.u - (1 - x / 2)).max() < 1e-11
    driven = {"boundary": {"x": (N, D), "y": N}, "flux": {"x": (3.0, 0)}, "values": {"x": (0, 5)}}
    assert (
        np.abs(darcy.solve(np.full(grid.shape, 7.0), grid, **driven, **options).u - (5 + 3 / 7 * (2 - x))).max() < 1e-10
    )
    through = darcy.solve(np.full(grid.shape, 7.0), grid, boundary=N, flux={"x": (3.0, -3.0)}, **options)
    assert np.abs(through.u - 3 / 7 * (1 - x)).max() < 1e-11


@CENTRED
@BOTH
def test_layers_have_the_harmonic_mean_across_and_the_arithmetic_mean_along(centering, backend):
    """Effective conductivity = flow through the wall x = 0 for a drop of one, by the grid's own quadrature."""
    grid = Grid((33, 24), centering=centering)
    rng = np.random.default_rng(3)
    axes = scheme.axes_of(grid, ((D, D), (N, N)))

    def flow(a, u):
        c = scheme.wall_conductance(scheme.padded(torch.from_numpy(a)[None, None], axes), axes, 0, 0)[0].numpy()
        return (c * (1 - u[axes[0].unknown][0])).sum()

    def solved(a):
        return darcy.solve(
            a, grid, forcing=0.0, boundary={"y": N}, values={"x": (1, 0)}, tol=1e-13, backend=backend, on_failure="flag"
        ).u

    weights = [np.full(n, h) for n, h in zip(grid.shape, grid.spacing)]
    if centering == "node":
        for w in weights:
            w[[0, -1]] /= 2
    across = np.broadcast_to(np.exp(rng.standard_normal(33))[:, None], grid.shape).copy()
    assert flow(across, solved(across)) == pytest.approx(1 / (weights[0] / across[:, 0]).sum(), rel=1e-11)
    along = np.broadcast_to(np.exp(rng.standard_normal(24)), grid.shape).copy()
    u = solved(along)
    assert flow(along, u) == pytest.approx((weights[1] * along[0]).sum(), rel=1e-11)
    assert np.abs(u - (1 - grid.coordinates()[0])[:, None]).max() < 1e-11


@ENGINES
@KINDS
def test_what_flows_in_is_what_the_sources_take(backend, kinds, field):
    """Σ f·area + Σ g·width + Σ c (v − u) = 0 over the cells solved for, to round-off."""
    grid = Grid((40, 40))
    rng = np.random.default_rng(1)
    a, f, v, g = field("100", 40, 1)[0], rng.standard_normal((40, 40)), sides(grid, rng), sides(grid, rng)
    x, y = axes = scheme.axes_of(grid, kinds)
    if kinds == MIXTURES[-1]:
        f -= ((np.outer(x.dual, y.dual) * f).sum() + sum((g[s] * axes[1 - s[0]].dual).sum() for s in g)) / 1.0
    u = darcy.solve(
        a,
        forcing=f,
        boundary=boundary(kinds),
        values=pairs(v, kinds, D),
        flux=pairs(g, kinds, N),
        tol=1e-12,
        backend=backend,
        on_failure="flag",
    ).u
    balance = [(np.outer(x.dual, y.dual) * f[x.unknown, y.unknown]).sum()]
    padded = scheme.padded(torch.from_numpy(a)[None, None], axes)
    for k, end in g:
        other = axes[1 - k]
        if kinds[k][end] == N:
            balance.append((other.dual * g[k, end][other.unknown]).sum())
        else:
            c = scheme.wall_conductance(padded, axes, k, end)[0].numpy()
            first = (u[x.unknown, y.unknown] if k == 0 else u[x.unknown, y.unknown].T)[end]
            balance.append((c * (v[k, end][other.unknown] - first)).sum())
    assert abs(sum(balance)) <= 1e-9 * sum(map(abs, balance))


@BOTH
@KINDS
def test_transposing_everything_transposes_u(backend, kinds):
    grid, turned = Grid((24, 35), ((0, 1), (0, 2))), Grid((35, 24), ((0, 2), (0, 1)))
    rng = np.random.default_rng(2)
    a = np.exp(rng.standard_normal((2, *grid.shape))) * np.array([30.0, 1.0])[:, None, None]
    f, v, g = rng.standard_normal(grid.shape), sides(grid, rng), sides(grid, rng)
    options = dict(tensor=True, mean="project", tol=1e-12, backend=backend)
    u = darcy.solve(
        a, grid, forcing=f, boundary=boundary(kinds), values=pairs(v, kinds, D), flux=pairs(g, kinds, N), **options
    ).u
    v, g = ({(1 - k, end): w for (k, end), w in data.items()} for data in (v, g))
    kinds = kinds[::-1]
    other = darcy.solve(
        a[::-1].transpose(0, 2, 1),
        turned,
        forcing=f.T,
        boundary=boundary(kinds),
        values=pairs(v, kinds, D),
        flux=pairs(g, kinds, N),
        **options,
    ).u
    assert np.abs(other.T - u).max() <= 1e-10 * np.abs(u).max()


@BOTH
def test_equal_components_are_the_scalar_and_constants_scale(backend, field):
    a = field("100", 45, 2)
    options = dict(boundary={"x": (N, D), "y": N}, values={"x": (0, 2)}, tol=1e-9, backend=backend)
    scalar = darcy.solve(a, **options)
    pair = darcy.solve(np.stack([a, a], 1), tensor=True, **options)
    assert np.array_equal(pair.u, scalar.u) and np.array_equal(pair.iterations, scalar.iterations)
    # diag(4, 1) on the unit square is 1 on (0, ½) × (0, 1)
    f = np.random.default_rng(0).standard_normal((45, 45))
    stretched = darcy.solve(
        np.ones((2, 45, 45)) * np.array([4.0, 1.0])[:, None, None], forcing=f, tensor=True, tol=1e-12
    )
    squeezed = darcy.solve(np.ones((45, 45)), Grid((45, 45), ((0, 0.5), (0, 1))), forcing=f, tol=1e-12)
    assert np.abs(stretched.u - squeezed.u).max() <= 1e-10 * np.abs(squeezed.u).max()


@ENGINES
def test_a_constant_on_the_walls_is_added_to_u(backend, field):
    a, f = field("lognormal1", 40, 2), np.random.default_rng(0).standard_normal((40, 40))
    v = {"x": (np.linspace(0, 1, 40) ** 2, -1.0)}
    options = dict(boundary={"y": (N, D)}, backend=backend)
    base = darcy.solve(a, forcing=f, values=v, tol=1e-11, **options)
    raised = {axis: tuple(side + 300 for side in pair) for axis, pair in (v | {"y": (0, 0)}).items()}
    raised["y"] = (0, 300)
    up = darcy.solve(a, forcing=f, values=raised, tol=1e-11, **options)
    assert np.abs(up.u - 300 - base.u).max() <= 1e-9 * np.abs(base.u).max()
    flat = darcy.solve(a, forcing=0.0, values=-2.75, **options)
    assert (flat.u == -2.75).all() and (flat.iterations == 0).all() and (flat.residual == 0).all()
    far = darcy.solve(a, forcing=f, values=1e9, on_failure="flag", **options)
    again = darcy.residual(a, far.u, forcing=f, values=1e9, boundary={"y": (N, D)})
    assert np.array_equal(far.status == "floor_limited", far.residual > 1e-8) and np.allclose(again, far.residual)


def test_the_given_values_stand_on_the_wall_nodes():
    v, w = np.linspace(1, 2, 10), np.linspace(5, 6, 8)
    u = darcy.solve(np.ones((8, 10)), values={"x": (v, 0), "y": (w, 0)}).u
    assert np.array_equal(u[0, 1:-1], v[1:-1]) and np.array_equal(u[1:-1, 0], w[1:-1]) and (u[-1, 1:] == 0).all()
    assert u[0, 0] == (v[0] + w[0]) / 2 and u[0, -1] == v[-1] / 2 and u[-1, 0] == w[-1] / 2
    batch = np.stack([v, 2 * v])
    both = darcy.solve(np.ones((2, 8, 10)), values={"x": (batch, 0)}, boundary={"y": N}).u
    assert (
        np.array_equal(both[:, 0], batch)
        and np.abs(
            both[1] - darcy.solve(np.ones((8, 10)), forcing=1.0, values={"x": (2 * v, 0)}, boundary={"y": N}).u
        ).max()
        == 0
    )


def well_pair(grid: Grid) -> np.ndarray:
    """A source in the corner (0, 0) and a sink in the corner (1, 1), one unit of flow each."""
    f = np.zeros(grid.shape)
    f[0, 0], f[-1, -1] = 1 / grid.weights()[0, 0], -1 / grid.weights()[-1, -1]
    return f


@ENGINES
@CENTRED
def test_source_and_sink_between_closed_walls(backend, centering, field):
    """Mean zero, symmetric about both diagonals for a = 1, and reciprocal: ⟨f₁, u₂⟩ = ⟨f₂, u₁⟩ for any a."""
    grid = Grid((41, 41), centering=centering)
    f, w = well_pair(grid), grid.weights()
    one = darcy.solve(np.ones(grid.shape), grid, boundary=N, forcing=f, backend=backend, tol=1e-11)
    assert one.status == "ok" and one.residual <= 1e-11
    size = np.abs(one.u).max()
    assert np.abs(one.u - one.u.T).max() <= 1e-9 * size and np.abs(one.u + one.u[::-1, ::-1]).max() <= 1e-9 * size
    assert abs((w * one.u).sum()) <= 1e-14 * size
    other = np.zeros(grid.shape)
    other[5, 30], other[20, 3] = 1 / w[5, 30], -1 / w[20, 3]
    a = np.stack([field("100", 41, 1)[0], field("lognormal1", 41, 1)[0]])
    pair = darcy.solve(np.stack([a, a]), grid, tensor=True, boundary=N, forcing=np.stack([f, other]), backend=backend)
    assert (w * f * pair.u[1]).sum() == pytest.approx((w * other * pair.u[0]).sum(), rel=1e-6)


def test_closed_walls_that_do_not_balance_are_refused():
    a = np.ones((2, 20, 20))
    f = np.stack([np.zeros((20, 20)), np.ones((20, 20))])
    with pytest.raises(ValueError, match=r"sample 1: ∫f \+ ∮flux = 1 .*mean='project'"):
        darcy.solve(a, boundary=N, forcing=f)
    with pytest.raises(ValueError, match=r"^∫f \+ ∮flux = -0.5 "):
        darcy.solve(a[0], boundary=N, forcing=0.0, flux={"x": (0, -0.5)})
    assert (
        darcy.solve(a, boundary=N, forcing=1.0, flux=-0.25).residual.max() <= 1e-8
    )  # 1 in, a quarter out of each side
    f[1] += np.random.default_rng(0).standard_normal((20, 20))
    projected = darcy.solve(a, boundary=N, forcing=f, mean="project")
    shifted = darcy.solve(a, boundary=N, forcing=f - 17.0, mean="project")
    assert np.abs(projected.u - shifted.u).max() <= 1e-12 * np.abs(projected.u).max()
    assert (projected.residual <= 1e-8).all() and (projected.u[0] == 0).all()
    assert np.allclose(
        darcy.residual(a, projected.u, forcing=f, boundary=N, mean="project"), projected.residual, atol=1e-13
    )


@CENTRED
@BOTH
def test_iterations_do_not_grow_with_the_grid(centering, backend, field):
    for n in (33, 64, 129, 257) if backend == "numba" else (33, 64, 129):
        grid = Grid((n, n), centering=centering)
        f = np.cos(np.pi * grid.meshgrid()[0])
        a = np.concatenate([field(kind, n, 2) for kind in ("4", "100", "lognormal1")])
        ceilings = np.array([11, 11, 16, 16, 11, 11])
        for kinds in MIXTURES[1:]:
            solution = darcy.solve(a, grid, forcing=f, boundary=boundary(kinds), mean="project", backend=backend)
            assert (solution.status == "ok").all() and (solution.iterations <= ceilings).all(), (n, kinds, solution)


@pytest.mark.parametrize("ratio", [0.01, 0.1, 3.0, 10.0, 100.0, 1e4])
def test_iterations_do_not_grow_with_anisotropy_along_the_axes(ratio, field):
    for n in (33, 64, 129, 257):
        a = field("lognormal1", n, 2)
        a = np.stack([ratio * a, a], 1)
        for options in (
            {},
            {"boundary": {"x": (D, N), "y": N}},
            {"boundary": N, "mean": "project", "forcing": a[:, 0]},
        ):
            solution = darcy.solve(a, tensor=True, **options)
            assert (solution.status == "ok").all() and (solution.iterations <= 15).all(), (n, solution.iterations)


def test_strips_and_flat_cells_are_anisotropy_too():
    for shape in ((5, 700), (300, 40), (40, 300)):
        solution = darcy.solve(np.exp(0.3 * np.random.default_rng(0).standard_normal(shape)), boundary={"x": (N, D)})
        assert solution.status == "ok" and solution.iterations <= 12


@BOTH
def test_a_sample_that_overflows_leaves_nothing_to_the_next_one(backend, field, monkeypatch):
    """Points in float32 do not survive a ratio that runs from e^-30 to e^30."""
    from sciops.pde.darcy import engines

    monkeypatch.setattr(engines, "_TURNING", np.inf)
    g = np.log(field("lognormal1", 65, 1)[0])
    bad, good = (np.exp(np.stack([c * g, -c * g])) for c in (4.0, 0.5))
    together = darcy.solve(np.stack([bad, good]), tensor=True, backend=backend, tol=1e-7, threads=1)
    assert (together.status == "ok").all() and (together.method == f"multigrid-{backend}").all()
    alone = darcy.solve(good, tensor=True, backend=backend, tol=1e-7, threads=1)
    np.testing.assert_allclose(together.u[1], alone.u, rtol=0, atol=0 if backend == "numba" else 1e-6 * alone.u.max())


def test_a_sample_does_not_see_its_batch_bitwise(field):
    """Samples that are coarsened in different ways and turned, in one batch and alone."""
    a = np.stack([field("lognormal1", 50, 4), field("4", 50, 4)], 1)
    a *= np.array([[1, 1], [100, 1], [1, 100], [1, 30]])[:, :, None, None]
    v = np.random.default_rng(0).standard_normal((4, 50))
    options = dict(tensor=True, boundary={"x": (D, N), "y": N}, backend="numba")
    whole = darcy.solve(a, values={"x": (v, 0)}, **options)
    for threads in (1, 3):
        back = darcy.solve(a[::-1], values={"x": (v[::-1].copy(), 0)}, threads=threads, **options)
        assert np.array_equal(back.u[::-1], whole.u) and np.array_equal(back.residual[::-1], whole.residual)
    for i in range(4):
        alone = darcy.solve(a[i], values={"x": (v[i], 0)}, **options)
        assert np.array_equal(alone.u, whole.u[i]) and alone.iterations == whole.iterations[i]
    torch_too = darcy.solve(a, values={"x": (v, 0)}, **options | {"backend": "torch"})
    assert np.abs(torch_too.u - whole.u).max() <= 1e-7 * np.abs(whole.u).max()


@BOTH
def test_small_grids_between_closed_walls(backend):
    rng = np.random.default_rng(4)
    for nx, ny in [(2, 2), (2, 7), (9, 2), (3, 3), (4, 5), (11, 6), (12, 16)]:
        for centering in ("node", "cell"):
            grid = Grid((nx, ny), centering=centering)
            a, f = np.exp(rng.standard_normal((2, nx, ny))), rng.standard_normal((2, nx, ny))
            solved, direct = (
                darcy.solve(a, grid, boundary=N, forcing=f, mean="project", backend=b, tol=1e-11)
                for b in (backend, "direct")
            )
            assert np.abs(solved.u - direct.u).max() <= 1e-9 * np.abs(direct.u).max()
    row = darcy.solve(
        np.ones((1, 5)), Grid((1, 5), centering="cell"), forcing=0.0, boundary={"x": N}, values={"y": (1, 0)}
    )
    assert np.allclose(row.u, [[0.9, 0.7, 0.5, 0.3, 0.1]], atol=1e-7)
    assert darcy.solve(np.ones((1, 1)), Grid((1, 1), centering="cell"), **SPOT, backend=backend).u == 0.0


def test_kinds_of_input_and_gradients_of_the_residual(field):
    a = torch.from_numpy(np.stack([field("4", 20, 2), field("100", 20, 2)], 1))
    options = dict(tensor=True, boundary={"y": N}, values={"x": (torch.ones(20), 0)})
    solution = darcy.solve(a, **options)
    assert isinstance(solution.u, torch.Tensor)
    assert np.array_equal(darcy.solve(a.numpy(), **options).u, solution.u.numpy())
    u = solution.u.mul(1.1).requires_grad_()
    darcy.residual(a, u, **options).sum().backward()
    assert torch.isfinite(u.grad).all() and (u.grad[:, 1:-1] != 0).any() and (u.grad[:, 0] == 0).all()
    words = [N, (N, N), {"x": N, "y": (N, N)}, {"x": (N, N), "y": N}]
    f = well_pair(Grid((20, 20)))
    one, *others = (darcy.solve(a, tensor=True, forcing=f, boundary=word).u for word in words)
    assert all(torch.equal(one, other) for other in others)


def test_bad_walls_say_what_was_expected(field):
    a = field("4", 10, 2)
    for options, message in [
        ({"boundary": "wall"}, r"boundary='wall': expected 'dirichlet', 'neumann', 'robin' or 'periodic'"),
        ({"boundary": {"x": [["neumann"], 1]}}, "expected 'dirichlet'"),
        ({"boundary": {"z": N}}, r"keys \['z'\]; expected 'x' and 'y'"),
        ({"boundary": {"x": (N, D, N)}}, "such as"),
        ({"boundary": 3}, "boundary=3"),
        ({"values": {"x": (1, 2, 3)}}, r"values\['x'\] has 3 entries"),
        ({"values": {"left": 1}}, r"values has the keys \['left'\]"),
        ({"values": np.ones(9)}, r"values on the low x side has shape \(9,\); expected a number, \(10,\) or \(2, 10\)"),
        ({"values": np.nan}, "values on the low x side holds NaN"),
        ({"flux": 1.0}, "flux on the low x side is not zero, but that side is 'dirichlet'"),
        ({"boundary": {"x": N}, "values": {"x": 1.0}}, "that side is 'neumann': pass it as flux"),
        ({"boundary": N, "mean": "keep"}, "mean='keep': expected 'refuse' or 'project'"),
        ({"tensor": True}, r"expected \(batch, 2, nx, ny\) or \(2, nx, ny\) with tensor=True"),
    ]:
        b = np.ones((3, 10, 10)) if "tensor" in options else a
        with pytest.raises(ValueError, match=message):
            darcy.solve(b, **options)
    with pytest.raises(ValueError, match="or pass tensor=True"):
        darcy.solve(np.ones((4, 2, 10, 10)))
    bad = np.ones((3, 2, 10, 10))
    bad[2, 1, 3, 4] = -1
    with pytest.raises(ValueError, match=r"a\[2, 1, 3, 4\] = -1"):
        darcy.solve(bad, tensor=True)


def test_the_residual_is_differentiable_in_coefficient_source_and_flux_too(field):
    a, f, g = (torch.from_numpy(x).requires_grad_() for x in (field("4", 6, 2), np.ones((6, 6)), np.linspace(1, 2, 6)))
    u = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 6, 6))).requires_grad_()

    def rho(a, u, f, g):
        return darcy.residual(a, u, forcing=f, boundary={"x": (D, N)}, values={"x": (0.5, 0)}, flux={"x": (0, g)})

    assert torch.autograd.gradcheck(rho, (a, u, f, g), atol=1e-7, fast_mode=True)


def test_a_residual_of_several_fields_needs_as_many_coefficients():
    u = np.zeros((3, 10, 10))
    for a in (np.ones((10, 10)), np.ones((2, 10, 10))):
        with pytest.raises(ValueError, match=r"u has shape \(3, 10, 10\); expected \(10, 10\)"):
            darcy.residual(a, u)
    assert darcy.residual(np.ones((3, 10, 10)), u[0]).shape == (3,)


@pytest.mark.gpu
def test_walls_and_tensors_on_a_device(field):
    a = np.stack([field("100", 85, 4), field("lognormal1", 85, 4)], 1) * np.array([30.0, 1.0])[:, None, None]
    for options in (
        {"boundary": {"x": D, "y": N}, "values": {"x": (1, 0)}},
        {"boundary": N, "mean": "project", "forcing": field("lognormal1", 85, 4)},
    ):
        cpu = darcy.solve(a, tensor=True, backend="torch", **options)
        device = darcy.solve(torch.from_numpy(a).cuda(), tensor=True, **options)
        assert device.u.is_cuda and (device.residual <= 1e-8).all()
        assert np.abs(device.u.cpu().numpy() - cpu.u).max() <= 1e-6 * np.abs(cpu.u).max()
