"""Small HDF5 files that would take a machine's memory or time are refused in one line."""

from __future__ import annotations

import time
import zlib

import h5py
import numpy as np
import pytest

from sciops.datasets import (
    FieldDataset,
    content_hash,
    convert,
    describe,
    load_splits,
    open_dataset,
    validate,
)
from sciops.datasets.formats.samples import write_sample
from sciops.datasets.native.hdf5.inflation import Inflation
from sciops.files.budget import Budget, OverBudget, opening_within


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


def _with_a_bomb(path, name, chunk, *, filters=1, size=1 << 21):
    """Puts a chunk that unpacks to `size` bytes in the place of one of an array that is deflated `filters` times."""
    content = bytes(size)
    for _ in range(filters):
        content = zlib.compress(content, 9)
    with h5py.File(path, "r+") as file:
        checksum = b"\0\0\0\0" * bool(file[name].fletcher32)
        file[name].id.write_direct_chunk(chunk, content + checksum)
    return path


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
