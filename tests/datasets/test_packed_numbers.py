"""Attributes that change numbers: kept without effect in native files, applied where a foreign file means them."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
import xarray as xr

from sciops.datasets import (
    FieldDataset,
    build_dataset,
    content_hash,
    describe_arrays,
    open_dataset,
    read_native,
    write_native,
    write_sample,
)
from sciops.grids import Grid

GRID = Grid((4, 4), centering="cell")
ATTRS = {
    "missing_value": 0.0,
    "_FillValue": 1.0,
    "scale_factor": 0.5,
    "add_offset": 3.0,
    "valid_range": np.array([0.0, 2.0]),
    "valid_min": 1.0,
    "valid_max": 2.0,
    "_Unsigned": "true",
    "coordinates": "a",
    "dtype": "bool",
}


def _dataset(dtype: str, attrs: dict) -> xr.Dataset:
    values = np.arange(48).reshape(3, 4, 4) % 5
    fields = {"a": (("sample", "x", "y"), np.ones((3, 4, 4), dtype)), "u": (("sample", "x", "y"), values.astype(dtype))}
    dataset = build_dataset(fields, GRID, layout="native", equation="unknown")
    dataset["u"].attrs = {**attrs, "units": "K"}
    return dataset


def _plain(path: Path) -> xr.Dataset:
    if path.suffix == ".zarr":
        return xr.open_zarr(path, group="r4")
    return xr.open_dataset(path, group="r4", engine="h5netcdf")


@pytest.mark.parametrize("name", sorted(ATTRS))
@pytest.mark.parametrize("ending", ["h5", "zarr"])
def test_attributes_of_a_native_file_change_no_number(tmp_path, ending, name):
    if ending == "zarr":
        pytest.importorskip("zarr")
    dtype = "int16" if name == "_Unsigned" else "float32"
    dataset = _dataset(dtype, {name: ATTRS[name]})
    path = write_native(tmp_path / f"u.{ending}", dataset)
    with read_native(path) as ours, _plain(path) as plain:
        assert np.array_equal(ours.u.values, dataset.u.values) and ours.u.dtype == dtype
        assert np.array_equal(plain.u.values, dataset.u.values) and plain.u.dtype == dtype
        assert np.array_equal(ours.u.attrs[name], ATTRS[name]) and ours.u.attrs["units"] == "K"
    for memory_limit in (0, 2**30):
        data = FieldDataset(path, memory_limit=memory_limit)
        assert np.array_equal(data.batch([2, 0])["y"][:, 0], dataset.u.values[[2, 0]])
        data.close()


def test_a_native_file_written_again_keeps_attributes_and_numbers(tmp_path):
    once = write_native(tmp_path / "once.h5", _dataset("float64", ATTRS))
    with open_dataset(once) as opened:
        twice = write_native(tmp_path / "twice.h5", opened)
    assert content_hash(once) == content_hash(twice)
    with open_dataset(twice) as opened:
        assert set(ATTRS) <= set(opened.u.attrs)


def test_a_native_file_packed_by_another_program_is_unpacked(tmp_path):
    dataset = _dataset("float64", {})
    path = write_native(tmp_path / "u.h5", dataset)
    with h5py.File(path, "a") as file:
        file["r4/u"].attrs.update({"scale_factor": 0.5, "add_offset": 1.0, "missing_value": 4.0})
    expected = np.where(dataset.u.values == 4, np.nan, 0.5 * dataset.u.values + 1)
    for memory_limit in (0, 2**30):
        data = FieldDataset(path, dtype=torch.float64, memory_limit=memory_limit)
        assert np.array_equal(data.batch([2, 0])["y"][:, 0], expected[[2, 0]], equal_nan=True)
        data.close()


PACKED = {
    "short": ("int16", {"scale_factor": np.float32(0.01), "add_offset": np.float32(20.0), "_FillValue": np.int16(7)}),
    "scaled": ("int16", {"scale_factor": 0.25}),
    "offset": ("int32", {"add_offset": 0.5}),
    "int": ("int32", {"scale_factor": np.float32(0.5), "add_offset": np.float32(1.0)}),
    "missing": ("int8", {"missing_value": np.int8(3)}),
    "unsigned": ("int8", {"_Unsigned": "true", "scale_factor": 2.0}),
    "float": ("float32", {"missing_value": np.float32(1e20)}),
    "double": ("float64", {"_FillValue": np.float64(1e20), "scale_factor": 2.0}),
    "nan": ("float32", {"_FillValue": np.float32(np.nan)}),
    "nothing": ("float32", {"units": "m/s", "valid_range": np.float32([0.0, 1.0])}),
}


@pytest.mark.parametrize("form", ["h5", "nc3"])
@pytest.mark.parametrize("name", sorted(PACKED))
def test_a_foreign_file_is_read_as_xarray_reads_it(tmp_path, name, form):
    stored, attrs = PACKED[name]
    if form == "nc3" and name == "unsigned":
        pytest.skip("scipy's NetCDF-3 has bytes of its own")
    values = (np.arange(2 * 3 * 4 * 4).reshape(2, 3, 4, 4) % 11 - 4).astype(stored)
    if "float" in stored and name != "nothing":
        values[:, 1] = 1e20 if name != "nan" else np.nan
    dims = ("sample", "time", "x", "y")
    raw = xr.Dataset({k: xr.Variable(dims, values, attrs) for k in ("u", "v")})
    raw = raw.assign_coords(time=np.arange(3.0), x=(np.arange(4) + 0.5) / 4, y=(np.arange(4) + 0.5) / 4)
    path, engine = tmp_path / f"flow.{form}", "h5netcdf" if form == "h5" else "scipy"
    encoding = {k: {"_FillValue": None} for k in raw.variables if "_FillValue" not in raw[k].attrs}
    raw.to_netcdf(path, engine=engine, encoding=encoding)
    with xr.open_dataset(path, engine=engine) as plain, open_dataset(path) as ours:
        assert ours.attrs["layout"] == "jax-cfd"
        assert ours.u.dtype == (plain.u.dtype if plain.u.dtype.kind == "f" else np.dtype(stored))
        assert np.array_equal(ours.u.values, plain.u.values, equal_nan=True)
        assert np.array_equal(ours.v[1, ::2, 3].values, plain.v[1, ::2, 3].values, equal_nan=True)


def test_packed_arrays_of_every_kind_of_hdf5(tmp_path):
    # one array, one array a sample, coordinates, described arrays: value = stored · scale + offset
    n, rng = 8, np.random.default_rng(0)
    packed = rng.integers(-100, 100, (2, 3, n)).astype(np.int16)
    with h5py.File(tmp_path / "one.h5", "w") as file:
        file["tensor"] = packed
        file["tensor"].attrs.update({"scale_factor": 0.5, "add_offset": -1.0})
        file["x-coordinate"] = np.arange(n, dtype=np.int16)
        file["x-coordinate"].attrs.update({"scale_factor": 1 / n, "add_offset": 0.5 / n})
        file.attrs["beta"] = 1.0
    with open_dataset(tmp_path / "one.h5") as opened:
        assert opened.attrs["layout"] == "pdebench-1d"
        assert np.array_equal(opened.u.values, 0.5 * packed - 1)
        assert np.allclose(opened.x.values, (np.arange(n) + 0.5) / n)
    with h5py.File(tmp_path / "many.h5", "w") as file:
        for i in range(2):
            for key in ("input", "output"):
                file[f"sample_{i}/{key}"] = packed[i, :, :3]
                file[f"sample_{i}/{key}"].attrs["scale_factor"] = 0.5 * (i + 1)
    with open_dataset(tmp_path / "many.h5") as opened:
        assert np.array_equal(opened.u.values, packed[:, :, :3] * np.array([0.5, 1.0])[:, None, None])
    with h5py.File(tmp_path / "own.h5", "w") as file:
        file["w"] = packed
        file["w"].attrs["missing_value"] = packed[0, 0, 0]
    describe_arrays(tmp_path / "own.h5", {"w": ("sample", "time", "x")}, grid=Grid(n), state=("w",))
    with open_dataset(tmp_path / "own.h5") as opened:
        assert np.array_equal(opened.w.values, np.where(packed == packed[0, 0, 0], np.nan, packed), equal_nan=True)


def test_an_attribute_that_is_no_number_is_named(tmp_path):
    with h5py.File(tmp_path / "one.h5", "w") as file:
        file["tensor"] = np.zeros((2, 3, 4), np.float32)
        file["tensor"].attrs["scale_factor"] = "a tenth"
    with pytest.raises(ValueError, match="holds /tensor, whose attribute scale_factor is 'a tenth': one finite number"):
        open_dataset(tmp_path / "one.h5")


@pytest.mark.parametrize("dtype", [np.longdouble, np.float64])
def test_a_sample_of_another_type_is_refused_when_the_file_is_opened(dtype, tmp_path: Path) -> None:
    path, name = write_sample("poseidon-helmholtz", tmp_path / "helmholtz"), "Sample_1/u"
    with h5py.File(path, "r+") as file:
        values = file[name][...].astype(dtype)
        del file[name]
        file[name] = values
    with pytest.raises(ValueError, match=rf"helmholtz holds {name} as float.* one shape and one type"):
        open_dataset(path)
