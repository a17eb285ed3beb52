"""NumPy files: axes are described, never guessed; numbers mapped from the disk; archives that lie are refused."""

import io
import json
import pickle
import zipfile

import numpy as np
import pytest

from sciops.datasets import convert, describe_arrays, grid_of, open_dataset, validate
from sciops.datasets.conventions import parameters_of, state_of
from sciops.datasets.formats import find_reader
from sciops.datasets.formats.samples.arrays import SAMPLES, _heat
from sciops.grids import Grid

RNG = np.random.default_rng(0)
TORUS = Grid((6, 4), ((0, 2), (-1, 1)), "periodic")


def _save(path, array):
    with open(path, "wb") as file:
        np.save(file, array)
    return path


def test_described_npy(tmp_path):
    SAMPLES["npy"](tmp_path / "file", seed=5)
    with open_dataset(tmp_path / "file") as dataset:
        assert np.array_equal(dataset["u"].values, _heat(5)["u"])
        assert grid_of(dataset) == Grid(32, (0, 1), "periodic") and state_of(dataset) == ("u",)
        assert np.array_equal(dataset["time"].values, 0.25 * np.arange(1, 10)) and dataset["time"].attrs["units"] == "s"
        assert parameters_of(dataset) == {"diffusivity": 0.02} and dataset.attrs["equation"] == "heat"
        assert dataset["u"].attrs["units"] == "K" and dataset.attrs["layout"] == "arrays"


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["npy", "npz", "compressed"])
def test_axes_in_any_order_components_and_other_byte_orders(tmp_path, kind, order):
    """Stored as (x, channel, 1, time, sample, y) in Fortran's order and big endian: the same fields."""
    truth = RNG.random((5, 3, 6, 4, 2)).astype(">f4")  # sample, time, x, y, channel
    stored = np.asarray(truth.transpose(2, 4, 1, 0, 3)[:, :, None], order=order)
    path = tmp_path / "file"
    if kind == "npy":
        _save(path, stored)
    else:
        with open(path, "wb") as file:
            {"npz": np.savez, "compressed": np.savez_compressed}[kind](file, v=stored, t=np.array([0.0, 0.5, 2.0]))
    times = [0.0, 0.5, 2.0] if kind == "npy" else {"array": "t", "units": "s"}
    about = {"dims": ("x", "channel", "", "time", "sample", "y"), "components": ("vx", "vy"), "array": "v"}
    if kind == "npy":
        del about["array"]
    describe_arrays(path, {"velocity": about}, grid=TORUS, state=("vx", "vy"), times=times, equation="navier_stokes")
    dataset = open_dataset(path)
    far = pickle.loads(pickle.dumps(dataset))
    for channel, name in enumerate(("vx", "vy")):
        assert dataset[name].dims == ("sample", "time", "x", "y") and dataset[name].dtype == np.dtype("f4")
        for key in (np.s_[:], np.s_[1], np.s_[[4, 0], 1:, ::-1], np.s_[:, [2, 2], [1, 0], 3], np.s_[0, 0, 0, 0]):
            expected = truth[..., channel]
            picked = [
                k if not isinstance(k, list) else np.array(k) for k in (key if isinstance(key, tuple) else (key,))
            ]
            for axis, part in reversed(list(enumerate(picked))):
                expected = expected[(slice(None),) * axis + (part,)]
            for one in (dataset, far):
                assert np.array_equal(one[name][key].values, expected)
    assert np.array_equal(dataset["time"].values, [0.0, 0.5, 2.0]) and grid_of(dataset) == TORUS


def test_only_what_is_asked_for_is_read(tmp_path):
    """A file of 8 GB that is one hole: a sample of it is there at once."""
    path = tmp_path / "file"
    with open(path, "wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (1000, 1000, 1024)}
        np.lib.format.write_array_header_1_0(file, header)
        start = file.tell()
        file.seek(start + 8 * (1000 * 1000 * 1024 - 1))
        file.write(np.float64(7).tobytes())
    describe_arrays(path, {"u": ("sample", "time", "x")}, grid=Grid(1024, 1.0, "periodic"), state=("u",))
    with open_dataset(path) as dataset:
        assert dataset["u"][999, 999].values.tolist() == [0.0] * 1023 + [7.0]


def test_an_archive_goes_round_with_everything_it_says(tmp_path):
    SAMPLES["npz"](tmp_path / "file", seed=1)
    source = open_dataset(tmp_path / "file")
    staggered = Grid(32, (0.5 / 32, 1 + 0.5 / 32), "periodic")
    source["initial"].attrs["grid"] = json.dumps(staggered.to_dict())
    source["rate"] = ("sample", RNG.random(8), {"units": "1/s", "long_name": "rate"})
    source.attrs |= {"boundary": '{"x": "periodic"}', "forcing": 2.5}
    with open_dataset(convert(source, tmp_path / "again", "arrays")) as there:
        assert there.identical(source)
        assert grid_of(there, "initial") == staggered and grid_of(there, "u") == grid_of(source)
        assert there.attrs["forcing"] == 2.5
    with np.load(tmp_path / "again") as plain:
        assert np.array_equal(plain["u"], source["u"].values)  # an archive like any other
    assert [f for f in validate(tmp_path / "again") if f.severity == "error"] == []


def test_the_description_may_be_an_array_of_the_archive(tmp_path):
    text = json.dumps({"arrays": {"u": ["sample", "x"]}, "grid": {"shape": 4, "centering": "cell"}})
    values = RNG.random((3, 4))
    for number, member in enumerate(
        (np.array(text), np.frombuffer(text.encode(), np.uint8), np.array(text.encode()), np.array(list(text)))
    ):
        path = tmp_path / f"file{number}"
        with open(path, "wb") as file:
            np.savez_compressed(file, u=values, **{"sciops.json": member})
        assert np.array_equal(open_dataset(path)["u"].values, values)
        assert grid_of(open_dataset(path)) == Grid(4, centering="cell")


def test_undescribed_arrays_are_never_guessed(tmp_path):
    for shape in ((5,), (3, 4), (7, 5, 64), (2, 3, 1, 8), (2, 3, 1, 8, 8), (2,) * 7):
        path = _save(tmp_path / "u.npy", np.zeros(shape))
        assert find_reader(path) is None
        for layout in (None, "arrays"):
            with pytest.raises(ValueError, match="numbers do not say what their axes mean") as caught:
                open_dataset(path, layout=layout)
            text = str(caught.value)
            assert str(list(shape)) in text and "describe_arrays('u.npy'" in text and "\n" not in text
    with open(tmp_path / "u.npz", "wb") as file:
        np.savez(file, p=np.zeros((3, 4)))
    with pytest.raises(ValueError, match=r"p float64\[3, 4\].*\{'p': \('sample', 'x'\)\}"):
        open_dataset(tmp_path / "u.npz")


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"u": ("sample", "x")}, {}, r"gives u the axes \(sample, x 6\); the array there is float64\[3, 5, 6, 4\]"),
        ({"u": ("sample", "time", "y", "x")}, {}, r"y 4, x 6\); the array"),
        ({"u": ("sample", "time", "x", "w")}, {}, "dimension 'w': expected one of sample, time"),
        ({"u": ("sample", "time", "x", "x")}, {}, "one dimension twice"),
        ({"u": ("sample", "channel", "x", "y")}, {}, "components names the variables"),
        ({"u": {"dims": ("sample", "channel", "x", "y"), "components": ("p", "q")}}, {}, "channel 2"),
        ({"u": ("sample", "time", "x", "y")}, {"state": ("v",)}, "state has 'v'"),
        ({"u": ("sample", "time", "x", "y")}, {"times": [0.0, 1.0]}, r"\(2,\) times for 5 states"),
        ({"u": ("sample", "time", "x", "y")}, {"times": {"array": "t"}}, "expected step, values"),
        ({"u": ("sample", "time", "x", "y")}, {"parameters": {"nu": "much"}}, "could not convert"),
        ({}, {}, "arrays is missing"),
    ],
)
def test_a_description_that_does_not_fit_is_not_written(tmp_path, arrays, options, message):
    path = _save(tmp_path / "u.npy", np.zeros((3, 5, 6, 4)))
    with pytest.raises(ValueError, match=message) as caught:
        describe_arrays(path, arrays, grid=TORUS, **options)
    assert "\n" not in str(caught.value) and sorted(p.name for p in tmp_path.iterdir()) == ["u.npy"]


def test_a_description_that_fits_no_more_says_so(tmp_path):
    path = _save(tmp_path / "u.npy", np.zeros((3, 6, 4)))
    describe_arrays(path, {"u": ("sample", "x", "y")}, grid=TORUS)
    _save(path, np.zeros((3, 4, 6)))
    with pytest.raises(ValueError, match=r"the array there is float64\[3, 4, 6\]"):
        open_dataset(path)
    for text in ('{"arrays": 3}', '{"arrays": {"u": ["sample", "x", "y"]}}', '{"arrays": {"u": 1}, "grid": {}}'):
        (tmp_path / "u.npy.json").write_text(text)
        with pytest.raises(ValueError, match="description of .* cannot be used") as caught:
            open_dataset(path)
        assert "\n" not in str(caught.value)
    (tmp_path / "u.npy.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="numbers do not say"):
        open_dataset(path)


def _hostile_numpy(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)})
    (tmp_path / "huge.npy").write_bytes(header.getvalue() + bytes(80))
    yield tmp_path / "huge.npy", "header states .* bytes, 2"
    whole = io.BytesIO()
    np.save(whole, np.zeros((4, 4)))
    (tmp_path / "cut.npy").write_bytes(whole.getvalue()[:-8])
    yield tmp_path / "cut.npy", "truncated or damaged"
    (tmp_path / "head.npy").write_bytes(whole.getvalue()[:30])
    yield tmp_path / "head.npy", "cannot be read"
    objects = io.BytesIO()
    np.save(objects, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (tmp_path / "objects.npy").write_bytes(objects.getvalue())
    yield tmp_path / "objects.npy", "Python objects"
    liar = tmp_path / "liar.npz"
    with zipfile.ZipFile(liar, "w") as archive:
        archive.writestr("u.npy", header.getvalue() + bytes(64))
    yield liar, "states .* bytes, and its header"
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("u.npy", b"no array at all, but long enough to look like one")
    yield tmp_path / "text.npz", "cannot be read"


def test_archives_that_lie(tmp_path):
    for path, message in _hostile_numpy(tmp_path):
        with pytest.raises(ValueError, match=message) as caught:
            open_dataset(path)
        assert "\n" not in str(caught.value) and str(path) in str(caught.value)
        # objects are no damage: another copy of the file would be refused as well
        assert ("damaged" in str(caught.value)) == (path.name != "objects.npy")


def test_a_damaged_compressed_member_is_noticed(tmp_path):
    path = tmp_path / "file.npz"
    with open(path, "wb") as file:
        np.savez_compressed(file, u=RNG.random((8, 512)))
    describe_arrays(path, {"u": ("sample", "x")}, grid=Grid(512, centering="cell"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(ValueError, match="truncated or damaged"):
        open_dataset(path)["u"].load()


def _stepped(dtype=np.float32, channels=2):
    return RNG.random((4, 5, channels, 8, 8)).astype(dtype)


def test_apebench_by_name_or_by_its_scenario(tmp_path):
    values = _stepped()
    path = _save(tmp_path / "2d_phy_gs_type_train.npy", values)
    assert find_reader(path) is None  # five axes could be anything
    with open_dataset(path, layout="apebench") as dataset:
        assert np.array_equal(dataset["vx"].values, values[:, :, 0]) and "time" not in dataset.coords
        assert dataset.attrs["positions"].startswith("assumed") and "not known" in dataset.attrs["notes"]
        assert grid_of(dataset) == Grid((8, 8), 1.0, "periodic")
    info = {"num_spatial_dims": 2, "num_points": 8, "num_channels": 2, "domain_extent": 2.5, "dt": 0.5}
    info |= {"feed_rate": 0.04, "num_substeps": 3, "conservative": True}
    (tmp_path / "2d_phy_gs_type.json").write_text(json.dumps({"name": "2d_phy_gs_type__x=3", "info": info}))
    with open_dataset(path) as dataset:
        assert [*dataset.data_vars] == ["u", "v"] and dataset.attrs["equation"] == "gray_scott"
        assert np.array_equal(dataset["v"].values, values[:, :, 1]) and parameters_of(dataset) == {"feed_rate": 0.04}
        assert grid_of(dataset) == Grid((8, 8), 2.5, "periodic")  # left wall included, right one excluded
        assert np.array_equal(dataset["time"].values, 0.5 * np.arange(5)) and state_of(dataset) == ("u", "v")
    (tmp_path / "2d_phy_gs_type.json").write_text(json.dumps({"name": "n", "info": {**info, "num_points": 9}}))
    assert find_reader(path) is None  # the scenario of another array


def test_apebench_goes_round(tmp_path):
    SAMPLES["apebench"](tmp_path / "file", seed=2)
    source = open_dataset(tmp_path / "file")
    assert source.attrs["equation"] == "advection" and parameters_of(source) == {"advection_coef": 0.25}
    with open_dataset(convert(source, tmp_path / "again", "apebench")) as there:
        assert there.identical(source)
    plain = np.load(tmp_path / "again")
    assert plain.shape == (8, 11, 1, 32) and np.array_equal(plain[:, :, 0], source["u"].values)
    for bad, message in (
        (source.assign_coords(time=np.arange(11) ** 2.0), "times 0, Δt, 2Δt"),
        (source.assign_attrs(grid=json.dumps(Grid(32, (1, 2), "periodic").to_dict())), r"\(0, L\)\^D"),
        (source.assign(rate=("sample", np.arange(8.0))), "rate differ by sample"),
    ):
        with pytest.raises(ValueError, match=message):
            convert(bad, tmp_path / "refused", "apebench")
    for shape in ((4, 5, 8), (4, 5, 1, 8, 9), (4, 5, 1, 8, 8, 8, 8)):
        path = _save(tmp_path / "other", np.zeros(shape))
        with pytest.raises(ValueError, match="layout 'apebench' is a .npy array"):
            open_dataset(path, layout="apebench")
