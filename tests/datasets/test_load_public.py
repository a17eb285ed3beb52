"""Public sets in one call: from a server on this machine, from this disk, and in place; nothing else is contacted."""

from __future__ import annotations

import functools
import hashlib
import http.server
import io
import pickle
import tarfile
import threading
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

pytest.importorskip("pooch")
pytest.importorskip("fsspec")

import fsspec

import sciops
from sciops.cli import main
from sciops.datasets import load_splits, open_dataset, write_native, write_sample
from sciops.datasets.download import PublicSet, RemoteFile, public_sets
from sciops.datasets.download import registry as registry_module
from sciops.datasets.download.sizes import announcement
from sciops.files.remote import RemotePath


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args) -> None:
        pass

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        super().do_GET()


@pytest.fixture
def server(tmp_path):
    """A server of the files in its `folder`."""
    (folder := tmp_path / "served").mkdir()
    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as one:
        one.asked, one.folder = [], folder
        thread = threading.Thread(target=one.serve_forever, args=(0.01,))
        thread.start()
        yield one
        one.shutdown()
        thread.join()


def published(server, *names, layout="neuralop", sizes=True, **about):
    """A registry with the served files, as one set."""
    files = {}
    for name in names:
        content = (server.folder / name).read_bytes()
        urls = (f"http://127.0.0.1:{server.server_port}/{name}",)
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        files[name] = RemoteFile(name, urls, digest, len(content) if sizes else None)
    return {"mini": PublicSet("mini", "tiny fields", layout, "nowhere", "sciops generate darcy", files, **about)}


def darcy(path: Path, count: int) -> None:
    a = torch.rand(count, 16, 16, generator=torch.Generator().manual_seed(count)) > 0.5
    torch.save({"x": a, "y": a.float() / 7}, path)


def burgers(path: Path, count: int) -> None:
    write_sample("pdebench-1d", path)
    with h5py.File(path, "r+") as file:
        tensor = np.resize(file["tensor"][()], (count, *file["tensor"].shape[1:]))
        del file["tensor"]
        file["tensor"] = tensor * np.arange(1, count + 1)[:, None, None]


def test_a_set_is_fetched_checked_and_split_as_its_files_say(tmp_path, server):
    darcy(server.folder / "darcy_train_16.pt", 12)
    darcy(server.folder / "darcy_test_16.pt", 4)
    registry = published(server, "darcy_train_16.pt", "darcy_test_16.pt")
    load = functools.partial(sciops.load_public, "mini", folder=tmp_path / "here", registry=registry, progress=False)
    splits = load()
    assert (len(splits.train), splits.validation, len(splits.test)) == (12, None, 4)
    expected = load_splits(server.folder, validation=0)
    assert torch.equal(splits.train.x, expected.train.x) and torch.equal(splits.test.y, expected.test.y)
    asked = list(server.asked)
    held = load(validation=2, train=5)
    assert (len(held.train), len(held.validation)) == (5, 2) and server.asked == asked  # from the disk
    (tmp_path / "here" / "darcy_test_16.pt").write_bytes(b"changed")
    with pytest.raises(ValueError, match=r"darcy_test_16.pt has sha256:.*expected sha256:"):
        load()


def test_a_server_that_does_not_answer_leads_to_the_recipe(tmp_path, server):
    darcy(server.folder / "darcy_train_16.pt", 4)
    registry = published(server, "darcy_train_16.pt")
    (server.folder / "darcy_train_16.pt").unlink()
    with pytest.raises(OSError, match=r"did not come: .*404.*data of the same law: sciops generate darcy$") as caught:
        sciops.load_public("mini", folder=tmp_path / "here", registry=registry, progress=False)
    assert "\n" not in str(caught.value)


def test_files_that_are_here_need_neither_a_server_nor_a_folder_that_can_be_written(tmp_path, server, monkeypatch):
    darcy(server.folder / "darcy_train_16.pt", 4)
    darcy(server.folder / "other_train_16.pt", 7)  # a neighbour of another set
    registry = published(server, "darcy_train_16.pt")
    monkeypatch.setattr("sciops.datasets.download.fetching._pooch", lambda: 1 / 0)
    monkeypatch.setattr("sciops.datasets.download.fetching.writable_folder", lambda path: 1 / 0)
    assert len(sciops.load_public("mini", folder=server.folder, registry=registry).train) == 3  # the last one tests
    monkeypatch.setenv("SCIOPS_DATA", str(server.folder))
    assert len(sciops.load_public("mini", registry=registry).train) == 3
    server.folder.rename(tmp_path / "mini")
    monkeypatch.setenv("SCIOPS_DATA", str(tmp_path))
    assert len(sciops.load_public("mini", registry=registry).train) == 3 and server.asked == []


@pytest.mark.parametrize(("test", "first"), [("first tenth", 0), ("last tenth", 18)])
def test_the_tenth_that_the_publisher_tests_with_is_the_test_split(tmp_path, server, test, first):
    burgers(server.folder / "a.hdf5", 20)
    burgers(server.folder / "b.hdf5", 10)
    registry = published(server, "a.hdf5", "b.hdf5", layout="pdebench-1d", test=test)
    load = functools.partial(sciops.load_public, "mini", folder=server.folder, registry=registry)
    splits = load(files="a.hdf5")
    assert splits.test.samples.tolist() == [first, first + 1] and splits.train.count == 18 and splits.train.horizon == 1
    mine = load(files=["a.hdf5"], test=5, validation=3, windows={"horizon": 2})
    assert (mine.train.count, mine.validation.count, mine.test.count, mine.test.horizon) == (12, 3, 5, 2)
    with pytest.raises(ValueError, match=r"mini has 2 files, each a data set: name one, files='a.hdf5'"):
        load()


def test_an_archive_is_unpacked_once_and_nothing_but_its_tensors(tmp_path, server):
    content = io.BytesIO()
    darcy(tmp_path / "one.pt", 6)
    with tarfile.open(server.folder / "darcy_16.tgz", "w:gz") as archive:
        archive.add(tmp_path / "one.pt", "darcy/../../darcy_train_16.pt")
        link = tarfile.TarInfo("link_train_16.pt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        archive.addfile(tarfile.TarInfo("../run.py"), content)
    registry = published(server, "darcy_16.tgz")
    load = functools.partial(sciops.load_public, "mini", folder=tmp_path / "here", registry=registry, progress=False)
    assert len(load(resolution=16, test=0).train) == 6
    found = sorted(str(path.relative_to(tmp_path / "here")) for path in (tmp_path / "here").rglob("*"))
    assert found == ["darcy_16", "darcy_16.tgz", "darcy_16/darcy_train_16.pt"]
    assert not (tmp_path / "run.py").exists() and len(load(files="darcy_16.tgz").train) == 5
    with pytest.raises(ValueError, match=r"one archive a grid: name one, files='darcy_16.tgz'"):
        load()


def test_without_a_name_the_sets_are_listed_and_wrong_names_say_which_there_are():
    listed = sciops.load_public()
    lines = repr(listed).splitlines()
    assert list(listed) == list(public_sets()) and len(lines) == len(listed)
    assert lines[0].startswith("neuralop-darcy-mini") and lines[0].endswith("(1.6 MB)")
    for name, words in {
        "neuralop-darcy-min": "expected one of neuralop-darcy-mini, .*did you mean 'neuralop-darcy-mini'",
        "li2020-darcy": "pass folder= with its files; data of the same law: sciops generate darcy --preset li2020",
        "the-well": "has many parts: name one",
        "pdebench-darcy": "5 files, each a data set: name one, files='2D_DarcyFlow_beta0.01_Train.hdf5'",
        "pdebench-darcy/x": "has no parts; name one of its files",
    }.items():
        with pytest.raises(ValueError, match=words):
            sciops.load_public(name)


def test_the_public_files_are_split_as_published(real_data):
    splits = sciops.load_public("neuralop-darcy-mini", folder=real_data)
    assert (len(splits.train), splits.validation, len(splits.test)) == (1000, None, 50)
    assert sciops.load_public("neuralop-darcy-mini", folder=real_data, resolution=32).test.grid.shape == (32, 32)
    steps = sciops.load_public("neuralop-burgers-mini", folder=real_data)
    assert (steps.train.count, steps.test.count, steps.train.horizon) == (800, 400, 1)


def test_a_set_without_addresses_is_read_from_a_folder(tmp_path):
    registry = {"mini": PublicSet("mini", "", "neuralop", "nowhere", None, nearest="sciops generate heat")}
    with pytest.raises(ValueError, match=r"see nowhere; pass folder=.*; the nearest law .*: sciops generate heat"):
        sciops.load_public("mini", registry=registry)
    darcy(tmp_path / "darcy_train_16.pt", 5)
    assert len(sciops.load_public("mini", folder=tmp_path, registry=registry).train) == 4
    assert len(sciops.load_public("mini", folder=tmp_path, files="darcy_train_16.pt", registry=registry).train) == 4


@pytest.mark.parametrize("recipe", sorted({one.nearest for one in public_sets().values() if one.nearest}))
def test_every_nearest_recipe_is_a_command_as_it_stands(recipe):
    import importlib

    sciops_, generate, name, *options = recipe.split()
    presets = importlib.import_module(f"data_gen.{name}").PRESETS
    assert (sciops_, generate) == ("sciops", "generate")
    assert not options or (options[0] == "--preset" and options[1] in presets and len(options) == 2)


def test_the_command_says_how_much_comes_before_it_fetches(tmp_path, server, monkeypatch, capsys):
    darcy(server.folder / "darcy_train_16.pt", 4)
    darcy(server.folder / "darcy_test_16.pt", 4)
    size = (server.folder / "darcy_train_16.pt").stat().st_size
    monkeypatch.setattr(
        registry_module, "_registry", lambda: published(server, "darcy_train_16.pt", "darcy_test_16.pt")
    )
    main(["download", "mini", "--folder", str(tmp_path / "here")])
    said = capsys.readouterr()
    assert said.err.startswith(f"mini: 2 files, {2 * size / 1000:.2g} kB, into {tmp_path / 'here'} (")
    assert said.out.splitlines() == [str(tmp_path / "here" / f"darcy_{part}_16.pt") for part in ("train", "test")]
    main(["download", "mini", "--folder", str(tmp_path / "here")])
    assert f"mini: all of the 2 files are in {tmp_path / 'here'}" in capsys.readouterr().err
    main(["download"])
    assert f"tiny fields, {2 * size / 1000:.2g} kB" in capsys.readouterr().out
    main(["download", "mini", "--list"])
    assert capsys.readouterr().out.splitlines()[-1].endswith(f"  {size / 1000:.2g} kB")


def test_servers_are_asked_for_sizes_that_are_not_published(tmp_path, server):
    for name in ("a_train.pt", "b_train.pt"):
        darcy(server.folder / name, 4)
    size = (server.folder / "a_train.pt").stat().st_size
    chosen = published(server, "a_train.pt", "b_train.pt", sizes=False)["mini"]
    assert f"2 files, {2 * size / 1000:.2g} kB, into" in announcement(chosen, None, tmp_path)
    (server.folder / "a_train.pt").unlink()
    server.asked.clear()
    assert "2 files, unknown size, into" in announcement(chosen, None, tmp_path)
    assert server.asked == ["/a_train.pt"]  # a server that is silent is asked once


@pytest.fixture
def well(tmp_path):
    """An address with two training files and a test file of The Well, and the first of them on this disk."""
    for seed in (0, 1, 2):
        write_sample("the-well", tmp_path / f"{seed}.hdf5", seed=seed)
    memory = fsspec.filesystem("memory")
    for place, seed in (("train/a", 0), ("train/b", 1), ("test/c", 2)):
        memory.pipe(f"/{tmp_path.name}/part/data/{place}.hdf5", (tmp_path / f"{seed}.hdf5").read_bytes())
    memory.pipe(f"/{tmp_path.name}/part/data/train/notes.txt", b"not data")
    yield f"memory://{tmp_path.name}/part/data", tmp_path / "0.hdf5"
    memory.rm(f"/{tmp_path.name}", recursive=True)


def test_a_file_on_a_server_opens_like_the_same_file_on_the_disk(well):
    base, local = well
    for address in (f"{base}/train/a.hdf5", local.as_uri()):
        with open_dataset(address) as remote, open_dataset(local) as here:
            assert remote.identical(here)
    data = sciops.datasets.TrajectoryDataset(f"{base}/train/a.hdf5", history=2, memory_limit=0)
    here = sciops.datasets.TrajectoryDataset(local, history=2)
    again = pickle.loads(pickle.dumps(data))
    assert data.lazy and torch.equal(again.batch([5, 0])["y"], here.batch([5, 0])["y"])


def test_the_well_is_read_in_place(well, monkeypatch):
    base, local = well
    splits = sciops.load_public("the-well/part", folder=base, windows={"horizon": 2})
    assert splits.validation is None and splits.train.lazy and splits.train.count == 16 and splits.test.count == 8
    here = sciops.datasets.TrajectoryDataset(local, horizon=2)
    assert torch.equal(splits.train.batch([3])["x"], here.batch([3])["x"])
    assert sciops.load_public("the-well/part", folder=base, files="b*").train.path.name == "b.hdf5"
    stream = base.replace("/part/", "/{part}/")
    registry = {"well": PublicSet("well", "", "the-well", "", "sciops generate gray_scott", stream=stream)}
    assert sciops.load_public("well/part", registry=registry).test.count == 8
    with pytest.raises(OSError, match=r"well/other: .* holds no .hdf5 file.*same law: sciops generate gray_scott"):
        sciops.load_public("well/other", registry=registry)
    with pytest.raises(ValueError, match="train=4: files on a server take windows, resolution, dtype, kinds alone"):
        sciops.load_public("well/part", registry=registry, train=4)
    with pytest.raises(ValueError, match="expected an address such as https://"):
        sciops.load_public("well/part", folder="nowhere://x", registry=registry)
    # the package of this protocol may be missing
    with pytest.raises((OSError, ImportError), match=r"cannot be reached .*same law|pip install 'sciops\[stream\]'"):
        sciops.load_public("well/part", folder="http://127.0.0.1:1/x", registry=registry)


def test_a_part_of_the_well_on_this_disk_goes_first(tmp_path, monkeypatch):
    (folder := tmp_path / "the-well" / "part" / "data" / "train").mkdir(parents=True)
    write_sample("the-well", folder / "a.hdf5")
    monkeypatch.setenv("SCIOPS_DATA", str(tmp_path))
    assert sciops.load_public("the-well/part", validation=0, test=2).train.count == 6
    assert sciops.load_public("the-well/part", folder=tmp_path / "the-well", validation=0, test=3).train.count == 5


def test_what_is_not_hdf5_is_not_read_on_a_server(tmp_path):
    darcy(tmp_path / "a.pt", 3)
    with pytest.raises(ValueError, match="a.pt does not start like an HDF5 file"):
        open_dataset((tmp_path / "a.pt").as_uri())
    with pytest.raises(OSError, match="b.hdf5 cannot be reached"):
        open_dataset((tmp_path / "b.hdf5").as_uri())
    (tmp_path / "c.hdf5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(99))
    with pytest.raises(ValueError, match="c.hdf5 starts like an HDF5 file but cannot be read"):
        open_dataset((tmp_path / "c.hdf5").as_uri())
    write_native(tmp_path / "d.h5", [_native()])
    with pytest.raises(ValueError, match="native file, which is read from the disk"):
        open_dataset((tmp_path / "d.h5").as_uri())
    assert str(RemotePath("https://a/b.hdf5?token=secret")) == "https://a/b.hdf5"


def _native():
    fields = {name: (("sample", "x", "y"), np.ones((2, 4, 4))) for name in ("a", "u")}
    return sciops.datasets.build_dataset(fields, sciops.Grid((4, 4)), layout="native", equation="darcy")
