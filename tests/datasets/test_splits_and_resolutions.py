"""Splits of few samples, samples named twice, and grids that are nested by another stride along each axis."""

from __future__ import annotations

import numpy as np
import pytest

from sciops.datasets import FieldDataset, build_dataset, load_splits, open_dataset, write_native
from sciops.grids import Grid


def _file(path, samples: int, grid: Grid):
    dims = ("sample", *"xyz"[: grid.ndim])
    u = np.random.default_rng(0).standard_normal((samples, *grid.shape)).astype("f4")
    return write_native(path, build_dataset({"a": (dims, u), "u": (dims, u)}, grid, layout="native", equation="t")), u


@pytest.mark.parametrize(
    "samples, sizes", [(1, (1, 0, 0)), (2, (1, 0, 1)), (3, (1, 1, 1)), (4, (2, 1, 1)), (20, (16, 2, 2))]
)
def test_a_file_of_few_samples_holds_some_out(tmp_path, samples, sizes):
    splits = load_splits(_file(tmp_path / "u.h5", samples, Grid((5,)))[0])
    parts = [splits.train, splits.validation, splits.test]
    assert tuple(0 if part is None else len(part) for part in parts) == sizes
    numbers = np.concatenate([part.samples for part in parts if part is not None])
    assert np.array_equal(numbers, np.arange(samples))


def test_a_sample_named_twice_is_refused(tmp_path):
    path, _ = _file(tmp_path / "u.h5", 6, Grid((5,)))
    with pytest.raises(ValueError, match="train names sample 0 2 times: expected each sample once"):
        load_splits(path, train=[0, 0, 1])
    with pytest.raises(ValueError, match="test names sample 4 2 times"):
        load_splits(path, train=[0, 1], test=[4, 5, 4])
    assert list(load_splits(path, train=[2, 0, 1], validation=0, test=0).train.samples) == [2, 0, 1]


@pytest.mark.parametrize(
    "grid, wanted, strides",
    [
        (Grid((33, 17)), (17, 17), (2, 1)),
        (Grid((33, 17)), 17, (2, 1)),
        (Grid((33, 17)), (5, 9), (8, 2)),
        (Grid((32, 16), centering="periodic"), (8, 16), (4, 1)),
        (Grid((9, 5, 9)), (5, 5, 3), (2, 1, 4)),
        (Grid((33, 17)), (17, 9), (2, 2)),
    ],
)
def test_each_axis_has_its_own_stride(tmp_path, grid, wanted, strides):
    path, u = _file(tmp_path / "u.h5", 3, grid)
    expected = u[(slice(None), *(slice(None, None, f) for f in strides))]
    for source in (path, open_dataset(path).load()):
        data = FieldDataset(source, resolution=wanted)
        assert np.array_equal(data.y[:, 0], expected) and data.grid == grid.coarsen(strides)
    with pytest.raises(ValueError, match="nested in it"):
        FieldDataset(path, resolution=7)


def test_a_file_is_replaced_only_when_that_is_asked_for(tmp_path):
    pytest.importorskip("zarr")
    for name in ("u.h5", "u.zarr"):
        path, _ = _file(tmp_path / name, 2, Grid((5,)))
        with open_dataset(path) as opened:
            half = opened.isel(sample=slice(1)).load()
        with pytest.raises(FileExistsError, match="is there already: remove it, or pass overwrite=True"):
            write_native(path, half)
        with open_dataset(write_native(path, half, overwrite=True)) as again:
            assert again.sizes["sample"] == 1
