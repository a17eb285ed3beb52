"""A sample that is not finite stays where it is: resampling by the methods that look at neighbours only."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from sciops import Grid, resample

GRIDS = {
    "node": (Grid((9,)), Grid((17,)), Grid((25,))),
    "cell": (Grid((9,), centering="cell"), Grid((18,), centering="cell"), Grid((20,), centering="cell")),
    "periodic": (
        Grid((9,), centering="periodic"),
        Grid((18,), centering="periodic"),
        Grid((20,), centering="periodic"),
    ),
    "node to cell": (Grid((9,)), Grid((16,), centering="cell")),
    "short of the walls": (Grid((9,), 0.9, domain=(0, 1)), Grid((17,), domain=(0, 1))),
}


def product_grid(line, axes):
    """The line, and short axes of the same kind beside it."""
    shape = (line.size, *(max(3, line.size // 3 + i) for i in range(axes - 1)))
    return Grid(shape, line.extent * axes, line.centering, line.domain * axes)


def weights_of(method, source, target, options):
    """(target, source) by unit vectors."""
    units = np.eye(source.size).reshape(-1, *source.shape)
    return resample(units, source, target, method, **options).reshape(source.size, -1).T


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_only_those_that_weigh_a_bad_sample_see_it(method, name, axes, bad):
    source, *targets = (product_grid(g, axes) for g in GRIDS[name][: 3 if axes == 1 else 2])
    options = {"wall": "zero"} if method == "linear" and name.startswith("short") else {}
    u = np.random.default_rng(0).standard_normal(source.shape)
    hole = (4,) + (1,) * (axes - 1)
    holed = u.copy()
    holed[hole] = bad
    for target in targets:
        weights = weights_of(method, source, target, options)[:, np.ravel_multi_index(hole, source.shape)]
        touched = (weights != 0).reshape(target.shape)
        assert touched.any() and not touched.all()
        want = resample(u, source, target, method, **options)
        for field in (holed, torch.from_numpy(holed), holed.astype(np.float32)):
            got = np.asarray(resample(field, source, target, method, **options), np.float64)
            assert np.array_equal(~np.isfinite(got), touched)
            np.testing.assert_allclose(got[~touched], want[~touched], atol=1e-6 if field.dtype == np.float32 else 0)
        if np.isinf(bad):
            assert np.array_equal(got[touched], np.inf * weights[weights != 0])


@pytest.mark.parametrize("centering", ["node", "cell", "periodic"])
@pytest.mark.parametrize(("dtype", "reach"), [(torch.float64, 30), (torch.float32, 14)])
def test_a_spline_forgets_a_bad_sample_where_it_weighs_less_than_rounding(centering, dtype, reach):
    source, target = Grid((121,), centering=centering), Grid((301,), centering=centering)
    u = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 121)))
    holed = u.to(dtype).clone()
    holed[0, 60] = np.nan
    got, want = resample(holed, source, target, "cubic").double(), resample(u, source, target, "cubic")
    eps = torch.finfo(dtype).eps
    far = torch.from_numpy(np.abs(target.coordinates()[0] - source.coordinates()[0][60]) > reach * source.spacing[0])
    near = torch.from_numpy(np.abs(target.coordinates()[0] - source.coordinates()[0][60]) < 0.99 * source.spacing[0])
    assert far.any() and got[0][near].isnan().all()
    torch.testing.assert_close(got[0][far], want[0][far], rtol=0, atol=40 * eps)
    torch.testing.assert_close(got[1], want[1], rtol=0, atol=40 * eps)
    # whatever stands in the gap: no kept value depends on it by more than rounding
    other = u.clone()
    other[0, 60] = 100.0
    kept = ~got[0].isnan()
    torch.testing.assert_close(resample(other, source, target, "cubic")[0][kept], want[0][kept], rtol=0, atol=800 * eps)


def test_cubic_gaps_meet_in_two_axes_and_copies_are_spared():
    source, target = Grid((61, 61)), Grid((121, 121))
    u = np.random.default_rng(0).standard_normal((61, 61))
    holed = u.copy()
    holed[30, 30] = np.nan
    got, want = (resample(v, source, target, "cubic") for v in (holed, u))
    assert np.isnan(got[60, 60]) and np.isnan(got[61, 61])
    kept = ~np.isnan(got)
    assert kept[0].all() and kept[:, 0].all()
    np.testing.assert_allclose(got[kept], want[kept], atol=1e-13)
    copied = got[::2, ::2]  # points that both grids hold take the sample there and nothing else
    assert np.isnan(copied).sum() == 1 and np.isnan(copied[30, 30])


@pytest.mark.parametrize("method", ["linear", "cubic", "nearest"])
def test_gradients_are_finite_and_reach_every_finite_sample(method):
    source, target = Grid((81,)), Grid((161,))
    u = torch.from_numpy(np.random.default_rng(0).standard_normal(81))
    whole, holed = u.clone().requires_grad_(), u.clone()
    holed[40] = np.nan
    holed.requires_grad_()
    image = resample(holed, source, target, method)
    kept = ~image.isnan()
    image[kept].square().sum().backward()
    resample(whole, source, target, method)[kept].square().sum().backward()
    assert holed.grad.isfinite().all() and holed.grad[40].abs() < 1e-14
    away = torch.arange(81) != 40
    torch.testing.assert_close(holed.grad[away], whole.grad[away], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", ["linear", "cubic", "nearest"])
def test_under_vmap_and_in_complex_numbers(method):
    source, target = Grid((9, 5)), Grid((17, 9))
    u = torch.from_numpy(np.random.default_rng(0).standard_normal((3, 9, 5)))
    u[1, 0, 0] = np.nan
    together = resample(u, source, target, method)
    one_by_one = torch.func.vmap(lambda v: resample(v, source, target, method))(u)
    torch.testing.assert_close(one_by_one, together, rtol=0, atol=1e-14, equal_nan=True)
    pair = resample(torch.complex(u, torch.ones_like(u)), source, target, method)
    assert torch.equal(pair.isnan(), together.isnan())
    kept = ~together.isnan()
    torch.testing.assert_close(pair.real[kept], together[kept], rtol=0, atol=1e-14)


def test_no_warning_depends_on_what_was_called_before():
    source, target = Grid((9,)), Grid((17,))
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            resample(np.ones(9), source, target, "sine")
            resample(np.ones(9), source, target, "fourier")
        assert [w.category for w in caught] == [UserWarning, UserWarning]
