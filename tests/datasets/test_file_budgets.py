"""Small files that would take a machine's memory or time are refused in one line, through every function alike."""

from __future__ import annotations

import io
import json
import time
import tracemalloc
import zipfile
import zlib

import h5py
import numpy as np
import pytest
import torch
from scipy.io import savemat

from sciops import cli
from sciops._budget import Budget, OverBudget, Spending, current_budget, opening_within
from sciops.command import command
from sciops.datasets import (
    FieldDataset,
    check_well,
    content_hash,
    convert,
    describe,
    describe_arrays,
    inventory,
    load_splits,
    open_dataset,
    read_native,
    resolutions,
    validate,
    write_native,
)
from sciops.datasets.formats import probe
from sciops.datasets.formats.containers import torch_pickle, zips
from sciops.datasets.formats.containers.numpy_files import npz_description
from sciops.datasets.formats.samples import write_sample
from sciops.datasets.native.inflation import Inflation
from sciops.grids import Grid


def test_deeply_nested_groups_are_refused_at_once(tmp_path):
    path = write_sample("pdebench-darcy", tmp_path / "a.h5")
    with h5py.File(path, "r+") as file:
        group = file
        for _ in range(100):
            group = group.create_group("g")
    open_dataset(path).close()
    with h5py.File(path, "r+") as file:
        group = file["/".join("g" * 100)]
        for _ in range(900):
            group = group.create_group("g")
    began = time.process_time()
    with pytest.raises(ValueError, match=r"a\.h5 has groups nested more than 100 deep, which are not read"):
        open_dataset(path)
    assert time.process_time() - began < 1


def test_objects_of_an_hdf5_file_are_links_and_attributes(tmp_path):
    path = write_sample("pdebench-darcy", tmp_path / "a.h5")
    with h5py.File(path, "r+") as file:
        for i in range(20):
            file.create_group(f"g{i}").attrs["a"] = i
        count = len(file) + 20 + sum(len(file[name].attrs) for name in file if name[0] != "g") + len(file.attrs)
    with opening_within(Budget(objects=count)):
        open_dataset(path).close()
    with opening_within(Budget(objects=count - 1)), pytest.raises(OverBudget, match=r"takes objects .* more than the"):
        open_dataset(path)


def test_many_arrays_that_state_much_are_no_better_than_one(tmp_path):
    """Each is below what any file may state; nothing of them is stored."""
    path = write_sample("pdebench-darcy", tmp_path / "a.h5")
    with h5py.File(path, "r+") as file:
        for i in range(20):
            file.create_dataset(f"a{i}", (1 << 20,), np.float32)
    open_dataset(path).close()
    with opening_within(Budget(bytes=7e7)), pytest.raises(OverBudget, match="all that it states to hold takes"):
        open_dataset(path)


def test_arrays_of_very_many_dimensions_are_refused(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((1,) * 32))
    header = path.read_bytes()
    path.write_bytes(header.replace(b"(1, 1, 1,", b"(1,1,1,1,"))
    with pytest.raises(ValueError, match=r"has 33 dimensions, at most 32 are read"):
        open_dataset(path)


def _npz(path, members, *, kind=zipfile.ZIP_DEFLATED):
    """An archive of arrays of zeros, name → bytes of each."""
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, size in members.items():
            inside = io.BytesIO()
            np.save(inside, np.zeros(size, np.uint8))
            archive.writestr(name, inside.getvalue())
    return path


def test_all_members_of_an_archive_are_unpacked_within_one_budget(tmp_path):
    path = _npz(tmp_path / "a.npz", {f"{i}.npy": 200_000 for i in range(6)})
    with opening_within(Budget(bytes=1.21e6)):
        assert len(probe(path).arrays) == 6
    with opening_within(Budget(bytes=1e6)), pytest.raises(OverBudget, match=r"all that it unpacks to takes 1\.2e\+06"):
        probe(path).arrays  # noqa: B018
    _npz(path, {f"{i}.npy": 200_000 for i in range(6)}, kind=zipfile.ZIP_STORED)  # mapped, not unpacked
    with opening_within(Budget(bytes=1)):
        assert len(probe(path).arrays) == 6


def test_members_of_an_archive_are_objects_and_its_directory_is_measured_first(tmp_path, monkeypatch):
    path = _npz(tmp_path / "a.npz", {f"{i}.npy": 1 for i in range(11)})
    with opening_within(Budget(objects=10)), pytest.raises(OverBudget, match="table of contents takes 11 objects"):
        probe(path)
    monkeypatch.setattr(zips, "_LEAST", 0)
    monkeypatch.setattr(zips, "_ENTRY", 20)
    with opening_within(Budget(objects=10)), pytest.raises(OverBudget, match="table of contents takes"):
        probe(path)


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_in_codes_whose_unpacking_has_no_bound_are_refused(kind, tmp_path):
    with pytest.raises(ValueError, match=r"a\.npz keeps u\.npy in the code .*zip it with deflate"):
        open_dataset(_npz(tmp_path / "a.npz", {"u.npy": 100}, kind=kind))


def test_a_header_of_numpy_is_read_no_further_than_it_is_believed(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("u.npy", b"\x93NUMPY\x02\x00" + (1 << 25).to_bytes(4, "little") + b" " * (1 << 25))
    assert _peak(lambda: open_dataset(path), ValueError) < 1 << 23


def test_a_description_that_states_less_than_it_holds_is_not_unpacked(tmp_path):
    path = tmp_path / "a.npz"
    inside = io.BytesIO()
    with zipfile.ZipFile(inside, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("sciops.json", b" " * (1 << 25))
        archive.writestr("u.npy", b"")
    path.write_bytes(inside.getvalue().replace((1 << 25).to_bytes(4, "little"), (100).to_bytes(4, "little")))
    assert _peak(lambda: npz_description(path), Exception) < 1 << 23


def test_packed_matlab_variables_are_unpacked_within_one_budget(tmp_path):
    path = tmp_path / "a.mat"
    savemat(path, {f"a{i}": np.zeros((50, 500)) for i in range(6)}, do_compression=True)
    with opening_within(Budget(bytes=1.21e6)):
        assert len(probe(path).arrays) == 6
    with opening_within(Budget(bytes=1e6)), pytest.raises(OverBudget, match=r"all that it unpacks to takes 1\.2e\+06"):
        probe(path).arrays  # noqa: B018
    savemat(path, {"a": np.zeros((50, 500), complex)}, do_compression=True)
    with opening_within(Budget(bytes=1e5)), pytest.raises(OverBudget, match=r"all that it unpacks to takes 2e\+05"):
        probe(path).arrays  # noqa: B018
    with opening_within(Budget(objects=5)), pytest.raises(OverBudget, match="takes 6 objects"):
        savemat(path, {f"a{i}": np.zeros((2, 2)) for i in range(6)})
        probe(path).arrays  # noqa: B018


def test_a_netcdf3_variable_of_very_many_dimensions_is_refused_at_once(tmp_path):
    path = tmp_path / "a.nc"
    count = (20_000).to_bytes(4, "big")
    dims = b"".join((5).to_bytes(4, "big") + b"d%04x\0\0\0" % i + (1).to_bytes(4, "big") for i in range(20_000))
    numbers = b"".join(i.to_bytes(4, "big") for i in range(20_000))
    variable = (1).to_bytes(4, "big") + b"u\0\0\0" + count + numbers + bytes(8) + (4).to_bytes(4, "big") + bytes(8)
    head = b"CDF\x01" + bytes(4) + (10).to_bytes(4, "big") + count + dims + bytes(8)
    path.write_bytes(head + (11).to_bytes(4, "big") + (1).to_bytes(4, "big") + variable)
    began = time.process_time()
    with pytest.raises(ValueError, match="u has 20000 dimensions, at most 32 are read"):
        open_dataset(path)
    assert time.process_time() - began < 2
    with opening_within(Budget(objects=10_000)), pytest.raises(OverBudget, match=r"its header takes 2e\+04 objects"):
        open_dataset(path)


def test_an_attribute_cannot_name_thousands_of_missing_values(tmp_path):
    """Each of them would be compared with every number."""
    path = write_sample("pdebench-darcy", tmp_path / "a.h5")
    with h5py.File(path, "r+") as file:
        file["tensor"].attrs["missing_value"] = np.arange(17, dtype=np.float32)
    with pytest.raises(ValueError, match="missing_value holds 17 numbers, at most 16 are expected"):
        open_dataset(path)


def _peak(action, error):
    """Bytes of Python's own memory that the action takes at most; it must raise `error`."""
    tracemalloc.start()
    try:
        with pytest.raises(error):
            action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _with_a_bomb(path, name, chunk, *, filters=1, size=1 << 21):
    """Puts a chunk that unpacks to `size` bytes in the place of one of an array that is deflated `filters` times."""
    content = bytes(size)
    for _ in range(filters):
        content = zlib.compress(content, 9)
    with h5py.File(path, "r+") as file:
        checksum = b"\0\0\0\0" * bool(file[name].fletcher32)
        file[name].id.write_direct_chunk(chunk, content + checksum)
    return path


@pytest.fixture
def native(tmp_path):
    with open_dataset(write_sample("pdebench-darcy", tmp_path / "source.h5")) as source:
        return write_native(tmp_path / "native.h5", source, compression=4)


_BOMB = "a chunk of .*u unpacks to more than the .* bytes of its numbers: it is damaged"
_READS = {
    "open_dataset": lambda path: open_dataset(path)["u"].values,
    "validate": lambda path: validate(path, solutions=0),
    "convert": lambda path: convert(path, path.with_suffix(".npz"), "arrays"),
    "FieldDataset in memory": FieldDataset,
    "FieldDataset on demand": lambda path: FieldDataset(path, memory_limit=0).batch([0, 1, 2]),
    "load_splits": load_splits,
    "describe": describe,
    "content_hash": content_hash,
}


@pytest.mark.parametrize("read", _READS)
def test_a_chunk_that_unpacks_without_end_is_measured_before_it_is_read(read, native):
    _READS[read](native)
    native.with_suffix(".npz").unlink(missing_ok=True)
    _with_a_bomb(native, next(iter(h5py.File(native))) + "/u", (1, 0, 0))
    with opening_within(Budget(bytes=1e5)), pytest.raises(ValueError, match=_BOMB):
        _READS[read](native)


def test_chunks_of_other_layouts_are_measured_and_each_once(tmp_path, monkeypatch):
    path = write_sample("pdebench-darcy", tmp_path / "a.h5")
    with h5py.File(path, "r+") as file:
        values = np.random.default_rng(0).normal(size=file["tensor"].shape).astype(np.float32)
        del file["tensor"]
        chunks = (1, *values.shape[1:])
        file.create_dataset("tensor", data=values, chunks=chunks, compression=4, shuffle=True, fletcher32=True)
    measured = []
    measure = Inflation._measure
    monkeypatch.setattr(Inflation, "_measure", lambda self, item, at: (measured.append(at), measure(self, item, at)))
    with opening_within(Budget(bytes=1e5)):
        dataset = open_dataset(path)
    assert (dataset["u"][[0, 2]].values == values[[0, 2], 0]).all() and sorted(at[0] for at in measured) == [0, 2]
    assert (dataset["u"].values == values[:, 0]).all() and len(measured) == len(values)
    assert (dataset["u"].values == values[:, 0]).all() and len(measured) == len(values)
    open_dataset(path)["u"].values  # noqa: B018  under the default budget no chunk of this size can do harm
    assert len(measured) == len(values)
    _with_a_bomb(path, "tensor", (1, 0, 0, 0))
    with opening_within(Budget(bytes=1e5)):
        dataset = open_dataset(path)
    with pytest.raises(ValueError, match="a chunk of tensor unpacks to more than"):
        dataset["u"][1].values  # noqa: B018


def test_deflating_twice_is_measured_from_the_outer_stream_on(tmp_path):
    path = write_sample("pdebench-darcy", tmp_path / "a.h5")
    with h5py.File(path, "r+") as file:
        shape = file["tensor"].shape
        del file["tensor"]
        created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        created.set_chunk((1, *shape[1:]))
        for _ in range(2):
            created.set_deflate(4)
        space = h5py.h5s.create_simple(shape)
        h5py.h5d.create(file.id, b"tensor", h5py.h5t.IEEE_F32LE, space, created)
        file["tensor"][:] = np.arange(np.prod(shape)).reshape(shape)
    with opening_within(Budget(bytes=1e5)):
        assert (open_dataset(path)["u"].values == np.arange(np.prod(shape)).reshape(shape)[:, 0]).all()
    _with_a_bomb(path, "tensor", (0, 0, 0, 0), filters=2)
    with opening_within(Budget(bytes=1e5)), pytest.raises(ValueError, match="a chunk of tensor unpacks to more than"):
        open_dataset(path)["u"].values  # noqa: B018


def test_a_chunk_larger_than_the_budget_is_refused_when_the_file_is_opened(tmp_path):
    path = write_sample("pdebench-darcy", tmp_path / "a.h5")
    with h5py.File(path, "r+") as file:
        shape = file["tensor"].shape
        del file["tensor"]
        file.create_dataset("tensor", shape, np.float32, maxshape=(None,) * 4, chunks=(256, 1, 64, 64), compression=4)
        file["tensor"][0] = 1
    with opening_within(Budget(bytes=1e6)), pytest.raises(OverBudget, match=r"a chunk of tensor takes 4\.19e\+06"):
        open_dataset(path)


def _pickled_as(path, pickle, **members):
    """A torch.save file whose pickle is this program."""
    torch.save({"x": torch.zeros(2)}, path)
    content = {}
    with zipfile.ZipFile(path) as archive:
        content = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w", members.get("kind", zipfile.ZIP_STORED)) as archive:
        for name, data in content.items():
            archive.writestr(name, pickle if name.endswith("data.pkl") else data)
    return path


def _tuples_in_tuples(levels):
    """{t: None} of t = (t', t'), t' = (t'', t''), …, which are one tuple each: the hash of t takes 2^levels steps."""
    body = b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(levels))
    return b"\x80\x02}(" + b")" + body + b"Nu."


@pytest.mark.parametrize(
    ("pickle", "message"),
    [
        (_tuples_in_tuples(60), r"what it makes takes \S+ objects"),
        (b"\x80\x02})" + b"\x85" * 200 + b"Ns.", "tuples nested more than 100 deep"),
        (b"\x80\x02](" + b"]" * 40_000 + b"e.", "what it makes takes 501 objects"),
        (b"\x80\x02ctorch\nFloatTensor\n(J\xff\xff\xff\x7ftR.", r"holds a pickled object \(torch\.FloatTensor\)"),
        (b"\x80\x02cbuiltins\nbytearray\n(J\xff\xff\xff\x7ftR.", r"holds a pickled object \(builtins\.bytearray\)"),
        (
            b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(ctorch.storage\nUntypedStorage\nN(J\xff\xff\xff\x7ft}tR.",
            r"holds a pickled object \(torch\.storage\.UntypedStorage\)",
        ),
        (b"\x80\x02}(" + b"".join(b"J" + i.to_bytes(4, "little") + b"N" for i in range(10_001)) + b"u.", "10000 keys"),
        (b"\x80\x02](h\x07e.", "cannot be read"),
    ],
)
@pytest.mark.parametrize("old", [False, True])
def test_programs_of_torch_files_are_followed_before_they_are_run(pickle, message, old, tmp_path):
    path = _pickled_as(tmp_path / "a.pt", pickle)
    if old:
        torch.save({}, path, _use_new_zipfile_serialization=False)
        path.write_bytes(path.read_bytes().replace(b"\x80\x02}q\x00.", pickle, 1))
    with opening_within(Budget(objects=500)), pytest.raises(ValueError, match=message):
        open_dataset(path)


def test_what_torch_saves_passes(tmp_path):
    module = torch.nn.Linear(2, 3)
    shared, point = torch.ones(4), (1, 2)
    held = [module.state_dict(), module.weight, {"a": shared, "b": [shared, shared]}, {(point, point): point}]
    held += [
        shared.size(),
        torch.float32,
        b"bytes",
        bytearray(b"bytes"),
        {1, 2},
        1 + 2j,
        torch.eye(2).to_sparse(),
        -(10**20),
    ]
    for old in (True, False):
        torch.save(held, tmp_path / "a.pt", _use_new_zipfile_serialization=not old)
        torch_pickle.check_torch_file(tmp_path / "a.pt", Spending(tmp_path / "a.pt"))
        assert len(probe(tmp_path / "a.pt").tensors) == len(held)


def test_compressed_members_of_a_torch_file_are_not_unpacked(tmp_path):
    path = _pickled_as(tmp_path / "a.pt", b"\x80\x02](" + b"]" * (1 << 20) + b"e.", kind=zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match=r"keeps a/data\.pkl compressed, which torch does not read"):
        open_dataset(path)


def test_lists_that_hold_one_list_many_times_count_it_each_time(tmp_path):
    one = torch.zeros(2)
    for _ in range(8):
        one = [one, 1] * 10
    torch.save({"x": one}, tmp_path / "a.pt")
    with pytest.raises(OverBudget, match="table of contents takes 1e5 objects|table of contents takes 1e.05 objects"):
        open_dataset(tmp_path / "a.pt")


def test_lists_of_tensors_that_share_numbers_are_put_together_within_the_budget(tmp_path):
    torch.save({"x": [torch.zeros(1).expand(1000, 1000)] * 4}, tmp_path / "a.pt")
    with opening_within(Budget(bytes=1e7)), pytest.raises(OverBudget, match=r"all its lists together takes 1\.6e\+07"):
        open_dataset(tmp_path / "a.pt")


@pytest.fixture
def store(tmp_path):
    pytest.importorskip("zarr")
    with open_dataset(write_sample("pdebench-darcy", tmp_path / "source.h5")) as source:
        return write_native(tmp_path / "native.zarr", source, compression=3)


def _rewrite(file, change):
    about = json.loads(file.read_text())
    change(about)
    file.write_text(json.dumps(about))


def test_a_zarr_chunk_far_larger_than_its_array_is_refused_when_the_store_is_opened(store):
    group = next(store.glob("r*"))

    def change(about):
        about["shape"] = [1, *about["shape"][1:]]
        for grid in (about["chunk_grid"], about["codecs"][0]):
            grid["configuration"]["chunk_shape"] = [1, 4000, 4000]

    _rewrite(group / "u" / "zarr.json", change)
    (group / "u" / "c.0.0.0").write_bytes(np.random.default_rng(0).bytes(90_000))
    with opening_within(Budget(bytes=1e7)), pytest.raises(OverBudget, match=r"u: a chunk takes \S+e\+0[78] bytes"):
        open_dataset(store)


def test_a_zarr_chunk_that_states_another_length_is_not_unpacked(store):
    """Within a whole shard and read alone; the checksum of the chunk is right."""
    import google_crc32c
    from numcodecs import Zstd

    file = next(store.glob("r*")) / "u" / "c.0.0.0"
    content = file.read_bytes()
    count = open_dataset(store).sizes["sample"]
    index = np.frombuffer(content[-4 - 16 * count : -4], "<u8").reshape(count, 2).copy()
    chunk = Zstd(level=19).encode(bytes(1 << 24))
    chunk += google_crc32c.value(chunk).to_bytes(4, "little")
    index[0] = len(content), len(chunk)
    raw = index.tobytes()
    file.write_bytes(content + chunk + raw + google_crc32c.value(raw).to_bytes(4, "little"))
    dataset = open_dataset(store)
    assert np.isfinite(dataset["u"][1:].values).all()
    for part in (slice(0, 1), slice(None)):
        with pytest.raises(OSError, match="a chunk that states 16777216 bytes, .* belong there"):
            dataset["u"][part].values  # noqa: B018


def test_folders_of_a_store_are_counted(store):
    entries = 1 + sum(path.is_dir() for path in store.rglob("*"))
    with opening_within(Budget(objects=entries)):
        open_dataset(store).close()
    with opening_within(Budget(objects=entries - 1)), pytest.raises(OverBudget, match="it takes"):
        open_dataset(store)


def test_codecs_around_the_shards_of_a_store_are_refused(store):
    zstd = {"name": "zstd", "configuration": {"level": 3, "checksum": False}}
    _rewrite(next(store.glob("r*")) / "u" / "zarr.json", lambda about: about["codecs"].append(zstd))
    with pytest.raises(ValueError, match="codecs sharding_indexed, zstd; expected bytes, zstd, crc32c"):
        open_dataset(store)


@pytest.fixture
def packed(tmp_path):
    """An archive of 200,000 zeros, described, which unpacks to more than a hundred times its size."""
    path = _npz(tmp_path / "a.npz", {"u.npy": 0})
    np.savez_compressed(path, u=np.zeros((20, 100, 100), np.uint8))
    describe_arrays(path, {"a": {"dims": ("sample", "x", "y"), "array": "u"}}, grid=Grid((100, 100), 1.0, "periodic"))
    return path


_OPENS = {
    "open_dataset": open_dataset,
    "validate": lambda path, **budget: validate(path, solutions=0, **budget),
    "describe": describe,
    "inventory": inventory,
    "convert": lambda path, **budget: convert(path, path.with_suffix(".h5"), "native", **budget),
    "FieldDataset": lambda path, **budget: FieldDataset(path, outputs=("a",), **budget),
    "load_splits": lambda path, **budget: load_splits(path, outputs=("a",), **budget),
}


@pytest.mark.parametrize("opens", _OPENS)
def test_every_function_that_opens_files_takes_a_budget(opens, packed):
    with pytest.raises(ValueError, match=r"all that it unpacks to takes 2e\+05 bytes of memory, more than the 1e\+05"):
        _OPENS[opens](packed, budget=Budget(bytes=1e5))
    with opening_within(Budget(bytes=1e5)):
        _OPENS[opens](packed, budget=Budget(bytes=3e5))


def test_what_reads_later_keeps_the_budget_that_it_was_made_with(packed):
    data = FieldDataset(packed, outputs=("a",), memory_limit=0, budget=Budget(bytes=3e5))
    with opening_within(Budget(bytes=1e5)):
        assert data.lazy and data.batch([3])["x"].shape == (1, 1, 100, 100)


@pytest.mark.parametrize("verb", [["info"], ["info", "--json"], ["validate"], ["doctor"], ["convert"]])
def test_every_command_that_opens_files_takes_a_budget(verb, packed, capsys):
    words = [*verb, str(packed), *(["--layout", "native", str(packed) + ".h5"] if verb == ["convert"] else [])]
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, "--budget", "bytes=1e5"])
    said = "".join(capsys.readouterr())
    assert ended.value.code in (1, 2) and "more than the 1e+05 besides its own size" in said
    cli.main([*words, "--budget=bytes=3e5,seconds=20"])
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, "--budget", "memory=3"])
    assert ended.value.code == 2 and "budget 'memory=3': expected limits such as" in capsys.readouterr().err


def test_a_study_takes_a_budget(capsys):
    seen = []
    command(lambda config: seen.append(current_budget()), {"a": Grid((3,))}, ["--budget", "objects=7"])
    assert seen == [Budget(objects=7)]


def test_files_that_are_opened_without_a_reader_meet_the_guard(native):
    """`read_native` and `content_hash` too: what ends the HDF5 library ends it whoever opens the file."""
    with h5py.File(native, "r+") as file:
        file.create_group("/".join("g" * 101))
    for opens in (read_native, content_hash, resolutions, check_well):
        with pytest.raises(ValueError, match="groups nested more than 100 deep"):
            opens(native)
