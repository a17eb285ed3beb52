"""Positions and times in PDEBench's files, and what is noted where they are not cells or not increasing."""

import json

import h5py
import numpy as np
import pytest
from pdebench_files import numbers_in, replace_array

from sciops.datasets import convert, grid_of, open_dataset, write_sample
from sciops.datasets.conventions import build_dataset, parameters_of
from sciops.grids import Grid

CENTRES = (np.arange(32) + 0.5) / 32


def test_periodic_cell_centres_keep_position_and_period(tmp_path):
    path = write_sample("pdebench-1d-advection", tmp_path / "x")
    grid = grid_of(open_dataset(path))
    assert grid.centering == "periodic" and grid.extent == ((1 / 64, 1 + 1 / 64),)
    np.testing.assert_allclose(grid.coordinates()[0], CENTRES, rtol=1e-15)
    truth = numbers_in(path)["u"]
    for n in (16, 8):
        coarse = open_dataset(path, n)
        assert np.array_equal(coarse["u"].values, truth[..., :: 32 // n])
        np.testing.assert_allclose(coarse["x"], CENTRES[:: 32 // n], rtol=1e-15)
    with pytest.raises(ValueError, match="resolution=12: .*nested in it: 16, 8"):
        open_dataset(path, 12)


BENT = CENTRES**1.5


@pytest.mark.parametrize(
    ("points", "note"),
    [
        (None, "is missing"),
        (np.where(np.arange(32) == 3, np.nan, CENTRES), "holds NaN"),
        (BENT, "is not uniform"),
        (CENTRES[::-1].copy(), "does not increase"),
        (CENTRES[:-1], "has shape"),
        (np.linspace(0, 1, 32), "wall to wall"),
        (np.tile(CENTRES, (2, 1)), "has shape"),
        (np.array([b"a"] * 32), "is missing"),
    ],
)
def test_positions_that_cannot_be_cells_are_noted(tmp_path, points, note):
    for layout, x in (("pdebench-1d", "x-coordinate"), ("pdebench-cfd-1d", "x-coordinate")):
        path = write_sample(layout, tmp_path / layout)
        n = grid_of(open_dataset(path)).shape[0]
        values = points if points is None or n == 32 else points[..., : -(32 - n)]
        if note == "wall to wall":
            values = np.linspace(0, 1, n)
        replace_array(path, x, values)
        dataset = open_dataset(path)
        assert note in dataset.attrs["notes"] and dataset.attrs["positions"].startswith("assumed")
        np.testing.assert_allclose(dataset["x"], (np.arange(n) + 0.5) / n, rtol=1e-15)


@pytest.mark.parametrize("low, high", [(0, 1), (-1, 1), (2.5, 7.5), (0, 2 * np.pi), (-0.123456, 0.654321)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_box_is_found_to_the_precision_of_the_file(tmp_path, low, high, dtype):
    path = write_sample("pdebench-cfd-1d", tmp_path / "x")
    replace_array(path, "x-coordinate", (low + (np.arange(16) + 0.5) * (high - low) / 16).astype(dtype))
    (found,) = grid_of(open_dataset(path)).extent
    exact = abs(low) in (0, 1, 2.5)
    np.testing.assert_allclose(found, (low, high), rtol=1e-15 if exact else 1e-6 if dtype == np.float32 else 1e-14)


def test_times_that_do_not_fit_are_noted(tmp_path):
    path = write_sample("pdebench-1d", tmp_path / "x")
    good = (0.05 * np.arange(12)).astype(np.float32)
    assert "12 times for 11 states" in open_dataset(path)["time"].attrs["comment"]
    replace_array(path, "t-coordinate", good[:11])
    assert np.array_equal(open_dataset(path)["time"], good[:11].astype(np.float64))
    for values, note in ((None, "is missing"), (good[:5], "has shape"), (good * np.nan, "not finite"), (-good, "incr")):
        with h5py.File(path, "a") as file:
            if "t-coordinate" in file:
                del file["t-coordinate"]
            if values is not None:
                file["t-coordinate"] = values
        dataset = open_dataset(path)
        assert note in dataset.attrs["notes"] and "time" not in dataset.coords


def test_flow_is_periodic_only_where_the_file_or_the_caller_says_so(tmp_path):
    path = write_sample("pdebench-cfd", tmp_path / "x_periodic_Train.hdf5")
    dataset = open_dataset(path)
    assert grid_of(dataset) == Grid((16, 16), centering="cell") and "boundary" not in dataset.attrs
    assert parameters_of(dataset) == {"eta": 1e-8, "zeta": 1e-8, "M": 0.02}
    with pytest.raises(ValueError, match="resolution=8: .*16×16 cell points"):
        open_dataset(path, 8)
    stated = Grid((16, 16), ((1 / 32, 33 / 32),) * 2, "periodic")
    coarse = open_dataset(path, 8, grid=stated)
    assert np.array_equal(coarse["vy"].values, numbers_in(path)["vy"][..., ::2, ::2])
    with h5py.File(path, "a") as file:
        file.attrs["boundary"] = json.dumps({"x": "periodic", "y": "periodic"})
    assert grid_of(open_dataset(path)).same_points(stated)
    for wrong in ("{", '{"x": "periodic"}', '{"x": ["periodic"], "y": 3}'):
        with h5py.File(path, "a") as file:
            file.attrs["boundary"] = wrong
        assert grid_of(open_dataset(path)) == Grid((16, 16), centering="cell")


def test_rows_along_y_are_told_by_the_lengths_of_the_coordinates(tmp_path):
    data = np.random.default_rng(0).random((2, 3, 6, 4, 1)).astype(np.float32)  # (time, y, x)
    with h5py.File(tmp_path / "x", "w") as file:
        for i in range(2):
            file[f"{i}/data"] = data[i]
            file[f"{i}/grid/x"], file[f"{i}/grid/y"] = (np.arange(4) + 0.5) / 4, (np.arange(6) + 0.5) / 6
            file[f"{i}/grid/t"] = np.arange(3.0)
    dataset = open_dataset(tmp_path / "x")
    assert grid_of(dataset) == Grid((4, 6), centering="cell")
    truth = np.swapaxes(data[..., 0], 2, 3)
    assert np.array_equal(dataset["u"].values, truth)
    assert np.array_equal(dataset["u"][1, :, 2, ::2].values, truth[1, :, 2, ::2])


def test_double_precision_and_odd_grids_survive(tmp_path):
    """What single-precision coordinates could not give back: 0.1 t, walls at irrational places, a shifted grid."""
    rng, times = np.random.default_rng(0), 0.1 * np.arange(5)
    for grid in (Grid((12,), ((0.0, 2 * np.pi),), "periodic"), Grid((12,), ((-1 / 3, np.sqrt(2)),), "periodic")):
        fields = {"u": (("sample", "time", "x"), rng.random((3, 5, 12)), {})}
        dataset = build_dataset(
            fields,
            grid,
            layout="native",
            equation="advection",
            times=times,
            state=("u",),
            parameters={"velocity": 1 / 3},
        )
        back = open_dataset(convert(dataset, tmp_path / "x", "pdebench-1d", overwrite=True))
        assert grid_of(back).same_points(grid) and np.array_equal(back["u"].values, dataset["u"].values)
        assert np.array_equal(back["time"], times) and parameters_of(back) == {"velocity": 1 / 3}
    grid = Grid((4, 6), ((0.0, 0.3), (0.0, 0.7)), "cell", ((-0.1, 1.0), (0.0, 0.7)))
    names = ("density", "pressure", "vx", "vy")
    fields = {name: (("sample", "time", "x", "y"), rng.random((2, 5, 4, 6)), {}) for name in names}
    dataset = build_dataset(
        fields, grid, layout="native", equation="compressible_navier_stokes", times=times, state=names
    )
    back = open_dataset(convert(dataset, tmp_path / "y", "pdebench-cfd"))
    assert grid_of(back) == grid and np.array_equal(back["vy"].values, dataset["vy"].values)
    # a statement that contradicts the coordinates is not believed
    with h5py.File(tmp_path / "y", "a") as file:
        file.attrs["sciops_grid"] = json.dumps(Grid((4, 6), None, "cell").to_dict())
    again = open_dataset(tmp_path / "y")
    assert "does not fit the coordinates" in again.attrs["notes"]
    np.testing.assert_allclose(again["x"], dataset["x"], rtol=1e-7)
