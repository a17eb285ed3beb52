"""Resampling: each method against the functions it must reproduce, its adjoint, its kinds and its refusals."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest
import torch
from scipy.interpolate import CubicSpline

from sciops import Grid, resample, restrict
from sciops.resampling.trigonometric import trigonometric

SHORT16 = Grid((16, 16), extent=390 / 420, domain=(0, 1))
SHORT32 = Grid((32, 32), extent=403 / 420, domain=(0, 1))


def periodic(*shape):
    return Grid(shape, centering="periodic")


def noise(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


# ------------------------------------------------------------------------------------------------------ sine and cosine


def waves(grid, functions, p, q):
    (a, b), (c, d) = grid.domain
    x, y = grid.meshgrid()
    return functions(np.pi * p * (x - a) / (b - a)) * functions(np.pi * q * (y - c) / (d - c))


@pytest.mark.parametrize(
    ("source", "top"),
    [
        (Grid((8, 13)), (6, 11)),
        (Grid((9, 9), extent=((-1, 2), (0, 0.1))), (7, 7)),
        (Grid((7, 10), centering="cell"), (7, 10)),
        (SHORT16, (15, 15)),
        (Grid((6, 6), extent=(0.25, 1), domain=(0, 1.125)), (6, 6)),
    ],
    ids=["nodes", "box", "cells", "16 of 420", "both walls off"],
)
@pytest.mark.parametrize("centering", ["node", "cell"])
def test_sine_is_exact_on_every_mode_the_source_can_hold(source, top, centering):
    for shape in ((30, 41), (top[0] + 2, top[1] + 2)):
        target = Grid(shape, extent=source.domain, centering=centering)
        for p, q in product({1, 2, top[0]}, {1, top[1] - 1, top[1]}):
            u = waves(source, np.sin, p, q)
            got = resample(u, source, target, "sine", wall="zero")
            np.testing.assert_allclose(got, waves(target, np.sin, p, q), atol=1e-10)


def test_sine_between_the_short_grids_of_the_public_file():
    for p, q in product((1, 7, 15), repeat=2):
        u, want = (waves(g, np.sin, p, q) for g in (SHORT16, SHORT32))
        np.testing.assert_allclose(resample(u, SHORT16, SHORT32), want, atol=1e-12)
        np.testing.assert_allclose(resample(want, SHORT32, SHORT16), u, atol=1e-12)  # both hold 15 modes


def test_naive_padding_of_a_sine_is_wrong_by_one_over_n():
    errors = []
    for n in (17, 33, 65):
        source, target = Grid((n, n)), Grid((2 * n - 1,) * 2)
        u, want = (waves(g, np.sin, 2, 2) for g in (source, target))
        miss = resample(u, source, target, "fourier", aligned=False) - want
        errors.append(np.linalg.norm(miss) / np.linalg.norm(want))
        assert np.abs(resample(u, source, target, "sine") - want).max() < 1e-13
    assert np.log2(errors[0] / errors[1]) == pytest.approx(1, abs=0.2)
    assert np.log2(errors[1] / errors[2]) == pytest.approx(1, abs=0.1)
    assert errors[2] > 0.01


@pytest.mark.parametrize("centering", ["node", "cell"])
def test_cosine_is_exact_on_every_mode_the_source_can_hold(centering):
    source = Grid((8, 11), extent=((0, 3), (-1, 1)), centering=centering)
    for target_centering, shape in product(("node", "cell"), ((20, 30), (9, 12))):
        target = Grid(shape, extent=source.extent, centering=target_centering)
        for p, q in product((0, 1, 7), (0, 4, 10)):
            got = resample(waves(source, np.cos, p, q), source, target, "cosine")
            np.testing.assert_allclose(got, waves(target, np.cos, p, q), atol=1e-13)


@pytest.mark.parametrize(("method", "functions"), [("sine", np.sin), ("cosine", np.cos)])
@pytest.mark.parametrize("centering", ["node", "cell"])
def test_to_a_coarser_grid_modes_are_dropped_not_folded(method, functions, centering):
    fine, coarse = Grid((21, 21), centering=centering), Grid((9, 9), centering=centering)
    top = {("sine", "node"): 7, ("sine", "cell"): 9, ("cosine", "node"): 8, ("cosine", "cell"): 8}[method, centering]
    for p, q in ((2, 3), (top, 1), (top + 1, 1), (2, top + 4)):
        got = resample(
            waves(fine, functions, p, q), fine, coarse, method, **{"wall": "zero"} if method == "sine" else {}
        )
        kept = max(p, q) <= top
        np.testing.assert_allclose(got, waves(coarse, functions, p, q) if kept else 0 * got, atol=1e-13)
    u = noise(9, 9)
    if (method, centering) == ("sine", "node"):
        u[[0, -1]] = u[:, [0, -1]] = 0
    options = {"wall": "zero"} if method == "sine" else {}
    up = resample(u, coarse, fine, method, **options)
    np.testing.assert_allclose(resample(up, fine, coarse, method, **options), u, atol=1e-13)


def test_sine_warns_of_wall_values_with_their_size():
    source, target = Grid((9, 9)), Grid((17, 17))
    u = waves(source, np.sin, 1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resample(u + 1e-9, source, target)  # round-off is no wall value
        resample(np.ones((16, 16)), SHORT16, SHORT32, wall="zero")
    bad = u.copy()
    bad[0] += 0.25
    for _ in range(2):  # every time: what a process did before does not matter
        with pytest.warns(UserWarning, match="reaches 0.2 of its maximum") as caught:
            warned = resample(bad, source, target)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(resample(bad, source, target, wall="zero"), warned)
    np.testing.assert_allclose(warned, resample(u, source, target), atol=1e-15)  # wall values do not enter
    # the first row of a grid that stops short at its end is on the wall, its last row is not
    v = waves(SHORT16, np.sin, 1, 1)
    assert np.abs(v[-1]).max() > 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resample(v, SHORT16, SHORT32)
    with pytest.warns(UserWarning, match="on the walls"):
        resample(np.cos(v), SHORT16, SHORT32)


# ----------------------------------------------------------------------------------------------- linear, cubic, nearest


def test_cubic_is_scipys_spline():
    source = Grid((9, 13), extent=((0, 1), (-1, 3)))
    u = noise(2, 9, 13)
    for target in (Grid((33, 20), extent=source.extent), Grid((5, 50), extent=source.extent, centering="cell")):
        (x, y), (s, t) = source.coordinates(), target.coordinates()
        want = CubicSpline(y, CubicSpline(x, u, axis=1)(s), axis=2)(t)
        np.testing.assert_allclose(resample(u, source, target, "cubic"), want, atol=1e-12)
    wall = resample(u[0, :, 0], Grid((9,), domain=(-0.1, 1.2)), Grid((40,), extent=(-0.1, 1.2)), "cubic", wall="zero")
    knots, values = np.r_[-0.1, source.coordinates()[0], 1.2], np.r_[0, u[0, :, 0], 0]
    np.testing.assert_allclose(wall, CubicSpline(knots, values)(np.linspace(-0.1, 1.2, 40)), atol=1e-12)
    loop = resample(u[0, :, 0], periodic(9), periodic(31), "cubic")
    closed = CubicSpline(np.arange(10) / 9, np.r_[u[0, :, 0], u[0, 0, 0]], bc_type="periodic")
    np.testing.assert_allclose(loop, closed(np.arange(31) / 31), atol=1e-12)


@pytest.mark.parametrize(("method", "degree", "order"), [("linear", 1, 2), ("cubic", 3, 4)])
def test_polynomials_and_orders(method, degree, order):
    source, target = Grid((7, 6), extent=((0, 1), (2, 5))), Grid((20, 17), extent=((0, 1), (2, 5)), centering="cell")
    for p, q in product(range(degree + 1), repeat=2):
        u, want = (g.meshgrid()[0] ** p * g.meshgrid()[1] ** q for g in (source, target))
        np.testing.assert_allclose(resample(u, source, target, method), want, rtol=1e-12, atol=1e-12)
        # cell to node: the outer half cell is extended, and still exact
        np.testing.assert_allclose(resample(want, target, source, method), u, rtol=1e-10, atol=1e-10)
    errors = {}
    for kind, centering in product(("free", "periodic"), ("node", "periodic")):
        if (kind == "periodic") != (centering == "periodic"):
            continue
        errors[kind] = []
        for n in (24, 48, 96):
            f = lambda x: np.sin(2 * np.pi * x) + np.cos(6 * np.pi * x)  # noqa: E731
            a, b = Grid((n,), centering=centering), Grid((997,), centering=centering)
            got = resample(f(a.coordinates()[0]), a, b, method)
            errors[kind].append(np.abs(got - f(b.coordinates()[0])).max())
        assert np.log2(errors[kind][1] / errors[kind][2]) == pytest.approx(order, abs=0.25)


def test_linear_is_numpys_interp_with_walls_and_wrap():
    u = noise(16)
    source, target = (Grid((g.shape[0],), g.extent[:1], domain=g.domain[:1]) for g in (SHORT16, SHORT32))
    (x,), (t,) = source.coordinates(), target.coordinates()
    np.testing.assert_allclose(
        resample(u, source, target, "linear", wall="zero"), np.interp(t, np.r_[x, 1.0], np.r_[u, 0.0]), atol=1e-15
    )
    end = u[-1] + (u[-1] - u[-2]) / 2  # without the wall: half a spacing beyond the last point
    assert resample(u, source, target, "linear")[-1] == pytest.approx(end, rel=1e-12)
    cells, nodes = Grid((4,), centering="cell"), Grid((9,))
    walled = resample(np.ones(4), cells, nodes, "linear", wall="zero")
    np.testing.assert_allclose(walled, [0, 1, 1, 1, 1, 1, 1, 1, 0], atol=1e-15)
    ring = resample(u, periodic(16), periodic(48), "linear")
    np.testing.assert_allclose(ring, np.interp(np.arange(48) / 48, np.arange(17) / 16, np.r_[u, u[0]]), atol=1e-14)


def test_nearest_keeps_two_valued_fields():
    a = np.where(noise(12, 9) > 0, 12.0, 3.0)
    source, target = Grid((12, 9)), Grid((40, 33))
    got = resample(a, source, target, "nearest")
    assert set(np.unique(got)) <= {3.0, 12.0}
    i, j = ([int(np.argmin(np.abs(x - s))) for s in t] for x, t in zip(source.coordinates(), target.coordinates()))
    assert np.array_equal(got, a[np.ix_(i, j)])
    # half way: the smaller coordinate; and a period wraps
    assert np.array_equal(resample(np.arange(3.0), Grid((3,)), Grid((5,)), "nearest"), [0, 0, 1, 1, 2])
    assert np.array_equal(
        resample(np.arange(3.0), periodic(3), periodic(12), "nearest"), [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 0]
    )
    assert np.array_equal(
        resample(np.arange(4.0), Grid((4,), centering="cell"), Grid((5,)), "nearest"), [0, 0, 1, 2, 3]
    )


# ----------------------------------------------------------------------------------------------------- for all methods

METHODS = ["sine", "cosine", "fourier", "linear", "cubic", "nearest"]


def example(method, short=False):
    if method == "fourier":
        return periodic(6, 7), periodic(9, 12), {}
    options = {"wall": "zero"} if method in ("sine", "linear", "cubic") else {}
    if short:
        return Grid((6, 7), extent=0.9, domain=(0, 1)), Grid((9, 12), extent=0.95, domain=(0, 1)), options
    return Grid((6, 7)), Grid((9, 12)), options


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("down", [False, True])
def test_adjoint_and_gradients(method, down):
    """⟨Px, y⟩ = ⟨x, Pᵀy⟩ with Pᵀ from autograd and P from unit vectors, and gradcheck."""
    source, target, options = example(method, short=True)
    if down:
        source, target = target, source
    x, y = (torch.from_numpy(noise(*g.shape, seed=s)) for s, g in enumerate((source, target)))
    x.requires_grad_()
    image = resample(x, source, target, method, **options)
    (adjoint,) = torch.autograd.grad(image, x, y)
    units = torch.eye(source.size, dtype=torch.float64).reshape(-1, *source.shape)
    matrix = resample(units, source, target, method, **options).reshape(source.size, -1)
    torch.testing.assert_close(adjoint.ravel(), matrix @ y.ravel(), rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(image.ravel(), x.ravel() @ matrix, rtol=1e-12, atol=1e-13)
    assert torch.autograd.gradcheck(lambda v: resample(v, source, target, method, **options), x)


@pytest.mark.parametrize("method", METHODS)
def test_kinds_dtypes_and_leading_axes(method):
    source, target, options = example(method)
    u = noise(2, 3, *source.shape)
    want = resample(u, source, target, method, **options)
    assert isinstance(want, np.ndarray) and want.dtype == np.float64
    for index in np.ndindex(2, 3):
        np.testing.assert_allclose(resample(u[index], source, target, method, **options), want[index], atol=1e-14)
    scale = np.abs(want).max()
    t = torch.from_numpy(u)
    for dtype, tolerance in ((torch.float64, 1e-15), (torch.float32, 2e-6), (torch.bfloat16, 2e-2)):
        got = resample(t.to(dtype), source, target, method, **options)
        assert got.dtype == dtype
        assert np.abs(got.double().numpy() - want).max() < tolerance * scale
    with torch.autocast("cpu", dtype=torch.bfloat16):  # the passage stays in full precision
        got = resample(t.float(), source, target, method, **options)
    assert got.dtype == torch.float32 and np.abs(got.double().numpy() - want).max() < 2e-6 * scale
    v = noise(2, 3, *source.shape, seed=1)
    both = resample(u + 1j * v, source, target, method, **options)
    np.testing.assert_allclose(both, want + 1j * resample(v, source, target, method, **options), atol=1e-14 * scale)
    strided = torch.from_numpy(noise(*source.shape[::-1], 4)).permute(2, 1, 0)
    np.testing.assert_allclose(
        resample(strided, source, target, method, **options),
        resample(strided.contiguous(), source, target, method, **options),
        atol=1e-14,
    )
    assert resample(np.empty((0, *source.shape)), source, target, method, **options).shape == (0, *target.shape)


@pytest.mark.parametrize("method", METHODS)
def test_one_and_three_axes_are_the_same_passage_axis_by_axis(method):
    centering = "periodic" if method == "fourier" else "cell"
    source, target = Grid((4, 5, 6), centering=centering), Grid((7, 3, 8), centering=centering)
    options = {"wall": "zero"} if method == "sine" else {}
    u = noise(*source.shape)
    want = u
    for axis, (a, b) in enumerate(zip(source.axes, target.axes)):
        lines = np.moveaxis(want, axis, -1)
        want = np.moveaxis(resample(lines, a, b, method, **options), -1, axis)
    np.testing.assert_allclose(resample(u, source, target, method, **options), want, atol=1e-13)


@pytest.mark.parametrize("method", METHODS)
def test_same_points_return_the_input_to_the_bit(method):
    grid = periodic(6, 7) if method == "fourier" else SHORT16
    u = torch.from_numpy(noise(2, *grid.shape)).to(torch.bfloat16)
    assert resample(u, grid, Grid.from_dict(grid.to_dict()), method) is u
    v = noise(2, *grid.shape)
    v[0, 1, 1] = np.nan
    assert np.array_equal(resample(v, grid, grid, method), v, equal_nan=True)


@pytest.mark.parametrize("method", ["linear", "cubic", "nearest"])
def test_sampling_methods_stride_nested_nodes(method):
    fine = Grid((421, 61))
    u = noise(421, 61)
    coarse = fine.coarsen(5)
    assert np.array_equal(resample(u, fine, coarse, method), restrict(u, fine, coarse))


@pytest.mark.parametrize("method", ["sine", "cosine", "linear", "cubic"])
def test_refined_nodes_keep_their_samples_to_the_bit(method):
    source, target = Grid((43, 12)), Grid((85, 34))
    u = noise(43, 12)
    u[[0, -1]] = u[:, [0, -1]] = 0
    assert np.array_equal(resample(u, source, target, method)[::2, ::3], u)


def test_matrices_cached_under_inference_mode_still_train():
    source, target = Grid((5, 6), extent=7.0), Grid((9, 11), extent=7.0)
    with torch.inference_mode():
        resample(torch.zeros(5, 6), source, target, "cubic")
        trigonometric(torch.zeros(5), 0, *(Grid((n,), 7.0, "periodic") for n in (5, 9)), naive=False)
    x = torch.ones(5, 6, requires_grad=True)
    resample(x * x, source, target, "cubic").sum().backward()
    assert x.grad.isfinite().all() and (x.grad != 0).any()


@pytest.mark.parametrize(
    ("source", "target", "method", "options", "named"),
    [
        (Grid((5,)), Grid((9, 9)), "linear", {}, "number of axes"),
        (Grid((5, 5)), Grid((9, 9)), "spline", {}, "spline.*cubic"),
        (Grid((5, 5)), Grid((9, 9), extent=2.0), "linear", {}, "domain"),
        (periodic(5, 5), periodic(9, 9), "sine", {}, "no.*fourier|fourier"),
        (periodic(5, 5), Grid((9, 9)), "cosine", {}, "fourier"),
        (periodic(5, 5), periodic(9, 9), "cubic", {"wall": "zero"}, "walls"),
        (Grid((5, 5)), Grid((9, 9)), "nearest", {"wall": "zero"}, "wall='zero'"),
        (Grid((5, 5)), Grid((9, 9)), "linear", {"wall": "one"}, "wall='one'"),
        (Grid((5, 5)), Grid((9, 9)), "cubic", {"aligned": True}, "aligned"),
        (Grid((5, 5)), Grid((9, 9), centering="cell"), "fourier", {}, "aligned=True"),
        (SHORT16, SHORT32, "fourier", {"aligned": True}, "one period"),
        (Grid((5, 5), extent=0.7, domain=(0, 1)), Grid((9, 9)), "cubic", {}, "wall='zero'"),
        (Grid((5, 5), extent=0.7, domain=(0, 1)), Grid((9, 9)), "nearest", {}, "spacings beyond"),
        (Grid((30, 30), extent=0.4, domain=(0, 1)), Grid((9, 9)), "sine", {"wall": "zero"}, "told apart"),
        (Grid((30, 30), extent=0.4, domain=(0, 1)), Grid((9, 9)), "cosine", {}, "told apart"),
    ],
)
def test_refusals(source, target, method, options, named):
    with pytest.raises(ValueError, match=named):
        resample(np.zeros(source.shape), source, target, method, **options)


def test_reach_and_shape():
    short, full = Grid((5,), extent=0.7, domain=(0, 1)), Grid((11,))
    line = short.coordinates()[0] * 2 - 1
    np.testing.assert_allclose(
        resample(line, short, full, "linear", extrapolate=True), full.coordinates()[0] * 2 - 1, atol=1e-14
    )
    with pytest.raises(ValueError, match=r"\(6,\).*\(5,\)"):
        resample(np.zeros(6), short, full, "linear")


@pytest.mark.gpu
@pytest.mark.parametrize("method", METHODS)
def test_on_a_gpu(method):
    source, target, options = example(method)
    u = torch.from_numpy(noise(2, 3, *source.shape))
    got = resample(u.cuda(), source, target, method, **options)
    assert got.is_cuda
    torch.testing.assert_close(got.cpu(), resample(u, source, target, method, **options), rtol=0, atol=1e-13)
