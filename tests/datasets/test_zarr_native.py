"""Zarr stores: the fields of the HDF5 file under the same names, one file per part, and nothing believed unread."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from torch.utils.data import DataLoader
from warm import python

pytest.importorskip("zarr")

from sciops.datasets import FieldDataset, convert, describe, load_splits, open_dataset, validate
from sciops.datasets.generation import writer
from sciops.datasets.generation.writer import Plan, generate, pending, read_parts, write_parts
from sciops.datasets.native import content_hash, read_native, resolutions, write_native
from sciops.grids import Grid
from sciops.runs import file_hash

GRIDS = {"r9": Grid((9, 9)), "r6": Grid((6,), centering="periodic")}
TIMES = np.linspace(0, 1, 5)


def plan_in(folder: Path, name: str = "out.zarr", **changes) -> Plan:
    base = Plan(
        folder / name,
        10,
        3,
        {"tau": 3.0},
        {"r9": GRIDS["r9"]},
        "program 1",
        {"train": (0, 7), "validation": (7, 8), "test": (8, 10)},
        variables={"a": {"units": "1"}, "status": {"flag_values": np.arange(2, dtype=np.int8)}},
        dims={"w": ("time", "x", "y")},
        coordinates={"time": (TIMES, {"units": "s"})},
        attrs={"equation": "darcy"},
        group_attrs={"state": ["w"], "parameters": {"nu": 0.5}, "forcing": 1.0},
    )
    return replace(base, **changes)


def make(ranges) -> dict[str, np.ndarray]:
    numbers = np.concatenate([np.arange(start, stop) for start, stop in ranges])
    drawn = {
        key: np.stack([np.random.default_rng([i, ord(key)]).random((5, 9, 9)) + 1 for i in numbers]) for key in "auw"
    }
    made = {"a": drawn["a"][:, 0], "u": drawn["u"][:, 0].astype("float32"), "w": drawn["w"]}
    made |= {"seed": numbers, "status": np.zeros(len(numbers), np.int8), "odd": numbers % 2 == 1}
    return {f"r9/{name}": values for name, values in made.items()}


@pytest.fixture(scope="module")
def hdf5(tmp_path_factory) -> Path:
    return generate(plan_in(tmp_path_factory.mktemp("hdf5"), "out.h5"), make, progress=False)


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> Path:
    return generate(plan_in(tmp_path_factory.mktemp("zarr")), make, progress=False)


@pytest.fixture
def store(stored: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stored, tmp_path / "copy.zarr"))


def test_a_store_holds_what_the_file_holds(stored: Path, hdf5: Path) -> None:
    assert content_hash(stored) == content_hash(hdf5) == file_hash(stored)
    assert resolutions(stored) == resolutions(hdf5) == ((9, 9),)
    with open_dataset(stored) as here, open_dataset(hdf5) as there:
        assert here.drop_attrs().identical(there.drop_attrs()) and set(here.coords) == set(there.coords)
        assert here["odd"].dtype == bool and here["w"].dims == ("sample", "time", "x", "y")
        for name in there.variables:
            assert here[name].attrs.keys() == there[name].attrs.keys()
            for key, value in there[name].attrs.items():
                np.testing.assert_array_equal(here[name].attrs[key], value)
        assert {k: v for k, v in here.attrs.items() if k != "created"} == {
            k: v for k, v in there.attrs.items() if k != "created"
        }


def test_plain_xarray_and_zarr_open_it(stored: Path, tmp_path: Path) -> None:
    """Without a warning, which would be an error here: what describes the arrays is in the groups, too."""
    import zarr

    written = convert(stored, tmp_path / "written.zarr", "native")
    for path in (stored, written):
        with (
            xr.open_zarr(path, group="r9") as plain,
            xr.open_zarr(path, group="r9", consolidated=False) as each,
            xr.open_datatree(path, engine="zarr") as tree,
            read_native(path) as ours,
        ):
            for name in ours.variables:
                np.testing.assert_array_equal(plain[name], ours[name])
                assert plain[name].attrs == each[name].attrs == tree["r9"][name].attrs
            assert plain["w"].dims == ours["w"].dims and plain.identical(each)
    root = json.loads((stored / "zarr.json").read_bytes())
    shutil.copytree(stored, tmp_path / "again.zarr")
    with pytest.warns(UserWarning, match="not part in the Zarr format 3"):
        zarr.consolidate_metadata(tmp_path / "again.zarr")
    assert json.loads((tmp_path / "again.zarr/zarr.json").read_bytes()) == root


def test_every_part_is_one_file_of_every_variable(stored: Path) -> None:
    for name in ("a", "u", "w", "seed", "status", "odd"):
        tail = ".0" * {"w": 3, "a": 2, "u": 2}.get(name, 0)
        assert sorted(os.listdir(stored / "r9" / name)) == [*(f"c.{i}{tail}" for i in range(4)), "zarr.json"]
    for name in ("x", "y", "time", "sample", "split"):
        assert sorted(os.listdir(stored / "r9" / name)) == ["c.0", "zarr.json"]
    assert sorted(os.listdir(stored.parent)) == ["out.zarr"]


def test_reads_of_any_shape_are_those_of_the_array(stored: Path, hdf5: Path) -> None:
    picks = [slice(2, 9, 3), slice(None, None, -2), [7, 1, 1, 4], 5, np.array([], dtype=int)]
    with read_native(stored) as here, read_native(hdf5) as there:
        for one in picks:
            for two in (slice(1, 4), [3, 0], -1):
                for last in (slice(None, None, -1), 2, [8, 0]):
                    chosen = {"sample": one, "time": two, "y": last}
                    np.testing.assert_array_equal(here["w"].isel(chosen), there["w"].isel(chosen))


def test_it_is_trained_on_converted_described_and_checked_like_a_file(stored: Path, hdf5: Path, tmp_path: Path) -> None:
    for limit in (2**30, 0):
        here, there = (FieldDataset(path, split="train", memory_limit=limit) for path in (stored, hdf5))
        assert torch.equal(here.batch([5, 0, 3])["y"], there.batch([5, 0, 3])["y"]) and len(here) == 7
    assert len(load_splits(stored).test) == 2
    assert content_hash(convert(stored, tmp_path / "back.h5", "native")) == content_hash(hdf5)
    assert content_hash(convert(hdf5, tmp_path / "there.zarr", "native")) == content_hash(hdf5)
    assert [str(f) for f in validate(stored, solutions=0)] == [str(f) for f in validate(hdf5, solutions=0)]
    text = describe(stored)
    assert "9×9" in text and "train" in text


@pytest.mark.parametrize("start", ["fork", "forkserver"])
def test_loader_workers_read_a_store_that_the_parent_has_read(stored: Path, hdf5: Path, start: str) -> None:
    data = FieldDataset(stored, memory_limit=0)
    first = data[0]["y"]
    loader = DataLoader(data, batch_size=5, num_workers=1, multiprocessing_context=start, timeout=60)
    read = torch.cat([batch["y"] for batch in loader])
    assert torch.equal(read, FieldDataset(hdf5).y) and torch.equal(first, read[0])


@pytest.mark.parametrize("compression", [None, 3])
def test_shards_batches_and_compression_change_no_field(tmp_path: Path, hdf5: Path, compression: int | None) -> None:
    plan = plan_in(tmp_path, compression=compression)
    ends = [generate(plan, make, shard=(i, 3), batch=2, progress=False) for i in (2, 0, 1)]
    assert ends == [plan.parts, plan.parts, plan.output] and content_hash(plan.output) == content_hash(hdf5)
    np.testing.assert_array_equal(os.listdir(tmp_path), ["out.zarr"])


def test_compression_packs(tmp_path: Path) -> None:
    data = xr.Dataset({"u": (("sample", "x"), np.tile(np.arange(64.0), (50, 1)))})
    sizes = []
    for level in (None, 5):
        path = write_native(tmp_path / f"{level}.zarr", {"r64": data}, compression=level)
        sizes.append(sum(p.stat().st_size for p in path.rglob("c*")))
    assert sizes[1] < 0.5 * sizes[0]


@pytest.mark.parametrize("damage", ["receipt cut", "shard flipped", "shard cut", "shard gone", "of another plan"])
def test_only_the_damaged_part_is_made_again(tmp_path: Path, hdf5: Path, damage: str) -> None:
    plan = plan_in(tmp_path)
    write_parts(plan, make, progress=False)
    shard = plan.parts / "data.zarr/r9/w/c.1.0.0.0"
    whole = bytearray(shard.read_bytes())
    if damage == "receipt cut":
        plan.part(1).write_bytes(plan.part(1).read_bytes()[:-20])
    elif damage == "of another plan":
        plan.part(1).write_text(plan.part(1).read_text().replace(plan.digest, "0" * 64))
    elif damage == "shard gone":
        shard.unlink()
    else:
        whole[100] ^= 1
        shard.write_bytes(whole if damage == "shard flipped" else whole[:-8])
    assert pending(plan) == [] and pending(plan, verify=True) == [1]
    with pytest.raises(OSError, match="run the same command again: it makes only that part"):
        read_parts(plan, "r9/w")
    assert not plan.part(1).exists()
    saw = []
    generate(plan, lambda ranges: saw.extend(ranges) or make(ranges), progress=False)
    assert saw == [(3, 6)] and content_hash(plan.output) == content_hash(hdf5)


def test_a_check_reads_the_parts_and_what_it_raises_keeps_them(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)

    def check(plan: Plan) -> None:
        np.testing.assert_array_equal(read_parts(plan, "r9/odd"), np.arange(10) % 2 == 1)
        np.testing.assert_array_equal(read_parts(plan, "r9/w"), make([(0, 10)])["r9/w"])
        raise RuntimeError("sample 4 is wrong")

    with pytest.raises(RuntimeError, match="sample 4"):
        generate(plan, make, check=check, progress=False)
    assert not plan.output.exists() and pending(plan, verify=True) == []


_KILL = """
import os, pathlib, signal, sys
sys.path.insert(0, sys.argv[2])
from test_zarr_native import content_hash, generate, make, pending, plan_in

def killed_at(folder, point):
    child = os.fork()
    if child == 0:
        count = 0
        def counted(function):
            def step(*arguments, **options):
                nonlocal count
                count += 1
                if count == point:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*arguments, **options)
            return step
        os.fsync, os.replace, os.rename, os.unlink = map(counted, (os.fsync, os.replace, os.rename, os.unlink))
        generate(plan_in(folder, samples=4, splits={}), make, progress=False)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

point = 1
while True:
    folder = pathlib.Path(sys.argv[1]) / str(point)
    folder.mkdir()
    if killed_at(folder, point):
        break
    plan = plan_in(folder, samples=4, splits={})
    there = plan.output.exists()
    print(there, content_hash(generate(plan, make, progress=False)), sorted(os.listdir(folder)), sep=";")
    point += 7     # a step in seven: there are hundreds
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_killed_anywhere_it_ends_with_the_same_bytes(tmp_path: Path) -> None:
    done = python(["-c", _KILL, str(tmp_path), str(Path(__file__).parent)], timeout=300)
    assert done.returncode == 0, done.stderr
    points = [line.split(";") for line in done.stdout.splitlines() if line.startswith(("True;", "False;"))]
    whole = generate(plan_in(tmp_path, "out.h5", samples=4, splits={}), make, progress=False)
    assert len(points) > 8 and {(found, names) for _, found, names in points} == {(content_hash(whole), "['out.zarr']")}
    assert points[0][0] == "False"


def test_writing_replaces_stores_and_nothing_else(tmp_path: Path, hdf5: Path) -> None:
    with read_native(hdf5) as data:
        path = write_native(tmp_path / "a.zarr", data)
        assert content_hash(path) == content_hash(hdf5)
        with read_native(path) as lazy:  # a store may be rewritten from itself
            write_native(path, lazy.isel(sample=slice(0, 4)), overwrite=True)
        with read_native(path) as short:
            np.testing.assert_array_equal(short["w"], data["w"][:4])
        (tmp_path / "b.zarr").mkdir()
        (tmp_path / "b.zarr/thesis").write_text("years of work")
        with pytest.raises(
            FileExistsError, match="b.zarr is there and is not a native store; remove it or name another"
        ):
            write_native(tmp_path / "b.zarr", data, overwrite=True)
    with pytest.raises(ValueError, match="is there and is not a file of this generator"):
        generate(plan_in(tmp_path, "b.zarr"), make, progress=False)
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "b.zarr"] and os.listdir(tmp_path / "b.zarr") == ["thesis"]


def test_another_configuration_is_refused(stored: Path) -> None:
    with pytest.raises(ValueError, match="another configuration: tau is 3.0 there and 4.0 here"):
        generate(plan_in(stored.parent, config={"tau": 4.0}), make, progress=False)
    assert generate(plan_in(stored.parent), lambda ranges: pytest.fail("made again"), progress=False) == stored


@pytest.mark.parametrize("name", ["w", "seed"])
def test_a_damaged_or_missing_shard_never_reads_as_numbers(store: Path, name: str, hdf5: Path) -> None:
    file = next((store / "r9" / name).glob("c.2*"))
    whole = bytearray(file.read_bytes())
    whole[10] ^= 1
    file.write_bytes(whole)
    with read_native(store) as data, read_native(hdf5) as true:
        np.testing.assert_array_equal(data[name][:6], true[name][:6])
        with pytest.raises(OSError, match=rf"damaged, part of r9/{name} cannot be read .*copy the store again"):
            data[name].load()
    with pytest.raises(OSError, match="cannot be read"):
        content_hash(store)
    if name == "w":
        assert any(f.sample == 6 and f.severity == "error" for f in validate(store, solutions=0))
    file.unlink()
    with pytest.raises(OSError, match=r"3 of 4 files of shape .* are here; copy the store again") as caught:
        open_dataset(store)
    assert "\n" not in str(caught.value)


def _edit(file: Path, change) -> None:
    about = json.loads(file.read_text())
    change(about)
    file.write_text(json.dumps(about))


HOSTILE = {
    "shape of 2⁵⁰ samples": lambda a: a.update(shape=[2**50, 5, 9, 9]),
    "shape beyond 64 bits": lambda a: a.update(shape=[2**80, 5, 9, 9]),
    "negative shape": lambda a: a.update(shape=[-1, 5, 9, 9]),
    "rank 3": lambda a: a.update(shape=[10, 5, 9]),
    "shape a string": lambda a: a.update(shape="10"),
    "chunk of 8 TB": lambda a: (
        a.update(shape=[10, 5, 10**6, 10**6]),
        a["chunk_grid"]["configuration"].update(chunk_shape=[3, 5, 10**6, 10**6]),
        a["codecs"][0]["configuration"].update(chunk_shape=[1, 5, 10**6, 10**6]),
    ),
    "chunk of 0": lambda a: a["chunk_grid"]["configuration"].update(chunk_shape=[0, 0, 0, 0]),
    "codec of another kind": lambda a: a["codecs"][0]["configuration"]["codecs"].append({"name": "pickle"}),
    "no codecs": lambda a: a.update(codecs=[]),
    "codecs of numbers": lambda a: a.update(codecs=[1, 2]),
    "strings": lambda a: a.update(data_type="string"),
    "dtype of dtypes": lambda a: a.update(data_type={"name": "struct"}),
    "no names": lambda a: a.update(dimension_names=None),
    "one name twice": lambda a: a.update(dimension_names=["sample", "x", "x", "y"]),
    "names that clash": lambda a: a.update(dimension_names=["sample", "x", "time", "y"]),
    "version 2": lambda a: a.update(zarr_format=2),
    "a group": lambda a: a.update(node_type="group"),
    "attributes a list": lambda a: a.update(attributes=[1]),
    "fill value a bomb": lambda a: a.update(fill_value="x" * 1000),
    "transformers": lambda a: a.update(storage_transformers=[{"name": "x"}]),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_description_that_lies_is_one_line(store: Path, what: str) -> None:
    _edit(store / "r9/w/zarr.json", HOSTILE[what])
    try:
        with open_dataset(store) as data:
            data["w"].load()
            np.testing.assert_array_equal(data["w"], make([(0, 10)])["r9/w"])  # what is read all the same is right
    except (ValueError, OSError) as error:
        assert str(store) in str(error) and "\n" not in str(error) and len(str(error)) < 500
    else:
        assert what in ("attributes a list",)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"zarr_format": 3}', "[" * 100_000, '{"zarr_format":3,"node_type":"group"}']
)
@pytest.mark.parametrize("where", ["zarr.json", "r9/zarr.json"])
def test_broken_groups_are_one_line(store: Path, text: str, where: str) -> None:
    (store / where).write_text(text)
    with pytest.raises((ValueError, OSError)) as caught:
        open_dataset(store)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 700


def test_stores_of_others_and_none_are_told_apart(tmp_path: Path, store: Path) -> None:
    xr.Dataset({"q": ("x", np.arange(3.0))}).to_zarr(tmp_path / "other.zarr", zarr_format=3, consolidated=False)
    with pytest.raises(ValueError, match=r"Zarr store.*no native one|is a Zarr store"):
        open_dataset(tmp_path / "other.zarr")
    with pytest.raises(ValueError, match="no native one"):
        resolutions(tmp_path / "other.zarr")
    _edit(store / "zarr.json", lambda a: a["attributes"].update(sciops_schema="2"))
    with pytest.raises(ValueError, match="schema 2, and this sciops reads schema 1; upgrade"):
        open_dataset(store)


def test_a_full_disk_is_one_line_and_keeps_the_finished_parts(tmp_path: Path, monkeypatch, hdf5: Path) -> None:
    import errno

    plan = plan_in(tmp_path)
    original = Path.write_bytes

    def full(self, data):
        if len(list(plan.parts.glob("part-*"))) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space left on the device for .*run the same command again") as caught:
        generate(plan, make, progress=False)
    assert "\n" not in str(caught.value) and pending(plan, verify=True) == [2, 3] and not plan.output.exists()
    monkeypatch.undo()
    assert content_hash(generate(plan, make, progress=False)) == content_hash(hdf5)


def test_a_missing_zarr_is_one_line(tmp_path: Path, stored: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ImportError, match=r"needs zarr: pip install 'sciops\[cluster\]'"):
        generate(plan_in(tmp_path), make, progress=False)
    with pytest.raises(ImportError, match=r"needs zarr: pip install 'sciops\[cluster\]'"):
        read_native(stored)["w"].load()


def test_the_writer_of_hdf5_is_not_asked_for_zarr(tmp_path: Path) -> None:
    assert writer.storage(plan_in(tmp_path, "out.h5")) is not writer.storage(plan_in(tmp_path))


@pytest.mark.parametrize("what", ["r9/a/c.0.0.0", "r9/u/zarr.json", "r9/u", "r9", "zarr.json"])
def test_no_link_leads_out_of_a_store(tmp_path: Path, store: Path, what: str) -> None:
    outside = tmp_path / "outside"
    shutil.move(store / what, outside)
    (store / what).symlink_to(outside)
    for action in (open_dataset, validate, content_hash, lambda path: convert(path, tmp_path / "out.h5", "native")):
        with pytest.raises(ValueError, match=f"keeps {what} in another place .*outside.*cp -rL") as caught:
            action(store)
        assert "\n" not in str(caught.value)


def test_links_inside_a_store_and_to_a_store_are_followed(tmp_path: Path, store: Path, hdf5: Path) -> None:
    (store / "r9" / "a" / "c.0.0.0").rename(store / "r9" / "kept")
    (store / "r9" / "a" / "c.0.0.0").symlink_to("../kept")
    (tmp_path / "link.zarr").symlink_to(store)
    assert content_hash(tmp_path / "link.zarr") == content_hash(hdf5)


def test_a_name_that_looks_like_an_address_is_a_name(tmp_path: Path, store: Path, hdf5: Path, monkeypatch) -> None:
    shutil.copytree(store, tmp_path / "memory::local::b.zarr")
    shutil.copyfile(hdf5, tmp_path / "memory::b.h5")
    monkeypatch.chdir(tmp_path)
    for name in ("memory::local::b.zarr", "memory::b.h5"):
        with open_dataset(name) as dataset, open_dataset(hdf5) as expected:
            assert np.array_equal(dataset["a"].values, expected["a"].values)
