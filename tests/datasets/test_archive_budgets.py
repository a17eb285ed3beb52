"""Small NumPy archives, MATLAB and NetCDF-3 files that would take much memory or time are refused in one line."""

from __future__ import annotations

import io
import time
import tracemalloc
import zipfile

import h5py
import numpy as np
import pytest
from budget_files import write_zeros
from scipy.io import savemat

from sciops.datasets import (
    open_dataset,
)
from sciops.datasets.formats import probe
from sciops.datasets.formats.containers import zips
from sciops.datasets.formats.containers.numpy_files import npz_description
from sciops.datasets.formats.samples import write_sample
from sciops.files.budget import Budget, OverBudget, opening_within


def test_all_members_of_an_archive_are_unpacked_within_one_budget(tmp_path):
    path = write_zeros(tmp_path / "a.npz", {f"{i}.npy": 200_000 for i in range(6)})
    with opening_within(Budget(bytes=1.21e6)):
        assert len(probe(path).arrays) == 6
    with opening_within(Budget(bytes=1e6)), pytest.raises(OverBudget, match=r"all that it unpacks to takes 1\.2e\+06"):
        probe(path).arrays  # noqa: B018
    write_zeros(path, {f"{i}.npy": 200_000 for i in range(6)}, kind=zipfile.ZIP_STORED)  # mapped, not unpacked
    with opening_within(Budget(bytes=1)):
        assert len(probe(path).arrays) == 6


def test_members_of_an_archive_are_objects_and_its_directory_is_measured_first(tmp_path, monkeypatch):
    path = write_zeros(tmp_path / "a.npz", {f"{i}.npy": 1 for i in range(11)})
    with opening_within(Budget(objects=10)), pytest.raises(OverBudget, match="table of contents takes 11 objects"):
        probe(path)
    monkeypatch.setattr(zips, "_LEAST", 0)
    monkeypatch.setattr(zips, "_ENTRY", 20)
    with opening_within(Budget(objects=10)), pytest.raises(OverBudget, match="table of contents takes"):
        probe(path)


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_in_codes_whose_unpacking_has_no_bound_are_refused(kind, tmp_path):
    with pytest.raises(ValueError, match=r"a\.npz keeps u\.npy in the code .*zip it with deflate"):
        open_dataset(write_zeros(tmp_path / "a.npz", {"u.npy": 100}, kind=kind))


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
