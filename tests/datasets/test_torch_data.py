"""Torch data sets and splits: the same numbers in memory, on demand and through workers; splits that never overlap."""

import multiprocessing
import os
import pickle
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from sciops.datasets import FieldDataset, TensorFields, grid_of, load_splits, open_dataset
from sciops.datasets.conventions import build_dataset
from sciops.datasets.native import write_native
from sciops.datasets.native.rows import NativeRows
from sciops.grids import Grid

GRID = Grid((9, 5))


def _dataset(samples=12, grid=GRID, split=None):
    rng = np.random.default_rng(0)
    a, u = rng.random((2, samples, *grid.shape)) + 1
    fields = {"a": (("sample", "x", "y"), a, {}), "u": (("sample", "x", "y"), u, {})}
    if split is not None:
        fields["split"] = (("sample",), np.asarray(split, np.int8), {})
    return build_dataset(fields, grid, layout="native", equation="darcy", coefficient="values")


def _save_pt(path, samples, n, seed=0):
    rng = np.random.default_rng(seed)
    torch.save(
        {"x": torch.from_numpy(rng.random((samples, n, n)) > 0.5), "y": torch.from_numpy(rng.random((samples, n, n)))},
        path,
    )


def test_items_batches_and_subsets_agree_with_the_arrays():
    source = _dataset()
    data = FieldDataset(source, dtype=torch.float64)
    a, u = source["a"].values, source["u"].values
    assert len(data) == 12 and data.grid == GRID
    assert np.array_equal(data[4]["x"].numpy(), a[4][None])
    batch = data.batch([7, 2, 7])
    assert np.array_equal(batch["y"].numpy(), u[[7, 2, 7]][:, None])
    part = data.subset([5, 3])
    assert np.array_equal(part.x.numpy()[:, 0], a[[5, 3]]) and list(part.samples) == [5, 3]
    assert np.array_equal(data.batch(torch.tensor([1]))["x"][0, 0].numpy(), a[1])


def test_time_and_several_fields_become_channels(real_data):
    data = FieldDataset(real_data / "burgers_test_16.pt", inputs="a", outputs=("u",), dtype=torch.float64)
    raw = torch.load(real_data / "burgers_test_16.pt", weights_only=True)
    assert torch.equal(data.x[:, 0], raw["x"]) and torch.equal(data.y, raw["y"])
    both = FieldDataset(_dataset(), inputs=("a", "u"))
    assert torch.equal(both.x[:, 1], both.y[:, 0])


@pytest.fixture
def native_file(tmp_path):
    path = tmp_path / "any.name"
    write_native(path, [_dataset(split=[0] * 7 + [1] * 2 + [2] * 3)], attrs={"equation": "darcy"})
    return path


def test_on_demand_equals_in_memory_also_after_pickling(native_file):
    held = FieldDataset(native_file, dtype=torch.float64)
    read = FieldDataset(native_file, dtype=torch.float64, memory_limit=0)
    order = [9, 0, 9, 4]
    for key in ("x", "y"):
        assert torch.equal(held.batch(order)[key], read.batch(order)[key])
    again = pickle.loads(pickle.dumps(read))
    assert torch.equal(again[3]["y"], held[3]["y"]) and torch.equal(read.y, held.y)


def test_on_demand_serves_workers_that_it_is_sent_to(native_file):
    read = FieldDataset(native_file, memory_limit=0)
    loader = DataLoader(read, batch_size=5, num_workers=1, multiprocessing_context="forkserver")
    seen = torch.cat([batch["x"] for batch in loader])
    assert torch.equal(seen, FieldDataset(native_file).x)


def test_stored_splits_are_used(native_file):
    source = _dataset()
    parts = load_splits(native_file)
    for part, numbers in (("train", range(7)), ("validation", range(7, 9)), ("test", range(9, 12))):
        data = getattr(parts, part)
        assert list(data.samples) == list(numbers)
        assert torch.equal(data.y[:, 0], torch.from_numpy(source["u"].values[list(numbers)]).float())
    assert list(FieldDataset(native_file, split="test").samples) == [9, 10, 11]
    assert list(load_splits(native_file, train=3, test=[1]).train.samples) == [0, 1, 2]
    assert list(load_splits(native_file, test=[1]).test.samples) == [10]


def test_files_without_splits_are_cut_at_the_end_and_never_overlap(tmp_path):
    _save_pt(tmp_path / "fields.bin", 20, 16)
    parts = load_splits(tmp_path / "fields.bin")
    assert list(parts.train.samples) == list(range(16))
    assert list(parts.validation.samples) == [16, 17] and list(parts.test.samples) == [18, 19]
    parts = load_splits(tmp_path / "fields.bin", train=(0, 10), validation=0, test=(15, 20))
    assert list(parts.test.samples) == [15, 16, 17, 18, 19] and parts.validation is None
    with pytest.raises(ValueError, match="train and test share 1 samples, the first is 9"):
        load_splits(tmp_path / "fields.bin", train=(0, 10), test=[9], validation=0)
    with pytest.raises(ValueError, match="validation=21: there are 20 samples"):
        load_splits(tmp_path / "fields.bin", validation=21, test=0)
    with pytest.raises(ValueError, match="stores no split"):
        FieldDataset(tmp_path / "fields.bin", split="train")


def test_folder_pairs_files_by_role_and_resolution(tmp_path):
    _save_pt(tmp_path / "darcy_train_16.pt", 20, 16)
    _save_pt(tmp_path / "darcy_test_16.pt", 4, 16, seed=1)
    _save_pt(tmp_path / "darcy_test_32.pt", 5, 32, seed=2)
    (tmp_path / "notes.txt").write_text("not data")
    parts = load_splits(tmp_path, 16, validation=5)
    assert list(parts.train.samples) == list(range(15)) and list(parts.validation.samples) == list(range(15, 20))
    assert parts.test.path.name == "darcy_test_16.pt" and len(parts.test) == 4
    fine = load_splits(tmp_path, 32)
    assert fine.train is None and fine.test.grid.shape == (32, 32)
    (tmp_path / "darcy_test_16.pt").unlink()
    nested = load_splits(tmp_path)  # 16 nodes are every second of the 32
    assert nested.test.grid.same_points(nested.train.grid)
    assert torch.equal(nested.test.x, fine.test.x[..., ::2, ::2])
    with pytest.raises(ValueError, match="resolution=33: .* holds 16×16, 32×32"):
        load_splits(tmp_path, 33)
    _save_pt(tmp_path / "other_train_16.pt", 20, 16)
    with pytest.raises(ValueError, match="2 train files alike, darcy_train_16.pt, other_train_16.pt: name one"):
        load_splits(tmp_path, 16)


def test_real_folder(real_data):
    parts = load_splits(real_data, resolution=16, validation=100)
    raw = torch.load(real_data / "darcy_train_16.pt", weights_only=True)
    assert torch.equal(parts.train.y[:, 0], raw["y"][:900]) and torch.equal(parts.validation.y[:, 0], raw["y"][900:])
    assert torch.equal(parts.train.x[:, 0], raw["x"][:900].float())
    fine = load_splits(real_data, resolution=32).test
    assert torch.equal(parts.test.y, fine.y[..., ::2, ::2])
    assert parts.test.grid == fine.grid.coarsen(2) == grid_of(open_dataset(real_data / "darcy_train_16.pt"))


def test_tensor_fields_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match=r"x\[:, None\]"):
        TensorFields(torch.zeros(3, 9, 5), torch.zeros(3, 1, 9, 5), GRID)
    with pytest.raises(ValueError, match="x has 3 samples and y 2"):
        TensorFields(torch.zeros(3, 1, 9, 5), torch.zeros(2, 1, 9, 5), GRID)
    with pytest.raises(ValueError, match="expected its last axes to be the grid"):
        TensorFields(torch.zeros(3, 1, 5, 9), torch.zeros(3, 1, 9, 5), GRID)
    with pytest.raises(ValueError, match="no field 'q'.* a, u"):
        FieldDataset(_dataset(), inputs="q")


def test_rows_straight_from_the_file_are_what_xarray_reads(tmp_path, monkeypatch):
    rng, grid = np.random.default_rng(3), Grid((9, 9))
    fields = {
        "a": (("sample", "x", "y"), rng.random((14, 9, 9)) > 0.5, {}),
        "u": (("sample", "time", "x", "y"), rng.random((14, 3, 9, 9)), {}),
        "filled": (("sample", "x", "y"), rng.random((14, 9, 9)), {}),
    }
    source = build_dataset(fields, grid, layout="native", equation="darcy", coefficient="indicator")
    source["filled"][2, 3, 4] = np.nan
    source["filled"].encoding["_FillValue"] = -1.0
    write_native(tmp_path / "f.h5", source)
    with h5py.File(tmp_path / "f.h5", "r+") as file:  # as a file of another program may have it
        file["r9/filled"].attrs["_FillValue"] = -1.0
        file["r9/filled"][5, 0, 0] = -1.0
    read = FieldDataset(tmp_path / "f.h5", memory_limit=0, dtype=torch.float64)
    assert isinstance(read._source(), NativeRows)
    nested = FieldDataset(tmp_path / "f.h5", resolution=5, memory_limit=0, dtype=torch.float64)
    assert not isinstance(nested._source(), NativeRows)
    filled = FieldDataset(tmp_path / "f.h5", inputs=("a", "filled"), memory_limit=0, dtype=torch.float64)
    assert not isinstance(filled._source(), NativeRows)
    assert filled[5]["x"][1, 0, 0].isnan()
    for order in ([9, 0, 9, 4], [3, 4, 5], [13], range(14), [0, 1, 2, 7, 8, 12]):
        rows = read.batch(list(order))
        with monkeypatch.context() as patch:
            patch.setattr("sciops.datasets.fields.file_data.native_rows", lambda *_: None)
            plain = FieldDataset(tmp_path / "f.h5", memory_limit=0, dtype=torch.float64).batch(list(order))
        for key in ("x", "y"):
            assert torch.equal(rows[key], plain[key])
            assert torch.equal(nested.batch(list(order))[key], rows[key][..., ::2, ::2])
        np.testing.assert_array_equal(rows["y"].numpy(), source["u"].values[list(order)])
    assert read.batch([])["y"].shape == (0, 3, 9, 9)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted in /proc")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_files_are_held_open_between_close_and_close_alone(native_file):
    def handles():
        return sum(os.path.realpath(f"/proc/self/fd/{fd}") == str(native_file) for fd in os.listdir("/proc/self/fd"))

    held, read = FieldDataset(native_file), FieldDataset(native_file, memory_limit=0)
    assert (held.lazy, read.lazy, held.subset([1]).lazy, read.subset([1]).lazy) == (False, True, False, True)
    assert handles() == 0
    first, part = read.batch([3, 1]), read.subset([4, 2])
    assert handles() == 1
    part.batch([0])
    read.close()
    assert handles() == 1  # the part has its own
    part.close()
    part.close()
    assert handles() == 0
    assert torch.equal(read.batch([3, 1])["y"], first["y"]) and torch.equal(first["y"], held.batch([3, 1])["y"])
    assert handles() == 1
    process = multiprocessing.get_context("fork").Process(target=_reads_and_closes, args=(read,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert torch.equal(read.batch([3, 1])["y"], first["y"])  # what the child closed was its own
    read.close()


def _reads_and_closes(data):
    data.batch([0])
    data.close()


def test_a_damaged_sample_is_told_when_it_is_read(native_file):
    with h5py.File(native_file) as file:
        offset = file["r9x5/u"].id.get_chunk_info_by_coord((4, 0, 0)).byte_offset
    with open(native_file, "r+b") as file:
        file.seek(offset + 8)
        file.write(b"\xff\x01")
    read = FieldDataset(native_file, memory_limit=0)
    assert torch.isfinite(read.batch([3, 5])["y"]).all()
    for wanted in ([4], [3, 4, 5], [2, 4]):
        with pytest.raises(OSError, match="damaged, part of its numbers cannot be read; `sciops validate") as caught:
            read.batch(wanted)
        assert "\n" not in str(caught.value)
