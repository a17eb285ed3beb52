"""Robin walls, A∂u/∂n + βu = g: exact slabs, a dense system with the wall values as unknowns, order 2, limits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.pde import darcy
from sciops.pde.darcy import five_point as scheme

ENGINES = pytest.mark.parametrize("backend", ["numba", "torch", "direct"])
CENTRED = pytest.mark.parametrize("centering", ["node", "cell"])
D, N, R = "dirichlet", "neumann", "robin"
MIXTURES = [((R, R), (R, R)), ((R, D), (N, R)), ((N, N), (R, N)), ((D, R), (D, D))]
KINDS = pytest.mark.parametrize("kinds", MIXTURES, ids=["".join(w[0] for pair in k for w in pair) for k in MIXTURES])
GRIDS = {
    "nodes": Grid((7, 9), ((0, 1), (0, 0.6))),
    "cells": Grid((8, 5), ((0, 1), (-1, 0.6)), "cell"),
    "short": Grid((6, 7), ((0, 0.9), (0.2, 1.0)), domain=((0, 1), (0, 1))),
}


def by_axis(data: dict, kinds, *takers: str) -> dict:
    """{(axis, end): along the side} as the solver takes it, zero on sides of other kinds."""
    return {
        name: tuple(data[k, end] if kinds[k][end] in takers else 0.0 for end in (0, -1)) for k, name in enumerate("xy")
    }


def walls(kinds, v: dict, g: dict, beta: dict) -> dict:
    return {
        "boundary": {"x": kinds[0], "y": kinds[1]},
        "values": by_axis(v, kinds, D),
        "flux": by_axis(g, kinds, N, R),
        "transfer": by_axis(beta, kinds, R),
    }


def sides(grid: Grid, draw) -> dict:
    return {(k, end): draw(grid.shape[1 - k]) for k in (0, 1) for end in (0, -1)}


def with_wall_unknowns(a, f, grid: Grid, kinds, v, g, beta) -> np.ndarray:
    """u by a dense system in which every robin wall away from its point has a value w of its own, with
    a (w − u)/δ + βw = g; a is (2, nx, ny)."""
    axes = scheme.axes_of(grid, kinds)
    x, y = axes
    mx, my = x.size, y.size
    inner = a[:, x.unknown, y.unknown]
    along = {side: data[axes[1 - side[0]].unknown] for side, data in v.items()}
    g, beta = ({side: data[axes[1 - side[0]].unknown] for side, data in d.items()} for d in (g, beta))
    index = np.arange(mx * my).reshape(mx, my)
    rows = [(side, j) for side in g if kinds[side[0]][side[1]] == R for j in range(len(g[side]))]
    rows = [(side, j) for side, j in rows if axes[side[0]].gaps[side[1]] > 1e-12]
    number = {row: mx * my + i for i, row in enumerate(rows)}
    A, b = np.zeros((mx * my + len(rows),) * 2), np.zeros(mx * my + len(rows))
    b[: mx * my] = (np.outer(x.dual, y.dual) * f[x.unknown, y.unknown]).ravel()
    for k, c in ((0, inner[0]), (1, inner[1].T)):
        at = index if k == 0 else index.T
        h, dual = np.diff(grid.coordinates()[k][axes[k].unknown]), axes[1 - k].dual
        for i, j in itertools.product(range(at.shape[0] - 1), range(at.shape[1])):
            p, q = at[i, j], at[i + 1, j]
            face = 2 / (1 / c[i, j] + 1 / c[i + 1, j]) * dual[j] / h[i]
            A[p, p] += face
            A[q, q] += face
            A[p, q] -= face
            A[q, p] -= face
        for end in (0, -1):
            kind, gap, whole = kinds[k][end], axes[k].gaps[end], (a[0] if k == 0 else a[1].T)[:, axes[1 - k].unknown]
            for j in range(at.shape[1]):
                p = at[end, j]
                if kind == D:
                    known = whole[end, j] if not axes[k].pads[end] else c[end, j]
                    face = 2 / (1 / c[end, j] + 1 / known) * dual[j] / gap
                    A[p, p] += face
                    b[p] += face * along[k, end][j]
                elif kind == N:
                    b[p] += g[k, end][j] * dual[j]
                elif gap <= 1e-12:
                    A[p, p] += beta[k, end][j] * dual[j]
                    b[p] += g[k, end][j] * dual[j]
                else:
                    w, face = number[(k, end), j], c[end, j] * dual[j] / gap
                    A[p, p] += face
                    A[p, w] -= face
                    A[w, p] -= face
                    A[w, w] += face + beta[k, end][j] * dual[j]
                    b[w] += g[k, end][j] * dual[j]
    u = np.full(grid.shape, np.nan)
    u[x.unknown, y.unknown] = np.linalg.solve(A, b)[: mx * my].reshape(mx, my)
    return u


@KINDS
@pytest.mark.parametrize("name", GRIDS)
def test_three_engines_equal_a_dense_system(kinds, name):
    grid, rng = GRIDS[name], np.random.default_rng(8)
    a = np.exp(rng.standard_normal((2, 2, *grid.shape)))
    a[1, 0] *= 200.0
    f, v, g = rng.standard_normal(grid.shape), sides(grid, rng.standard_normal), sides(grid, rng.standard_normal)
    beta = sides(grid, lambda n: np.exp(2 * rng.standard_normal(n)))
    beta[0, 0][:3] = 0.0
    expected = np.stack([with_wall_unknowns(p, f, grid, kinds, v, g, beta) for p in a])
    inside, options = np.isfinite(expected[0]), walls(kinds, v, g, beta)
    for backend in ("numba", "torch", "direct"):
        solution = darcy.solve(a, grid, forcing=f, tensor=True, tol=2e-12, backend=backend, **options)
        assert np.abs(solution.u - expected)[:, inside].max() <= 1e-10 * np.abs(expected[:, inside]).max(), backend
        again = darcy.residual(a, solution.u, grid, f, tensor=True, **options)
        assert np.allclose(again, solution.residual, rtol=0.1, atol=2 * solution.floor.max())


@ENGINES
@CENTRED
def test_a_slab_is_three_resistances_in_series(backend, centering):
    """q = (v₀ − v₁)/(1/β₀ + L/a + 1/β₁), and u is linear between."""
    grid, a, (b0, b1), (v0, v1) = Grid((12, 7), ((0, 2), (0, 1)), centering), 3.0, (0.5, 40.0), (5.0, -1.0)
    q = (v0 - v1) / (1 / b0 + 2 / a + 1 / b1)
    u = darcy.solve(
        np.full(grid.shape, a),
        grid,
        forcing=0.0,
        boundary={"x": R, "y": N},
        transfer={"x": (b0, b1)},
        flux={"x": (b0 * v0, b1 * v1)},
        tol=1e-12,
        backend=backend,
    ).u
    assert np.abs(u - (v0 - q / b0 - q / a * grid.coordinates()[0])[:, None]).max() < 1e-11


@CENTRED
@KINDS
@pytest.mark.parametrize("tensor", [False, True], ids=["scalar", "tensor"])
def test_order_two(kinds, centering, tensor):
    def error(m):
        grid = Grid((m + (centering == "node"), m // 2 + (centering == "node")), centering=centering)

        def parts(x, y):
            u, ux, uy = np.sin(2 * x + 0.5) * np.exp(y / 2), 2 * np.cos(2 * x + 0.5) * np.exp(y / 2), None
            uy = 0.5 * u
            ax, ax_x = 2 + np.sin(3 * x + 1) * np.cos(2 * y), 3 * np.cos(3 * x + 1) * np.cos(2 * y)
            ay, ay_y = (7 + x * y, x) if tensor else (ax, -2 * np.sin(3 * x + 1) * np.sin(2 * y))
            return u, (ax * ux, ay * uy), -(ax_x * ux - 4 * ax * u + ay_y * uy + 0.25 * ay * u), np.stack([ax, ay])

        u, _, f, a = parts(*grid.meshgrid())
        v, g, beta = {}, {}, {}
        for k, end in itertools.product((0, 1), (0, -1)):
            wall, along = grid.domain[k][end], grid.coordinates()[1 - k]
            there, fluxes, _, _ = parts(*((wall + 0 * along, along) if k == 0 else (along, wall + 0 * along)))
            v[k, end], beta[k, end] = there, 1.5 + np.cos(3 * along)
            out = fluxes[k] * (1 if end else -1)
            g[k, end] = out + beta[k, end] * there if kinds[k][end] == R else out
        options = walls(kinds, v, g, beta)
        solution = darcy.solve(a if tensor else a[0], grid, forcing=f, tensor=tensor, tol=1e-11, **options)
        return np.sqrt(np.mean((solution.u - u) ** 2))

    errors = [error(m) for m in (48, 96, 192)]
    assert abs(np.log2(errors[1] / errors[2]) - 2.0) < 0.1, errors


@ENGINES
@CENTRED
def test_limits_are_a_given_value_and_a_given_flux(backend, centering, field):
    grid, a = Grid((20, 20), centering=centering), field("4", 20, 1)[0]
    options = dict(forcing=1.0, tol=1e-12, backend=backend)
    stiff = darcy.solve(
        a, grid, boundary={"x": (R, N), "y": N}, transfer={"x": (1e6, 0)}, flux={"x": (3e6, 0)}, **options
    )
    held = darcy.solve(a, grid, boundary={"x": (D, N), "y": N}, values={"x": (3.0, 0)}, **options)
    assert np.abs(stiff.u - held.u).max() < 1e-5
    loose = darcy.solve(a, grid, boundary={"x": (R, D)}, transfer={"x": (1e-11, 0)}, flux={"x": (2.0, 0)}, **options)
    given = darcy.solve(a, grid, boundary={"x": (N, D)}, flux={"x": (2.0, 0)}, **options)
    assert np.abs(loose.u - given.u).max() < 1e-8


@KINDS
@CENTRED
def test_the_matrix_is_symmetric_and_positive_definite(kinds, centering):
    grid, rng = Grid((6, 7), centering=centering), np.random.default_rng(0)
    axes = scheme.axes_of(grid, kinds)
    a = scheme.padded(torch.from_numpy(np.exp(rng.standard_normal((1, 2, 6, 7)))), axes)
    exchange = {
        (k, end): torch.from_numpy(np.exp(rng.standard_normal((1, axes[1 - k].size))))
        for k, end in itertools.product((0, 1), (0, -1))
        if kinds[k][end] == R
    }
    size = axes[0].size * axes[1].size
    faces = [face.expand(size, -1, -1) for face in scheme.conductances(a, axes, exchange)]
    A = scheme.apply(*faces, torch.eye(size).double().view(size, axes[0].size, axes[1].size)).reshape(size, size)
    assert (A - A.T).abs().max() <= 1e-14 * A.abs().max() and torch.linalg.eigvalsh(A).min() > 0


@pytest.mark.parametrize("backend", ["numba", "torch"])
@CENTRED
def test_what_the_sources_make_leaves_through_the_walls(backend, centering, field):
    """∫f = ∮(βu − g), u on the wall from a (u − w)/δ = βw − g."""
    grid, a = Grid((30, 20), centering=centering), field("100", 30, 1)[0][:, :20]
    beta, g = 0.3, 2.0
    u = darcy.solve(a, grid, boundary=R, transfer=beta, flux=g, tol=1e-12, backend=backend, on_failure="flag").u
    out = 0.0
    axes = scheme.axes_of(grid, ((R, R), (R, R)))
    for k, end in itertools.product((0, 1), (0, -1)):
        first, c = (u if k == 0 else u.T)[end], (a if k == 0 else a.T)[end] / max(axes[k].gaps[end], 1e-300)
        wall = (c * first + g) / (c + beta)
        out += ((beta * wall - g) * axes[1 - k].dual).sum()
    assert out == pytest.approx(1.0, rel=1e-8)


def test_samples_with_their_own_transfer_bitwise_alone_or_together(field):
    a = np.stack([field("4", 30, 3), field("lognormal1", 30, 3)], 1) * np.array([1, 1, 60.0])[:, None, None, None]
    a[2, 1] /= 60.0
    beta = np.exp(np.random.default_rng(0).standard_normal((3, 30)))
    options = dict(tensor=True, boundary={"x": R, "y": (R, D)}, backend="numba")
    whole = darcy.solve(a, transfer={"x": (beta, 1.0), "y": (beta, 0)}, values={"y": (0, 2.0)}, **options)
    assert (whole.status == "ok").all() and (whole.iterations <= 12).all()
    for i in range(3):
        one = darcy.solve(a[i], transfer={"x": (beta[i], 1.0), "y": (beta[i], 0)}, values={"y": (0, 2.0)}, **options)
        assert np.array_equal(one.u, whole.u[i])
    turned = darcy.solve(
        a[:, ::-1].transpose(0, 1, 3, 2).copy(),
        transfer={"y": (beta, 1.0), "x": (beta, 0)},
        values={"x": (0, 2.0)},
        **options | {"boundary": {"y": R, "x": (R, D)}},
    )
    assert np.abs(turned.u.transpose(0, 2, 1) - whole.u).max() <= 1e-6 * np.abs(whole.u).max()


def test_bad_robin_walls_say_what_was_expected():
    a = np.ones((2, 10, 10))
    for options, message in [
        ({"boundary": R}, "transfer on the low x side has to be ≥ 0, and > 0 somewhere in every sample"),
        ({"boundary": R, "transfer": -1.0}, "pass transfer, or boundary 'neumann' there"),
        ({"boundary": {"x": R}, "transfer": {"x": (1, 0)}}, "transfer on the high x side"),
        ({"boundary": R, "transfer": np.stack([np.ones(10), np.zeros(10)])}, "in every sample"),
        ({"transfer": 1.0}, "that side is 'dirichlet': boundary 'robin' there"),
        ({"boundary": R, "transfer": 1.0, "values": 1.0}, "that side is 'robin': pass it as flux"),
        ({"boundary": R, "transfer": np.ones(9)}, r"expected a number, \(10,\) or \(2, 10\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            darcy.solve(a, **options)
