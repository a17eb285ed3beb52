"""Per-sample errors against closed forms, naive float64 sums, and the edges a table can fall off."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sciops import Grid
from sciops.metrics import METRICS, h1, max_error, nrmse, relative_l1, relative_l2, relative_mse, vrmse

GRID = Grid((9, 14), extent=((0, 1), (0, 2)))
NAMES = sorted(METRICS)


def pair(shape=(3, 2, 9, 14), seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape), rng.standard_normal(shape)


def naive(name, p, u, w, h=None):
    """One sample (channels, *grid), weights w summing to 1, straight from the formulas."""
    e = p - u

    def inner(a):
        return float(sum((w * np.abs(c) ** 2).sum() for c in a))

    if name == "relative_l2":
        return np.sqrt(inner(e) / inner(u))
    if name == "relative_mse":
        return inner(e) / inner(u)
    if name == "relative_l1":
        return sum((w * np.abs(c)).sum() for c in e) / sum((w * np.abs(c)).sum() for c in u)
    if name == "nrmse":
        return np.mean([np.sqrt(inner([a]) / inner([b])) for a, b in zip(e, u)])
    if name == "vrmse":
        return np.mean([np.sqrt(inner([a]) / inner([b - (w * b).sum()])) for a, b in zip(e, u)])
    if name == "max_error":
        return np.abs(e).max()
    if name == "h1":

        def full(a):
            return inner(a) + sum(inner([d]) for c in a for d in np.gradient(c, *h, edge_order=2))

        return np.sqrt(full(e) / full(u))
    raise KeyError(name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_equals_the_formula(name, kind):
    p, u = pair()
    got = METRICS[name](kind(p), kind(u), GRID)
    assert isinstance(got, type(kind(p)))
    w = GRID.weights() / GRID.weights().sum()
    want = [naive(name, a, b, w, GRID.spacing) for a, b in zip(p, u)]
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-13)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "h1"])
def test_without_a_grid_every_point_weighs_alike_and_all_axes_are_points(name):
    p, u = pair()
    want = [naive(name, a.reshape(1, -1), b.reshape(1, -1), np.full(a.size, 1 / a.size)) for a, b in zip(p, u)]
    np.testing.assert_allclose(METRICS[name](p, u), want, rtol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_does_not_see_its_batch(name):
    p, u = pair((5, 1, 9, 14))
    u[1] *= 1e9
    u[2] *= 1e-9
    together = METRICS[name](p, u, GRID)
    alone = np.concatenate([METRICS[name](p[i : i + 1], u[i : i + 1], GRID) for i in range(5)])
    assert np.array_equal(together, alone)


@pytest.mark.parametrize("name", NAMES)
def test_zero_targets(name):
    zero = np.zeros((1, 1, 9, 14))
    assert METRICS[name](zero, zero, GRID) == 0
    wrong = METRICS[name](zero + 0.25, zero, GRID)
    assert wrong == (0.25 if name == "max_error" else np.inf)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_vrmse_of_constant_targets(dtype):
    u = torch.full((1, 1, 9, 14), 0.1, dtype=dtype)
    assert vrmse(u, u, GRID) == 0
    assert vrmse(u + 1, u, GRID) == torch.inf
    # the target's own mean scores 1, also on a large offset
    v = torch.from_numpy(pair((2, 1, 9, 14))[0]).to(dtype) + 1000
    w = torch.from_numpy(GRID.weights() / GRID.weights().sum())
    mean = (v.double() * w).sum((2, 3), keepdim=True).to(dtype).expand_as(v)
    torch.testing.assert_close(vrmse(mean, v, GRID), torch.ones(2, dtype=dtype), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_non_finite_values_stay_visible_in_their_own_sample(name):
    p, u = pair((3, 1, 9, 14))
    clean = METRICS[name](p, u, GRID)
    for bad in (np.nan, np.inf):
        for where in (0, 1):
            fields = [p.copy(), u.copy()]
            fields[where][1, 0, 3, 4] = bad
            got = METRICS[name](*fields, GRID)
            assert not np.isfinite(got[1])
            assert np.array_equal(got[[0, 2]], clean[[0, 2]])


@pytest.mark.parametrize("name", NAMES)
def test_shapes_are_refused_by_name(name):
    p, u = pair()
    with pytest.raises(ValueError, match=r"\(3, 2, 9, 14\).*\(3, 2, 9, 13\)"):
        METRICS[name](p, u[..., :13], GRID)
    with pytest.raises(ValueError, match=r"\(9, 15\)"):
        METRICS[name](p, u, Grid((9, 15)))
    with pytest.raises(ValueError, match=r"\[None\]"):
        METRICS[name](p[0, 0], u[0, 0], GRID)
    if name == "h1":
        with pytest.raises(ValueError, match="pass grid"):
            h1(p, u)
        with pytest.raises(ValueError, match="3 points"):
            h1(p[..., :2], u[..., :2], Grid((9, 2)))


@given(
    seed=st.integers(0, 2**31),
    exponent=st.integers(-118, 120),
    name=st.sampled_from([n for n in NAMES if n != "max_error"]),
)
@settings(max_examples=60, deadline=None)
def test_units_do_not_matter(seed, exponent, name):
    """Ratios are the same to the bit in any unit that is a power of two, and nearly so where small values are
    subnormal in float32."""
    p, u = (torch.from_numpy(v).float() for v in pair((2, 1, 9, 14), seed))
    scaled = METRICS[name](p * 2.0**exponent, u * 2.0**exponent, GRID)
    torch.testing.assert_close(scaled, METRICS[name](p, u, GRID), rtol=1e-6 if exponent < -100 else 0, atol=0)


def test_half_precision_is_summed_in_float32():
    p, u = (torch.from_numpy(v).to(torch.bfloat16) for v in pair())
    got = relative_l2(p, u, GRID)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), relative_l2(p.double(), u.double(), GRID), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name):
    p, u = (torch.from_numpy(v) for v in pair((2, 1, 4, 5)))
    grid = Grid((4, 5))
    assert torch.autograd.gradcheck(lambda q: METRICS[name](q, u, grid), p.requires_grad_())
    # a perfect prediction is a legal place to stand during training
    perfect = u.clone().requires_grad_()
    METRICS[name](perfect, u, grid).sum().backward()
    assert perfect.grad.isfinite().all()


def test_integers_complex_and_empty_batches():
    assert relative_l2(np.array([[1, 3]]), np.array([[0, 3]])) == pytest.approx(1 / 3, rel=1e-15)
    p, u = pair((2, 9, 14))
    z, v = p + 1j * u, u - 2j * p
    want = np.sqrt((abs(z - v) ** 2).sum((1, 2)) / (abs(v) ** 2).sum((1, 2)))
    np.testing.assert_allclose(relative_l2(z, v), want, rtol=1e-13)
    for name in NAMES:
        assert METRICS[name](np.empty((0, 9, 14)), np.empty((0, 9, 14)), GRID).shape == (0,)


def test_relations_between_metrics():
    p, u = pair((4, 1, 9, 14))
    np.testing.assert_allclose(relative_mse(p, u, GRID), relative_l2(p, u, GRID) ** 2, rtol=1e-14)
    np.testing.assert_allclose(nrmse(p, u, GRID), relative_l2(p, u, GRID), rtol=1e-14)
    assert (vrmse(p, u, GRID) >= nrmse(p, u, GRID) * (1 - 1e-14)).all()
    assert (relative_l1(2 * u, u, GRID) == 1).all()
    np.testing.assert_allclose(max_error(u + 0.5, u), 0.5, rtol=1e-14)


def test_trapezoid_weights_make_grids_comparable():
    """e = 1, u = 1 + x on [0, 1]: ‖e‖/‖u‖ = √(3/7); the error falls as h² with the grid, as h without it."""
    miss = {}
    for n in (17, 33, 65):
        grid = Grid((n,))
        u = 1 + grid.coordinates()[0][None]
        miss[n] = [abs(relative_l2(u + 1, u, g)[0] - np.sqrt(3 / 7)) for g in (grid, None)]
    assert np.log2(miss[17][0] / miss[33][0]) == pytest.approx(2, abs=0.05)
    assert np.log2(miss[33][0] / miss[65][0]) == pytest.approx(2, abs=0.05)
    # u² is heavier on the right wall, so plain averages are off at first order
    assert np.log2(miss[33][1] / miss[65][1]) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("centering", ["node", "cell", "periodic"])
def test_h1_converges_at_second_order(centering):
    """u = cos 2πx cos 6πy against e = cos 4πx cos 2πy on [0, 1]²: equal L² norms, so the ratio is exact by hand."""
    exact = np.sqrt((0.25 + 0.25 * (16 + 4) * np.pi**2) / (0.25 + 0.25 * (4 + 36) * np.pi**2))
    errors = []
    for n in (32, 64, 128):
        grid = Grid((n + (centering == "node"),) * 2, centering=centering)
        x, y = grid.meshgrid()
        u = np.cos(2 * np.pi * x) * np.cos(6 * np.pi * y)
        e = np.cos(4 * np.pi * x) * np.cos(2 * np.pi * y)
        errors.append(abs(h1((u + e)[None], u[None], grid)[0] - exact))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.15)
    assert np.log2(errors[1] / errors[2]) == pytest.approx(2, abs=0.1)


def test_h1_on_periodic_grids_commutes_with_shifts():
    p, u = pair((2, 8, 9))
    grid = Grid((8, 9), centering="periodic")
    shifted = h1(np.roll(p, (3, 2), (1, 2)), np.roll(u, (3, 2), (1, 2)), grid)
    np.testing.assert_allclose(shifted, h1(p, u, grid), rtol=1e-14)
