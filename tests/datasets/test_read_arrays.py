"""MATLAB, torch and NumPy layouts against the arrays they were written from: every number, place, time and constant."""

import json
import pickle

import h5py
import numpy as np
import pytest
import scipy.io
import torch

from sciops.datasets import convert, grid_of, open_dataset
from sciops.datasets.conventions import parameters_of, state_of
from sciops.datasets.formats.neuralop import time_step
from sciops.datasets.formats.samples.arrays import SAMPLES, _cole_hopf, _taylor_green
from sciops.grids import Grid
from sciops.pde import burgers

KEYS = [np.s_[:], np.s_[2], np.s_[[5, 1], ::2], np.s_[:, [3, 0, 0, 1]], np.s_[1, 0], np.s_[::-1, 1:3], np.s_[:, 2:2]]


def _notes(dataset):
    return " ".join(json.loads(dataset.attrs.get("notes", "[]")))


def _reads_as(path, name, truth, *, looked_at=False):
    """Whole, in part and after a journey to another process, always the same numbers; nothing is read before."""
    for key in KEYS:
        with open_dataset(path) as dataset:
            far = pickle.loads(pickle.dumps(dataset))
            assert not far[name].variable._in_memory and not dataset[name].variable._in_memory
            assert far[name].dtype == truth.dtype
            for one in (dataset, far):
                assert np.array_equal(one[name][key].values, truth[key]), key
    if looked_at:  # a MATLAB v5 file is read whole for its first number
        return
    dataset = open_dataset(path)
    path.rename(path.with_name("moved"))  # no handle is left on it: what was not read is read by its name
    with pytest.raises(FileNotFoundError):
        dataset[name][0].load()
    path.with_name("moved").rename(path)


@pytest.mark.parametrize("layout", ["li2020-ns", "li2020-ns-v7.3"])
def test_navier_stokes_begins_with_a(tmp_path, layout):
    path = tmp_path / "file"
    SAMPLES[layout](path, seed=3)
    raw = _taylor_green(3)
    truth = np.concatenate([raw["a"][:, None], np.moveaxis(raw["u"], 3, 1)], 1)
    _reads_as(path, "w", truth)
    with open_dataset(path) as dataset:
        assert dataset["w"].dims == ("sample", "time", "x", "y") and state_of(dataset) == ("w",)
        assert grid_of(dataset, "w") == Grid((16, 16), (0, 1), "periodic")
        assert np.array_equal(dataset["time"].values, np.arange(7.0)) and dataset.attrs["equation"] == "navier_stokes"
        assert parameters_of(dataset) == {} and "viscosity is not in the file" in _notes(dataset)
        # x is the first axis of the file: the phases of the sample's two sines say which is which
        x = dataset["x"].values
        phase = np.random.default_rng(3)
        phase.uniform(0.5, 2, (8, 1, 1))
        first = phase.uniform(0, 1, (8, 2, 1))[0, 0, 0]
        wave = np.exp(-2j * np.pi * (x + first))
        assert abs((wave[:, None] * dataset["w"][0, 0].values).sum().imag) < 1e-4


@pytest.mark.parametrize("hdf5", [False, True])
def test_navier_stokes_states_what_its_file_states(tmp_path, hdf5):
    """A viscosity variable is a parameter; u that begins at time 0, by t or by its numbers, is not given a twice."""
    raw = _taylor_green(0)
    whole = np.concatenate([raw["a"][..., None], raw["u"]], 3)

    def save(name, content):
        if not hdf5:
            scipy.io.savemat(tmp_path / name, content, appendmat=False)
        else:  # converted by another program: no marks of MATLAB's, axes as in Python
            with h5py.File(tmp_path / name, "w") as file:
                for key, value in content.items():
                    file[key] = value
        return open_dataset(tmp_path / name)

    stated = save("visc", {**raw, "visc": [[1e-3]]})
    assert parameters_of(stated) == {"viscosity": 1e-3} and "notes" not in stated.attrs
    from_zero = save("zero", {"a": raw["a"], "u": whole, "t": np.arange(7.0)[None]})
    assert np.array_equal(from_zero["time"].values, np.arange(7.0))
    untimed = save("untimed", {"a": raw["a"], "u": whole})
    unknown = save("unknown", {"a": raw["a"], "u": raw["u"]})
    backward = save("backward", {"a": raw["a"], "u": raw["u"], "t": -np.arange(6.0)})
    for dataset in (stated, from_zero, untimed, unknown, backward):
        assert np.array_equal(dataset["w"].values, np.moveaxis(whole, 3, 1))
    assert "time" not in untimed.coords and "t is missing" in _notes(unknown)
    assert "time" not in backward.coords and "not finite and increasing" in _notes(backward)


def test_navier_stokes_goes_round(tmp_path):
    SAMPLES["li2020-ns"](tmp_path / "file", seed=1)
    source = open_dataset(tmp_path / "file")
    source.attrs["parameters"] = json.dumps({"viscosity": 1e-3})
    for layout in ("li2020-ns", "li2020-ns-v7.3"):
        with open_dataset(convert(source, tmp_path / layout, layout)) as there:
            assert np.array_equal(there["w"].values, source["w"].values) and there["w"].dtype == np.float32
            assert np.array_equal(there["time"].values, source["time"].values)
            assert grid_of(there) == grid_of(source) and parameters_of(there) == {"viscosity": 1e-3}
    mat = scipy.io.loadmat(tmp_path / "li2020-ns")
    assert mat["u"].shape == (8, 16, 16, 6) and np.array_equal(mat["a"], source["w"][:, 0].values)
    with h5py.File(tmp_path / "li2020-ns-v7.3") as file:
        assert file["u"].shape == (6, 16, 16, 8)
    later = source.isel(time=slice(1, None))
    for bad, message in (
        (later, "begins at time 0; the data set begins at 1"),
        (source.rename(w="u").assign_attrs(state='["u"]'), "holds w of navier_stokes"),
        (source.assign_attrs(parameters='{"drag": 1}'), "no place for drag"),
        (source.assign_attrs(grid=json.dumps(Grid((16, 16), (0, 2), "periodic").to_dict())), "one unit period"),
        (source.drop_vars("w").assign_attrs(state="[]"), "holds trajectories"),
    ):
        with pytest.raises(ValueError, match=message):
            convert(bad, tmp_path / "refused", "li2020-ns")
    assert not (tmp_path / "refused").exists()


def test_burgers_map(tmp_path):
    SAMPLES["li2020-burgers"](tmp_path / "file", seed=2)
    truth = _cole_hopf(2, 64, np.array([0.0, 1.0]), 0.1)
    for name, column in (("a", 0), ("u", 1)):
        with open_dataset(tmp_path / "file") as dataset:
            assert np.array_equal(dataset[name].values, truth[:, column])
    assert dataset.attrs["task"] == "steady" and "time" not in dataset.sizes
    assert grid_of(dataset) == Grid(64, (0, 1), "periodic") and "states no time" in dataset["u"].attrs["comment"]
    # the file's claim, u = u(·, 1) for the paper's ν, by our own solver
    solved = burgers.solve(truth[:, 0], grid_of(dataset), times=[1.0], viscosity=0.1)
    np.testing.assert_allclose(solved.u[:, 0], truth[:, 1], atol=1e-6)
    for layout in ("li2020-burgers", "li2020-burgers-v7.3"):
        with open_dataset(convert(dataset, tmp_path / layout, layout)) as there:
            assert np.array_equal(there["u"].values, truth[:, 1]) and np.array_equal(there["a"].values, truth[:, 0])


def test_burgers_trajectory_and_its_two_slips(tmp_path):
    """The generator leaves the first state zero; the older form has one state fewer than times: time 0 is the input."""
    times = np.linspace(0, 1, 11)
    truth = _cole_hopf(4, 32, times, 0.05)
    empty = truth.copy()
    empty[:, 0] = 0
    for name, output in (("whole", truth), ("zero", empty), ("short", truth[:, 1:])):
        content = {"input": truth[:, 0], "output": output, "tspan": times[None], "visc": [[0.05]]}
        scipy.io.savemat(tmp_path / name, content, appendmat=False)
        _reads_as(tmp_path / name, "u", truth, looked_at=True)
        with open_dataset(tmp_path / name) as dataset:
            assert np.array_equal(dataset["time"].values, times) and parameters_of(dataset) == {"viscosity": 0.05}
            assert np.array_equal(dataset["a"].values, truth[:, 0])
            assert ("input is put there" in _notes(dataset)) == (name == "zero")
            for layout in ("li2020-burgers", "li2020-burgers-v7.3"):
                with open_dataset(convert(dataset, tmp_path / layout, layout, overwrite=True)) as there:
                    assert np.array_equal(there["u"].values, truth)
                    assert np.array_equal(there["time"].values, times) and parameters_of(there) == {"viscosity": 0.05}


def test_the_public_burgers_files_tell_their_time_step(real_data, tmp_path):
    for name in ("burgers_train_16.pt", "burgers_test_16.pt"):
        dataset = open_dataset(real_data / name)
        raw = torch.load(real_data / name, weights_only=True)
        assert np.array_equal(dataset["u"].values, raw["y"].numpy())
        assert np.array_equal(dataset["u"][:, 0], dataset["a"]) and parameters_of(dataset) == {"viscosity": 0.01}
        assert np.array_equal(dataset["time"].values, np.round(0.06 * np.arange(17), 2))
        assert "not stated in the file" in dataset["time"].attrs["comment"]
        # solved again from the first state with that step; with any round step nearby it is an order worse
        u, grid = dataset["u"].values, Grid(256, (0, 1), "periodic")
        waves = np.abs(np.fft.rfft(u[:, 0], axis=-1)) ** 2
        smooth = np.argsort(waves[:, 5:].sum(1) / waves[:, 1:].sum(1))[:16]
        modes = np.fft.rfft(u[smooth, 0], axis=-1)
        modes[:, -1] /= 2
        fine = np.fft.irfft(modes, 256, axis=-1) * 16
        errors = {}
        for step in (0.06, 1 / 16, 1 / 17):
            again = burgers.solve(fine, grid, times=step * np.arange(17), viscosity=0.01).u[..., ::16]
            errors[step] = np.linalg.norm(again - u[smooth]) / np.linalg.norm(u[smooth])
        assert errors[0.06] < 3e-4 and min(errors[1 / 16], errors[1 / 17]) > 4e-3, errors


@pytest.mark.parametrize("n", [16, 17, 33])
def test_time_step_of_exact_solutions(n):
    for step, nu in ((0.06, 0.01), (0.0125, 0.03), (0.005, 0.02)):
        u = _cole_hopf(0, n, step * np.arange(17), nu, most=0.2)
        assert time_step(u, nu) == pytest.approx(step, rel=2e-3), (step, nu)
    assert time_step(np.random.default_rng(0).standard_normal((8, 17, n)), 0.01) is None  # no solution at all
    assert time_step(u, 0.0) is None and time_step(np.full_like(u, np.nan), nu) is None


def test_neuralop_burgers_keeps_what_the_layout_can_tell(tmp_path):
    SAMPLES["neuralop-burgers"](tmp_path / "file", seed=0)
    source = open_dataset(tmp_path / "file")
    np.testing.assert_allclose(source["time"].values, 0.06 * np.arange(17), rtol=1e-12)
    with open_dataset(convert(source, tmp_path / "again", "neuralop")) as there:
        assert there.identical(source)
    moved = source.assign_coords(time=source["time"] * 2)
    with pytest.raises(ValueError, match="no place for times.*li2020-burgers.*drop_vars"):
        convert(moved, tmp_path / "refused", "neuralop")
    untimed = torch.load(convert(moved.drop_vars("time"), tmp_path / "untimed", "neuralop"), weights_only=True)
    assert torch.equal(untimed["y"], torch.from_numpy(source["u"].values)) and float(untimed["visc"]) == 0.01


def test_neuralop_navier_stokes_is_no_darcy(tmp_path):
    """Same keys, same shapes: x of both signs is no coefficient."""
    path = tmp_path / "nsforcing_train_16.pt"
    SAMPLES["neuralop-navier-stokes"](path, seed=6)
    raw = torch.load(path, weights_only=True)
    with open_dataset(path) as dataset:
        assert dataset.attrs["equation"] == "navier_stokes" and dataset.attrs["task"] == "steady"
        assert np.array_equal(dataset["f"].values, raw["x"]) and np.array_equal(dataset["u"].values, raw["y"])
        assert grid_of(dataset) == Grid((16, 16), (0, 1), "periodic") and "both signs" in _notes(dataset)
        assert dataset.attrs["positions"].startswith("assumed") and "coefficient" not in dataset.attrs
        # the file's claim by our own solver: from rest, with that forcing, to t = 5
        from sciops.pde import navier_stokes

        f = dataset["f"].values.astype(float)
        solved = navier_stokes.solve(np.zeros_like(f), grid_of(dataset), times=[5.0], viscosity=1e-2, forcing=f)
        np.testing.assert_allclose(solved.u[:, -1], raw["y"], atol=1e-4)
        with open_dataset(convert(dataset, tmp_path / "again", "neuralop")) as there:
            assert there.identical(dataset)
        wide = Grid((16, 16), (0, 2 * np.pi), "periodic")
        moved = dataset.load().assign_attrs(grid=json.dumps(wide.to_dict()))
        with open_dataset(convert(moved, tmp_path / "wide", "neuralop")) as there:
            assert grid_of(there) == wide and there.attrs["positions"] == "stored"
        for bad, message in (
            (dataset.assign(f=abs(dataset["f"])), "by its signs"),
            (dataset.assign_attrs(parameters='{"viscosity": 0.1}'), "no place for viscosity"),
            (dataset.drop_vars("f"), "one forcing f and the vorticity u"),
        ):
            with pytest.raises(ValueError, match=message):
                convert(bad, tmp_path / "refused", "neuralop")
    SAMPLES["neuralop"](path, seed=6)
    raw = torch.load(path, weights_only=True)
    torch.save({"x": 3 + 9 * raw["x"].float(), "y": raw["y"]}, path)
    with open_dataset(path) as dataset:
        assert dataset.attrs["equation"] == "darcy" and dataset.attrs["coefficient"] == "values"


@pytest.mark.parametrize(
    "content",
    [
        {"a": np.ones((4, 8, 8)), "u": np.ones((4, 8, 9, 3))},
        {"a": np.ones((4, 8, 8)), "u": np.ones((5, 8, 8, 3))},
        {"a": np.ones((4, 8)), "u": np.ones((4, 9))},
        {"a": np.ones((1, 8)), "u": np.ones((1, 8))},
        {"input": np.ones((4, 8)), "output": np.ones((4, 3, 9))},
        {"input": np.ones((4, 8)), "u": np.ones((4, 8))},
        {"a": np.ones((4, 8, 8))},
    ],
)
def test_matlab_files_of_other_shapes_are_no_layout(tmp_path, content):
    scipy.io.savemat(tmp_path / "file", content, appendmat=False)
    with pytest.raises(ValueError, match="a MATLAB v5 file with .*not a known layout") as caught:
        open_dataset(tmp_path / "file")
    assert "\n" not in str(caught.value)
