"""CNO, Poseidon, pdearena and jax-cfd files against the arrays they were written from, each value at its true place."""

import json
import pickle

import h5py
import numpy as np
import pytest
import xarray as xr

from sciops.datasets import convert, grid_of, load_splits, open_dataset, validate
from sciops.datasets.conventions import parameters_of, split_indices, state_of
from sciops.datasets.formats import find_reader
from sciops.datasets.formats.samples.flow import SAMPLES, _vortices
from sciops.grids import Grid

RNG = np.random.default_rng(0)
UNIT = np.linspace(0, 1, 16)


def _notes(dataset):
    return " ".join(json.loads(dataset.attrs.get("notes", "[]")))


def _holds(path, truth):
    """Every variable whole, in part, and after a journey to another process; lazily, and with no handle left open."""
    for key in (np.s_[:], np.s_[2], np.s_[[5, 1], ::2], np.s_[::-1, 3], np.s_[1:2, 1:3, [2, 0]], np.s_[3:3]):
        with open_dataset(path) as dataset:
            for one in (dataset, pickle.loads(pickle.dumps(dataset))):
                for name, values in truth.items():
                    assert not one[name].variable._in_memory and one[name].dtype == values.dtype
                    if one[name].ndim < 4 and key == np.s_[1:2, 1:3, [2, 0]]:
                        continue
                    assert np.array_equal(one[name][key].values, values[key]), (name, key)
    dataset = open_dataset(path)
    path.rename(path.with_name("moved"))
    with pytest.raises(FileNotFoundError):
        dataset[next(iter(truth))][0].load()
    path.with_name("moved").rename(path)


def _goes_round(tmp_path, source, layout):
    with open_dataset(convert(source, tmp_path / f"{layout}-again", layout, overwrite=True)) as there:
        assert list(there.data_vars) == list(source.data_vars)
        for name, field in source.variables.items():
            assert np.array_equal(there[name].values, field.values) and there[name].dtype == field.dtype, name
            if name in source.data_vars:
                assert grid_of(there, name) == grid_of(source, name)
        for key in ("equation", "task", "state", "parameters", "boundary"):
            assert there.attrs.get(key) == source.attrs.get(key)
    return tmp_path / f"{layout}-again"


def _groups(path, prefix, count, suffix="", shape=(6, 6), extra=()):
    values = RNG.random((2, count, *shape)).astype(np.float32)
    with h5py.File(path, "w") as file:
        for i in range(count):
            file[f"{prefix}_{i}{suffix}/input"], file[f"{prefix}_{i}{suffix}/output"] = values[:, i]
        for name in extra:
            file[name] = RNG.random()
    return values


# CNO


def test_cno_darcy(tmp_path):
    path = tmp_path / "file"
    SAMPLES["cno"](path, seed=1)
    with h5py.File(path) as file:
        a, u = (np.stack([file[f"sample_{i}/{k}"][:] for i in range(8)]) for k in ("input", "output"))
        low = float(file["min_u"][()])
    _holds(path, {"a": a, "u": u})
    with open_dataset(path) as dataset:
        assert dataset.attrs["equation"] == "darcy" and dataset.attrs["coefficient"] == "values"
        assert grid_of(dataset) == Grid((16, 16)) and dataset.attrs["positions"].startswith("seen")
        assert dataset["u"].attrs["training_min"] == low and "split" not in dataset
        again = _goes_round(tmp_path, dataset, "cno")
    with h5py.File(again) as file:
        assert file["sample_7/input"].shape == (16, 16) and file["max_u0"][()] == 12.0


def test_cno_equation_order_and_splits(tmp_path):
    for prefix, suffix, extra, count, equation, counts in (
        ("sample", "", ("min_u0",), 512, "darcy", (256, 128, 128)),
        ("sample", "", ("min_u0",), 511, "darcy", None),
        ("Sample", "", ("min_inp", "max_inp"), 1408, "poisson", (1024, 128, 256)),
        ("Sample", "", ("min_u0",), 512, "allen_cahn", (256, 128, 128)),
        ("Sample", "_t_5", ("min_u0",), 12, "wave", None),
        ("Sample", "", (), 512, "cno", None),
    ):
        path = tmp_path / f"{equation}{count}"
        values = _groups(path, prefix, count, suffix, (4, 4), extra)
        with open_dataset(path) as dataset:
            assert dataset.attrs["equation"] == equation and dataset.attrs["task"] == "steady"
            # sample 10 comes after sample 9, not after sample 1
            assert np.array_equal(dataset["u"].values, values[1])
            assert np.array_equal(dataset["f" if equation == "poisson" else "a"].values, values[0])
            if counts is None:
                assert "split" not in dataset
            else:
                found = [split_indices(dataset, name) for name in ("train", "validation", "test")]
                assert tuple(map(len, found)) == counts and np.array_equal(np.concatenate(found), np.arange(count))


def test_cno_walls_are_seen(tmp_path):
    """u that vanishes on the wall: nodes on it, cells half a cell inside; anything else is only assumed."""
    for grid in (Grid((16, 16)), Grid((16, 16), centering="cell")):
        x, y = grid.meshgrid()
        source = xr.Dataset(
            {
                name: (("sample", "x", "y"), np.tile(np.sin(np.pi * x) * np.sin(np.pi * y), (5, 1, 1)))
                for name in ("f", "u")
            },
            attrs={"equation": "poisson", "grid": json.dumps(grid.to_dict())},
        )
        with open_dataset(convert(source, tmp_path / grid.centering, "cno")) as there:
            assert grid_of(there) == grid and there.attrs["positions"].startswith("seen")
    noise = tmp_path / "noise"
    _groups(noise, "sample", 6, shape=(8, 8))
    with open_dataset(noise) as dataset:
        assert dataset.attrs["positions"].startswith("assumed") and grid_of(dataset) == Grid((8, 8))
    # a grid that the numbers would not tell is stated
    odd = Grid((8, 8), ((0, 2), (0, 2)), "cell")
    with open_dataset(noise) as dataset:
        stated = dataset.assign_attrs(grid=json.dumps(odd.to_dict())).load()
    with open_dataset(convert(stated, tmp_path / "odd", "cno")) as there:
        assert grid_of(there) == odd and there.attrs["positions"] == "stored"


# Poseidon


def test_poseidon_wave_has_its_speed(tmp_path):
    path = tmp_path / "file"
    SAMPLES["poseidon"](path, seed=2)
    with h5py.File(path) as file:
        u, c = file["solution"][:, :, 0], file["c"][:]
    _holds(path, {"u": u, "c": c})
    with open_dataset(path) as dataset:
        assert dataset.attrs["equation"] == "wave" and state_of(dataset) == ("u",)
        assert "time" not in dataset.coords and "states no times" in _notes(dataset)
        assert dataset.attrs["positions"].startswith("assumed")
        again = _goes_round(tmp_path, dataset, "poseidon")
        with pytest.raises(ValueError, match=r"no place for times.*drop_vars\(\['time'\]\)"):
            convert(dataset.assign_coords(time=np.arange(6.0)), tmp_path / "refused", "poseidon")
    with h5py.File(again) as file:
        assert file["solution"].shape == (8, 6, 16, 16) and np.array_equal(file["c"][:], c)


def test_poseidon_one_array_a_sample(tmp_path):
    path = tmp_path / "file"
    SAMPLES["poseidon-samples"](path, seed=3)
    with h5py.File(path) as file:
        truth = np.stack([file[f"sample_{i}"][:] for i in range(8)])
    _holds(path, {"u": truth[:, :, 0], "v": truth[:, :, 1]})
    with open_dataset(path) as dataset:
        assert state_of(dataset) == ("u", "v") and dataset.attrs["equation"] == "navier_stokes_velocity"
        # on one period: the divergence of what is stored vanishes with u along x
        assert grid_of(dataset) == Grid((16, 16), centering="periodic")
        k = 2j * np.pi * np.fft.fftfreq(16, 1 / 16)
        u, v = (np.fft.fft2(dataset[name][0, 0].values.astype(float)) for name in ("u", "v"))
        assert np.abs(k[:, None] * u + k * v).max() < 1e-4 * np.abs(k[:, None] * u).max()
        again = _goes_round(tmp_path, dataset, "poseidon")
    with h5py.File(again) as file:
        assert file["velocity"].shape == (8, 6, 2, 16, 16)


def test_poseidon_helmholtz_carries_its_wall_value(tmp_path):
    path = tmp_path / "file"
    SAMPLES["poseidon-helmholtz"](path, seed=4)
    with h5py.File(path) as file:
        truth = {k: np.stack([file[f"Sample_{i}/{k}"][()] for i in range(8)]) for k in ("a", "u", "bc")}
    with open_dataset(path) as dataset:
        for name, values in truth.items():
            assert np.array_equal(dataset[name].values, values)
        assert dataset["bc"].dims == ("sample",) and dataset.attrs["task"] == "steady"
        # bc on the end rows tells nodes, though u is not zero there
        assert grid_of(dataset) == Grid((16, 16)) and dataset.attrs["positions"].startswith("seen")
        np.testing.assert_allclose(dataset["u"][:, 0].values, np.tile(truth["bc"][:, None], 16), rtol=1e-6)
        _goes_round(tmp_path, dataset, "poseidon")


@pytest.mark.parametrize(
    ("key", "shape", "names", "equation", "centering"),
    [
        ("velocity", (3, 4, 2, 8, 8), ("u", "v"), "navier_stokes_velocity", "periodic"),
        ("velocity", (3, 4, 3, 8, 8), ("u", "v", "tracer"), "navier_stokes_velocity", "periodic"),
        ("data", (3, 4, 4, 8, 8), ("density", "u", "v", "pressure"), "compressible_euler", "cell"),
        ("data", (3, 4, 5, 8, 8), ("density", "u", "v", "pressure", "energy"), "compressible_euler", "cell"),
        ("solution", (3, 4, 5, 8, 8), ("density", "u", "v", "pressure", "tracer"), "compressible_euler", "cell"),
        ("solution", (3, 4, 2, 8, 8), ("u", "v"), "navier_stokes_velocity", "periodic"),
        (
            "solution",
            (3, 4, 6, 8, 8),
            ("density", "u", "v", "pressure", "tracer", "gravity"),
            "compressible_euler",
            "cell",
        ),
        ("solution", (3, 4, 8, 8), ("u",), "unknown", "node"),
    ],
)
def test_poseidon_channels(tmp_path, key, shape, names, equation, centering):
    values = RNG.random(shape).astype(np.float32)
    with h5py.File(tmp_path / "file", "w") as file:
        file[key] = values
    with open_dataset(tmp_path / "file") as dataset:
        assert tuple(dataset.data_vars) == names and dataset.attrs["equation"] == equation
        for i, name in enumerate(names):
            assert np.array_equal(dataset[name].values, values[:, :, i] if len(shape) == 5 else values)
        assert state_of(dataset) == tuple(name for name in names if name != "gravity")
        assert grid_of(dataset).centering == centering
        _goes_round(tmp_path, dataset, "poseidon")


def test_poseidon_dimensions_without_coordinates_are_no_arrays(tmp_path):
    """The public files are NetCDF-4 of one variable; HDF5 keeps the length of each dimension as an array beside it."""
    path = tmp_path / "file"
    SAMPLES["poseidon-netcdf"](path, seed=5)
    x = np.arange(16) / 16
    truth = dict(zip(("u", "v", "tracer"), (field.astype(np.float32) for field in _vortices(5, x, x, 1.0))))
    with h5py.File(path) as file:
        assert set(file) == {"velocity", "member", "time", "channel", "x", "y"}
    _holds(path, truth)
    with open_dataset(path) as dataset:
        assert dataset.attrs["layout"] == "poseidon" and state_of(dataset) == ("u", "v", "tracer")
        # the tracer is carried along: c_t + u c_x + v c_y = 0
        c, u, v = (dataset[name].values.astype(float) for name in ("tracer", "u", "v"))
        k = 2j * np.pi * np.fft.fftfreq(16, 1 / 16)
        along_x = np.fft.ifft(k[:, None] * np.fft.fft(c, axis=2), axis=2).real
        along_y = np.fft.ifft(k * np.fft.fft(c, axis=3), axis=3).real
        rate = (c[:, 2:] - c[:, :-2]) / 0.2
        assert np.abs(rate + (u * along_x + v * along_y)[:, 1:-1]).max() < 0.05 * np.abs(rate).max()
        _goes_round(tmp_path, dataset, "poseidon")


def test_poseidon_steady_pairs(tmp_path):
    values = RNG.random((3, 2, 8, 8)).astype(np.float32)
    for equation, content in (
        ("poisson", {"source": values[:, 0], "solution": values[:, 1]}),
        ("airfoil", {"solution": values}),
    ):
        with h5py.File(tmp_path / equation, "w") as file:
            for name, array in content.items():
                file[name] = array
        with open_dataset(tmp_path / equation) as dataset:
            assert dataset.attrs["equation"] == equation and dataset.attrs["task"] == "steady"
            assert np.array_equal(dataset["u"].values, values[:, 1])
            assert np.array_equal(dataset["f" if equation == "poisson" else "a"].values, values[:, 0])
            _goes_round(tmp_path, dataset, "poseidon")


# pdearena


def test_pdearena_smoke_and_velocities_have_their_places(tmp_path):
    path = tmp_path / "file"
    SAMPLES["pdearena-ns"](path, seed=5)
    with h5py.File(path) as file:
        raw = {name: array[()] for name, array in file["train"].items()}
    _holds(path, {name: raw[name] for name in ("u", "vx", "vy")})
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
        assert "x runs from wall to wall" in _notes(dataset) and "cells of 2" in _notes(dataset)
        # t says 18 … 27 in five steps, dt says 1.5
        np.testing.assert_allclose(dataset["time"].values, 18 + 1.5 * np.arange(6), rtol=1e-12)
        assert "steps of 1.8" in _notes(dataset) and "says 1.5" in _notes(dataset)
        assert np.array_equal(dataset["buoyancy_y"].values, raw["buo_y"]) and state_of(dataset) == ("u", "vx", "vy")
        assert np.array_equal(split_indices(dataset, "train"), np.arange(8))
        again = _goes_round(tmp_path, dataset, "pdearena-ns")
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
        _goes_round(tmp_path, dataset, "pdearena-ns")
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
    _holds(path, {"u": raw["pde_10-32"]})
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
        again = _goes_round(tmp_path, dataset, "pdearena-ks")
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
            _goes_round(tmp_path, dataset, "pdearena-ks")


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
        _holds(path, truth)
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
        assert 1e-3 * step < away < 0.05 * step and "% of a step from uniform" in _notes(dataset)
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
        again = _goes_round(tmp_path, dataset, "pdearena-swe")
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
    with pytest.raises(ValueError, match="no known layout"):
        open_dataset(path)


# jax-cfd


@pytest.mark.parametrize("layout", ["jax-cfd", "jax-cfd-netcdf3"])
def test_jax_cfd_offsets(tmp_path, layout):
    path = tmp_path / "file"
    SAMPLES[layout](path, seed=7)
    with xr.open_dataset(path, engine="h5netcdf" if layout == "jax-cfd" else "scipy") as plain:
        truth = {name: plain[name].values.astype(np.float32) for name in ("u", "v")}
    _holds(path, truth)
    with open_dataset(path) as dataset:
        assert find_reader(path).name == "jax-cfd" and state_of(dataset) == ("u", "v")
        assert parameters_of(dataset) == {"viscosity": 0.05} and dataset.attrs["save_grid_size"] == 16
        np.testing.assert_allclose(dataset["time"].values, 0.1 * np.arange(6), rtol=1e-12)
        h = 2 * np.pi / 16
        for name, offset in (("u", (1.0, 0.5)), ("v", (0.5, 1.0))):
            grid = grid_of(dataset, name)
            assert grid.centering == "periodic"
            for points, off in zip(grid.coordinates(), offset):
                np.testing.assert_allclose(points, h * (np.arange(16) + off), rtol=1e-12)
            # the formula at those points, and not at the coordinates in the file, gives the numbers
            exact = _vortices(7, *grid.coordinates(), 2 * np.pi)["uv".index(name)]
            np.testing.assert_allclose(dataset[name].values, exact, atol=1e-6)
        np.testing.assert_allclose(dataset["x"].values, h * (np.arange(16) + 0.5), rtol=1e-12)
        _goes_round(tmp_path, dataset, "jax-cfd")
    with open_dataset(path, 8) as coarse:  # every second point of each component, where it is
        for name in ("u", "v"):
            exact = _vortices(7, *grid_of(coarse, name).coordinates(), 2 * np.pi)["uv".index(name)]
            np.testing.assert_allclose(coarse[name].values, exact, atol=1e-6)


def test_jax_cfd_without_samples_and_between_walls(tmp_path):
    centres, faces = (np.arange(12) + 0.5) / 12, (np.arange(12) + 1) / 12
    time = np.arange(5) * 0.25
    u = np.exp(-time)[:, None, None] * np.multiply.outer(np.sin(np.pi * faces / 2), 1 + centres)
    v = np.exp(-time)[:, None, None] * np.multiply.outer(1 + centres, faces**2)
    source = xr.Dataset(
        {"u": (("time", "x", "y"), u, {"offset": (1.0, 0.5)}), "v": (("time", "x", "y"), v)},
        {"time": time, "x": centres, "y": centres},
    )
    source.to_netcdf(tmp_path / "file", engine="h5netcdf")
    with open_dataset(tmp_path / "file") as dataset:
        assert dataset["u"].shape == (1, 5, 12, 12) and np.array_equal(dataset["u"][0].values, u)
        assert np.array_equal(dataset["v"][:, [3, 1], 2].values, v[None][:, [3, 1], 2])
        assert grid_of(dataset) == Grid((12, 12), 1.0, "cell") and "boundary" not in dataset.attrs
        np.testing.assert_allclose(grid_of(dataset, "u").coordinates()[0], faces, rtol=1e-12)
        np.testing.assert_allclose(grid_of(dataset, "u").coordinates()[1], centres, rtol=1e-12)
        assert "v has no attribute offset: (0.5, 1.0) is assumed" in _notes(dataset)
        _goes_round(tmp_path, dataset, "jax-cfd")


def test_jax_cfd_in_three_dimensions(tmp_path):
    n, shape = 6, (2, 3, 6, 6, 6)
    x = (np.arange(n) + 0.5) / n
    values = {name: RNG.random(shape).astype(np.float32) for name in "uvw"}
    dims = ("sample", "time", "x", "y", "z")
    offsets = np.eye(3) / 2 + 0.5
    source = xr.Dataset(
        {k: (dims, v, {"offset": offsets[i]}) for i, (k, v) in enumerate(values.items())},
        {"sample": [0, 1], "time": [0.0, 1.0, 2.0], "x": x, "y": x, "z": x},
    )
    source.to_netcdf(tmp_path / "file", engine="scipy")
    with open_dataset(tmp_path / "file") as dataset:
        assert state_of(dataset) == ("u", "v", "w")
        for i, name in enumerate("uvw"):
            assert np.array_equal(dataset[name].values, values[name])
            firsts = [points[0] * n for points in grid_of(dataset, name).coordinates()]
            np.testing.assert_allclose(firsts, offsets[i], rtol=1e-12)
        _goes_round(tmp_path, dataset, "jax-cfd")


# what none of them is


def _near_misses(tmp_path):
    def write(name, content):
        with h5py.File(tmp_path / name, "w") as file:
            for key, value in content.items():
                file[key] = value
        return tmp_path / name

    field, flow = np.zeros((4, 4)), np.zeros((2, 3, 4, 4))
    yield write("ranks", {"sample_0/input": field, "sample_0/output": field[0]})
    yield write("odd", {"sample_0/input": field, "sample_0/output": field, "sample_1/input": field})
    yield write("sizes", {"Sample_0/a": field, "Sample_0/u": np.zeros((5, 5)), "Sample_0/bc": 1.0})
    yield write("numbers", {"Sample_0/a": field, "Sample_0/u": field, "Sample_0/bc": np.zeros(3)})
    yield write("three", {"sample_0": np.zeros((3, 3, 4, 4))})
    yield write("oblong", {"velocity": np.zeros((2, 3, 2, 4, 5))})
    yield write("whole", {"solution": np.zeros((2, 3, 2, 4, 4), int)})
    yield write("speed", {"solution": flow, "c": np.zeros((3, 4, 4))})
    yield write("missing", {"train/u": flow, "train/vx": flow})
    yield write("uneven", {"train/u": flow, "train/vx": flow, "train/vy": flow[:, :, :3]})
    yield write("other", {"part/u": flow, "part/vx": flow, "part/vy": flow})
    yield write("stated", {"train/pde_3-5": np.zeros((2, 3, 4)), "train/dt": np.ones(2), "train/dx": np.ones(2)})
    yield write("steps", {"train/pde_3-4": np.zeros((2, 3, 4)), "train/dt": np.ones(3), "train/dx": np.ones(2)})
    axes = {"time": np.arange(3.0), "x": np.arange(4.0), "y": np.arange(4.0)}
    yield write("lengths", {"u": flow, "v": flow, **axes, "x": np.arange(5.0)})
    yield write("component", {"u": flow, **axes})


def test_near_misses_are_no_layout(tmp_path):
    for path in _near_misses(tmp_path):
        assert find_reader(path) is None, path
        with pytest.raises(ValueError, match="an HDF5 file with .* no known layout") as caught:
            open_dataset(path)
        assert "\n" not in str(caught.value)


def test_netcdf3_that_ends_early(tmp_path):
    path = tmp_path / "file"
    SAMPLES["jax-cfd-netcdf3"](path)
    content = path.read_bytes()
    for length in (8, 100, 400, len(content) - 4000):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match="a NetCDF-3 file .*truncated or damaged|binary file of unknown") as caught:
            open_dataset(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("layout", list(SAMPLES))
def test_samples_have_no_errors_and_go_to_the_native_file(tmp_path, layout):
    SAMPLES[layout](tmp_path / "file", seed=9)
    assert [str(f) for f in validate(tmp_path / "file") if f.severity == "error"] == []
    with open_dataset(tmp_path / "file") as source, open_dataset(convert(source, tmp_path / "n", "native")) as native:
        for name in source.data_vars:
            assert np.array_equal(native[name].values, source[name].values)
            assert grid_of(native, name) == grid_of(source, name)
