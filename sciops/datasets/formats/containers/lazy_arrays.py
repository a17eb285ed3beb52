"""Lazy arrays that are views of a whole stored array (NumPy, NetCDF-3, MATLAB v5), and one array put before another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from sciops.datasets.formats.containers.hdf5_arrays import H5Array
from sciops.datasets.formats.containers.mat5 import MatArray, mat5_arrays, mat5_values
from sciops.datasets.formats.containers.netcdf3 import Variable
from sciops.datasets.formats.containers.numpy_files import NumpyArray, unpack
from sciops.datasets.formats.containers.packing import Packing
from sciops.datasets.formats.containers.sniff import Probe, readable
from sciops.datasets.lazy import LazyArray


class ViewArray(LazyArray):
    """A stored array seen with its axes in another order and some of them at one index.

    axes : which stored axis each axis of the result is; default all that are not picked, in their order
    pick : stored axis → the one index of it that is meant
    """

    def __init__(
        self,
        path: Path,
        shape: tuple[int, ...],
        dtype: np.dtype,
        axes: Sequence[int] | None = None,
        pick: Mapping[int, int] | None = None,
    ) -> None:
        self.path, self.stored, self.pick = path, tuple(shape), dict(pick or {})
        self.raw = np.dtype(dtype)
        self.dtype = self.raw.newbyteorder("=")  # values come out in this machine's byte order
        self.axes = tuple(i for i in (range(len(shape)) if axes is None else axes) if i not in self.pick)
        self.shape = tuple(shape[axis] for axis in self.axes)

    def _values(self) -> np.ndarray:
        raise NotImplementedError

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        values = self._values()
        kept = sorted(self.axes)
        for axis in sorted(self.pick, reverse=True):
            values = values[(slice(None),) * axis + (self.pick[axis],)]
        values = values.transpose([kept.index(axis) for axis in self.axes])
        # slices and numbers are views; arrays of indices copy, from the last axis on, so that an axis that goes away
        # leaves the numbers of those still to come
        for axis, part in reversed(list(enumerate(key))):
            values = values[(slice(None),) * axis + (part,)]
        return np.array(values, self.dtype, order="C")  # a copy: no mapping stays open behind it


class MappedArray(ViewArray):
    """Numbers that lie in the file as in memory, from `offset` on; only those asked for are read."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype, offset: int, **options: Any) -> None:
        self.offset, self.order = offset, "F" if options.pop("fortran", False) else "C"
        self.strides = options.pop("strides", None)
        super().__init__(path, shape, dtype, **options)

    def _values(self) -> np.ndarray:
        if not all(self.stored):
            return np.empty(self.stored, self.raw)
        with readable(self.path, "a file of plain numbers"):
            if self.strides is None:
                mapped = np.memmap(self.path, self.raw, "r", self.offset, self.stored, self.order)
                return mapped.view(np.ndarray)
            raw = np.memmap(self.path, np.uint8, "r")
            return np.ndarray(self.stored, self.raw, raw, self.offset, self.strides)


class ValuesArray(LazyArray):
    """The values of an array whose numbers are packed, or marked as missing."""

    def __init__(self, array: ViewArray, packing: Packing) -> None:
        self.array, self.packing, self.shape, self.dtype = array, packing, array.shape, packing.dtype

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        return self.packing.unpacked(self.array[indexing.OuterIndexer(key)])


class KeptArray(ViewArray):
    """An array that its format can only read whole: at the first access, and kept."""

    _kept: np.ndarray | None = None

    def _values(self) -> np.ndarray:
        if self._kept is None:
            self._kept = self._load()
        return self._kept

    def _load(self) -> np.ndarray:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}


class UnpackedArray(KeptArray):
    """A compressed member of a .npz archive."""

    def __init__(self, path: Path, array: NumpyArray, **options: Any) -> None:
        self.array = array
        super().__init__(path, array.shape, array.dtype, **options)

    def _load(self) -> np.ndarray:
        with readable(self.path, "a NumPy .npz archive"):
            return unpack(self.path, self.array)


class Mat5Array(KeptArray):
    """A variable of a MATLAB v5 file: mapped from the disk, or, where it is packed, read whole at the first access."""

    def __init__(self, path: Path, array: MatArray, **options: Any) -> None:
        self.array = array
        super().__init__(path, array.shape, array.dtype, **options)

    def _values(self) -> np.ndarray:
        return self._load() if self.array.packed is None else super()._values()

    def _load(self) -> np.ndarray:
        with readable(self.path, "a MATLAB file"):
            return mat5_values(self.path, self.array)


class TorchFileArray(KeptArray):
    """An array of a torch.save file: mapped from the disk, or, where it is a list, put together at the first access."""

    def __init__(self, probe: Probe, name: str, **options: Any) -> None:
        found = probe.torch_arrays[0][name]
        self.name, self.found, self.budget = name, found, probe.budget
        super().__init__(probe.path, found.shape, found.dtype, **options)

    def _load(self) -> np.ndarray:
        found = self.found or Probe(self.path, "torch", budget=self.budget).torch_arrays[0].get(self.name)
        if found is None or found.shape != self.stored:
            raise ValueError(f"{self.path} no longer holds {self.name} of shape {list(self.stored)}")
        return found.values()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "found": None}


class PrecededArray(LazyArray):
    """`first`, which lacks `axis`, as entry 0 of that axis, and `rest` after it; each is read when it is asked for.

    Raises ValueError when the other axes differ.
    """

    def __init__(self, first: Any, rest: Any, axis: int) -> None:
        self.first, self.rest, self.axis = first, rest, axis
        others = rest.shape[:axis] + rest.shape[axis + 1 :]
        if first.shape != others:
            raise ValueError(f"the first entry is {first.shape}, those after it {others}")
        self.shape = (*rest.shape[:axis], rest.shape[axis] + 1, *rest.shape[axis + 1 :])
        self.dtype = np.result_type(first.dtype, rest.dtype)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        before, part, after = key[: self.axis], key[self.axis], key[self.axis + 1 :]
        if isinstance(part, (int, np.integer)):
            return self._first(before + after) if part == 0 else self._rest((*before, int(part) - 1, *after))
        numbers = np.arange(self.shape[self.axis])[part]
        later = np.flatnonzero(numbers > 0)
        # where the axis stands in the result: axes read at one number are gone
        place = sum(not isinstance(one, (int, np.integer)) for one in before)
        pieces = []
        if len(later):
            pieces.append(self._rest((*before, _slice_or_array(numbers[later] - 1), *after)))
        if len(later) < len(numbers):
            initial = np.expand_dims(self._first(before + after), place)
            pieces.append(np.repeat(initial, len(numbers) - len(later), axis=place))
        if not pieces:
            return self._rest((*before, slice(0, 0), *after)).astype(self.dtype)
        order = np.argsort(np.concatenate([later, np.flatnonzero(numbers == 0)]))
        joined = np.concatenate(pieces, axis=place)
        return joined if (np.diff(order) == 1).all() else joined.take(order, axis=place)

    def _first(self, key: tuple[Any, ...]) -> np.ndarray:
        return np.asarray(self.first[indexing.OuterIndexer(key)]).astype(self.dtype, copy=False)

    def _rest(self, key: tuple[Any, ...]) -> np.ndarray:
        return np.asarray(self.rest[indexing.OuterIndexer(key)]).astype(self.dtype, copy=False)


class CastArray(LazyArray):
    """Numbers in memory, or mapped to it, in another type: only those asked for are changed."""

    def __init__(self, values: np.ndarray, dtype: np.dtype) -> None:
        self.values, self.dtype, self.shape = values, np.dtype(dtype), values.shape

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        values = self.values
        for axis, part in reversed(list(enumerate(key))):
            values = values[(slice(None),) * axis + (part,)]
        return np.asarray(values).astype(self.dtype)


class OneSample(LazyArray):
    """An array with an axis of length one put before its own."""

    def __init__(self, array: Any) -> None:
        self.array, self.dtype, self.shape = array, array.dtype, (1, *array.shape)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        values = np.asarray(self.array[indexing.OuterIndexer(key[1:])])
        return values if isinstance(key[0], (int, np.integer)) else values[None][key[0]]


class TailArray(LazyArray):
    """An array without entry 0 of `axis`."""

    def __init__(self, whole: Any, axis: int) -> None:
        self.whole, self.axis, self.dtype = whole, axis, whole.dtype
        self.shape = (*whole.shape[:axis], whole.shape[axis] - 1, *whole.shape[axis + 1 :])

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        part = key[self.axis]
        if isinstance(part, (int, np.integer)):
            part = int(part) + 1
        else:
            part = _slice_or_array(np.arange(1, self.shape[self.axis] + 1)[part])
        return np.asarray(self.whole[indexing.OuterIndexer((*key[: self.axis], part, *key[self.axis + 1 :]))])


def matlab_array(probe: Probe, name: str, axes: Sequence[int] | None = None) -> BackendArray:
    """A variable of a MATLAB v5 file, or of HDF5 (v7.3), lazily; `axes` as in `ViewArray`, in the order as stored."""
    if probe.kind == "hdf5":
        return H5Array(probe.path, name, axes)
    with readable(probe.path, "a MATLAB file"):
        return Mat5Array(probe.path, mat5_arrays(probe.path)[name], axes=axes)


def matlab_values(probe: Probe, name: str) -> np.ndarray:
    """A small variable of a MATLAB file, its numbers in MATLAB's order, flattened to one axis."""
    array = matlab_array(probe, name)
    values = np.asarray(array[indexing.BasicIndexer((slice(None),) * len(array.shape))])
    return np.asarray(values, np.float64).ravel("C" if probe.kind == "hdf5" else "F")


def netcdf3_array(path: Path, variable: Variable, **options: Any) -> BackendArray:
    """A variable of a NetCDF-3 file, mapped from the disk, its values as the file means them."""
    array = MappedArray(path, variable.shape, variable.dtype, variable.offset, strides=variable.strides, **options)
    return array if variable.packing is None else ValuesArray(array, variable.packing)


def numpy_array(path: Path, array: NumpyArray, **options: Any) -> ViewArray:
    """An array of a .npy or .npz file, mapped from the disk where it is not compressed."""
    if array.offset is None:
        return UnpackedArray(path, array, **options)
    return MappedArray(path, array.shape, array.dtype, array.offset, fortran=array.fortran, **options)


def _slice_or_array(numbers: np.ndarray) -> slice | np.ndarray:
    """A run as a slice, which files read in one piece."""
    if len(numbers) > 1 and (np.diff(numbers) == 1).all():
        return slice(int(numbers[0]), int(numbers[-1]) + 1)
    return numbers
