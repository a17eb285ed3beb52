"""Coordinates that hold both ends of an interval are noticed on every interval, and cell centres are left alone."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest
import xarray as xr

from sciops.datasets import grid_of, open_dataset, validate, write_sample
from sciops.datasets.formats.shared.axes import axis_of, runs_end_to_end
from sciops.grids import Grid

INTERVALS = [(0.0, 1.0), (-1.0, 1.0), (0.0, 2 * np.pi), (-np.pi, np.pi), (0.0, 22.0), (2.5, 3.5), (0.0, 64 * np.pi)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("interval", INTERVALS)
def test_only_points_from_end_to_end_are_noticed(interval, dtype):
    a, b = interval
    for n in (32, 48, 64, 100, 128, 256, 1024):
        h = (b - a) / n
        points = {"ends": np.linspace(a, b, n), "cells": a + (np.arange(n) + 0.5) * h, "period": a + np.arange(n) * h}
        seen = {name: runs_end_to_end(axis_of(x.astype(dtype), n)) for name, x in points.items()}
        assert seen == {"ends": True, "cells": False, "period": False}, n


@pytest.mark.parametrize("interval", INTERVALS)
def test_the_period_of_a_pdebench_file(tmp_path, interval):
    # x = linspace(a, b, n): the period is b − a, and a finding says so
    n, (a, b) = 128, interval
    with h5py.File(tmp_path / "u.h5", "w") as file:
        file["tensor"] = np.random.default_rng(0).standard_normal((2, 3, n)).astype("f4")
        file["x-coordinate"], file["t-coordinate"] = np.linspace(a, b, n, dtype="f4"), np.arange(4, dtype="f4")
        file.attrs["beta"] = 1.0
    with open_dataset(tmp_path / "u.h5") as opened:
        ((left, right),) = grid_of(opened, "u").extent
    assert right - left == pytest.approx(b - a, rel=1e-6) and left == pytest.approx(a + 0.5 * (b - a) / n, abs=1e-5)
    assert any("runs from wall to wall" in f.message for f in validate(tmp_path / "u.h5", solutions=0))


def test_the_period_of_a_flow_and_of_a_sphere(tmp_path):
    n, rng = 32, np.random.default_rng(1)
    x = np.linspace(0, 2 * np.pi, n)
    flow = xr.Dataset({k: (("time", "x", "y"), rng.standard_normal((2, n, n))) for k in "uv"})
    flow.assign_coords(time=[0.0, 1.0], x=x, y=x).to_netcdf(tmp_path / "flow.nc", engine="h5netcdf")
    with open_dataset(tmp_path / "flow.nc") as opened:
        assert np.allclose([b - a for a, b in json_extent(opened)], 2 * np.pi)
        assert "wall to wall" in opened.attrs["notes"]
    path = write_sample("pdearena-swe", tmp_path / "swe.nc")
    with h5py.File(path, "a") as file:
        file["lon"][...] = np.linspace(0, 360, file["lon"].size)
    with open_dataset(path) as opened:
        assert np.allclose(json_extent(opened)[1], (0, 360)) and "lon runs from wall to wall" in opened.attrs["notes"]


def json_extent(dataset: xr.Dataset) -> list:
    return Grid.from_dict(json.loads(dataset.attrs["grid"])).extent
