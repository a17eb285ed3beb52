"""Where a conversion may write, what it replaces, and what a killed one leaves."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from warm import python

from sciops.datasets import convert, open_dataset
from sciops.datasets.conventions import build_dataset
from sciops.datasets.native import content_hash
from sciops.files.whole_files import hidden, remove_abandoned
from sciops.grids import Grid


def _darcy(samples=4, seed=0, **attrs):
    rng = np.random.default_rng(seed)
    grid = Grid((9, 6))
    fields = {n: (("sample", "x", "y"), (rng.random((samples, *grid.shape)) + 1).astype("f4"), {}) for n in "au"}
    fields["split"] = (("sample",), np.zeros(samples, np.int8), {})
    options = {"layout": "native", "equation": "darcy", "coefficient": "values"}
    return build_dataset(fields, grid, **options, **attrs)


@pytest.fixture
def source(tmp_path):
    return convert(_darcy(), tmp_path / "source.h5", "native")


@pytest.mark.parametrize("how", ["itself", "by another path", "by a link"])
@pytest.mark.parametrize("layout", ["native", "li2020"])
def test_the_source_is_never_written_over(source, tmp_path, how, layout):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(source)
    name = {
        "itself": source,
        "by another path": tmp_path / "folder" / ".." / "source.h5",
        "by a link": tmp_path / "link",
    }
    before = source.read_bytes()
    with pytest.raises(ValueError, match="is the source itself"):
        convert(source, name[how], layout, overwrite=True)
    assert source.read_bytes() == before


def test_a_store_is_replaced_when_asked_and_never_by_itself(source, tmp_path):
    store = convert(source, tmp_path / "s.zarr", "native")
    with pytest.raises(FileExistsError, match="--overwrite"):
        convert(source, store, "native")
    other = convert(_darcy(seed=1), tmp_path / "other.h5", "native")
    convert(other, store, "native", overwrite=True)
    assert content_hash(store) == content_hash(other)
    with pytest.raises(ValueError, match="is the source itself"):
        convert(store, store, "native", overwrite=True)
    for layout in ("li2020", "neuralop"):
        with pytest.raises(IsADirectoryError, match="is a folder"):
            convert(source, store, layout, overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other.h5", "s.zarr", "source.h5"]


def test_a_link_stays_and_its_file_is_written(source, tmp_path):
    (tmp_path / "scratch").mkdir()
    link, target = tmp_path / "link.mat", tmp_path / "scratch" / "there.mat"
    link.symlink_to(target)
    assert convert(source, link, "li2020") == link  # a link to nothing yet
    assert link.is_symlink() and target.is_file()
    with pytest.raises(FileExistsError):
        convert(source, link, "li2020")
    convert(source, link, "neuralop", overwrite=True)
    assert link.is_symlink() and open_dataset(target).attrs["layout"] == "neuralop"
    assert [p.name for p in (tmp_path / "scratch").iterdir()] == ["there.mat"]


def test_names_as_long_as_a_file_system_takes_and_of_any_letters(source, tmp_path):
    for name in ("x" * 251 + ".mat", "尺寸" * 41 + ".mat", "ein leeres Feld ü.mat"):
        path = convert(source, tmp_path / name, "li2020")
        assert open_dataset(path).attrs["layout"] == "li2020"
    with pytest.raises(OSError, match="is a name of 259 bytes, 255 at most") as caught:
        convert(source, tmp_path / ("y" * 255 + ".mat"), "li2020")
    assert "\n" not in str(caught.value)
    assert all(not p.name.startswith(".") for p in tmp_path.iterdir())


def test_places_where_nothing_can_be_written(source, tmp_path):
    with pytest.raises(NotADirectoryError, match="x.mat cannot be written: .*source.h5 is not a folder"):
        convert(source, source / "deeper" / "x.mat", "li2020")
    with pytest.raises(IsADirectoryError, match="name the file"):
        convert(source, f"{tmp_path}/new/", "li2020")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="pipe is not a file that could be replaced"):
        convert(source, tmp_path / "pipe", "li2020", overwrite=True)
    assert convert(source, tmp_path / "a" / "b" / "x.mat", "li2020").is_file()


def test_a_description_beside_the_array_is_not_overwritten(tmp_path):
    grid = Grid(16, 1.0, "periodic")
    u = np.random.default_rng(0).random((2, 3, 16)).astype("f4")
    fields = {"u": (("sample", "time", "x"), u, {})}
    waves = build_dataset(fields, grid, layout="native", equation="heat", times=[0, 1, 2], state=("u",))
    (tmp_path / "x.npy.json").write_text(json.dumps({"mine": 1}))
    with pytest.raises(FileExistsError, match=r"x\.npy\.json is there already"):
        convert(waves, tmp_path / "x.npy", "apebench")
    assert json.loads((tmp_path / "x.npy.json").read_text()) == {"mine": 1} and not (tmp_path / "x.npy").exists()
    convert(waves, tmp_path / "x.npy", "apebench", overwrite=True)
    assert np.array_equal(np.load(tmp_path / "x.npy")[:, :, 0], u)


def test_no_file_without_samples(source, tmp_path):
    with pytest.raises(ValueError, match="there is no test sample to write in .*source.h5"):
        convert(source, tmp_path / "x", "neuralop", split="test")
    with pytest.raises(ValueError, match="there is no sample to write in the data set"):
        convert(_darcy(samples=0), tmp_path / "x", "pdebench-darcy")
    assert [p.name for p in tmp_path.iterdir()] == ["source.h5"]


_KILLED = """
import os, signal, sys
import h5py
from sciops.datasets import convert

once = h5py.Dataset.__setitem__

def dies(self, *words):
    once(self, *words)
    os.kill(os.getpid(), signal.SIGKILL)

h5py.Dataset.__setitem__ = dies
convert(sys.argv[1], sys.argv[2], "li2020-v7.3", overwrite=True)
"""


@pytest.mark.slow
def test_a_killed_conversion_leaves_the_old_file_and_the_next_one_cleans_up(source, tmp_path):
    there = convert(_darcy(seed=1), tmp_path / "there", "neuralop")
    before = there.read_bytes()
    done = python(["-c", _KILLED, str(source), str(there)], timeout=100)
    assert done.returncode == -9 and there.read_bytes() == before
    left = [p.name for p in tmp_path.iterdir() if p.name.startswith(".there.")]
    assert len(left) == 1 and left[0].endswith(".tmp")
    convert(source, there, "li2020", overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["source.h5", "there"]


def test_only_what_dead_processes_left_is_removed(tmp_path):
    path = tmp_path / "x.h5"
    path.touch()
    mine, dead = hidden(path, "tmp"), subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    theirs = Path(str(mine).replace(f".{os.getpid()}.", f".{dead.pid}."))
    others = [mine, tmp_path / ".x.h5.elsewhere.1.tmp", tmp_path / ".y.h5.tmp", tmp_path / ".x.h5.swp"]
    for file in (theirs, *others):
        file.touch()
    (old := theirs.with_suffix(".old")).mkdir()
    remove_abandoned(path)
    assert not theirs.exists() and not old.exists() and all(file.exists() for file in others)
    old.mkdir()
    path.unlink()
    remove_abandoned(path)  # a store set aside is all that is left of it
    assert old.exists()


@pytest.mark.parametrize("layout", ["native", "neuralop", "li2020", "li2020-v7.3", "the-well", "cno", "arrays"])
def test_a_file_that_may_not_grow_is_one_line_and_leaves_nothing(source, tmp_path, layout):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        with pytest.raises(OSError) as caught:
            convert(source, tmp_path / "there", layout)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(tmp_path / "there") in str(caught.value) and "\n" not in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["source.h5"]
