"""Arrays inside files that are read when asked for; no file stays open between two reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from sciops.datasets.readers._sniff import readable


class H5Array(BackendArray):
    """An HDF5 array as xarray's lazy backend array.

    axes : which stored axis each axis of the result is; MATLAB's files hold every axis reversed
    drop : stored axes of length one to leave out

    The file is opened for each read, so that the array can be pickled, forked and left alone.
    """

    def __init__(self, path: Path, key: str, axes: Sequence[int] | None = None, drop: Sequence[int] = ()) -> None:
        import h5py

        self.path, self.key, self.drop = path, key, tuple(drop)
        with readable(path, "an HDF5 file"), h5py.File(path, "r") as file:
            stored = file[key].shape
            self.dtype = np.dtype(file[key].dtype)
        self.axes = tuple(axis for axis in (range(len(stored)) if axes is None else axes) if axis not in self.drop)
        self.rank = len(stored)
        self.shape = tuple(stored[axis] for axis in self.axes)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER_1VECTOR, self._read)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        import h5py

        stored: list[Any] = [0] * self.rank
        for axis, part in zip(self.axes, key):
            stored[axis] = part
        with readable(self.path, "an HDF5 file"), h5py.File(self.path, "r") as file:
            block = file[self.key][tuple(stored)]
        kept = [axis for axis, part in zip(self.axes, key) if not isinstance(part, (int, np.integer))]
        return np.transpose(block, [sorted(kept).index(axis) for axis in kept])


class MatArray(BackendArray):
    """One variable of a MATLAB v5 file, read whole at the first access (the format has no partial reads) and kept."""

    def __init__(self, path: Path, key: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.path, self.key, self.shape, self.dtype = path, key, shape, dtype
        self._values: np.ndarray | None = None

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        import scipy.io

        if self._values is None:
            with readable(self.path, "a MATLAB file"):
                values = scipy.io.loadmat(self.path, variable_names=[self.key])[self.key]
            self._values = np.asarray(values, dtype=self.dtype)
        values = self._values
        # from the last axis on, so that an axis that goes away leaves the numbers of those still to come
        for axis, part in reversed(list(enumerate(key))):
            values = values[(slice(None),) * axis + (part,)]
        return values

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_values": None}


def lazy(array: BackendArray) -> Any:
    """The array as the data of an xarray variable."""
    return indexing.LazilyIndexedArray(array)
