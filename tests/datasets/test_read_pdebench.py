"""PDEBench's files against plain h5py: every number, position, time and parameter; and back, bit for bit."""

import json
import multiprocessing
import pickle
import warnings

import h5py
import numpy as np
import pytest

from sciops.datasets import convert, grid_of, open_dataset, write_sample
from sciops.datasets.conventions import build_dataset, parameters_of, state_of
from sciops.datasets.formats.containers.yaml_lines import settings
from sciops.grids import Grid
from sciops.pde.evolution import advection, burgers, fisher_kpp

GROUPS = ("pdebench-groups", "pdebench-groups-shallow-water", "pdebench-groups-sorption")
ALL = ("pdebench-1d", "pdebench-1d-advection", "pdebench-1d-reaction", "pdebench-cfd", "pdebench-cfd-1d") + (
    "pdebench-cfd-3d",
    *GROUPS,
    "pdebench-ns",
)
CENTRES = (np.arange(32) + 0.5) / 32


def _truth(path):
    """Our variable → the numbers in the file, by plain h5py."""
    with h5py.File(path) as file:
        if "tensor" in file:
            return {"u": file["tensor"][()]}
        if "velocity" in file:
            v, f = file["velocity"][()], file["force"][()]
            found = {"vx": v[..., 0], "vy": v[..., 1], "particles": file["particles"][..., 0]}
            return found | {"fx": f[..., 0], "fy": f[..., 1]}
        if "density" in file:
            names = [n for n in ("density", "pressure", "Vx", "Vy", "Vz") if n in file]
            return {name.lower(): file[name][()] for name in names}
        data = np.stack([file[name]["data"][()] for name in sorted(file)])
        names = {2: ("u", "v"), 1: ("h",) if data.ndim == 5 else ("u",)}[data.shape[-1]]
        return {name: data[..., i] for i, name in enumerate(names)}


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
    dataset, truth = open_dataset(path), _truth(path)
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


def test_periodic_cell_centres_keep_position_and_period(tmp_path):
    path = write_sample("pdebench-1d-advection", tmp_path / "x")
    grid = grid_of(open_dataset(path))
    assert grid.centering == "periodic" and grid.extent == ((1 / 64, 1 + 1 / 64),)
    np.testing.assert_allclose(grid.coordinates()[0], CENTRES, rtol=1e-15)
    truth = _truth(path)["u"]
    for n in (16, 8):
        coarse = open_dataset(path, n)
        assert np.array_equal(coarse["u"].values, truth[..., :: 32 // n])
        np.testing.assert_allclose(coarse["x"], CENTRES[:: 32 // n], rtol=1e-15)
    with pytest.raises(ValueError, match="resolution=12: .*nested in it: 16, 8"):
        open_dataset(path, 12)


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
    _replace(path, "t-coordinate", None)  # a matrix of which nothing says that it is one in time
    with pytest.raises(ValueError, match="no known layout"):
        open_dataset(path)


def test_as_many_velocities_as_space_axes(tmp_path):
    path = write_sample("pdebench-cfd-3d", tmp_path / "x")
    with h5py.File(path, "a") as file:
        del file["Vy"]
    with pytest.raises(ValueError, match="no known layout"):
        open_dataset(path)


def _replace(path, name, values):
    with h5py.File(path, "a") as file:
        del file[name]
        if values is not None:
            file[name] = values


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
        _replace(path, x, values)
        dataset = open_dataset(path)
        assert note in dataset.attrs["notes"] and dataset.attrs["positions"].startswith("assumed")
        np.testing.assert_allclose(dataset["x"], (np.arange(n) + 0.5) / n, rtol=1e-15)


@pytest.mark.parametrize("low, high", [(0, 1), (-1, 1), (2.5, 7.5), (0, 2 * np.pi), (-0.123456, 0.654321)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_box_is_found_to_the_precision_of_the_file(tmp_path, low, high, dtype):
    path = write_sample("pdebench-cfd-1d", tmp_path / "x")
    _replace(path, "x-coordinate", (low + (np.arange(16) + 0.5) * (high - low) / 16).astype(dtype))
    (found,) = grid_of(open_dataset(path)).extent
    exact = abs(low) in (0, 1, 2.5)
    np.testing.assert_allclose(found, (low, high), rtol=1e-15 if exact else 1e-6 if dtype == np.float32 else 1e-14)


def test_times_that_do_not_fit_are_noted(tmp_path):
    path = write_sample("pdebench-1d", tmp_path / "x")
    good = (0.05 * np.arange(12)).astype(np.float32)
    assert "12 times for 11 states" in open_dataset(path)["time"].attrs["comment"]
    _replace(path, "t-coordinate", good[:11])
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
    assert np.array_equal(coarse["vy"].values, _truth(path)["vy"][..., ::2, ::2])
    with h5py.File(path, "a") as file:
        file.attrs["boundary"] = json.dumps({"x": "periodic", "y": "periodic"})
    assert grid_of(open_dataset(path)).same_points(stated)
    for wrong in ("{", '{"x": "periodic"}', '{"x": ["periodic"], "y": 3}'):
        with h5py.File(path, "a") as file:
            file.attrs["boundary"] = wrong
        assert grid_of(open_dataset(path)) == Grid((16, 16), centering="cell")


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


def test_groups_of_any_names_in_natural_order(tmp_path):
    path = write_sample("pdebench-groups-shallow-water", tmp_path / "x")
    truth = _truth(path)["h"]
    with h5py.File(path, "a") as file:
        radii = [settings(file[name].attrs["config"])["sim.dam_radius"] for name in sorted(file)]
        for number, name in enumerate(sorted(file)):
            file.move(name, f"run{4 * number}")
    dataset = open_dataset(path)
    assert np.array_equal(dataset["h"].values, truth) and "sample" not in dataset.coords
    assert np.array_equal(dataset["dam_radius"], radii) and parameters_of(dataset)["gravity"] == 1.0
    assert np.array_equal(dataset["seed"], np.arange(8))
    with h5py.File(path, "a") as file:
        for number in range(8):
            file.move(f"run{4 * number}", f"{100 - 7 * number:05d}")
    again = open_dataset(path)
    assert np.array_equal(again["h"].values, truth[::-1])
    assert np.array_equal(again["sample"], 100 - 7 * np.arange(8)[::-1])
    back = open_dataset(convert(path, tmp_path / "back", "pdebench-groups"))
    assert np.array_equal(back["sample"], again["sample"]) and np.array_equal(back["dam_radius"], again["dam_radius"])


def test_groups_that_do_not_belong_together_are_refused(tmp_path):
    path = write_sample("pdebench-groups", tmp_path / "x")
    with h5py.File(path, "a") as file:
        del file["0003/data"]
        file["0003/data"] = np.zeros((11, 16, 15, 2), np.float32)
    with pytest.raises(ValueError, match=r"group 0003 holds float32\[11, 16, 15, 2\].*one shape") as caught:
        open_dataset(path)
    assert "\n" not in str(caught.value)
    _replace(path, "0003/data", None)
    with pytest.raises(ValueError, match="group 0003 holds nothing as data"):
        open_dataset(path)
    path = write_sample("pdebench-groups", tmp_path / "y")
    _replace(path, "0007/grid/x", np.linspace(0, 1, 16))
    with pytest.raises(ValueError, match="0000/grid/x and 0007/grid/x differ"):
        open_dataset(path)


def test_groups_without_settings_are_of_an_unknown_equation(tmp_path):
    path = write_sample("pdebench-groups", tmp_path / "x")
    with h5py.File(path, "a") as file:
        for group in file.values():
            group.attrs.pop("config")
    dataset = open_dataset(path)
    assert dataset.attrs["equation"] == "unknown" and "the equation is not known" in dataset.attrs["notes"]
    assert state_of(dataset) == ("u0", "u1") and "parameters" not in dataset.attrs
    back = open_dataset(convert(path, tmp_path / "back", "pdebench-groups"))
    assert np.array_equal(back["u1"].values, dataset["u1"].values) and back.attrs["grid"] == dataset.attrs["grid"]


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


def test_one_sample_is_read_from_its_group_alone(tmp_path, monkeypatch):
    dataset = open_dataset(write_sample("pdebench-groups", tmp_path / "x"))
    touched, original = [], h5py.Dataset.__getitem__

    def counting(self, args, **options):
        touched.append((self.name, original(self, args, **options).nbytes))
        return original(self, args, **options)

    monkeypatch.setattr(h5py.Dataset, "__getitem__", counting)
    dataset["v"].isel(sample=5, time=slice(2, 4)).load()
    assert touched == [("/0005/data", 2 * 16 * 16 * 4)]
    touched.clear()
    dataset["u"].isel(sample=[6, 1], x=3).load()
    assert sorted(name for name, _ in touched) == ["/0001/data", "/0006/data"]


def test_files_far_beyond_memory_open_and_serve_single_samples(tmp_path):
    """Holes in a file take no room on disk: hundreds of gigabytes that were never written."""
    with h5py.File(tmp_path / "scalar", "w") as file:
        data = file.create_dataset("tensor", (200_000, 201, 1024), "f4", fill_time="never")
        data[77_777, 5], data[-1, -1, -1] = np.arange(1024), 1
        file.attrs["beta"] = 1.0
    dataset = open_dataset(tmp_path / "scalar")
    assert dataset["u"].nbytes > 1.6e11
    assert np.array_equal(dataset["u"][77_777, 5], np.arange(1024)) and not dataset["u"][5].any()
    coarse = open_dataset(tmp_path / "scalar", 128)
    assert np.array_equal(coarse["u"][77_777, 5], np.arange(0, 1024, 8))
    with h5py.File(tmp_path / "flow", "w") as file:
        shape = (40, 1000, 512, 512)
        for name, last in (("velocity", 2), ("particles", 1)):
            file.create_dataset(name, (*shape, last), "f4", fill_time="never")[-1, -1, -1, -1] = 1
        file.create_dataset("force", (40, 512, 512, 2), "f4", fill_time="never")[-1, -1, -1] = 1
        file["velocity"][27, 6, :, :, 1] = 3
        file["t"] = np.tile(np.arange(1000, dtype=np.float32), (40, 1))
    flow = open_dataset(tmp_path / "flow")
    assert flow["vy"].nbytes > 4e10
    assert (flow["vy"][27, 6] == 3).all() and not flow["vx"][27, 6].any()
    assert np.array_equal(flow["vy"][27, 5:8, 0, 0], [0, 3, 0])


def _sum_of(dataset):
    return float(sum(dataset[name].values.sum(dtype=np.float64) for name in state_of(dataset)))


def test_no_handle_stays_open_and_other_processes_read_on(tmp_path):
    for layout in ("pdebench-1d", "pdebench-groups", "pdebench-ns"):
        path = write_sample(layout, tmp_path / layout)
        dataset = open_dataset(path)
        total = _sum_of(dataset.copy(deep=False))
        assert _sum_of(pickle.loads(pickle.dumps(open_dataset(path)))) == total
        fresh = open_dataset(path)
        fresh["time"].load()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads
            with multiprocessing.get_context("fork").Pool(1) as pool:
                assert pool.apply(_sum_of, (fresh,)) == total
        with h5py.File(path, "a"):  # HDF5's lock would refuse while somebody reads
            pass


def test_flow_that_stopped_early_ends_where_it_stopped(tmp_path):
    path = write_sample("pdebench-ns", tmp_path / "x")
    truth = _truth(path)
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
    _replace(path, "t", times)
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


def _trajectory(grid, names=("u",), equation="advection", dtype=np.float32, times=(0.0, 0.1), **options):
    dims = ("sample", "time", *"xyz"[: grid.ndim])
    fields = {name: (dims, np.zeros((2, 2, *grid.shape), dtype), {}) for name in names}
    return build_dataset(fields, grid, layout="native", equation=equation, times=times, state=names, **options)


PERIODIC, CELLS = Grid((8,), (0, 1), "periodic"), Grid((8, 8), None, "cell")
FLOW = ("density", "pressure", "vx", "vy")


@pytest.mark.parametrize(
    ("layout", "dataset", "message"),
    [
        ("pdebench-1d", _trajectory(Grid((8,)), parameters={"velocity": 1.0}), "periodic fields; .* 8 node points"),
        ("pdebench-1d", _trajectory(Grid((8, 8))), "holds 1-D fields"),
        ("pdebench-1d", _trajectory(PERIODIC, ("u", "v")), "holds one field"),
        ("pdebench-1d", _trajectory(PERIODIC, equation="kdv"), "is of 'kdv'"),
        ("pdebench-1d", _trajectory(PERIODIC), "states velocity for advection; the data set has none"),
        ("pdebench-1d", _trajectory(PERIODIC, dtype=np.int32), "holds floats; u is int32"),
        ("pdebench-1d", _trajectory(PERIODIC, times=None, parameters={"velocity": 1.0}), "does not know them"),
        (
            "pdebench-1d",
            _trajectory(PERIODIC).assign(velocity=("sample", np.array([1.0, 2.0]))),
            "velocity differ by sample",
        ),
        (
            "pdebench-1d",
            _trajectory(PERIODIC, parameters={"velocity": 1.0}).assign(f=(("sample", "x"), np.zeros((2, 8)))),
            "no place for f",
        ),
        ("pdebench-cfd", _trajectory(CELLS), "holds density, pressure, vx, vy in 2-D; the data set evolves u"),
        ("pdebench-cfd", _trajectory(Grid((8, 8)), FLOW, "compressible_navier_stokes"), "values of cells"),
        ("pdebench-cfd", _trajectory(CELLS, FLOW, "euler"), "is of 'euler'"),
        (
            "pdebench-cfd",
            _trajectory(CELLS, FLOW, "compressible_navier_stokes", parameters={"gamma": 1.4}),
            "no place for gamma",
        ),
        ("pdebench-groups", _trajectory(CELLS, ("u", "w"), "diffusion_reaction"), "holds u, v for diffusion_reaction"),
        ("pdebench-groups", _trajectory(CELLS, ("u", "v"), "diffusion_reaction"), "needs Du, Dv"),
        ("pdebench-groups", _trajectory(Grid((8, 8)), ("h",), "shallow_water"), "values of cells"),
        ("pdebench-groups", _trajectory(CELLS, ("h",), "burgers"), "is of 'burgers'"),
        (
            "pdebench-groups",
            _trajectory(
                CELLS, ("h",), "shallow_water", parameters={"gravity": 1.0}, boundary={"x": "wall", "y": "wall"}
            ),
            "means open for shallow_water",
        ),
        ("pdebench-ns", _trajectory(CELLS, ("vx", "vy"), "navier_stokes_velocity"), "the force fx, fy"),
    ],
)
def test_what_a_layout_cannot_hold_is_refused(tmp_path, layout, dataset, message):
    with pytest.raises(ValueError, match=message) as caught:
        convert(dataset, tmp_path / "x", layout)
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


def test_steady_data_is_no_trajectory(tmp_path):
    path = write_sample("pdebench-darcy", tmp_path / "x")
    for layout in ("pdebench-1d", "pdebench-cfd", "pdebench-groups", "pdebench-ns"):
        with pytest.raises(ValueError, match="holds trajectories; the data set is steady"):
            convert(path, tmp_path / "y", layout)


@pytest.mark.parametrize(
    "arrays",
    [
        {"tensor": (1, 10, 201, 64)},  # rank 4 without nu: no Darcy, and no 1-D file either
        {"tensor": (4, 0, 8)},
        {"density": (2, 3, 8, 8), "pressure": (2, 3, 8, 8), "Vx": (2, 3, 8, 8)},  # Vy is not there
        {"density": (2, 3, 8), "pressure": (2, 3, 8), "Vx": (2, 3, 9)},
        {"velocity": (2, 3, 8, 8, 2), "particles": (2, 3, 8, 8, 1), "force": (2, 8, 8, 2), "t": (3, 2)},
        {"velocity": (2, 3, 8, 8, 3), "particles": (2, 3, 8, 8, 1), "force": (2, 8, 8, 2), "t": (2, 3)},
        {"0000/data": (3, 8, 8, 2), "0000/grid/x": (8,), "0000/grid/t": (3,)},
        {"0000/data": (3, 8, 1), "0000/grid/x": (8,), "0000/grid/t": (3,), "more": (2,)},
    ],
)
def test_wrong_ranks_are_no_known_layout(tmp_path, arrays):
    with h5py.File(tmp_path / "x", "w") as file:
        for name, shape in arrays.items():
            file[name] = np.zeros(shape, np.float32)
    with pytest.raises(ValueError, match="no known layout"):
        open_dataset(tmp_path / "x")


def test_tables_of_contents_that_lie(tmp_path):
    with h5py.File(tmp_path / "axis", "w") as file:
        file.create_dataset("tensor", (1, 1, 2**40), "f4", chunks=(1, 1, 1024))
        file.create_dataset("x-coordinate", (2**40,), "f4", chunks=(1024,))
        file.attrs["beta"] = 1.0
    with h5py.File(tmp_path / "hole", "w") as file:
        file.create_dataset("tensor", (1, 1, 2**32), "f4", fill_time="never")[0, 0, -1] = 1
    for name in ("axis", "hole"):
        with pytest.raises(ValueError, match="1099511627776|an axis of 4294967296 points") as caught:
            open_dataset(tmp_path / name)
        assert "damaged" in str(caught.value) and "\n" not in str(caught.value)
    with h5py.File(tmp_path / "words", "w") as file:
        file["tensor"] = np.array([[[b"a", b"b"]]])
    with h5py.File(tmp_path / "records", "w") as file:
        file["tensor"] = np.zeros((2, 2, 4), [("re", "f4"), ("im", "f4")])
    for name in ("words", "records"):
        with pytest.raises(ValueError, match="no known layout"):
            open_dataset(tmp_path / name)


def test_settings_are_text_and_never_code():
    text = 'a: 1E-3\nb: !!python/object/apply:os.system ["true"]\n'
    text += 'sim:\n  c: [1, 2.5]\n  d:\n  - x\n  - 3\n# e: 1\nf: "g"\n'
    found = settings(text)
    assert found["a"] == 1e-3 and found["sim.c"] == [1.0, 2.5] and found["sim.d"] == ["x", 3.0] and found["f"] == "g"
    assert isinstance(found["b"], str) and "e" not in found
    for odd in (None, 3, "", "- 1", ":\n:", "\n\n  - \n", "a:\n    - b\n  c: 1", b"a: 1\xff"):
        settings(odd)
