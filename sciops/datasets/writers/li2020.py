"""Li et al.'s Darcy files, MATLAB v5 and v7.3; the layout is said in `sciops.datasets.readers.li2020`."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sciops.datasets._native_files import replacing
from sciops.datasets.writers._expect import blocks, expect, expect_nodes, expect_values, whole, words
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

_MAT5_LIMIT = 2**31 - 1  # bytes per variable
_MATLAB_CLASS = {"float64": "double", "float32": "single"}


def write(groups: list[xr.Dataset], path: Path) -> None:
    import scipy.io

    (dataset,) = groups
    fields = _li_fields(dataset, "li2020")
    for stored, field in fields.items():
        if field.nbytes > _MAT5_LIMIT:
            raise ValueError(f"{stored} takes {field.nbytes:.3g} bytes, MATLAB v5 holds 2 GB: use layout='li2020-v7.3'")
    with replacing(path) as temporary:
        scipy.io.savemat(temporary, {stored: whole(field) for stored, field in fields.items()}, appendmat=False)


def write_hdf5(groups: list[xr.Dataset], path: Path) -> None:
    import h5py

    (dataset,) = groups
    fields = _li_fields(dataset, "li2020-v7.3")
    with replacing(path) as temporary:
        # MATLAB's own block of 512 bytes comes before the HDF5 signature
        with h5py.File(temporary, "w", userblock_size=512) as file:
            for stored, field in fields.items():
                shape = field.shape
                target = file.create_dataset(stored, shape[::-1], field.dtype, chunks=(*shape[:0:-1], 1))
                target.attrs["MATLAB_class"] = np.bytes_(_MATLAB_CLASS[str(field.dtype)])
                for part, block in blocks(field):
                    target[..., part] = block.transpose()
        stamp = datetime.datetime.now(datetime.UTC).strftime("%a %b %d %H:%M:%S %Y")
        header = f"MATLAB 7.3 MAT-file, Platform: sciops, Created on: {stamp} HDF5 schema 1.00 ."
        with open(temporary, "r+b") as file:
            file.write(header.encode("ascii").ljust(124) + b"\x00\x02IM")


def _li_fields(dataset: xr.Dataset, layout: str) -> dict[str, xr.DataArray]:
    grid = expect(dataset, layout)
    expect_values(dataset, layout)
    expect_nodes(grid, layout)
    if grid != Grid(grid.shape):
        raise ValueError(
            f"layout {layout!r} holds nodes of the unit box, walls on the grid; the data set has {words(grid)}"
        )
    if float(dataset.attrs.get("forcing", 1.0)) != 1.0:
        raise ValueError(f"layout {layout!r} means a source of 1; the data set has {dataset.attrs['forcing']}")
    names = {"coeff": "a", "sol": "u"} | {n: n for n in ("Kcoeff", "Kcoeff_x", "Kcoeff_y") if n in dataset}
    return {stored: dataset[name].transpose("sample", "x", "y") for stored, name in names.items()}
