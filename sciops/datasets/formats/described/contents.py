"""The arrays of a file that a description can give a meaning, in one form: NumPy, HDF5, MATLAB, NetCDF, torch.save."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciops.datasets.formats.containers.numpy_files import NumpyArray, npy_array, npz_arrays
from sciops.datasets.formats.containers.sniff import Probe, readable
from sciops.datasets.formats.described.description import ALONE
from sciops.datasets.native.hdf5.guard import open_survivable

KINDS = {
    "npy": "a NumPy .npy array",
    "npz": "a NumPy .npz archive",
    "hdf5": "an HDF5 file",
    "mat5": "a MATLAB file",
    "netcdf3": "a NetCDF-3 file",
    "torch": "a torch.save file",
}


@dataclass(frozen=True)
class Held:
    """One stored array. `view(axes, pick)`: its numbers, lazily, with `axes` in this order and `pick` at one index.

    dims : the file's own names of the axes, where it has any
    listed : whether the first axis is that of a list of dictionaries, one a sample
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    view: Callable[[Sequence[int], Mapping[int, int]], Any]
    dims: tuple[str, ...] | None = None
    listed: bool = False

    def values(self) -> np.ndarray:
        from xarray.core import indexing

        return np.asarray(
            self.view(range(len(self.shape)), {})[indexing.BasicIndexer((slice(None),) * len(self.shape))]
        )

    def positions(self) -> np.ndarray:
        """`values`, real where they are complex without an imaginary part, as SciPy saves coordinates that were."""
        values = self.values()
        return values.real if values.dtype.kind == "c" and not values.imag.any() else values


def numpy_contents(probe: Probe) -> dict[str, NumpyArray]:
    """Name → array of a .npy (under one fixed name) or .npz file."""
    with readable(probe.path, KINDS[probe.kind]):
        return {ALONE: npy_array(probe.path)} if probe.kind == "npy" else npz_arrays(probe.path)


def held(probe: Probe) -> dict[str, Held]:
    """Name → array of a file of `KINDS`, its axes in the order in which `Probe.describe` prints them."""
    from sciops.datasets.formats.containers.hdf5_arrays import H5Array
    from sciops.datasets.formats.containers.lazy_arrays import Mat5Array, TorchFileArray, netcdf3_array, numpy_array
    from sciops.datasets.formats.containers.mat5 import mat5_arrays
    from sciops.datasets.formats.containers.netcdf3 import read_header

    if probe.kind == "hdf5":
        dims = _hdf5_dims(probe)
        return {
            name: Held(
                entry.shape,
                np.dtype(entry.dtype),
                lambda axes, pick, name=name: H5Array(probe.path, name, tuple(axes), pick=pick),
                dims[name],
            )
            for name, entry in probe.arrays.items()
        }
    if probe.kind == "torch":
        return {
            name: Held(
                one.shape,
                one.dtype,
                lambda axes, pick, name=name: TorchFileArray(probe, name, axes=axes, pick=pick),
                listed=one.records,
            )
            for name, one in probe.torch_arrays[0].items()
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
                one.dims,
            )
            for name, one in variables.items()
        }
    return {
        name: Held(one.shape, one.dtype, lambda axes, pick, one=one: numpy_array(probe.path, one, axes=axes, pick=pick))
        for name, one in numpy_contents(probe).items()
    }


def _hdf5_dims(probe: Probe) -> dict[str, tuple[str, ...] | None]:
    """Array → the names of its axes by the dimension scales or labels of an HDF5 file; None where one has no name."""
    import h5py

    def named(item: h5py.Dataset) -> tuple[str, ...] | None:
        if item.is_scale and item.ndim == 1:
            return (str(item.name).rsplit("/", 1)[-1],)
        names = []
        for axis in item.dims:
            scale = next((str(one.name) for one in axis.values() if one.name), "")
            names.append(scale.rsplit("/", 1)[-1] or axis.label)
        return tuple(names) if names and all(names) else None

    with readable(probe.path, KINDS["hdf5"]), open_survivable(probe.path) as file:
        return {name: named(file[name]) for name in probe.arrays}
