"""What is refused where fields enter: complex numbers, masked values; and what is not lost there: scale."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xarray as xr

from sciops.datasets import (
    FieldDataset,
    Normalizer,
    TensorFields,
    TrajectoryDataset,
    build_dataset,
    open_dataset,
    write_native,
)
from sciops.grids import Grid

GRID = Grid((4,))


def _dataset(u, **fields) -> xr.Dataset:
    dims = ("sample", "time", "x") if np.ndim(u) == 3 else ("sample", "x")
    state = ("u",) if np.ndim(u) == 3 else ()
    dataset = build_dataset(
        {"a": (("sample", "x"), np.zeros((len(u), 4))), "u": (dims, np.zeros(np.shape(u)))},
        GRID,
        layout="native",
        equation="unknown",
        state=state,
    )
    return dataset.assign(u=(dims, u), **fields)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_fields_are_refused_with_the_remedy(tmp_path, dtype):
    u = np.ones((2, 1, 4), dtype)
    remedy = r"{0}.*complex.*expected real numbers; give the real and imaginary parts as two channels, {0}.real"
    for x in (u, torch.from_numpy(u)):
        with pytest.raises(ValueError, match=remedy.format("x")):
            TensorFields(x, np.zeros((2, 1, 4)), GRID)
        with pytest.raises(ValueError, match=remedy.format("data")):
            Normalizer.fit(x)
        with pytest.raises(ValueError, match=remedy.format("data")):
            Normalizer.fit([torch.zeros(2, 1, 4), x])
    with pytest.raises(ValueError, match=remedy.format("u")):
        FieldDataset(_dataset(u[:, 0]))
    with pytest.raises(ValueError, match=remedy.format("u")):
        TrajectoryDataset(_dataset(u))
    evolving = _dataset(u.real)
    for name, dims in (("f", ("time",)), ("c", ("sample",)), ("m", ("x",))):
        ones = np.ones([evolving.sizes[dim] for dim in dims], dtype)
        use = {"forcings": name} if name == "f" else {"parameters": name} if name == "c" else {"inputs": name}
        with pytest.raises(ValueError, match=remedy.format(name)):
            TrajectoryDataset(evolving.assign({name: (dims, ones)}), **use)
    for name in ("u.h5", "u.zarr"):
        with pytest.raises(ValueError, match=remedy.format("u")):
            write_native(tmp_path / name, _dataset(u[:, 0]))
    assert not list(tmp_path.iterdir())


def test_complex_arrays_of_a_file_open_as_they_are_and_are_not_trained_on(tmp_path):
    from sciops.datasets import describe_arrays

    np.save(tmp_path / "u.npy", np.ones((2, 4), complex))
    describe_arrays(tmp_path / "u.npy", {"u": ("sample", "x")}, grid=GRID)
    dataset = open_dataset(tmp_path / "u.npy")
    assert dataset["u"].dtype == np.complex128
    with pytest.raises(ValueError, match="u is complex128: expected real numbers; give the real and imaginary parts"):
        FieldDataset(dataset, inputs=("u",), outputs=("u",))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_masked_values_are_refused_and_masks_of_nothing_pass(dtype):
    values = np.arange(8, dtype=dtype).reshape(2, 1, 4)
    masked, open_ = np.ma.masked_equal(values, 3), np.ma.masked_array(values)
    entries = {
        "x": lambda u: TensorFields(u, values, GRID),
        "y": lambda u: TensorFields(values, u, GRID),
        "data": Normalizer.fit,
        "u": lambda u: build_dataset({"u": (("sample", "c", "x"), u)}, GRID, layout="native", equation="unknown"),
    }
    for name, enter in entries.items():
        with pytest.raises(ValueError, match=rf"{name}: 1 of 8 values are masked.*{name}\.filled\(np\.nan\)"):
            enter(masked)
        enter(open_)
    with pytest.raises(ValueError, match=r"data\.filled"):
        Normalizer.fit([values, masked])
    assert np.array_equal(TensorFields(open_, values, GRID).x, values)


def test_masked_values_of_a_data_set_are_gaps_in_a_file(tmp_path):
    # xarray turns a mask into NaN, and so it is written
    u = np.ma.masked_equal(np.arange(8.0).reshape(2, 4), 3)
    with open_dataset(write_native(tmp_path / "u.h5", _dataset(u))) as written:
        assert np.array_equal(written.u.values, u.filled(np.nan), equal_nan=True)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-25, 1.0, 1e25, 1e200, 1e307])
def test_a_normalizer_has_no_smallest_scale(scale):
    # std(s·x) = s·std(x), mean(s·x) = s·mean(x), block by block too
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((6, 2, 5)))
    x[:, 1] += 3.0
    one = Normalizer.fit(x)
    assert np.allclose(one.std, x.transpose(0, 1).reshape(2, -1).std(1, correction=0), rtol=1e-14)
    for fitted in (Normalizer.fit(scale * x), Normalizer.fit([scale * x[:1], scale * x[1:4], scale * x[4:]])):
        assert torch.allclose(fitted.mean / scale, one.mean, rtol=1e-12)
        assert torch.allclose(fitted.std / scale, one.std, rtol=1e-12)
        assert torch.allclose(fitted.encode(scale * x), one.encode(x), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype, scale", [("float16", 6e4), ("float16", 1e-7), ("float32", 1e-38), ("float32", 1e38)])
def test_a_normalizer_of_narrow_types_is_that_of_the_same_numbers(dtype, scale):
    x = (scale * np.random.default_rng(1).uniform(-1, 1, (4, 1, 6))).astype(dtype)
    wide, narrow = Normalizer.fit(x.astype(np.float64)), Normalizer.fit(x)
    assert torch.equal(wide.mean, narrow.mean) and torch.equal(wide.std, narrow.std)
    assert narrow.std.item() == pytest.approx(x.astype(np.float64).std(), rel=1e-12)


def test_a_normalizer_takes_labelled_arrays_by_name():
    x = np.random.default_rng(2).standard_normal((5, 2, 3, 3))
    labelled = xr.DataArray(x, dims=("sample", "channel", "x", "y")).transpose("y", "channel", "sample", "x")
    assert torch.allclose(Normalizer.fit(labelled).std, Normalizer.fit(x).std, rtol=1e-13)


def test_fields_of_a_data_set_need_no_attributes():
    u = np.ones((2, 4))
    dataset = build_dataset({"u": (("sample", "x"), u)}, GRID, layout="native", equation="unknown")
    assert np.array_equal(dataset.u.values, u) and dataset.u.attrs == {}
