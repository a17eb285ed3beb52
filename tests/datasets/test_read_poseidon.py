"""Poseidon files against the arrays they were written from, each value at its true place."""

import h5py
import numpy as np
import pytest
from flow_checks import RNG, check_holds, check_round_trip, notes_of

from sciops.datasets import convert, grid_of, open_dataset
from sciops.datasets.conventions import state_of
from sciops.datasets.formats.samples.flow import SAMPLES, _vortices
from sciops.grids import Grid


def test_poseidon_wave_has_its_speed(tmp_path):
    path = tmp_path / "file"
    SAMPLES["poseidon"](path, seed=2)
    with h5py.File(path) as file:
        u, c = file["solution"][:, :, 0], file["c"][:]
    check_holds(path, {"u": u, "c": c})
    with open_dataset(path) as dataset:
        assert dataset.attrs["equation"] == "wave" and state_of(dataset) == ("u",)
        assert "time" not in dataset.coords and "states no times" in notes_of(dataset)
        assert dataset.attrs["positions"].startswith("assumed")
        again = check_round_trip(tmp_path, dataset, "poseidon")
        with pytest.raises(ValueError, match=r"no place for times.*drop_vars\(\['time'\]\)"):
            convert(dataset.assign_coords(time=np.arange(6.0)), tmp_path / "refused", "poseidon")
    with h5py.File(again) as file:
        assert file["solution"].shape == (8, 6, 16, 16) and np.array_equal(file["c"][:], c)


def test_poseidon_one_array_a_sample(tmp_path):
    path = tmp_path / "file"
    SAMPLES["poseidon-samples"](path, seed=3)
    with h5py.File(path) as file:
        truth = np.stack([file[f"sample_{i}"][:] for i in range(8)])
    check_holds(path, {"u": truth[:, :, 0], "v": truth[:, :, 1]})
    with open_dataset(path) as dataset:
        assert state_of(dataset) == ("u", "v") and dataset.attrs["equation"] == "navier_stokes_velocity"
        # on one period: the divergence of what is stored vanishes with u along x
        assert grid_of(dataset) == Grid((16, 16), centering="periodic")
        k = 2j * np.pi * np.fft.fftfreq(16, 1 / 16)
        u, v = (np.fft.fft2(dataset[name][0, 0].values.astype(float)) for name in ("u", "v"))
        assert np.abs(k[:, None] * u + k * v).max() < 1e-4 * np.abs(k[:, None] * u).max()
        again = check_round_trip(tmp_path, dataset, "poseidon")
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
        check_round_trip(tmp_path, dataset, "poseidon")


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
        check_round_trip(tmp_path, dataset, "poseidon")


def test_poseidon_dimensions_without_coordinates_are_no_arrays(tmp_path):
    """The public files are NetCDF-4 of one variable; HDF5 keeps the length of each dimension as an array beside it."""
    path = tmp_path / "file"
    SAMPLES["poseidon-netcdf"](path, seed=5)
    x = np.arange(16) / 16
    truth = dict(zip(("u", "v", "tracer"), (field.astype(np.float32) for field in _vortices(5, x, x, 1.0))))
    with h5py.File(path) as file:
        assert set(file) == {"velocity", "member", "time", "channel", "x", "y"}
    check_holds(path, truth)
    with open_dataset(path) as dataset:
        assert dataset.attrs["layout"] == "poseidon" and state_of(dataset) == ("u", "v", "tracer")
        # the tracer is carried along: c_t + u c_x + v c_y = 0
        c, u, v = (dataset[name].values.astype(float) for name in ("tracer", "u", "v"))
        k = 2j * np.pi * np.fft.fftfreq(16, 1 / 16)
        along_x = np.fft.ifft(k[:, None] * np.fft.fft(c, axis=2), axis=2).real
        along_y = np.fft.ifft(k * np.fft.fft(c, axis=3), axis=3).real
        rate = (c[:, 2:] - c[:, :-2]) / 0.2
        assert np.abs(rate + (u * along_x + v * along_y)[:, 1:-1]).max() < 0.05 * np.abs(rate).max()
        check_round_trip(tmp_path, dataset, "poseidon")


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
            check_round_trip(tmp_path, dataset, "poseidon")
