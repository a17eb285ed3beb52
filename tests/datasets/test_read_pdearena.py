"""pdearena files against the arrays they were written from, each value at its true place."""

import json

import h5py
import numpy as np
import pytest
import xarray as xr
from flow_checks import RNG, check_holds, check_round_trip, notes_of

from sciops.datasets import convert, grid_of, load_splits, open_dataset
from sciops.datasets.conventions import parameters_of, split_indices, state_of
from sciops.datasets.formats import find_reader
from sciops.datasets.formats.samples.flow import SAMPLES
from sciops.grids import Grid


def test_pdearena_smoke_and_velocities_have_their_places(tmp_path):
    path = tmp_path / "file"
    SAMPLES["pdearena-ns"](path, seed=5)
    with h5py.File(path) as file:
        raw = {name: array[()] for name, array in file["train"].items()}
    check_holds(path, {name: raw[name] for name in ("u", "vx", "vy")})
    with open_dataset(path) as dataset:
        h, centres = 2.0, 2.0 * (np.arange(16) + 0.5)
        assert grid_of(dataset, "u") == Grid((16, 16), 32.0, "cell")
        for name, axis in (("vx", 0), ("vy", 1)):
            grid = grid_of(dataset, name)
            along, across = grid.coordinates()[axis], grid.coordinates()[1 - axis]
            np.testing.assert_allclose(along, h * np.arange(16), atol=1e-12)
            np.testing.assert_allclose(across, centres, atol=1e-12)
            assert grid.domain == ((0.0, 32.0), (0.0, 32.0))
            # the wall of the box is where the lower faces say: no flow through it
            assert np.abs(np.take(dataset[name].values, 0, 2 + axis)).max() == 0
        np.testing.assert_allclose(dataset["x"].values, centres, atol=1e-12)
        # what flows into a cell flows out of it: true for these places, and for no others
        flow = dataset.isel(sample=0, time=0)
        vx = np.concatenate([flow["vx"].values, np.zeros((1, 16))])
        vy = np.concatenate([flow["vy"].values, np.zeros((16, 1))], 1)
        assert np.abs(np.diff(vx, axis=0) + np.diff(vy, axis=1)).max() < 1e-12
        assert "x runs from wall to wall" in notes_of(dataset) and "cells of 2" in notes_of(dataset)
        # t says 18 … 27 in five steps, dt says 1.5
        np.testing.assert_allclose(dataset["time"].values, 18 + 1.5 * np.arange(6), rtol=1e-12)
        assert "steps of 1.8" in notes_of(dataset) and "says 1.5" in notes_of(dataset)
        assert np.array_equal(dataset["buoyancy_y"].values, raw["buo_y"]) and state_of(dataset) == ("u", "vx", "vy")
        assert np.array_equal(split_indices(dataset, "train"), np.arange(8))
        again = check_round_trip(tmp_path, dataset, "pdearena-ns")
    with h5py.File(again) as file:  # its own loaders find what they expect
        assert np.array_equal(file["train/x"][:], raw["x"]) and np.array_equal(file["train/dx"][:], raw["dx"])
        assert np.array_equal(file["train/buo_y"][:], raw["buo_y"]) and np.array_equal(file["train/dt"][:], raw["dt"])


def test_pdearena_constants_and_times_by_sample(tmp_path):
    path = tmp_path / "file"
    SAMPLES["pdearena-ns"](path, seed=0)
    with h5py.File(path, "r+") as file:
        group = file["train"]
        group["buo_y"][:] = 0.5
        group["dt"][:] = np.linspace(1, 2, 8)
        file.move("train", "test")
    with open_dataset(path) as dataset:
        assert parameters_of(dataset) == {"buoyancy_y": 0.5} and len(split_indices(dataset, "test")) == 8
        expected = 18 + np.linspace(1, 2, 8)[:, None] * np.arange(6)
        np.testing.assert_allclose(dataset["times"].values, expected, rtol=1e-12)
        assert np.array_equal(dataset["time"].values, np.arange(6.0)) and dataset["time"].attrs["units"] == "steps"
        check_round_trip(tmp_path, dataset, "pdearena-ns")
        with pytest.raises(ValueError, match="keeps one file a split; the data set holds no split"):
            convert(dataset.drop_vars("split"), tmp_path / "refused", "pdearena-ns")
        moved = dataset.copy()
        moved["vx"] = dataset["vx"].assign_attrs(grid=dataset.attrs["grid"])
        with pytest.raises(ValueError, match="vx of the data set lies at"):
            convert(moved, tmp_path / "refused", "pdearena-ns")


def test_pdearena_ks_lengths_and_times_by_sample(tmp_path):
    path = tmp_path / "file"
    SAMPLES["pdearena-ks"](path, seed=6)
    with h5py.File(path) as file:
        raw = {name: array[()] for name, array in file["train"].items()}
    check_holds(path, {"u": raw["pde_10-32"]})
    with open_dataset(path) as dataset:
        assert dataset.attrs["equation"] == "kuramoto_sivashinsky" and grid_of(dataset) == Grid(32, 1.0, "periodic")
        np.testing.assert_allclose(dataset["length"].values[:, None] * dataset["x"].values, raw["x"], rtol=1e-12)
        assert np.array_equal(dataset["times"].values, raw["t"])
        assert np.array_equal(dataset["viscosity"].values, raw["v"])
        # the equation, with each sample's own length, step and viscosity, holds in the waves the sample resolves
        k = 2 * np.pi * np.fft.rfftfreq(32, 1 / 32) / dataset["length"].values[:, None, None]
        u, step = dataset["u"].values, np.diff(dataset["times"].values[:, :2])[..., None]
        linear = (k**2 - dataset["viscosity"].values[:, None, None] * k**4) * np.fft.rfft(u)
        rate = (linear - 0.5j * k * np.fft.rfft(u**2))[:, 2:-2, :10]
        stepped = (8 * (u[:, 3:-1] - u[:, 1:-3]) - (u[:, 4:] - u[:, :-4])) / (12 * step)
        assert np.linalg.norm(np.fft.rfft(stepped)[..., :10] - rate) < 0.01 * np.linalg.norm(rate)
        again = check_round_trip(tmp_path, dataset, "pdearena-ks")
    with h5py.File(again) as file:
        for name in ("dx", "v", "t"):
            np.testing.assert_allclose(file[f"train/{name}"][()], raw[name], rtol=1e-15)


def test_pdearena_one_length_and_the_other_equations(tmp_path):
    x, t = 10 * np.arange(32) / 32, np.arange(8) * 0.5
    wave = np.sin(2 * np.pi * (x - 0.3 * t[:, None]) / 10)
    for equation, factor in (
        ("kdv", 1.0),
        ("heat", 0.9 ** np.arange(8)),
        ("kuramoto_sivashinsky", 1 + 0.1 * np.cos(t)),
    ):
        path = tmp_path / equation
        with h5py.File(path, "w") as file:
            group = file.create_group("valid")
            group["pde_8-32"] = np.tile(wave * np.reshape(factor, (-1, 1)), (3, 1, 1))
            group["dx"], group["dt"], group["t"] = np.full(3, 10 / 32), np.full(3, 0.5), np.tile(t, (3, 1))
        with open_dataset(path) as dataset:
            assert dataset.attrs["equation"] == equation and grid_of(dataset) == Grid(32, 10.0, "periodic")
            assert np.array_equal(dataset["time"].values, t) and "times" not in dataset
            assert len(split_indices(dataset, "validation")) == 3 and parameters_of(dataset) == {}
            check_round_trip(tmp_path, dataset, "pdearena-ks")


@pytest.mark.parametrize("layout", ["pdearena-swe", "pdearena-swe-collected"])
def test_pdearena_shallow_water_goes_from_south_to_north(tmp_path, layout):
    path = tmp_path / "file"
    SAMPLES[layout](path, seed=8)
    names, collected = ("pres", "u", "v", "vor", "div"), layout.endswith("collected")
    with h5py.File(path) as file:
        lat, lon = file["lat"][:], file["lon"][:]
        raw = {name: file[name][()] if collected else file[name][()][None] for name in names}
    truth = {name: (raw[name] if name == "pres" else raw[name][:, :, 0])[:, :, ::-1] for name in names}
    assert lat[0] > lat[-1]
    if collected:
        check_holds(path, truth)
    with open_dataset(path) as dataset:
        for name in names:
            assert not dataset[name].variable._in_memory
            assert np.array_equal(dataset[name][:, [3, 1], ::-2].values, truth[name][:, [3, 1], ::-2])
            assert np.array_equal(dataset[name].values, truth[name])
        assert find_reader(path).name == "pdearena-swe" and state_of(dataset) == ("pres", "u", "v")
        assert dataset.attrs["equation"] == "shallow_water" and dataset.attrs["grid_type"] == "spherical"
        assert np.array_equal(dataset["latitude"].values, lat[::-1]) and np.array_equal(dataset["y"].values, lon)
        # the grid's latitudes are uniform, and the file's all but that
        step = grid_of(dataset).spacing[0]
        away = np.abs(dataset["x"].values - dataset["latitude"].values).max()
        assert 1e-3 * step < away < 0.05 * step and "% of a step from uniform" in notes_of(dataset)
        assert json.loads(dataset.attrs["boundary"]) == {"y": "periodic"}
        assert dataset["time"].attrs["units"].startswith("hours since") and dataset["u"].attrs["units"] == "m/s"
        # h_t + H div = 0 and u_t = −g h_λ / (a cos φ), v_t = −g h_φ / a at those latitudes: no axis or sign is amiss
        north = np.radians(dataset["latitude"].values)[:, None]
        seconds = 3600 * np.diff(dataset["time"].values)[0]
        h, u, v, div = (dataset[name].values.astype(float) for name in ("pres", "u", "v", "div"))
        rate = lambda field: (field[:, 2:] - field[:, :-2]) / (2 * seconds)  # noqa: E731
        # the differences of a wave over two steps are those of its derivative times this factor
        turn = np.sqrt(6 * 9.81 * 8000) / 6.371e6 * seconds
        factor = np.sin(turn) / turn
        assert np.abs(rate(h) + 8000 * div[:, 1:-1] * factor).max() < 1e-5 * np.abs(rate(h)).max()
        waves = 1j * np.fft.fftfreq(32, 1 / 32)
        east = np.fft.ifft(waves * np.fft.fft(h)).real / (6.371e6 * np.cos(north))
        assert np.abs(rate(u) + 9.81 * east[:, 1:-1] * factor).max() < 1e-5 * np.abs(rate(u)).max()
        slope = np.gradient(h, north[:, 0], axis=2) / 6.371e6
        middle = np.s_[:, :, 3:-3]
        assert np.abs((rate(v) + 9.81 * slope[:, 1:-1] * factor)[middle]).max() < 0.05 * np.abs(rate(v)).max()
        again = check_round_trip(tmp_path, dataset, "pdearena-swe")
    with xr.open_dataset(again, engine="h5netcdf", decode_times=False) as plain:  # its own loaders find their names
        for name in names:
            assert np.array_equal(plain[name].values, raw[name] if collected else raw[name][0]), name
        assert np.array_equal(plain["lat"].values, lat) and plain["u"].dims[-3:] == ("lev", "lat", "lon")


def test_pdearena_shallow_water_as_it_is_published(tmp_path):
    """train/seed=…/run…/output.nc, one trajectory each: their windows, file after file."""
    for part, runs in (("train", ((1, 1), (1, 2), (2, 1))), ("valid", ((5, 1),)), ("test", ((3, 1), (3, 2)))):
        for seed, run in runs:
            folder = tmp_path / part / f"seed={seed}" / f"run{run:04d}"
            folder.mkdir(parents=True)
            SAMPLES["pdearena-swe"](folder / "output.nc", seed=10 * seed + run)
    parts = load_splits(tmp_path, windows={"history": 2})
    assert [len(part) for part in (parts.train, parts.validation, parts.test)] == [12, 4, 8]  # of 6 states each
    with xr.open_dataset(tmp_path / "train" / "seed=1" / "run0002" / "output.nc", decode_times=False) as plain:
        wanted = plain["pres"][2].values[::-1]
    found = parts.train.batch([4])
    assert np.array_equal(found["y"][0, 0], wanted) and found["x"].shape == (1, 6, 16, 32)
    for part in (parts.train, parts.validation, parts.test):
        part.close()


def test_pdearena_shallow_water_of_other_shapes(tmp_path):
    path = tmp_path / "file"
    SAMPLES["pdearena-swe"](path, seed=0)
    for name, values in (("lat", np.sort(RNG.random(16))), ("lon", np.full(32, np.nan))):
        SAMPLES["pdearena-swe"](path, seed=0)
        with h5py.File(path, "r+") as file:
            file[name][...] = values
        with open_dataset(path) as dataset:  # there to be read, but nothing that needs a grid is fooled
            assert "there is no grid" in dataset.attrs["no_grid"] and "grid" not in dataset.attrs
    with h5py.File(path, "r+") as file:
        levels = np.repeat(file["u"][()], 2, axis=1)
        del file["u"]
        file["u"] = levels
    with pytest.raises(ValueError, match="not a known layout"):
        open_dataset(path)
