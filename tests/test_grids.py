"""Grids: where the points lie, what the weights integrate, which grids are nested, and exact restriction."""

from __future__ import annotations

import json
from functools import reduce

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sciops import Grid, restrict
from sciops.grids import check_on_grid

centerings = st.sampled_from(["node", "cell", "periodic"])


@st.composite
def grids(draw):
    """One to three axes of any centering on boxes of any size, some of them short of their walls."""
    ndim = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(2, 12)) for _ in range(ndim))
    ends = st.tuples(st.floats(-5, 5), st.floats(0.1, 10), st.sampled_from([0.0, 0.3]), st.sampled_from([0.0, 0.7]))
    extent, domain = [], []
    for _ in range(ndim):
        a, length, below, above = draw(ends)
        extent.append((a, a + length))
        domain.append((a - below, a + length + above))
    return Grid(shape, tuple(extent), draw(centerings), tuple(domain))


@given(grids())
@settings(max_examples=80, deadline=None)
def test_points_spacing_and_weights(grid):
    for x, h, (a, b) in zip(grid.coordinates(), grid.spacing, grid.extent):
        np.testing.assert_allclose(np.diff(x), h, rtol=1e-12)
        first = {"node": 0.0, "cell": h / 2, "periodic": 0.0}[grid.centering]
        last = {"node": 0.0, "cell": h / 2, "periodic": h}[grid.centering]
        np.testing.assert_allclose([x[0], x[-1]], [a + first, b - last], rtol=1e-12, atol=1e-12)
    w = grid.weights()
    assert w.shape == grid.shape and (w > 0).all()
    np.testing.assert_allclose(reduce(np.multiply.outer, [axis.weights() for axis in grid.axes]), w, rtol=1e-14)
    assert [axis.coordinates()[0].tolist() for axis in grid.axes] == [x.tolist() for x in grid.coordinates()]
    assert [axis.domain for axis in grid.axes] == [(domain,) for domain in grid.domain]
    volume = np.prod([b - a for a, b in grid.extent])
    np.testing.assert_allclose(w.sum(), volume, rtol=1e-12)
    if grid.centering != "periodic":  # trapezoid and midpoint are exact on products of straight lines
        linear = np.prod([2 * x + 1 for x in grid.meshgrid()], axis=0)
        exact = volume * np.prod([a + b + 1 for a, b in grid.extent])
        np.testing.assert_allclose((w * linear).sum(), exact, rtol=1e-10, atol=1e-10 * np.abs(w * linear).sum())
    assert [m.shape for m in grid.meshgrid()] == [grid.shape] * grid.ndim
    np.testing.assert_array_equal(grid.meshgrid()[0].reshape(grid.shape[0], -1)[:, 0], grid.coordinates()[0])


@given(grids())
@settings(max_examples=60, deadline=None)
def test_json_round_trip_and_hash(grid):
    again = Grid.from_dict(json.loads(json.dumps(grid.to_dict())))
    assert again == grid and hash(again) == hash(grid) and again.same_points(grid)
    assert grid.strides_in(grid) == (1,) * grid.ndim
    assert grid.size == np.prod(grid.shape)


@pytest.mark.parametrize("centering", ["node", "cell", "periodic"])
def test_weights_converge_at_second_order_and_spectrally(centering):
    def miss(n):
        grid = Grid((n,), centering=centering)
        u = np.exp(np.sin(2 * np.pi * grid.coordinates()[0])) * (
            grid.coordinates()[0] if centering != "periodic" else 1
        )
        return (grid.weights() * u).sum()

    if centering == "periodic":
        assert miss(16) == pytest.approx(1.2660658777520084, rel=1e-12)  # I_0(1)
    else:
        fine = miss(4097 if centering == "node" else 4096)
        errors = [abs(miss(n) - fine) for n in (32, 64, 128)]
        assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.15)
        assert np.log2(errors[1] / errors[2]) == pytest.approx(2, abs=0.05)


def test_nodes_of_421():
    fine = Grid((421, 421))
    strides = {211: 2, 141: 3, 106: 4, 85: 5, 71: 6, 61: 7, 43: 10, 22: 20}
    for n, f in strides.items():
        coarse = fine.coarsen(f)
        assert coarse.shape == (n, n) and coarse.reaches_walls
        assert Grid((n, n)).strides_in(fine) == (f, f)
        # nested points are the same numbers, so that fields evaluated on either grid pair up
        np.testing.assert_allclose(coarse.coordinates()[0], fine.coordinates()[0][::f], rtol=4e-16)
    assert Grid((85, 85)).strides_in(Grid((211, 211))) is None  # 210/84 = 2.5
    assert Grid((43, 43)).strides_in(Grid((85, 85))) == (2, 2)
    assert fine.strides_in(Grid((85, 85))) is None
    with pytest.raises(ValueError, match=r"421 − 1 has the divisors \[1, 2, 3, 4, 5, 6, 7, 10"):
        fine.coarsen(8)


def test_grids_that_stop_short_of_the_wall():
    """Every 26th and every 13th of 421 nodes on each axis: the public 16 and 32 point files."""
    g16 = Grid((16, 16), extent=390 / 420, domain=(0, 1))
    g32 = Grid((32, 32), extent=403 / 420, domain=(0, 1))
    assert not g16.reaches_walls and not g32.reaches_walls
    np.testing.assert_allclose(g16.spacing, 26 / 420, rtol=1e-14)
    np.testing.assert_allclose(g32.coordinates()[0], np.arange(32) * 13 / 420, rtol=1e-14)
    assert g32.coarsen(2).same_points(g16) and g16.strides_in(g32) == (2, 2)
    u = np.random.default_rng(0).standard_normal((3, 32, 32))
    assert np.array_equal(restrict(u, g32, g16), u[:, ::2, ::2])
    np.testing.assert_allclose(g16.weights().sum(), (390 / 420) ** 2, rtol=1e-14)


def test_coarsening_other_centerings():
    cells = Grid((12, 8), extent=((0, 3), (0, 1)), centering="cell")
    assert cells.coarsen((3, 2)) == Grid((4, 4), extent=((0, 3), (0, 1)), centering="cell")
    for f, message in ((5, "12 points"), (0, "positive"), ((2, 2, 2), "2 axes"), (1.5, "positive")):
        with pytest.raises(ValueError, match=message):
            cells.coarsen(f)
    ring = Grid((12,), centering="periodic")
    np.testing.assert_array_equal(ring.coarsen(4).coordinates()[0], ring.coordinates()[0][::4])
    assert Grid((12,), centering="cell").strides_in(ring) is None
    assert not Grid((12,), centering="cell").same_points(ring)


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_restriction(kind):
    rng = np.random.default_rng(1)
    u = rng.standard_normal((2, 3, 13, 9))
    fine = Grid((13, 9))
    got = restrict(kind(u), fine, fine.coarsen((3, 4)))
    assert isinstance(got, type(kind(u)))
    np.testing.assert_array_equal(np.asarray(got), u[:, :, ::3, ::4])
    v = rng.standard_normal((2, 12, 8))
    cells = Grid((12, 8), centering="cell")
    coarse = cells.coarsen((3, 2))
    means = np.asarray(restrict(kind(v), cells, coarse))
    np.testing.assert_allclose(means, v.reshape(2, 4, 3, 4, 2).mean((2, 4)), atol=1e-15)
    # block means keep the integral, whatever the field
    np.testing.assert_allclose(
        (means * coarse.weights()).sum((1, 2)), (v * cells.weights()).sum((1, 2)), rtol=1e-13, atol=1e-15
    )
    # one step of six equals a step of two and a step of three
    line = Grid((24,), centering="cell")
    w = kind(rng.standard_normal(24))
    by_two = restrict(restrict(w, line, line.coarsen(2)), line.coarsen(2), line.coarsen(6))
    np.testing.assert_allclose(np.asarray(by_two), np.asarray(restrict(w, line, line.coarsen(6))), atol=1e-15)


def test_restriction_is_differentiable_and_refuses_what_is_not_nested():
    x = torch.randn(9, 9, dtype=torch.float64, requires_grad=True)
    fine = Grid((9, 9))
    assert torch.autograd.gradcheck(lambda v: restrict(v, fine, fine.coarsen(4)), x)
    with pytest.raises(ValueError, match="resample"):
        restrict(x, fine, Grid((4, 4)))
    with pytest.raises(ValueError, match=r"\(9, 9\).*\(8, 9\)"):
        restrict(x, Grid((8, 9)), Grid((8, 9)))
    with pytest.raises(ValueError, match="expected its last axes"):
        check_on_grid(np.zeros(9), fine)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (dict(shape=()), "one whole number per axis"),
        (dict(shape=(4.5, 4)), "one whole number per axis"),
        (dict(shape="ab"), "one whole number per axis"),
        (dict(shape=None), "one whole number per axis"),
        (dict(shape=(np.inf, 4)), "one whole number per axis"),
        (dict(shape=((4, 4), (4, 4))), "one whole number per axis"),
        (dict(shape=(1, 4)), "at least 2 points"),
        (dict(shape=(0,), centering="cell"), "at least 1 points"),
        (dict(shape=(4,), centering="vertex"), "vertex"),
        (dict(shape=(4, 4), extent=((0, 1), (1, 1))), "a < b"),
        (dict(shape=(4, 4), extent=(0, np.inf)), "finite"),
        (dict(shape=(4, 4), extent=((0, 1),) * 3), "each of the 2 axes"),
        (dict(shape=(4, 4), extent="unit"), "unit"),
        (dict(shape=(4,), extent=(0, 1), domain=(0, 0.9)), "walls must lie outside"),
    ],
)
def test_refusals(arguments, named):
    with pytest.raises(ValueError, match=named):
        Grid(**arguments)


def test_what_is_no_grid_or_factor_is_said():
    with pytest.raises(TypeError, match=r"grid=9: expected a Grid, such as Grid\(\(85, 85\)\)"):
        check_on_grid(np.zeros((9, 9)), 9)
    for factor in ("two", 0, 1.5, (2, 2, 2)):
        with pytest.raises(ValueError, match="positive whole number, or one for each of the 2 axes"):
            Grid((9, 9)).coarsen(factor)


def test_shorthand():
    assert Grid(5) == Grid((5,)) == Grid((np.int64(5),), extent=1) == Grid([5], extent=[0, 1])
    assert Grid((5, 6), extent=(0, 2)) == Grid((5, 6), extent=2.0, domain=((0, 2), (0, 2)))
