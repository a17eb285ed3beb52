"""Small files that would take a machine's memory or time are refused in one line, through every function alike."""

from __future__ import annotations

import re
import time

import h5py
import numpy as np
import pytest

import sciops
from sciops._budget import Budget, OverBudget, opening_within
from sciops.datasets import open_dataset
from sciops.datasets.samples import write_sample


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
