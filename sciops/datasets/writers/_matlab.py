"""How the MATLAB writers put arrays into files: v5 whole, v7.3 in blocks along the samples."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets._native_files import replacing
from sciops.datasets.conventions import parameters_of
from sciops.datasets.writers._expect import blocks

if TYPE_CHECKING:
    import xarray as xr

_MAT5_LIMIT = 2**31 - 1  # bytes per variable
_CLASSES = {"float64": "double", "float32": "single"}


@dataclass(frozen=True)
class Stored:
    """A field as MATLAB sees it: its samples along the first axis, `arrange` puts the others in the file's order.

    field : (sample, …)
    arrange : of a block of it, keeping the first axis
    """

    field: xr.DataArray
    arrange: Callable[[np.ndarray], np.ndarray] = np.asarray

    @property
    def shape(self) -> tuple[int, ...]:
        """As MATLAB has it, found on an array without numbers."""
        return self.arrange(np.empty((0, *self.field.shape[1:]), self.field.dtype)).shape[1:]


def write_v5(path: Path, fields: Mapping[str, Stored], values: Mapping[str, Any], layout: str) -> None:
    """One MATLAB v5 file; ValueError where a variable takes more than the 2 GB the format holds."""
    import scipy.io

    for name, stored in fields.items():
        if stored.field.nbytes > _MAT5_LIMIT:
            raise ValueError(
                f"{name} takes {stored.field.nbytes:.3g} bytes, MATLAB v5 holds 2 GB: use layout='{layout}-v7.3'"
            )
    content = {name: stored.arrange(np.asarray(stored.field.values)) for name, stored in fields.items()}
    with replacing(path) as temporary:
        scipy.io.savemat(temporary, {**content, **values}, appendmat=False)


def write_v73(path: Path, fields: Mapping[str, Stored], values: Mapping[str, Any]) -> None:
    """HDF5 as MATLAB writes it: a block of its own of 512 bytes, every array's axes reversed, a class attribute."""
    import h5py

    with replacing(path) as temporary:
        with h5py.File(temporary, "w", userblock_size=512) as file:
            for name, stored in fields.items():
                shape = (*stored.shape[::-1], stored.field.shape[0])
                target = file.create_dataset(name, shape, stored.field.dtype, chunks=(*shape[:-1], 1))
                target.attrs["MATLAB_class"] = np.bytes_(_CLASSES[str(stored.field.dtype)])
                for part, block in _arranged(stored):
                    target[..., part] = block.transpose()
            for name, value in values.items():
                file[name] = np.transpose(np.asarray(value))
                file[name].attrs["MATLAB_class"] = np.bytes_(_CLASSES[str(np.asarray(value).dtype)])
        stamp = datetime.datetime.now(datetime.UTC).strftime("%a %b %d %H:%M:%S %Y")
        header = f"MATLAB 7.3 MAT-file, Platform: sciops, Created on: {stamp} HDF5 schema 1.00 ."
        with open(temporary, "r+b") as file:
            file.write(header.encode("ascii").ljust(124) + b"\x00\x02IM")


def viscosity_value(dataset: xr.Dataset, layout: str) -> dict[str, np.ndarray]:
    """The variable `visc` of these files, nothing where ν is not known; other constants are refused."""
    parameters = parameters_of(dataset)
    strange = sorted(set(parameters) - {"viscosity"})
    if strange:
        raise ValueError(f"layout {layout!r} states the viscosity alone; it has no place for {', '.join(strange)}")
    return {"visc": np.array([[parameters["viscosity"]]])} if parameters else {}


def _arranged(stored: Stored) -> Iterator[tuple[slice, np.ndarray]]:
    for part, block in blocks(stored.field):
        yield part, stored.arrange(block)
