"""How the MATLAB writers put arrays into files: v5 whole, v7.3 in blocks along the samples."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import parameters_of
from sciops.datasets.formats.shared import expectations as expect
from sciops.datasets.formats.shared.hdf5_writing import blocks_of, sizes
from sciops.datasets.formats.shared.reader import Writer
from sciops.datasets.native.layout import chunks_of
from sciops.files.whole_files import replacing

if TYPE_CHECKING:
    import xarray as xr

_MAT5_LIMIT = 2**31 - 1  # bytes per variable
_CLASSES = {"float64": "double", "float32": "single"}


@dataclass(frozen=True)
class Stored:
    """A field as MATLAB sees it: its samples along the first axis.

    field : (sample, …)
    time_last : whether its second axis goes to the end
    """

    field: xr.DataArray
    time_last: bool = False

    @property
    def order(self) -> tuple[int, ...]:
        """The field's axes as MATLAB has them."""
        axes = tuple(range(self.field.ndim))
        return (0, *axes[2:], 1) if self.time_last else axes


Contents = Callable[[Any, str], tuple[Mapping[str, Stored], Mapping[str, Any]]]


def matlab_writers(layout: str, contents: Contents) -> dict[str, Writer]:
    """The writers of a layout in MATLAB v5 and, as ``<layout>-v7.3``, in HDF5.

    contents : (data set, layout) → (fields, other variables) by their names in the file
    """

    def v5(groups: list[xr.Dataset], path: Path) -> None:
        (dataset,) = groups
        write_v5(path, *contents(dataset, layout), layout)

    def v73(groups: list[xr.Dataset], path: Path) -> None:
        (dataset,) = groups
        write_v73(path, *contents(dataset, f"{layout}-v7.3"))

    return {layout: v5, f"{layout}-v7.3": v73}


def write_v5(path: Path, fields: Mapping[str, Stored], values: Mapping[str, Any], layout: str) -> None:
    """One MATLAB v5 file; ValueError where a variable takes more than the 2 GB the format holds."""
    import scipy.io

    for name, stored in fields.items():
        if stored.field.nbytes > _MAT5_LIMIT:
            raise ValueError(
                f"{name} takes {stored.field.nbytes:.3g} bytes, MATLAB v5 holds 2 GB: use layout='{layout}-v7.3'"
            )
    content = {name: stored.field.values.transpose(stored.order) for name, stored in fields.items()}
    with replacing(path) as temporary:
        scipy.io.savemat(temporary, {**content, **values}, appendmat=False)


def write_v73(path: Path, fields: Mapping[str, Stored], values: Mapping[str, Any]) -> None:
    """HDF5 as MATLAB writes it: a block of its own of 512 bytes, every array's axes reversed, a class attribute."""
    import h5py

    with replacing(path, size=sizes({name: stored.field for name, stored in fields.items()})) as temporary:
        with h5py.File(temporary, "w", userblock_size=512) as file:
            for name, stored in fields.items():
                field, backwards = stored.field, stored.order[::-1]
                chunks = chunks_of(field.dims, field.shape, field.dtype.itemsize)
                shape, chunks = (tuple(sizes[axis] for axis in backwards) for sizes in (field.shape, chunks))
                target = file.create_dataset(name, shape, field.dtype, chunks=chunks)
                target.attrs["MATLAB_class"] = np.bytes_(_CLASSES[str(field.dtype)])
                for part, (block,) in blocks_of([field]):
                    whole = (*part, *(slice(None),) * (field.ndim - len(part)))
                    target[tuple(whole[axis] for axis in backwards)] = block.transpose(backwards)
            for name, value in values.items():
                file[name] = np.transpose(np.asarray(value))
                file[name].attrs["MATLAB_class"] = np.bytes_(_CLASSES[str(np.asarray(value).dtype)])
        stamp = datetime.datetime.now(datetime.UTC).strftime("%a %b %d %H:%M:%S %Y")
        header = f"MATLAB 7.3 MAT-file, Platform: sciops, Created on: {stamp} HDF5 schema 1.00 ."
        with open(temporary, "r+b") as file:
            file.write(header.encode("ascii").ljust(124) + b"\x00\x02IM")


def viscosity_value(dataset: xr.Dataset, layout: str) -> dict[str, np.ndarray]:
    """The variable `visc` of these files, nothing where ν is not known; other constants are refused."""
    held = ("viscosity", "drag") if parameters_of(dataset).get("drag") == 0.0 else ("viscosity",)
    parameters = expect.common_parameters(dataset, layout, held)
    return {"visc": np.array([[parameters["viscosity"]]])} if "viscosity" in parameters else {}
