"""Samples of a native file straight from HDF5: a twentieth of what xarray and a list of sample numbers cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets._native_layout import group_name, open_hdf5, samples_of

if TYPE_CHECKING:
    import xarray

_ENCODED = {"_FillValue", "missing_value", "scale_factor", "add_offset"}


class NativeRows:
    """Variables of one group of a native file, held open until `close`.

    A sample is one chunk of the file, and a run of samples that follow one another one read. The stored numbers come
    as they are: `native_rows` makes these only where nothing has to be decoded.
    """

    def __init__(self, path: Path, group: str) -> None:
        self.path = path
        self._file = open_hdf5(path)
        self._group = self._file[group]

    def read(self, name: str, samples: np.ndarray, then: tuple[Any, ...] = ()) -> np.ndarray:
        """(len(samples), …): the samples with these numbers, in any order; `then` indexes the axes after them.

        Files are read in their own order, each sample once. Raises OSError in one line for a damaged file.
        """
        stored = self._group[name]
        order = np.argsort(samples, kind="stable")
        ascending = samples[order]
        runs = np.split(np.arange(len(samples)), np.flatnonzero(np.diff(ascending) > 1) + 1)
        values = None
        with samples_of(self.path):
            for run in runs:
                first = int(ascending[run[0]]) if len(run) else 0
                part = stored[(slice(first, int(ascending[run[-1]]) + 1 if len(run) else 0), *then)]
                if len(runs) == 1 and np.array_equal(samples, np.arange(first, first + len(part))):
                    return part
                if values is None:
                    values = np.empty((len(samples), *part.shape[1:]), part.dtype)
                for i in run:  # straight to where it is asked for: a batch put in order afterwards is copied twice
                    values[order[i]] = part[ascending[i] - first]
        return values

    def close(self) -> None:
        self._file.close()


def native_rows(path: Path | None, source: xarray.Dataset, names: Sequence[str]) -> NativeRows | None:
    """The rows of `names` as `source`, opened from `path`, has them; None where xarray has to read them.

    That is so for any other layout, for a resolution that is strided from a stored one, and for variables with a fill
    value or a scale.
    """
    import h5py

    if path is None or source.attrs.get("layout") != "native" or not (path.is_file() and h5py.is_hdf5(path)):
        return None
    shape = tuple(source.sizes[axis] for axis in ("x", "y", "z") if axis in source.sizes)
    with open_hdf5(path) as file:
        group = file.get(group_name(shape))
        for name in names:
            stored = None if group is None else group.get(name)
            if not isinstance(stored, h5py.Dataset) or stored.shape != source[name].shape:
                return None
            if stored.dtype.kind not in "iuf" or _ENCODED & set(stored.attrs):
                return None
    return NativeRows(path, group_name(shape))
