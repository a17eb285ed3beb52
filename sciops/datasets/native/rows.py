"""Samples of a native file straight from HDF5: a twentieth of what xarray and a list of sample numbers cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.native.hdf5.store import Hdf5Store, samples_of
from sciops.datasets.native.layout import group_name

if TYPE_CHECKING:
    import xarray

_ENCODED = {"_FillValue", "missing_value", "scale_factor", "add_offset"}


class NativeRows:
    """Variables of one group of a native file, held open until `close`.

    A sample is one chunk of the file. The stored numbers come as they are: `native_rows` makes these only where nothing
    has to be decoded.
    """

    def __init__(self, store: Hdf5Store, group: str) -> None:
        self._store, self._group = store, group

    def read(self, name: str, samples: np.ndarray, then: tuple[Any, ...] = ()) -> np.ndarray:
        """(len(samples), …): the samples with these numbers, in any order; `then` indexes the axes after them.

        Files are read in their own order, each sample once. Raises OSError in one line for a damaged file.
        """
        stored = self._store.measured(f"{self._group}/{name}", (samples, *then))
        first = int(samples[0]) if len(samples) else 0
        with samples_of(self._store.path):
            if np.array_equal(samples, np.arange(first, first + len(samples))):
                return stored[(slice(first, first + len(samples)), *then)]
            values = np.empty((len(samples), *stored[(slice(0, 0), *then)].shape[1:]), stored.dtype)
            order = np.argsort(samples, kind="stable")
            for i, before in zip(order, (None, *order)):
                # one by one to where they are asked for: runs put in order afterwards are copied out of the cache
                again = before is not None and samples[i] == samples[before]
                values[i] = values[before] if again else stored[(int(samples[i]), *then)]
        return values

    def close(self) -> None:
        self._store.close()


def native_rows(path: Path | None, source: xarray.Dataset, names: Sequence[str]) -> NativeRows | None:
    """The rows of `names` as `source`, opened from `path`, has them; None where xarray has to read them.

    That is so for any other layout, for a resolution that is strided from a stored one, for variables with a fill value
    or a scale, and for dimensions that are stored in another order.
    """
    import h5py

    if path is None or source.attrs.get("layout") != "native" or not (path.is_file() and h5py.is_hdf5(path)):
        return None
    shape = tuple(source.sizes[axis] for axis in ("x", "y", "z") if axis in source.sizes)
    store = Hdf5Store(path)
    if _is_plain(store.file.get(group_name(shape)), source, names):
        return NativeRows(store, group_name(shape))
    store.close()
    return None


def _is_plain(group: Any, source: xarray.Dataset, names: Sequence[str]) -> bool:
    """Whether an open group holds `names` as `source` has them."""
    import h5py

    for name in names:
        stored = None if group is None else group.get(name)
        if not isinstance(stored, h5py.Dataset) or stored.shape != source[name].shape:
            return False
        if stored.dtype.kind not in "iuf" or _ENCODED & set(stored.attrs):
            return False
        if [_dimension(axis) for axis in stored.dims] != list(source[name].dims):
            return False
    return True


def _dimension(axis: Any) -> str:
    """The name of the dimension that an axis of an HDF5 array is attached to."""
    return axis[0].name.rsplit("/", 1)[-1] if len(axis) else ""
