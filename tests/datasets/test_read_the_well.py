"""The Well's files against plain h5py; and back, bit for bit."""

import json

import h5py
import numpy as np
import pytest
from well_files import store_values

from sciops.datasets import (
    SAMPLES,
    check_well,
    convert,
    describe,
    grid_of,
    open_dataset,
    validate,
    write_sample,
)
from sciops.datasets.conventions import build_dataset, parameters_of, state_of
from sciops.grids import Grid


def test_every_number_is_the_files_own(channel):
    dataset = open_dataset(channel)
    assert dataset.attrs["layout"] == "the-well" and "notes" not in dataset.attrs
    full = ("sample", "time", "x", "y")
    with h5py.File(channel) as file:
        velocity, strain = file["t1_fields/velocity"][()], file["t2_fields/strain"][()]
        truth = {"tracer": (full, file["t0_fields/tracer"][()]), "profile": (("y",), file["t0_fields/profile"][()])}
        truth["forcing"] = (("sample", "x", "y"), file["t0_fields/forcing"][()])
        truth["amplitude"] = (("sample",), file["scalars/amplitude"][()])
        truth["decay"] = (("time",), file["scalars/decay"][()])
        times = file["dimensions/time"][()]
        x, y = file["dimensions/x"][()], file["dimensions/y"][()]
    for i, a in enumerate("xy"):
        truth[f"velocity_{a}"] = (full, velocity[..., i])
        truth |= {f"strain_{a}{b}": (full, strain[..., i, j]) for j, b in enumerate("xy")}
    assert set(dataset.data_vars) == set(truth)
    for name, (dims, values) in truth.items():
        assert dataset[name].dims == dims and dataset[name].dtype == np.float32
        assert np.array_equal(dataset[name].values, values), name
    part = dataset["strain_xy"].isel(sample=[5, 2], time=slice(None, None, -2), y=3)
    assert np.array_equal(part.values, strain[[5, 2]][:, ::-2, :, 3, 0, 1])
    evolving = ["tracer", *(n for n in truth if n.startswith(("velocity", "strain")))]
    assert set(state_of(dataset)) == set(evolving) and dataset.attrs["task"] == "trajectory"
    # the root holds the parameter in double precision, the scalars in single: the better one counts
    assert parameters_of(dataset) == {"viscosity": 0.05}
    assert json.loads(dataset.attrs["boundary"]) == {"x": "periodic", "y": "wall"}
    assert np.array_equal(dataset["time"], times.astype(np.float64))
    np.testing.assert_allclose(dataset["x"], x, rtol=1e-6)
    np.testing.assert_allclose(dataset["y"], y, rtol=1e-6)
    assert grid_of(dataset) == Grid((24, 16), ((0, 2 * np.pi), (0, np.pi)), "cell")


def test_periodic_cubes_have_nested_grids(tmp_path):
    path = write_sample("the-well-3d", tmp_path / "x")
    assert grid_of(open_dataset(path)) == Grid((16,) * 3, (0, 2 * np.pi), "periodic")
    coarse = open_dataset(path, 4)
    with h5py.File(path) as file:
        assert np.array_equal(coarse["flux_z"].values, file["t1_fields/flux"][:, :, ::4, ::4, ::4, 2])
    np.testing.assert_allclose(coarse["z"], np.pi / 2 * np.arange(4), rtol=1e-15)


def test_components_obey_the_equations_of_the_sample(tmp_path):
    """∇·velocity = 0 and flux = −κ∇density: a component on the wrong axis would break both."""
    dataset = open_dataset(write_sample("the-well-3d", tmp_path / "x"))
    kappa, density = parameters_of(dataset)["diffusivity"], dataset["density"].values.astype(np.float64)
    spectrum = np.fft.fftn(density, axes=(2, 3, 4))
    wave = np.fft.fftfreq(16, 1 / 16)
    for axis, name in enumerate("xyz"):
        shape = [1] * 5
        shape[axis + 2] = 16
        gradient = np.fft.ifftn(1j * wave.reshape(shape) * spectrum, axes=(2, 3, 4)).real
        assert np.abs(dataset[f"flux_{name}"].values + kappa * gradient).max() < 1e-6


@pytest.mark.parametrize("layout", ["the-well", "the-well-3d"])
def test_round_trip_is_bit_equal(tmp_path, layout):
    path = write_sample(layout, tmp_path / "first")
    first = open_dataset(path)
    for middle in (path, convert(path, tmp_path / "native", "native")):
        written = convert(middle, tmp_path / f"back from {middle.name}", "the-well")
        assert check_well(written) == []
        back = open_dataset(written)
        assert set(back.variables) == set(first.variables)
        for name in first.variables:
            assert back[name].dims == first[name].dims and np.array_equal(back[name].values, first[name].values)
        for key in ("equation", "grid", "state", "parameters", "boundary", "task", "dataset_name"):
            assert back.attrs[key] == first.attrs[key]
    with h5py.File(written) as file, h5py.File(path) as original:
        assert np.array_equal(
            file["t1_fields"][next(iter(file["t1_fields"]))], next(iter(original["t1_fields"].values()))
        )
        assert file["dimensions/x"].attrs["sciops_centering"] == grid_of(first).centering


@pytest.mark.parametrize("layout", sorted(SAMPLES))
def test_every_layout_goes_through_the_well(tmp_path, layout):
    path = write_sample(layout, tmp_path / layout)
    try:
        dataset = open_dataset(path)
    except ValueError as error:
        pytest.skip(f"{layout} is read elsewhere: {error}")
    dataset = dataset.map(lambda v: v.astype(np.float32) if v.dtype == np.float64 else v, keep_attrs=True)
    if any(v.dtype.kind != "f" and v.ndim > 1 for v in dataset.data_vars.values()):
        pytest.skip("fields that are not floats have no place in The Well")
    if any("grid" in v.attrs for v in dataset.data_vars.values()):
        with pytest.raises(ValueError, match="all fields at the same points; .* is staggered"):
            convert(dataset, tmp_path / "x", "the-well")
        return
    said = []
    written = convert(dataset, tmp_path / "x", "the-well", told=said.append)
    assert check_well(written) == []
    with h5py.File(written) as file:  # what their loader counts
        assert bool(said) == (file["dimensions/time"].shape[-1] < 2)
    back = open_dataset(written)
    assert grid_of(back).same_points(grid_of(dataset)) and state_of(back) == state_of(dataset)
    assert parameters_of(back) == parameters_of(dataset) and back.attrs["equation"] == dataset.attrs["equation"]
    for name, field in dataset.data_vars.items():
        if name not in ("seed", "split"):
            assert np.array_equal(back[name].values, field.values), name
    for key in ("coefficient", "forcing", "task"):
        assert back.attrs.get(key) == dataset.attrs.get(key)


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        (np.cos(np.pi * (np.arange(16) + 0.5) / 16)[::-1], "y is not uniform"),  # Chebyshev
        (np.full(16, np.nan), "y holds NaN"),
        (np.zeros(16), "y does not increase"),
    ],
)
def test_axes_that_make_no_grid_are_kept_and_said(channel, tmp_path, points, reason):
    points = points.astype(np.float32)
    with h5py.File(channel, "a") as file:
        store_values("dimensions/y", points)(file)
        velocity = file["t1_fields/velocity"][..., 1]
    dataset = open_dataset(channel)
    assert reason in dataset.attrs["notes"] and "grid" not in dataset.attrs
    assert np.array_equal(dataset["y"], points.astype(np.float64), equal_nan=True)
    assert np.array_equal(dataset["velocity_y"].values, velocity)
    for needs_a_grid in (lambda: grid_of(dataset), lambda: open_dataset(channel, 8)):
        with pytest.raises(ValueError, match="does not say where the points") as caught:
            needs_a_grid()
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="does not say where the points"):
        convert(channel, tmp_path / "copy", "the-well")
    stated = Grid((24, 16))
    placed = open_dataset(channel, grid=stated)
    assert grid_of(placed) == stated and "the caller states one" in placed.attrs["notes"]
    assert np.array_equal(placed["velocity_y"].values, velocity)
    # what needs no grid is told all the same: a finding, and everything else on the screen
    findings = validate(channel)
    assert [f for f in findings if f.severity == "error"] == [] and any(reason in f.message for f in findings)
    text = describe(channel)
    assert "grid         none; state one" in text and reason in text and "velocity_x" in text and "next" in text


def test_coordinates_that_differ_by_sample_are_data(channel):
    moved = np.linspace(0, 1, 16) + np.arange(8)[:, None]
    with h5py.File(channel, "a") as file:
        store_values("dimensions/y", moved.astype(np.float32))(file)
        file["dimensions/y"].attrs["sample_varying"] = True
    assert check_well(channel) == []
    dataset = open_dataset(channel)
    assert dataset["position_y"].dims == ("sample", "y") and "grid" not in dataset.attrs
    assert np.array_equal(dataset["position_y"], moved.astype(np.float32))
    with h5py.File(channel, "a") as file:
        store_values("dimensions/y", np.tile(np.linspace(0, 1, 16), (8, 1)))(file)
    assert grid_of(open_dataset(channel)).shape == (24, 16)  # all rows alike: one grid after all


@pytest.mark.parametrize(
    ("x", "kinds", "centering", "extent"),
    [
        (np.linspace(0, 1, 16), ("WALL",), "node", (0, 1)),
        ((np.arange(16) + 0.5) / 16, ("WALL",), "cell", (0, 1)),
        (-2.5 + 5 * (np.arange(16) + 0.5) / 16, ("OPEN",), "cell", (-2.5, 2.5)),
        (2 * np.pi * np.arange(16) / 16, ("PERIODIC",), "periodic", (0, 2 * np.pi)),
        ((np.arange(16) + 0.5) / 16, ("PERIODIC",), "periodic", (1 / 32, 33 / 32)),
        (0.1234 + 0.0567 * np.arange(16), ("WALL",), "cell", (0.1234 - 0.0567 / 2, 0.1234 + 15.5 * 0.0567)),
    ],
)
def test_centering_follows_walls_and_round_boxes(tmp_path, x, kinds, centering, extent):
    with h5py.File(tmp_path / "x", "w") as file:
        file.attrs.update({"dataset_name": "line", "grid_type": "cartesian", "n_spatial_dims": 1, "n_trajectories": 2})
        file.attrs["simulation_parameters"] = []
        file["dimensions/time"], file["dimensions/x"] = np.arange(3, dtype="f4"), x.astype("f4")
        file["dimensions"].attrs["spatial_dims"] = ["x"]
        file["dimensions/time"].attrs.update({"sample_varying": False, "time_varying": True})
        file["dimensions/x"].attrs.update({"sample_varying": False, "time_varying": False})
        for kind in kinds:
            wall = file.create_group(f"boundary_conditions/x_{kind.lower()}")
            wall.attrs.update({"bc_type": kind, "sample_varying": False, "time_varying": False})
            wall.attrs["associated_dims"], wall.attrs["associated_fields"] = ["x"], []
            wall["mask"] = np.isin(np.arange(16), (0, 15))
        for name, fields in (("scalars", []), ("t0_fields", ["u"]), ("t1_fields", []), ("t2_fields", [])):
            file.create_group(name).attrs["field_names"] = fields
        file["t0_fields/u"] = np.ones((2, 3, 16), "f4")
        file["t0_fields/u"].attrs.update({"dim_varying": [True], "sample_varying": True, "time_varying": True})
    assert check_well(tmp_path / "x") == []
    grid = grid_of(open_dataset(tmp_path / "x"))
    assert grid.centering == centering
    np.testing.assert_allclose(grid.extent, [extent], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(grid.coordinates()[0], x, rtol=1e-6, atol=1e-7)


def _everything():
    """A data set with all that the format can hold beyond fields on a periodic box."""
    rng, grid = np.random.default_rng(0), Grid((6, 5), ((0.0, 1 / 3), (0.0, 0.4)), "node", ((0.0, 1.0), (0.0, 0.4)))
    full = ("sample", "time", "x", "y")
    times = np.cumsum(0.1 + rng.random((4, 3)), axis=1)
    wall = {"bc_type": "wall", "associated_dims": '["x", "y"]', "associated_fields": "[]", "long_name": "rock_wall"}
    values = {"bc_type": "open", "associated_dims": '["x"]', "associated_fields": '["u"]', "long_name": "x_open"}
    fields = {
        "u": (full, rng.random((4, 3, 6, 5)).astype("f4"), {}),
        "vx": (full, rng.random((4, 3, 6, 5)).astype("f4"), {"part_of": "v", "component": "x"}),
        "vy": (full, rng.random((4, 3, 6, 5)).astype("f4"), {"part_of": "v", "component": "y"}),
        "half": (full, rng.random((4, 3, 6, 5)).astype("f4"), {"part_of": "w", "component": "x"}),
        "bed": (("x",), rng.random(6).astype("f4"), {}),
        "gain": (("sample",), rng.random(4), {}),
        "drive": (("sample", "time"), rng.random((4, 3)), {}),
        "mask_rock_wall": (("x", "y"), rng.random((6, 5)) > 0.5, wall),
        "mask_x_open": (("x",), np.arange(6) == 5, values),
        "values_x_open": (("x_open_0",), np.array([2.0], "f4"), values),
        "times": (("sample", "time"), times, {}),
        "split": (("sample",), np.array([0, 0, 1, 2], np.int8), {}),
    }
    return build_dataset(
        fields,
        grid,
        layout="native",
        equation="burgers",
        times=np.arange(3),
        state=("u", "vx", "vy", "half"),
        parameters={"viscosity": 1 / 3},
        boundary={"x": "wall-open", "y": "periodic"},
    )


def test_all_that_the_format_holds_comes_back(tmp_path):
    dataset = _everything()
    path = convert(dataset, tmp_path / "x", "the-well")
    assert check_well(path) == []
    back = open_dataset(path)
    assert set(back.data_vars) == set(dataset.data_vars) - {"split"}
    for name in set(dataset.data_vars) - {"split"}:
        assert back[name].dims == dataset[name].dims and np.array_equal(back[name].values, dataset[name].values), name
    assert grid_of(back) == grid_of(dataset)
    for key in ("equation", "state", "parameters", "boundary", "task"):
        assert back.attrs[key] == dataset.attrs[key]
    with h5py.File(path) as file:
        assert file["t1_fields/v"].shape == (4, 3, 6, 5, 2) and set(file["t0_fields"]) == {"u", "half", "bed"}
        assert file["dimensions/time"].shape == (4, 3) and file["dimensions/time"].attrs["sample_varying"]
        assert {w.attrs["bc_type"] for w in file["boundary_conditions"].values()} == {"WALL", "OPEN", "PERIODIC"}


def test_what_the_format_cannot_hold_is_refused(tmp_path):
    dataset = _everything()
    double = dataset.assign(u=dataset["u"].astype("f8"))
    with pytest.raises(ValueError, match=r"float32; u is float64: .*--dtype float32"):
        convert(double, tmp_path / "x", "the-well")
    strange = dataset.assign(word=(("ensemble",), np.zeros(2)))
    with pytest.raises(ValueError, match="no place for word over .'ensemble'"):
        convert(strange, tmp_path / "x", "the-well")
    dataset.attrs["boundary"] = json.dumps({"x": "sponge"})
    with pytest.raises(ValueError, match="knows periodic, wall, open walls; boundary.'x'. is 'sponge'"):
        convert(dataset, tmp_path / "x", "the-well")
    assert not list(tmp_path.iterdir())


def test_files_far_beyond_memory_serve_single_samples(tmp_path):
    path = write_sample("the-well", tmp_path / "x")
    with h5py.File(path, "a") as file:
        attrs = dict(file["t1_fields/velocity"].attrs)
        del file["t1_fields/velocity"]
        for name in ("time", "x", "y"):
            n = {"time": 4000, "x": 1000, "y": 500}[name]
            store_values(f"dimensions/{name}", np.arange(n, dtype=np.float32))(file)
        data = file.create_dataset("t1_fields/velocity", (8, 4000, 1000, 500, 2), "f4", fill_time="never")
        data.attrs.update(attrs)
        data[5, 1234, :, :, 1], data[-1, -1, -1] = 7, 1
        for group, names in (("t0_fields", ("tracer", "forcing", "profile")), ("t2_fields", ("strain",))):
            for name in names:
                del file[group][name]
            file[group].attrs["field_names"] = []
        del file["scalars/decay"], file["boundary_conditions"]
        file["scalars"].attrs["field_names"] = ["viscosity", "amplitude"]
    dataset = open_dataset(path)
    assert dataset["velocity_y"].nbytes > 6e10
    assert (dataset["velocity_y"][5, 1234] == 7).all() and not dataset["velocity_x"][5, 1234].any()
