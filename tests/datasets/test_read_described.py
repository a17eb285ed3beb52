"""Any HDF5 or MATLAB file whose arrays somebody has described, and folders of them with one sample a file."""

import json
import pickle

import h5py
import numpy as np
import pytest
import scipy.io
import xarray as xr

from sciops.datasets import convert, describe_arrays, grid_of, load_splits, open_dataset, validate, write_native
from sciops.datasets.conventions import state_of
from sciops.datasets.formats import find_reader
from sciops.datasets.formats.samples.arrays import SAMPLES, _heat
from sciops.grids import Grid

RNG = np.random.default_rng(0)
TORUS = Grid((6, 4), ((0, 2), (-1, 1)), "periodic")
PARTS = (np.s_[:], np.s_[1], np.s_[[4, 0], 1:, ::-1], np.s_[:, 2, [1, 0], 3], np.s_[0, 0, 0, 0])


def test_the_sample_file_is_what_its_description_says(tmp_path):
    SAMPLES["hdf5"](tmp_path / "file", seed=3)
    with open_dataset(tmp_path / "file") as dataset:
        assert find_reader(tmp_path / "file").name == "arrays" and state_of(dataset) == ("u",)
        assert not dataset["u"].variable._in_memory
        assert np.array_equal(dataset["u"].values, _heat(3)["u"].astype(np.float32))
        assert np.array_equal(dataset["initial"].values, _heat(3)["initial"].astype(np.float32))
        assert np.array_equal(dataset["time"].values, 0.25 * np.arange(1, 10)) and dataset["u"].attrs["units"] == "K"
        with open_dataset(convert(dataset, tmp_path / "again.npz", "arrays")) as there:
            assert there.identical(dataset)
    assert [f for f in validate(tmp_path / "file") if f.severity == "error"] == []


@pytest.mark.parametrize("kind", ["hdf5", "mat5", "packed", "netcdf3"])
def test_axes_in_any_order_and_components(tmp_path, kind):
    truth = RNG.random((5, 3, 6, 4, 2)).astype(np.float32)  # sample, time, x, y, channel
    stored, path, name = truth.transpose(2, 4, 1, 0, 3)[:, :, None], tmp_path / "file", "group/v"
    if kind == "hdf5":
        with h5py.File(path, "w") as file:
            file.create_dataset(name, data=stored, chunks=(2, 1, 1, 3, 5, 4))
            file["when/t"] = np.array([0.0, 0.5, 2.0])
    elif kind == "netcdf3":
        name = "v"
        plain = xr.Dataset({"v": (tuple("abcdef"), stored), "t": ("d", np.array([0.0, 0.5, 2.0]))})
        plain.to_netcdf(path, engine="scipy", format="NETCDF3_64BIT")
    else:
        name = "v"
        content = {"v": stored, "t": np.array([[0.0, 0.5, 2.0]])}
        scipy.io.savemat(path, content, appendmat=False, do_compression=kind == "packed")
    describe_arrays(
        path,
        {"velocity": {"dims": ("x", "channel", "", "time", "sample", "y"), "components": ("vx", "vy"), "array": name}},
        grid=TORUS,
        state=("vx", "vy"),
        times={"array": "when/t" if kind == "hdf5" else "t"},
        equation="navier_stokes_velocity",
    )
    for channel, variable in enumerate(("vx", "vy")):
        for key in PARTS:
            expected = truth[..., channel]
            parts = key if isinstance(key, tuple) else (key,)
            for axis, part in reversed(list(enumerate(parts))):
                expected = expected[(slice(None),) * axis + (part,)]
            dataset = open_dataset(path)
            for one in (dataset, pickle.loads(pickle.dumps(dataset))):
                assert np.array_equal(one[variable][key].values, expected), (variable, key)
    assert np.array_equal(dataset["time"].values, [0.0, 0.5, 2.0]) and grid_of(dataset) == TORUS


def test_a_description_goes_before_what_the_file_looks_like(tmp_path):
    """a and u of one shape pass for Li et al.'s Burgers; who says otherwise is believed."""
    path, values = tmp_path / "file.h5", RNG.random((2, 5, 8))
    with h5py.File(path, "w") as file:
        file["a"], file["u"] = values
    assert find_reader(path).name == "li2020-burgers"
    cells = Grid(8, 3.0, "cell")
    describe_arrays(path, {"f": {"dims": ("sample", "x"), "array": "a"}, "u": ("sample", "x")}, grid=cells)
    with open_dataset(path) as dataset:
        assert dataset.attrs["layout"] == "arrays" and grid_of(dataset) == cells
        assert np.array_equal(dataset["f"].values, values[0]) and np.array_equal(dataset["u"].values, values[1])
    native = write_native(tmp_path / "native.h5", dataset)
    (tmp_path / "native.h5.json").write_text((tmp_path / "file.h5.json").read_text())
    assert find_reader(native).name == "native"


def _one_a_file(folder, count, first=0):
    folder.mkdir(parents=True)
    values = RNG.random((count, 2, 6, 4)).astype(np.float32)
    for i, (a, u) in enumerate(values):
        with h5py.File(folder / f"sample_{first + i}.h5", "w") as file:
            file["coefficient"], file["solution"] = a, u
    return values


def test_a_folder_with_one_sample_a_file_is_described_once(tmp_path):
    train, test = _one_a_file(tmp_path / "set" / "train", 4), _one_a_file(tmp_path / "set" / "test", 2)
    arrays = {name: {"dims": ("x", "y"), "array": long} for name, long in (("a", "coefficient"), ("u", "solution"))}
    assert describe_arrays(tmp_path / "set", arrays, grid=TORUS) == tmp_path / "set" / "sciops.json"
    with open_dataset(tmp_path / "set" / "train" / "sample_2.h5") as dataset:
        assert dict(dataset.sizes) == {"sample": 1, "x": 6, "y": 4} and not dataset["u"].variable._in_memory
        assert np.array_equal(dataset["a"].values, train[2:3, 0]) and np.array_equal(dataset["u"].values, train[2:3, 1])
    parts = load_splits(tmp_path / "set", validation=0)
    for part, values in ((parts.train, train), (parts.test, test)):
        batch = part.batch(range(len(part)))
        assert np.array_equal(batch["x"][:, 0], values[:, 0]) and np.array_equal(batch["y"][:, 0], values[:, 1])
    # numbers without a name are meant where their axes are as many
    for name, shape in (("scenario", (3, 4, 1, 8)), ("field", (6, 4))):
        np.save(tmp_path / "set" / f"{name}.npy", np.zeros(shape))
    (tmp_path / "set" / "sciops.json").write_text(
        json.dumps({"arrays": {"u": ["x", "y"]}, "grid": {"shape": [6, 4], "centering": "cell"}})
    )
    assert find_reader(tmp_path / "set" / "scenario.npy") is None
    assert open_dataset(tmp_path / "set" / "field.npy")["u"].shape == (1, 6, 4)
    # a file that holds other arrays is not meant
    other = tmp_path / "set" / "other.h5"
    with h5py.File(other, "w") as file:
        file["velocity"] = np.zeros((3, 4, 2, 8, 8), np.float32)
    assert find_reader(other).name == "poseidon"


def test_a_description_in_another_folder_is_not_this_files(tmp_path, monkeypatch):
    _one_a_file(tmp_path / "run", 1), _one_a_file(tmp_path / "train" / "run", 1), _one_a_file(tmp_path / "test", 1)
    content = {"arrays": {"a": {"dims": ["x", "y"], "array": "coefficient"}}, "grid": TORUS.to_dict()}
    (tmp_path / "sciops.json").write_text(json.dumps(content))
    for folder in ("run", "train/run"):  # the first is beside the description's folder, the second two below it
        assert find_reader(tmp_path / folder / "sample_0.h5") is None
    monkeypatch.chdir(tmp_path / "test")  # the name as it was given has no folder above
    assert find_reader("sample_0.h5").name == find_reader(tmp_path / "test" / "sample_0.h5").name == "arrays"
    with pytest.raises(ValueError, match="holds no .npy"):
        describe_arrays(tmp_path / "train", {"u": ("x",)}, grid=Grid(4, 1.0, "cell"))


def test_a_trajectory_a_file(tmp_path):
    values = RNG.random((3, 6, 4))
    with h5py.File(tmp_path / "run.h5", "w") as file:
        file["w"] = values
    describe_arrays(tmp_path / "run.h5", {"w": ("time", "x", "y")}, grid=TORUS, state=("w",), times={"step": 0.5})
    with open_dataset(tmp_path / "run.h5") as dataset:
        assert state_of(dataset) == ("w",) and np.array_equal(dataset["w"].values, values[None])
        assert np.array_equal(dataset["w"][0, [2, 0]].values, values[[2, 0]])


def test_unknown_files_are_told_how_to_describe_themselves(tmp_path):
    """The line that is shown works, with the axes put right."""
    path = tmp_path / "simulation.h5"
    with h5py.File(path, "w") as file:
        file["run 1/pressure"], file["probe"] = np.zeros((7, 5, 12, 9)), np.zeros(3)
    with pytest.raises(ValueError, match="not a known layout: numbers do not say what their axes mean") as caught:
        open_dataset(path)
    text = str(caught.value)
    line = text[text.index("sciops.datasets.describe_arrays(") :].split("), which writes")[0] + ")"
    assert "'array': 'run 1/pressure'" in line and "\n" not in text and len(text) < 900
    line = line.replace("sciops.datasets.", "").replace("'simulation.h5'", "path")
    eval(line, {"describe_arrays": describe_arrays, "Grid": Grid, "path": path})
    with open_dataset(path) as dataset:
        assert dict(dataset["pressure"].sizes) == {"sample": 7, "time": 5, "x": 12, "y": 9}
    content = {"field": np.zeros((4, 6))}
    scipy.io.savemat(tmp_path / "own.mat", content)
    with pytest.raises(
        ValueError, match=r"describe_arrays\('own.mat', \{'field': \('sample', 'x'\)\}, grid=Grid\(\(6,\)"
    ):
        open_dataset(tmp_path / "own.mat")


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"p": ("sample", "x", "y")}, {}, r"names the array 'p'; the file holds g/p, times"),
        ({"p": {"dims": ("x", "sample", "y"), "array": "g/p"}}, {}, r"x 6, .*the array there is float64\[3, 6, 4\]"),
        (
            {"p": {"dims": ("time", "x", "y"), "array": "g/p"}},
            {"times": {"array": "times"}},
            r"times in times, float64\[5\], for 3",
        ),
        ({"p": {"dims": ("sample", "x", "y"), "array": "g/p"}}, {"state": ("p",)}, "a sample and a time axis"),
    ],
)
def test_descriptions_that_do_not_fit(tmp_path, arrays, options, message):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["g/p"], file["times"] = np.zeros((3, 6, 4)), np.arange(5.0)
    with pytest.raises(ValueError, match=message) as caught:
        describe_arrays(tmp_path / "x.h5", arrays, grid=TORUS, **options)
    assert "\n" not in str(caught.value) and [p.name for p in tmp_path.iterdir()] == ["x.h5"]


def test_folders_and_files_that_cannot_be_described(tmp_path):
    with pytest.raises(ValueError, match="holds no .npy, .npz, HDF5, MATLAB, NetCDF or torch.save file"):
        describe_arrays(tmp_path, {"u": ("x",)}, grid=Grid(4, 1.0, "cell"))
    (tmp_path / "table.csv").write_text("1,2\n")
    with pytest.raises(
        ValueError, match="a text file .*: .npy, .npz, HDF5, MATLAB, NetCDF and torch.save files are described"
    ):
        describe_arrays(tmp_path / "table.csv", {"u": ("x",)}, grid=Grid(4, 1.0, "cell"))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["u"] = np.zeros(4)
    for content in (
        "[]",
        '{"arrays": []}',
        '{"arrays": {"u": {"array": 3}}}',
        "{",
        json.dumps({"arrays": {"v": ["x"]}}),
    ):
        (tmp_path / "sciops.json").write_text(content)
        with pytest.raises(ValueError, match="not a known layout"):  # none of them speaks of this file
            open_dataset(tmp_path / "x.h5")
