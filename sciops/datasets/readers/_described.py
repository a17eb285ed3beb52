"""The arrays of a file that a description can give a meaning: NumPy's, HDF5's, MATLAB's, NetCDF's, in one form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciops.datasets.readers._description import ALONE
from sciops.datasets.readers._numpy_files import NumpyArray, npy_array, npz_arrays
from sciops.datasets.readers._sniff import Probe, readable

KINDS = {
    "npy": "a NumPy .npy array",
    "npz": "a NumPy .npz archive",
    "hdf5": "an HDF5 file",
    "mat5": "a MATLAB file",
    "netcdf3": "a NetCDF-3 file",
}


@dataclass(frozen=True)
class Held:
    """One stored array. `view(axes, pick)`: its numbers, lazily, with `axes` in this order and `pick` at one index."""

    shape: tuple[int, ...]
    dtype: np.dtype
    view: Callable[[Sequence[int], Mapping[int, int]], Any]

    def values(self) -> np.ndarray:
        from xarray.core import indexing

        return np.asarray(
            self.view(range(len(self.shape)), {})[indexing.BasicIndexer((slice(None),) * len(self.shape))]
        )


def numpy_contents(probe: Probe) -> dict[str, NumpyArray]:
    """Name → array of a .npy (under one fixed name) or .npz file."""
    with readable(probe.path, KINDS[probe.kind]):
        return {ALONE: npy_array(probe.path)} if probe.kind == "npy" else npz_arrays(probe.path)


def held(probe: Probe) -> dict[str, Held]:
    """Name → array of a file of `KINDS`, its axes in the order in which `Probe.describe` prints them."""
    from sciops.datasets.readers._lazy import H5Array
    from sciops.datasets.readers._lazy_arrays import Mat5Array, netcdf3_array, numpy_array
    from sciops.datasets.readers._mat5 import mat5_arrays
    from sciops.datasets.readers._netcdf3 import read_header

    if probe.kind == "hdf5":
        return {
            name: Held(
                entry.shape,
                np.dtype(entry.dtype),
                lambda axes, pick, name=name: H5Array(probe.path, name, tuple(axes), pick=pick),
            )
            for name, entry in probe.arrays.items()
        }
    if probe.kind == "mat5":
        with readable(probe.path, KINDS["mat5"]):
            found = mat5_arrays(probe.path)
        return {
            name: Held(
                one.shape, one.dtype, lambda axes, pick, one=one: Mat5Array(probe.path, one, axes=axes, pick=pick)
            )
            for name, one in found.items()
        }
    if probe.kind == "netcdf3":
        with readable(probe.path, KINDS["netcdf3"]):
            variables = read_header(probe.path)[0]
        return {
            name: Held(
                one.shape,
                one.value_dtype,
                lambda axes, pick, one=one: netcdf3_array(probe.path, one, axes=axes, pick=pick),
            )
            for name, one in variables.items()
        }
    return {
        name: Held(one.shape, one.dtype, lambda axes, pick, one=one: numpy_array(probe.path, one, axes=axes, pick=pick))
        for name, one in numpy_contents(probe).items()
    }
