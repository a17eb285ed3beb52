"""Dimensions are taken by name: a file or data set with them in any order gives the same fields."""

from __future__ import annotations

import json
from pathlib import Path

import h5netcdf
import numpy as np
import pytest
import torch
import xarray as xr

from sciops.datasets import (
    FieldDataset,
    TrajectoryDataset,
    build_dataset,
    convert,
    load_splits,
    open_dataset,
    read_native,
    validate,
    write_native,
)
from sciops.grids import Grid

AXES = ("x", "y", "z")


def _steady(shape: tuple[int, ...], dtype: str = "float32") -> xr.Dataset:
    rng = np.random.default_rng(0)
    dims = ("sample", *AXES[: len(shape)])
    fields = {name: (dims, rng.standard_normal((6, *shape)).astype(dtype), {}) for name in ("a", "u")}
    return build_dataset(fields, Grid(shape), layout="native", equation="unknown")


def _evolving(shape: tuple[int, ...], dtype: str = "float32") -> xr.Dataset:
    rng = np.random.default_rng(1)
    space = AXES[: len(shape)]
    fields = {
        "u": (("sample", "time", *space), rng.standard_normal((5, 4, *shape)).astype(dtype), {}),
        "f": (("time", *space), rng.standard_normal((4, *shape)).astype(dtype), {}),
        "m": (space, rng.standard_normal(shape).astype(dtype), {}),
        "times": (("sample", "time"), np.cumsum(1 + rng.random((5, 4)), 1), {}),
    }
    return build_dataset(fields, Grid(shape), layout="native", equation="unknown", state=("u",), times=np.arange(4.0))


def _raw(path: Path, dataset: xr.Dataset) -> Path:
    """The data set as another program writes it to HDF5, each variable with its dimensions as they lie."""
    group = "r" + "x".join(str(dataset.sizes[axis]) for axis in AXES if axis in dataset.sizes)
    with h5netcdf.File(path, "w") as file:
        file.attrs.update({"sciops_schema": "1", "equation": "unknown", "layout": "native"})
        inside = file.create_group(group)
        inside.dimensions = dict(dataset.sizes)
        inside.attrs.update(dataset.attrs)
        for name, variable in dataset.variables.items():
            inside.create_variable(name, variable.dims, variable.dtype, data=variable.values)
            inside.variables[name].attrs.update(variable.attrs)
    return path


@pytest.mark.parametrize("memory_limit", [0, 2**30])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "shape, order",
    [((5,), ("x", "sample")), ((5, 5), ("sample", "y", "x")), ((4, 4, 4), ("z", "sample", "x", "y"))],
)
def test_fields_by_name(tmp_path, shape, order, dtype, memory_limit):
    # the order of the dimensions says nothing: FieldDataset(in any order) = FieldDataset(in order)
    pytest.importorskip("zarr")
    dataset = _steady(shape, dtype)
    moved = dataset.assign(u=dataset.u.transpose(*order))
    sources = [moved, write_native(tmp_path / "m.h5", moved), write_native(tmp_path / "m.zarr", moved)]
    sources.append(_raw(tmp_path / "raw.h5", moved))
    for source in sources:
        data = FieldDataset(source, dtype=getattr(torch, dtype), memory_limit=memory_limit)
        assert np.array_equal(data.x[:, 0], dataset.a.values)
        assert np.array_equal(data.y[:, 0], dataset.u.values)
        assert np.array_equal(data.batch([4, 1, 1])["y"][:, 0], dataset.u.values[[4, 1, 1]])
        data.close()
    for path in sources[1:3]:  # and the file has one order, as plain xarray sees it
        with read_native(path) as stored:
            assert stored.u.dims == ("sample", *AXES[: len(shape)])


@pytest.mark.parametrize("memory_limit", [0, 2**30])
@pytest.mark.parametrize("shape", [(4,), (4, 4)])
def test_trajectories_by_name(tmp_path, shape, memory_limit):
    pytest.importorskip("zarr")
    dataset = _evolving(shape)
    space = AXES[: len(shape)]
    moved = dataset.assign(
        u=dataset.u.transpose(*space[::-1], "time", "sample"),
        f=dataset.f.transpose(*space[::-1], "time"),
        m=dataset.m.transpose(*space[::-1]),
        times=dataset.times.transpose("time", "sample"),
    )
    options = {"forcings": ("f",), "inputs": ("m",), "time_step": True, "memory_limit": memory_limit}
    right = TrajectoryDataset(dataset, **options)
    expected, subset = right.batch([7, 2, 7]), right.trajectories([3, 0])
    assert np.array_equal(right.trajectories()[:, :, 0], dataset.u.values)
    sources = [moved, write_native(tmp_path / "m.h5", moved), write_native(tmp_path / "m.zarr", moved)]
    sources.append(_raw(tmp_path / "raw.h5", moved))
    for source in sources:
        data = TrajectoryDataset(source, **options)
        for key, value in data.batch([7, 2, 7]).items():
            assert np.array_equal(value, expected[key])
        assert np.array_equal(data.trajectories([3, 0]), subset)
        assert np.array_equal(data.clocks, right.clocks)
        data.close()


def test_splits_resolutions_conversion_and_checks_by_name(tmp_path):
    dataset = _steady((9, 9))
    moved = dataset.transpose("y", "x", "sample")
    path = _raw(tmp_path / "raw.h5", moved)
    u = dataset.u.values
    splits = load_splits(path, 5, train=3, validation=1, test=2)
    assert np.array_equal(splits.train.y[:, 0], u[:3, ::2, ::2])
    assert np.array_equal(splits.test.y[:, 0], u[4:, ::2, ::2])
    for i, source in enumerate((path, moved)):
        for layout in ("native", "arrays"):
            written = convert(source, tmp_path / f"{layout}{i}.{'h5' if layout == 'native' else 'npz'}", layout)
            with open_dataset(written) as again:
                assert np.array_equal(again.u.values, u)
    assert [str(f) for f in validate(moved)] == [str(f) for f in validate(dataset)]


def test_a_lazy_transpose_reads_what_is_asked_for(tmp_path):
    dataset = _steady((5, 5))
    path = _raw(tmp_path / "raw.h5", dataset.transpose("y", "sample", "x"))
    u = dataset.u.values
    with open_dataset(path) as opened:
        assert opened.u.dims == ("sample", "x", "y")
        assert np.array_equal(opened.u.isel(sample=2).values, u[2])
        assert np.array_equal(opened.u.isel(sample=[4, 0], x=3).values, u[[4, 0], 3])
        assert np.array_equal(opened.u[1:5:2, ::-1, [0, 3]].values, u[1:5:2, ::-1, [0, 3]])


def test_axes_without_the_names_of_the_grid_are_refused():
    dataset = _steady((5, 5))
    unnamed = dataset.assign(u=(("sample", "lat", "lon"), dataset.u.values))
    with pytest.raises(ValueError, match=r"'u' has the dimensions \(sample 6, lat 5, lon 5\).*dataset.rename"):
        FieldDataset(unnamed)
    assert any(f.field == "u" and "lat, lon" in f.message for f in validate(unnamed))
    evolving = _evolving((4, 4))
    evolving = evolving.assign(u=(("sample", "time", "lat", "lon"), evolving.u.values))
    with pytest.raises(ValueError, match="'u' has the dimensions"):
        TrajectoryDataset(evolving)


def test_the_grid_of_a_moved_variable_is_by_name():
    dataset = _steady((5, 7))
    moved = dataset.transpose("y", "sample", "x")
    assert json.loads(moved.attrs["grid"])["shape"] == [5, 7]
    assert FieldDataset(moved).y.shape == (6, 1, 5, 7)


@pytest.mark.parametrize("shape", [(6,), (6, 6), (4, 4, 4)])
def test_functions_of_fields_take_labelled_arrays_by_name(shape):
    from sciops import resample
    from sciops.metrics import relative_l2
    from sciops.spectral import band_errors

    rng, dims, grid = np.random.default_rng(3), ("sample", *AXES[: len(shape)]), Grid(shape, centering="periodic")
    p, u = (xr.DataArray(rng.standard_normal((3, *shape)), dims=dims) for _ in range(2))
    moved = u.transpose(*dims[::-1])
    right = relative_l2(p.values, u.values, grid)
    for pair in ((p, moved), (p.values, moved), (moved, moved)):
        assert np.array_equal(relative_l2(*pair, grid), right if pair[0] is not moved else np.zeros(3))
    coarse = grid.coarsen(2)
    assert np.array_equal(resample(moved, grid, coarse, "fourier"), resample(u.values, grid, coarse, "fourier"))
    edges = (0, 2, 3)
    found = [band_errors(p.values, one, grid, edges).relative_error for one in (u.values, moved)]
    assert np.array_equal(*found)
