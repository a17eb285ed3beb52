"""Arrays inside files that are read when asked for; no file stays open between two reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xarray.core import indexing

from sciops.datasets.formats.containers.complex_pairs import as_numbers, number_type
from sciops.datasets.formats.containers.hdf5_attributes import hdf5_packing
from sciops.datasets.formats.containers.sniff import Entry, readable
from sciops.datasets.lazy import LazyArray
from sciops.datasets.native.hdf5.guard import open_survivable
from sciops.datasets.native.hdf5.inflation import Inflation
from sciops.files.budget import current_budget


class H5Array(LazyArray):
    """An HDF5 array as xarray's lazy backend array.

    axes : which stored axis each axis of the result is; MATLAB's files hold every axis reversed
    drop : stored axes of length one to leave out
    pick : stored axis → the one index to take of it, such as a component of a vector; negative axes count from the end
    stop : stored axis → how many of its entries count, where a file was made longer than it was filled

    Numbers that the file keeps packed, or marks as missing, come as they are meant (`packing`). The file is opened for
    each read, so that the array can be pickled, forked and left alone.
    """

    def __init__(
        self,
        path: Path,
        key: str,
        axes: Sequence[int] | None = None,
        drop: Sequence[int] = (),
        *,
        pick: Mapping[int, int] | None = None,
        stop: Mapping[int, int] | None = None,
    ) -> None:
        self.path, self.key, self.inflation = path, key, Inflation(path, key)
        with readable(path, "an HDF5 file"), open_survivable(path) as file:
            stored = list(file[key].shape)
            self.packing = hdf5_packing(file[key])
            self.dtype = number_type(np.dtype(file[key].dtype)) if self.packing is None else self.packing.dtype
        self.rank = len(stored)
        self.pick = {axis % self.rank: index for axis, index in {**dict.fromkeys(drop, 0), **(pick or {})}.items()}
        for axis, count in (stop or {}).items():
            stored[axis] = min(count, stored[axis])
        self.axes = tuple(axis for axis in (range(self.rank) if axes is None else axes) if axis not in self.pick)
        self.shape = tuple(stored[axis] for axis in self.axes)

    supports = indexing.IndexingSupport.OUTER_1VECTOR  # HDF5 takes one list of indices in a selection

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        stored: list[Any] = [self.pick.get(axis) for axis in range(self.rank)]
        for axis, part, size in zip(self.axes, key, self.shape):
            # an open slice would run past what `stop` leaves
            stored[axis] = slice(*part.indices(size)) if isinstance(part, slice) else part
        with readable(self.path, "an HDF5 file"), open_survivable(self.path) as file:
            item = file[self.key]
            self.inflation.check(item, stored)
            block = as_numbers(item[tuple(stored)])
        kept = [axis for axis, part in zip(self.axes, key) if not isinstance(part, (int, np.integer))]
        block = block if self.packing is None else self.packing.unpacked(block)
        return np.transpose(block, [sorted(kept).index(axis) for axis in kept])


class H5Groups(LazyArray):
    """Arrays of one shape in many places of an HDF5 file, one a sample, as one lazy array with the sample axis first.

    keys : path of each sample's array
    arrays : the file's table of contents, of which these have one shape and one type
    axes, pick : as in `H5Array`, counted without the sample axis

    A read opens the file once and visits the samples that were asked for, and no others.

    Raises ValueError where the arrays differ in shape or type.
    """

    def __init__(
        self,
        path: Path,
        keys: Sequence[str],
        arrays: Mapping[str, Entry],
        axes: Sequence[int] | None = None,
        *,
        pick: Mapping[int, int] | None = None,
    ) -> None:
        first, shape = arrays[keys[0]], arrays[keys[0]].shape
        for key in keys:
            if arrays[key] != first:
                raise ValueError(
                    f"{path} holds {key} as {_kind(arrays[key])} and {keys[0]} as {_kind(first)}: the samples of a "
                    "file have one shape and one type; write the file again"
                )
        self.path, self.keys, self.dtype, self.rank = path, tuple(keys), np.dtype(first.dtype), len(shape)
        self.pick = {axis % self.rank: index for axis, index in (pick or {}).items()}
        self.axes = tuple(axis for axis in (range(self.rank) if axes is None else axes) if axis not in self.pick)
        self.shape = (len(self.keys), *(shape[axis] for axis in self.axes))
        self.budget, self._inflations = current_budget(), {}

    supports = indexing.IndexingSupport.OUTER_1VECTOR  # HDF5 takes one list of indices in a selection

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        wanted, *parts = key
        # one list of indices is all that HDF5 takes: where it is not for the samples it stays with the inner axes
        samples = np.arange(len(self.keys))[wanted]
        stored: list[Any] = [self.pick.get(axis) for axis in range(self.rank)]
        for axis, part in zip(self.axes, parts):
            stored[axis] = part
        kept = [axis for axis, part in zip(self.axes, parts) if not isinstance(part, (int, np.integer))]
        order = [sorted(kept).index(axis) for axis in kept]
        with readable(self.path, "an HDF5 file"), open_survivable(self.path) as file:
            blocks = []
            for key in (self.keys[i] for i in np.atleast_1d(samples)):
                if key not in self._inflations:
                    self._inflations[key] = Inflation(self.path, key, budget=self.budget)
                item = file[key]
                self._inflations[key].check(item, stored)
                blocks.append(np.transpose(_values(item, stored), order))
        if np.ndim(samples) == 0:
            return blocks[0]
        if not blocks:
            lengths = [len(np.arange(self.shape[1 + self.axes.index(axis)])[stored[axis]]) for axis in kept]
            return np.empty((0, *lengths), self.dtype)
        return np.stack(blocks)


def _kind(entry: Entry) -> str:
    return f"{entry.dtype}[{', '.join(map(str, entry.shape))}]"


def _values(stored: Any, key: Sequence[Any]) -> np.ndarray:
    packing = hdf5_packing(stored)
    return stored[tuple(key)] if packing is None else packing.unpacked(stored[tuple(key)])
