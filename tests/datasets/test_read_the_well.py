"""The Well's files against plain h5py, its written rules, its statistics against NumPy; and back, bit for bit."""

import json
import re

import h5py
import numpy as np
import pytest

from sciops import cli
from sciops.datasets import (
    SAMPLES,
    check_well,
    convert,
    describe,
    grid_of,
    open_dataset,
    validate,
    well_statistics,
    write_sample,
    write_well_folder,
)
from sciops.datasets.conventions import build_dataset, parameters_of, state_of
from sciops.datasets.formats.the_well import folder
from sciops.grids import Grid


@pytest.fixture
def channel(tmp_path):
    return write_sample("the-well", tmp_path / "named.pt")  # a misleading ending


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
        pytest.skip("fields that are no floats have no place in The Well")
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


def _drop(place, key=None):
    def change(file):
        if key is None:
            del file[place]
        else:
            del file[place].attrs[key]

    return change


def _set(place, key, value):
    def change(file):
        file[place].attrs[key] = value

    return change


def _store(place, values):
    def change(file):
        attrs = dict(file[place].attrs) if place in file else {}
        if place in file:
            del file[place]
        file[place] = values
        file[place].attrs.update(attrs)

    return change


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (_drop("/", "dataset_name"), "attribute dataset_name is missing"),
        (_set("/", "n_trajectories", "8"), "n_trajectories is '8', not a whole number"),
        (_drop("/", "viscosity"), "viscosity is no root attribute"),
        (_drop("scalars/viscosity"), "viscosity is no dataset in scalars"),
        (_set("/", "simulation_parameters", "viscosity"), "simulation_parameters is 'viscosity', not a list"),
        (_drop("t2_fields"), "group t2_fields is missing"),
        (_drop("dimensions/time", "time_varying"), "/dimensions/time: attribute time_varying is None"),
        (_set("dimensions/time", "time_varying", False), r"/dimensions/time: shape \(6,\), expected \(\)"),
        (_set("dimensions/x", "sample_varying", 0), "sample_varying is .*0.*, not a boolean"),
        (_set("dimensions", "spatial_dims", ["x"]), "spatial_dims names 1, n_spatial_dims is 2"),
        (_drop("t0_fields/tracer", "dim_varying"), "dim_varying is None"),
        (_set("t0_fields/forcing", "time_varying", True), r"forcing: shape \(8, 24, 16\), expected \(8, 6, 24, 16\)"),
        (_store("t0_fields/profile", np.zeros(16)), "profile: holds float64, not float32"),
        (_store("t2_fields/strain", np.zeros((8, 6, 24, 16, 4), "f4")), r"expected \(8, 6, 24, 16, 2, 2\)"),
        (_drop("t2_fields/strain", "symmetric"), "attribute symmetric is None"),
        (_store("scalars/viscosity", np.zeros(1, "f4")), r"viscosity: shape \(1,\), expected \(\)"),
        (_set("scalars", "field_names", ["viscosity", "amplitude", "decay", "more"]), "/scalars/more: is missing"),
        (_set("boundary_conditions/x_periodic", "associated_dims", "x"), "associated_dims is 'x', not a list"),
        (_set("boundary_conditions/x_periodic", "bc_type", "SLIP"), "bc_type is 'SLIP', not one of WALL"),
        (_drop("boundary_conditions/y_wall/mask"), "mask is missing"),
        (_store("boundary_conditions/y_wall/mask", np.zeros(24, bool)), r"mask: shape \(24,\), expected \(16,\)"),
        (_store("boundary_conditions/y_wall/mask", np.zeros(16, "i1")), "mask: holds int8, not bool"),
        (_store("boundary_conditions/y_wall/values", np.zeros(3, "f4")), "3 values for 2 true entries"),
    ],
)
def test_each_broken_rule_is_found(channel, change, finding):
    import re

    assert check_well(channel) == []
    with h5py.File(channel, "a") as file:
        change(file)
    found = check_well(channel)
    assert found and any(re.search(finding, line) for line in found), found
    assert all("\n" not in line and line.startswith("/") for line in found)


def test_files_against_the_rules_open_where_they_can_be_understood(channel):
    """As The Well's own script for dummy data writes them: a string for a list, no time_varying on dimensions."""
    before = open_dataset(channel)
    with h5py.File(channel, "a") as file:
        for name in ("time", "x", "y"):
            del file[f"dimensions/{name}"].attrs["time_varying"]
        for name in ("x_periodic", "y_wall"):
            file[f"boundary_conditions/{name}"].attrs["associated_dims"] = name[0]
        file["t0_fields"].attrs["field_names"] = ["tracer"]  # forgets two
        del file.attrs["n_trajectories"]
    dataset = open_dataset(channel)
    assert "against the format: /: attribute n_trajectories is missing" in json.loads(dataset.attrs["notes"])
    for key in ("boundary", "grid", "parameters"):
        assert dataset.attrs[key] == before.attrs[key]
    assert set(dataset.data_vars) == set(before.data_vars)


def test_shapes_that_contradict_their_flags_are_refused(channel):
    with h5py.File(channel, "a") as file:
        file["t1_fields/velocity"].attrs["time_varying"] = False
    with pytest.raises(ValueError, match=r"t1_fields/velocity is float32\[8, 6, 24, 16, 2\].*gives \[8, 24, 16, 2\]"):
        open_dataset(channel)
    with h5py.File(channel, "a") as file:
        file["t1_fields/velocity"].attrs.update({"time_varying": True, "dim_varying": [True]})
    with pytest.raises(ValueError, match="dim_varying = .True. for the dimensions x, y") as caught:
        open_dataset(channel)
    assert "\n" not in str(caught.value)
    with h5py.File(channel, "a") as file:
        del file["dimensions/y"]
    with pytest.raises(ValueError, match="dimensions names x, y, and holds no y"):
        open_dataset(channel)


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
        _store("dimensions/y", points)(file)
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
        _store("dimensions/y", moved.astype(np.float32))(file)
        file["dimensions/y"].attrs["sample_varying"] = True
    assert check_well(channel) == []
    dataset = open_dataset(channel)
    assert dataset["position_y"].dims == ("sample", "y") and "grid" not in dataset.attrs
    assert np.array_equal(dataset["position_y"], moved.astype(np.float32))
    with h5py.File(channel, "a") as file:
        _store("dimensions/y", np.tile(np.linspace(0, 1, 16), (8, 1)))(file)
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


def _with_split(dataset):
    codes = np.array([0, 1, 0, 2, 0, 0, 1, 0], np.int8)
    return dataset.assign(split=("sample", codes)), codes


def test_folder_holds_a_file_a_split_and_the_statistics_of_training(channel, tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "_BLOCK", 7000)  # several times a block, and a remainder
    dataset, codes = _with_split(open_dataset(channel))
    base = write_well_folder(dataset, tmp_path / "well", "tiny")
    assert base == tmp_path / "well" / "tiny"
    written = sorted(str(p.relative_to(base)) for p in base.rglob("*") if p.is_file())
    assert written == [*(f"data/{s}/tiny.hdf5" for s in ("test", "train", "valid")), "stats.yaml"]
    for code, part in enumerate(("train", "valid", "test")):
        path = base / "data" / part / "tiny.hdf5"
        assert check_well(path) == []
        with open_dataset(path) as one, h5py.File(path) as file:
            assert np.array_equal(one["tracer"].values, dataset["tracer"].values[codes == code])
            assert file.attrs["dataset_name"] == "tiny" and file.attrs["n_trajectories"] == (codes == code).sum()
    stats = well_statistics(base / "data/train/tiny.hdf5")
    for name, fields in (("tracer", "tracer"), ("velocity", ("velocity_x", "velocity_y"))):
        names = (fields,) if isinstance(fields, str) else fields
        u = np.stack([dataset[n].values[codes == 0].astype(np.float64) for n in names], -1)
        change = np.diff(u, axis=1)
        axes = (0, 1, 2, 3)
        for end, v in (("", u), ("_delta", change)):
            truth = {"mean": v.mean(axes), "std": v.std(axes), "rms": np.sqrt((v**2).mean(axes))}
            for key, value in truth.items():
                np.testing.assert_allclose(np.atleast_1d(stats[key + end][name]), value, rtol=1e-12, atol=1e-15)
    assert np.shape(stats["std"]["strain"]) == (2, 2)
    assert "forcing" in stats["mean"] and "forcing" not in stats["mean_delta"]  # it does not vary in time
    with pytest.raises(FileExistsError, match="is there already: remove it, or pass overwrite=True"):
        write_well_folder(dataset, tmp_path / "well", "tiny")
    write_well_folder(dataset, tmp_path / "well", "tiny", overwrite=True)


def test_one_line_says_that_the_loader_of_the_well_refuses_a_steady_file(tmp_path, capsys):
    grid = Grid((4, 4))
    fields = {name: (("sample", "x", "y"), np.ones((2, 4, 4), "f4"), {}) for name in "au"}
    steady = build_dataset(fields, grid, layout="native", equation="darcy").assign(split=("sample", np.int8([0, 2])))
    line = "this file of a steady problem keeps .* WellDataset, asks for two times or more"
    with pytest.warns(UserWarning, match=line) as caught:
        path = convert(steady, tmp_path / "x", "the-well")
    assert len(caught) == 1 and caught[0].filename == __file__ and check_well(path) == []
    with pytest.warns(UserWarning, match=line) as caught:
        write_well_folder(steady, tmp_path, "steady")
    assert len(caught) == 1 and caught[0].filename == __file__
    cli.main(["convert", str(path), str(tmp_path / "y"), "--layout", "the-well"])
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2 and re.match(line, said[0]) and said[1].startswith("wrote ")
    field = (("sample", "time", "x"), np.ones((2, 1, 4), "f4"), {})
    alone = build_dataset({"u": field}, Grid(4), layout="native", equation="heat", state=("u",), times=[0.5])
    with pytest.warns(UserWarning, match="this file of one time keeps"):
        convert(alone, tmp_path / "z", "the-well")


def test_statistics_file_is_yaml_that_gives_the_numbers_back(channel, tmp_path):
    yaml = pytest.importorskip("yaml")
    dataset, _ = _with_split(open_dataset(channel))
    base = write_well_folder(dataset, tmp_path, "tiny")
    loaded = yaml.safe_load((base / "stats.yaml").read_text(encoding="utf-8"))
    assert loaded == well_statistics(base / "data/train/tiny.hdf5")
    assert set(loaded) == {"mean", "std", "rms", "mean_delta", "std_delta", "rms_delta"}


def test_statistics_survive_a_large_mean(tmp_path, monkeypatch):
    """Sums of squares in float64 would leave nothing of a deviation of 1e-3 about 3e6."""
    monkeypatch.setattr(folder, "_BLOCK", 4000)
    rng = np.random.default_rng(0)
    values = (3e6 + rng.standard_normal((6, 9, 10, 8))).astype(np.float32)
    dataset = build_dataset(
        {"u": (("sample", "time", "x", "y"), values, {})},
        Grid((10, 8), None, "periodic"),
        layout="native",
        equation="unknown",
        times=np.arange(9),
        state=("u",),
    )
    stats = well_statistics(convert(dataset, tmp_path / "x", "the-well"))
    u = values.astype(np.longdouble)
    for key, v in (("", u), ("_delta", np.diff(u, axis=1))):
        np.testing.assert_allclose(stats[f"std{key}"]["u"], float(v.std()), rtol=1e-11)
        np.testing.assert_allclose(stats[f"mean{key}"]["u"], float(v.mean()), rtol=1e-11, atol=1e-11)


def test_folder_wants_a_split_with_training_samples(channel, tmp_path):
    with pytest.raises(ValueError, match="stores no split"):
        write_well_folder(channel, tmp_path, "tiny")
    dataset = open_dataset(channel).assign(split=("sample", np.ones(8, np.int8)))
    with pytest.raises(ValueError, match="no sample is for training"):
        write_well_folder(dataset, tmp_path, "tiny")
    for name in ("", "a/b", "..", ".hidden"):
        with pytest.raises(ValueError, match="expected one word"):
            write_well_folder(dataset, tmp_path, name)
    assert [p.name for p in tmp_path.iterdir()] == ["named.pt"]


def test_a_native_file_becomes_a_folder(tmp_path, channel):
    dataset, codes = _with_split(open_dataset(channel))
    native = convert(dataset, tmp_path / "native", "native")
    base = write_well_folder(native, tmp_path, "from_native")
    with open_dataset(base / "data/valid/from_native.hdf5") as part:
        assert np.array_equal(part["velocity_y"].values, dataset["velocity_y"].values[codes == 1])


def test_files_far_beyond_memory_serve_single_samples(tmp_path):
    path = write_sample("the-well", tmp_path / "x")
    with h5py.File(path, "a") as file:
        attrs = dict(file["t1_fields/velocity"].attrs)
        del file["t1_fields/velocity"]
        for name in ("time", "x", "y"):
            n = {"time": 4000, "x": 1000, "y": 500}[name]
            _store(f"dimensions/{name}", np.arange(n, dtype=np.float32))(file)
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


def test_other_groups_are_no_well(tmp_path):
    with h5py.File(tmp_path / "x", "w") as file:
        file.attrs["grid_type"] = "cartesian"
        file["dimensions/time"] = np.zeros(3)
    with pytest.raises(ValueError, match="no known layout"):
        open_dataset(tmp_path / "x")
    (tmp_path / "text").write_text("no data")
    with pytest.raises(ValueError, match="not an HDF5 file"):
        check_well(tmp_path / "text")
    with h5py.File(tmp_path / "links", "w") as file:
        file["t0_fields"] = h5py.SoftLink("/t0_fields")
        file["dimensions"] = h5py.SoftLink("/nowhere")
    assert any("group dimensions is missing" in line for line in check_well(tmp_path / "links"))
