"""PDEBench's files against plain h5py: every number, position, time and parameter; and back, bit for bit."""

import json

import h5py
import numpy as np
import pytest
from pdebench_files import numbers_in, replace_array

from sciops.datasets import convert, grid_of, open_dataset, write_sample
from sciops.datasets.conventions import parameters_of, state_of
from sciops.pde import advection, burgers, fisher_kpp

GROUPS = ("pdebench-groups", "pdebench-groups-shallow-water", "pdebench-groups-sorption")


ALL = ("pdebench-1d", "pdebench-1d-advection", "pdebench-1d-reaction", "pdebench-cfd", "pdebench-cfd-1d") + (
    "pdebench-cfd-3d",
    *GROUPS,
    "pdebench-ns",
)


def _same_everywhere(field, truth):
    assert field.shape == truth.shape and field.dtype == truth.dtype
    assert np.array_equal(field.values, truth)
    assert np.array_equal(field[2].values, truth[2])
    assert np.array_equal(field.isel(sample=[3, 0, 3]).values, truth[[3, 0, 3]])
    assert np.array_equal(field[::-1, 1:5:2, ..., 3].values, truth[::-1, 1:5:2, ..., 3])
    along = np.take(truth[1:2], [5, 2], axis=field.dims.index("x"))
    assert np.array_equal(field.isel(sample=[1], x=[5, 2]).values, along)
    assert np.array_equal(field[3:3].values, truth[3:3])


@pytest.mark.parametrize("layout", ALL)
def test_every_number_is_the_files_own(tmp_path, layout):
    path = write_sample(layout, tmp_path / "named.pt")  # a misleading ending
    dataset, truth = open_dataset(path), numbers_in(path)
    assert dataset.attrs["task"] == "trajectory" and "notes" not in dataset.attrs
    for name, values in truth.items():
        _same_everywhere(dataset[name], values)
    evolving = [name for name in truth if not name.startswith("f")]
    assert list(state_of(dataset)) == evolving
    with h5py.File(path) as file:
        root = file if "tensor" in file or "density" in file else file.get("0000")
        if root is not None:
            prefix = "grid/{}" if "grid" in root else "{}-coordinate"
            steps = dataset.sizes["time"]
            assert np.array_equal(dataset["time"], root[prefix.format("t")][:steps].astype(np.float64))
            for axis in "xyz"[: grid_of(dataset).ndim]:
                np.testing.assert_allclose(dataset[axis], root[prefix.format(axis)], atol=3e-7)
    axes = grid_of(dataset).coordinates()
    assert all(np.array_equal(dataset[name], points) for name, points in zip("xyz", axes))


@pytest.mark.parametrize("layout", ALL)
def test_round_trip_is_bit_equal(tmp_path, layout):
    path = write_sample(layout, tmp_path / "first")
    first = open_dataset(path)
    for middle in (path, convert(path, tmp_path / "native", "native")):
        back = open_dataset(convert(middle, tmp_path / f"back from {middle.name}", first.attrs["layout"]))
        assert set(back.variables) == set(first.variables)
        for name in first.variables:
            assert back[name].dtype == first[name].dtype and np.array_equal(back[name].values, first[name].values)
        same = ("layout", "equation", "grid", "state", "parameters", "boundary", "task", "positions")
        assert all(back.attrs.get(key) == first.attrs.get(key) for key in same)


def test_the_stored_equation_is_the_one_the_attributes_name(tmp_path):
    """Solved again from the first state, on the file's own grid with the file's own parameters."""
    solvers = {"advection": advection, "burgers": burgers, "fisher_kpp": fisher_kpp}
    for layout in ("pdebench-1d-advection", "pdebench-1d", "pdebench-1d-reaction"):
        dataset = open_dataset(write_sample(layout, tmp_path / layout))
        u = dataset["u"].values.astype(np.float64)
        solve = solvers[dataset.attrs["equation"]].solve
        again = solve(u[:, 0], grid_of(dataset), times=dataset["time"].values, **parameters_of(dataset)).u
        assert np.abs(again - u).max() < 3e-4 * np.abs(u).max(), layout


def test_burgers_number_is_a_viscosity_times_pi(tmp_path):
    path = write_sample("pdebench-1d", tmp_path / "x")
    assert parameters_of(open_dataset(path)) == {"viscosity": 0.1 / np.pi}
    for number in (0.1, 1e-3, 1 / 3, 0.7234567891234567):
        with h5py.File(path, "a") as file:
            file.attrs["Nu"] = number
        with h5py.File(convert(path, tmp_path / "y", "pdebench-1d", overwrite=True)) as file:
            assert file.attrs["Nu"] / np.pi == number / np.pi


@pytest.mark.parametrize(
    ("attrs", "equation", "parameters"),
    [
        ({"beta": 0.4}, "advection", {"velocity": 0.4}),
        ({"beta": np.array([0.4])}, "advection", {"velocity": 0.4}),
        ({"Nu": 0.5, "rho": 2.0}, "fisher_kpp", {"diffusivity": 0.5, "rate": 2.0}),
        ({}, "unknown", {}),
        ({"rho": 1.0}, "unknown", {}),
        ({"beta": 0.4, "Nu": 0.1}, "unknown", {}),
        ({"beta": np.nan}, "unknown", {}),
        ({"beta": "fast"}, "unknown", {}),
    ],
)
def test_attributes_alone_decide_the_equation(tmp_path, attrs, equation, parameters):
    path = tmp_path / "1D_Burgers_Sols_Nu0.1.hdf5"  # names decide nothing
    write_sample("pdebench-1d", path)
    with h5py.File(path, "a") as file:
        file.attrs.clear()
        file.attrs.update(attrs)
    dataset = open_dataset(path)
    assert (dataset.attrs["equation"], parameters_of(dataset)) == (equation, parameters)
    assert ("the equation is not known" in dataset.attrs.get("notes", "")) == (equation == "unknown")


def test_one_trajectory_without_an_axis_of_samples(tmp_path):
    """Test files hold one: (T, X, Y) with two velocities is not (samples, T, X), whatever the count of axes says."""
    for alone, whole, ndim in (
        ("pdebench-cfd-alone", "pdebench-cfd", 2),
        ("pdebench-1d-alone", "pdebench-1d-advection", 1),
    ):
        path, full = (write_sample(name, tmp_path / name, seed=3) for name in (alone, whole))
        with open_dataset(path) as one, open_dataset(full) as many:
            assert one.sizes["sample"] == 1 and grid_of(one) == grid_of(many) and grid_of(one).ndim == ndim
            assert state_of(one) == state_of(many) and one.attrs["parameters"] == many.attrs["parameters"]
            assert np.array_equal(one["time"], many["time"]) and "notes" not in one.attrs
            for name in state_of(many):
                assert not one[name].variable._in_memory and np.array_equal(one[name].values, many[name][:1].values)
            with open_dataset(convert(path, tmp_path / f"back {alone}", one.attrs["layout"])) as back:
                assert back.identical(one)
    path = write_sample("pdebench-1d-alone", tmp_path / "x")
    replace_array(path, "t-coordinate", None)  # a matrix of which nothing says that it is one in time
    with pytest.raises(ValueError, match="not a known layout"):
        open_dataset(path)


def test_as_many_velocities_as_space_axes(tmp_path):
    path = write_sample("pdebench-cfd-3d", tmp_path / "x")
    with h5py.File(path, "a") as file:
        del file["Vy"]
    with pytest.raises(ValueError, match="not a known layout"):
        open_dataset(path)


def test_sound_waves_of_the_sample_obey_the_continuity_equation(tmp_path):
    """ρ_t + ∇·(ρv) = 0 to the square of the amplitude: variables and axes are where they belong."""
    dataset = open_dataset(write_sample("pdebench-cfd", tmp_path / "x"))
    rho, vx, vy = (dataset[name].values.astype(np.float64) for name in ("density", "vx", "vy"))
    h, dt = dataset["x"].values[1] - dataset["x"].values[0], dataset["time"].values[1]
    wave = 2j * np.pi * np.fft.fftfreq(16, h)
    flux = np.fft.ifft(wave[:, None] * np.fft.fft(rho * vx, axis=2), axis=2).real
    flux += np.fft.ifft(wave * np.fft.fft(rho * vy, axis=3), axis=3).real
    change = (rho[:, 2:] - rho[:, :-2]) / (2 * dt)
    middle = flux[:, 1:-1]
    swapped = np.abs(change + np.swapaxes(middle, 2, 3)).max()
    assert np.abs(change + middle).max() < 0.3 * np.abs(change).max() < 0.3 * swapped * 2


def test_flow_that_stopped_early_ends_where_it_stopped(tmp_path):
    path = write_sample("pdebench-ns", tmp_path / "x")
    truth = numbers_in(path)
    with h5py.File(path, "a") as file:
        file.attrs["latestIndex"] = 3
        file["t"][:, 4:] = 0
    dataset = open_dataset(path)
    assert "stopped after 4 of 6 states" in dataset.attrs["notes"]
    assert np.array_equal(dataset["vx"].values, truth["vx"][:, :4]) and dataset.sizes["time"] == 4
    assert np.array_equal(dataset["vx"][:, -1].values, truth["vx"][:, 3])
    assert np.array_equal(dataset["particles"][2, 1:].values, truth["particles"][2, 1:4])
    with h5py.File(path, "a") as file:
        file.attrs["latestIndex"] = -1
    with pytest.raises(ValueError, match="latestIndex = -1: the simulation wrote no state"):
        open_dataset(path)


def test_times_of_flow_may_differ_by_sample(tmp_path):
    path = write_sample("pdebench-ns", tmp_path / "x")
    times = np.cumsum(np.random.default_rng(0).random((8, 6)), axis=1)
    replace_array(path, "t", times)
    dataset = open_dataset(path)
    assert np.array_equal(dataset["times"], times) and np.array_equal(dataset["time"], np.arange(6))
    back = open_dataset(convert(path, tmp_path / "back", "pdebench-ns"))
    assert np.array_equal(back["times"], times)
    periodic = "domain_size: [2.0, 4.0]\nvelocity_extrapolation: PERIODIC\n"
    with h5py.File(path, "a") as file:
        file.attrs["config"] = periodic
    dataset = open_dataset(path, 8)
    assert json.loads(dataset.attrs["boundary"]) == {"x": "periodic", "y": "periodic"}
    np.testing.assert_allclose(dataset["y"], 4 * (np.arange(0, 16, 2) + 0.5) / 16, rtol=1e-15)
    assert "the viscosity is not known" in dataset.attrs["notes"]
