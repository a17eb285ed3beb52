"""Files that name the axes of their arrays: they may have them in any order, or another order is refused."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
import xarray as xr

from sciops.datasets import TrajectoryDataset, convert, describe_arrays, open_dataset, write_sample
from sciops.grids import Grid

N = 6


def _flow(ndim: int, samples: int | None) -> xr.Dataset:
    """A periodic flow as jax-cfd writes it, (sample, time, x, y[, z])."""
    rng, space = np.random.default_rng(0), ("x", "y", "z")[:ndim]
    dims = (*(("sample",) if samples else ()), "time", *space)
    shape = (*((samples,) if samples else ()), 3, *(N,) * ndim)
    flow = xr.Dataset({k: (dims, rng.standard_normal(shape).astype("f4")) for k in ("u", "v", "w")[:ndim]})
    flow = flow.assign_coords(time=np.arange(3.0), **{axis: (np.arange(N) + 0.5) / N for axis in space})
    for i, name in enumerate(flow.data_vars):
        flow[name].attrs["offset"] = np.array([1.0 if i == k else 0.5 for k in range(ndim)])
    return flow


@pytest.mark.parametrize("engine", ["h5netcdf", "scipy"])
@pytest.mark.parametrize(
    "ndim, order",
    [
        (2, ("sample", "time", "y", "x")),
        (2, ("y", "x", "sample", "time")),
        (2, ("time", "x", "sample", "y")),
        (2, ("x", "time", "y")),
        (3, ("sample", "time", "z", "y", "x")),
    ],
)
def test_a_flow_with_its_axes_in_any_order(tmp_path, ndim, order, engine):
    # xarray's transpose changes nothing that a file says
    flow = _flow(ndim, 2 if "sample" in order else None)
    path = tmp_path / "flow.nc"
    flow.assign(v=flow.v.transpose(*order)).to_netcdf(path, engine=engine)
    expected = flow if "sample" in order else flow.expand_dims("sample")
    with open_dataset(path) as opened:
        assert opened.attrs["layout"] == "jax-cfd"
        for name in flow.data_vars:
            assert opened[name].dims[:2] == ("sample", "time")
            assert np.array_equal(opened[name].values, expected[name].values)
    for memory_limit in (0, 2**30):
        data = TrajectoryDataset(path, memory_limit=memory_limit)
        assert np.array_equal(data.trajectories()[:, :, 1], expected.v.values)
        data.close()
    with open_dataset(convert(path, tmp_path / "native.h5", "native")) as again:
        assert np.array_equal(again.v.values, expected.v.values)


def test_shallow_water_with_its_axes_in_any_order(tmp_path):
    path = write_sample("pdearena-swe", tmp_path / "swe.nc")
    with open_dataset(path) as opened:
        expected = opened.load()
    with xr.open_dataset(path, engine="h5netcdf", decode_times=False) as raw:
        moved = raw.load().transpose("lon", "lat", *(d for d in raw.dims if d not in ("lat", "lon")))
    square = moved.isel(lon=slice(moved.sizes["lat"])).drop_encoding()
    square.to_netcdf(tmp_path / "moved.nc", engine="h5netcdf")
    with open_dataset(tmp_path / "moved.nc") as opened:
        for name in ("pres", "u", "v"):
            right = expected[name].isel(y=slice(square.sizes["lon"])).values
            assert np.array_equal(opened[name].values, right)


@pytest.mark.parametrize(
    "key, stored",
    [
        ("velocity", ("sample", "time", "channel", "y", "x")),
        ("velocity", ("y", "x", "channel", "time", "sample")),
        ("solution", ("sample", "time", "y", "x")),
    ],
)
def test_poseidon_with_its_axes_in_any_order(tmp_path, key, stored):
    sizes = {"sample": 2, "time": 3, "channel": 2, "x": N, "y": N}
    dims = tuple(dim for dim in sizes if dim in stored)
    values = np.random.default_rng(1).standard_normal([sizes[dim] for dim in dims]).astype("f4")
    xr.Dataset({key: (dims, values)}).transpose(*stored).to_netcdf(tmp_path / "p.nc", engine="h5netcdf")
    with open_dataset(tmp_path / "p.nc") as opened:
        assert opened.attrs["layout"] == "poseidon"
        assert np.array_equal(opened.u.values, values[:, :, 0] if "channel" in dims else values)


def test_a_layout_without_names_refuses_another_order(tmp_path):
    values = np.zeros((3, 4, 4), np.float32)
    for order in (("sample", "time", "x"), ("x", "time", "sample"), ("sample", "x", "time")):
        raw = xr.Dataset({"tensor": (order, values)}, attrs={"beta": 1.0})
        raw.to_netcdf(path := tmp_path / "advection.h5", engine="h5netcdf")
        if order == ("sample", "time", "x"):
            open_dataset(path).close()
            continue
        stated = ", ".join(order)
        with pytest.raises(ValueError, match=rf"names the axes of tensor \({stated}\).*as \(sample, time, x\)"):
            open_dataset(path)


def test_labels_of_hdf5_are_names_too(tmp_path):
    with h5py.File(tmp_path / "darcy.h5", "w") as file:
        file["tensor"], file["nu"] = np.zeros((2, 1, 4, 4), "f4"), np.ones((2, 4, 4), "f4")
        for axis, name in enumerate(("sample", "y", "x")):
            file["nu"].dims[axis].label = name
    with pytest.raises(ValueError, match=r"names the axes of nu \(sample, y, x\)"):
        open_dataset(tmp_path / "darcy.h5")


def test_a_description_that_contradicts_the_file_is_refused(tmp_path):
    values = np.random.default_rng(2).standard_normal((2, 4, 4))
    path = tmp_path / "own.nc"
    xr.Dataset({"w": (("sample", "y", "x"), values)}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(ValueError, match=r"gives w the axes \(sample, x, y\); the file itself names them"):
        describe_arrays(path, {"w": ("sample", "x", "y")}, grid=Grid((4, 4)))
    describe_arrays(path, {"w": ("sample", "y", "x")}, grid=Grid((4, 4)))
    with open_dataset(path) as opened:
        assert np.array_equal(opened.w.values, values.transpose(0, 2, 1))


def test_the_well_goes_by_its_own_dimensions(tmp_path):
    path = write_sample("the-well", tmp_path / "well.hdf5")
    with h5py.File(path, "a") as file:
        names = [str(n) for n in file["dimensions"].attrs["spatial_dims"]]
        field = file["t0_fields"][file["t0_fields"].attrs["field_names"][0]]
        for axis, name in enumerate(("sample", "time", *names[::-1])):
            field.dims[axis].label = name
    with pytest.raises(ValueError, match="by its flags; the file itself names its axes"):
        open_dataset(path)
    with h5py.File(path, "a") as file:
        file["dimensions"].attrs["spatial_dims"] = names[::-1]
    with pytest.raises(ValueError, match=f"spatial_dims is {', '.join(names[::-1])}: expected {', '.join(names)}"):
        open_dataset(path)
