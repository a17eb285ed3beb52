"""Folders of The Well: a file for each split, and the statistics of training against NumPy."""

import re

import h5py
import numpy as np
import pytest

from sciops import cli
from sciops.datasets import (
    check_well,
    convert,
    open_dataset,
    well_statistics,
    write_well_folder,
)
from sciops.datasets.conventions import build_dataset
from sciops.datasets.formats.the_well import folder
from sciops.grids import Grid


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
