"""From any known layout to another; what a layout cannot hold is refused, never bent to fit."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets._native_files import replacing
from sciops.datasets._native_layout import samples_of
from sciops.datasets.conventions import grid_of, split_indices
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["WRITERS", "convert"]

_BLOCK = 64 * 1024**2
_MAT5_LIMIT = 2**31 - 1  # bytes per variable
_MATLAB_CLASS = {"float64": "double", "float32": "single"}


def convert(
    source: str | os.PathLike | xr.Dataset,
    destination: str | os.PathLike,
    layout: str,
    *,
    resolution: int | tuple[int, ...] | None = None,
    split: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Writes the fields of `source` in another layout and returns the path.

    source : a file of any known layout, or an opened data set
    layout : "native"; "neuralop", torch.save of {"x", "y"}; "li2020", MATLAB v5; "li2020-v7.3", the same as HDF5;
        "pdebench-darcy"
    resolution : the grid to take; None takes the finest, or for native to native all of them
    split : "train", "validation" or "test": these samples alone, for layouts that keep one file a split

    Numbers and dtypes are kept bit for bit. "neuralop" keeps an indicator as bool, and adds a string ``sciops_grid``
    when its own rule for positions would not give the grid back (neuraloperator does not look at it). All layouts but
    native hold ``a`` and ``u`` alone: seeds, residuals and stored splits stay behind.

    The file appears under its name only when whole. Raises ValueError for what the layout cannot hold (cells in a
    layout of nodes, an indicator where values are meant, walls off the grid, a source other than 1), FileExistsError
    unless `overwrite`, and what `open_dataset` raises.
    """
    import xarray as xr

    from sciops.datasets.readers import open_dataset

    destination = Path(destination)
    if layout not in WRITERS:
        raise ValueError(f"layout={layout!r}: expected one of {', '.join(WRITERS)}")
    if destination.is_dir():
        raise IsADirectoryError(f"{destination} is a folder: name the file to write in it")
    if destination.exists() and not overwrite:
        raise FileExistsError(f"{destination} is there already: remove it, or pass overwrite=True (--overwrite)")
    if isinstance(source, xr.Dataset):
        groups = [source]
    else:
        groups = _all_grids(Path(source)) if layout == "native" and resolution is None else [None]
        groups = [open_dataset(source, resolution if shape is None else shape) for shape in groups]
    try:
        chosen = groups if split is None else [_part(group, split) for group in groups]
        with samples_of(None if isinstance(source, xr.Dataset) else source):
            WRITERS[layout](chosen, destination)
    finally:
        if not isinstance(source, xr.Dataset):
            for group in groups:
                group.close()
    return destination


def _part(dataset: xr.Dataset, split: str) -> xr.Dataset:
    part = dataset.isel(sample=split_indices(dataset, split)).copy()
    part.attrs = {key: value for key, value in dataset.attrs.items() if key != "splits"}
    return part


def _all_grids(path: Path) -> list[Any]:
    from sciops.datasets.native import resolutions
    from sciops.datasets.readers import find_reader

    reader = find_reader(path)
    return list(resolutions(path)) if reader is not None and reader.name == "native" else [None]


def _write_native(groups: list[xr.Dataset], path: Path) -> None:
    from sciops.datasets.native import write_native

    write_native(path, groups)


def _write_neuralop(groups: list[xr.Dataset], path: Path) -> None:
    import torch

    from sciops.datasets.readers.neuralop import GRID_KEY, node_grid

    (dataset,) = groups
    grid = _expect(dataset, "neuralop", equations=("darcy", "burgers"))
    a, u = (_whole(dataset[name]) for name in ("a", "u"))
    content: dict[str, Any] = {"x": a, "y": u}
    if dataset.attrs["equation"] == "burgers":
        if grid != Grid(grid.shape, (0.0, 1.0), "periodic"):
            raise ValueError(f"layout 'neuralop' holds Burgers on one unit period; the data set has {grid}")
        if "viscosity" in dataset.attrs:
            content["visc"] = np.full((1, 1), float(dataset.attrs["viscosity"]))
    else:
        _expect_nodes(grid, "neuralop")
        if dataset.attrs.get("coefficient") == "indicator":
            content["x"] = a > 0.5
        if float(dataset.attrs.get("forcing", 1.0)) != 1.0:
            raise ValueError(f"layout 'neuralop' means a source of 1; the data set has {dataset.attrs['forcing']}")
    tensors: dict[str, Any] = {name: torch.from_numpy(np.ascontiguousarray(v)) for name, v in content.items()}
    if dataset.attrs["equation"] == "darcy" and not node_grid(grid.shape, u)[0].same_points(grid):
        tensors[GRID_KEY] = json.dumps(grid.to_dict())
    with replacing(path) as temporary:
        torch.save(tensors, temporary)


def _write_li2020(groups: list[xr.Dataset], path: Path) -> None:
    import scipy.io

    (dataset,) = groups
    fields = _li_fields(dataset, "li2020")
    for stored, field in fields.items():
        if field.nbytes > _MAT5_LIMIT:
            raise ValueError(f"{stored} takes {field.nbytes:.3g} bytes, MATLAB v5 holds 2 GB: use layout='li2020-v7.3'")
    with replacing(path) as temporary:
        scipy.io.savemat(temporary, {stored: _whole(field) for stored, field in fields.items()}, appendmat=False)


def _write_li2020_hdf5(groups: list[xr.Dataset], path: Path) -> None:
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
                for part, block in _blocks(field):
                    target[..., part] = block.transpose()
        stamp = datetime.datetime.now(datetime.UTC).strftime("%a %b %d %H:%M:%S %Y")
        header = f"MATLAB 7.3 MAT-file, Platform: sciops, Created on: {stamp} HDF5 schema 1.00 ."
        with open(temporary, "r+b") as file:
            file.write(header.encode("ascii").ljust(124) + b"\x00\x02IM")


def _write_pdebench(groups: list[xr.Dataset], path: Path) -> None:
    import h5py

    (dataset,) = groups
    grid = _expect(dataset, "pdebench-darcy")
    _expect_values(dataset, "pdebench-darcy")
    if grid.centering != "cell" or grid != Grid(grid.shape, None, "cell"):
        raise ValueError(
            f"layout 'pdebench-darcy' holds cell centres of the unit box; the data set has {_words(grid)}: resampling "
            "a coefficient would change the equation, so generate on Grid(shape, centering='cell')"
        )
    with replacing(path) as temporary, h5py.File(temporary, "w") as file:
        for stored, name, between in (("nu", "a", ()), ("tensor", "u", (1,))):
            field = dataset[name].transpose("sample", "x", "y")
            shape = (field.shape[0], *between, *field.shape[1:])
            target = file.create_dataset(stored, shape, field.dtype, chunks=(1, *shape[1:]))
            for part, block in _blocks(field):
                target[part] = block.reshape(len(block), *shape[1:])
        for name, points in zip(("x-coordinate", "y-coordinate"), grid.coordinates()):
            file[name] = points.astype(np.float32)
        file.attrs["beta"] = float(dataset.attrs.get("forcing", 1.0))


WRITERS: dict[str, Callable[[list[Any], Path], None]] = {
    "native": _write_native,
    "neuralop": _write_neuralop,
    "li2020": _write_li2020,
    "li2020-v7.3": _write_li2020_hdf5,
    "pdebench-darcy": _write_pdebench,
}


def _li_fields(dataset: xr.Dataset, layout: str) -> dict[str, xr.DataArray]:
    grid = _expect(dataset, layout)
    _expect_values(dataset, layout)
    _expect_nodes(grid, layout)
    if grid != Grid(grid.shape):
        raise ValueError(
            f"layout {layout!r} holds nodes of the unit box, walls on the grid; the data set has {_words(grid)}"
        )
    if float(dataset.attrs.get("forcing", 1.0)) != 1.0:
        raise ValueError(f"layout {layout!r} means a source of 1; the data set has {dataset.attrs['forcing']}")
    names = {"coeff": "a", "sol": "u"} | {n: n for n in ("Kcoeff", "Kcoeff_x", "Kcoeff_y") if n in dataset}
    return {stored: dataset[name].transpose("sample", "x", "y") for stored, name in names.items()}


def _expect(dataset: xr.Dataset, layout: str, equations: tuple[str, ...] = ("darcy",)) -> Grid:
    equation = dataset.attrs.get("equation")
    if equation not in equations:
        raise ValueError(f"layout {layout!r} holds {' or '.join(equations)}; the data set is of {equation!r}")
    for name in ("a", "u"):
        if name not in dataset:
            raise ValueError(f"layout {layout!r} needs a and u; the data set holds {', '.join(map(str, dataset))}")
        if str(dataset[name].dtype) not in _MATLAB_CLASS:
            raise ValueError(f"layout {layout!r} holds floats; {name} is {dataset[name].dtype}: use astype('float32')")
    grid = grid_of(dataset)
    if equation == "darcy" and grid.ndim != 2:
        raise ValueError(f"layout {layout!r} holds 2-D fields; the data set has {_words(grid)}")
    return grid


def _expect_values(dataset: xr.Dataset, layout: str) -> None:
    if dataset.attrs.get("coefficient") != "values":
        raise ValueError(
            f"layout {layout!r} holds coefficient values; the data set has an indicator of two phases: state them "
            "first, convert(with_phases(open_dataset(path), low, high), …)"
        )


def _expect_nodes(grid: Grid, layout: str) -> None:
    if grid.centering != "node":
        raise ValueError(
            f"layout {layout!r} holds values at nodes; the data set has {_words(grid)}: use 'pdebench-darcy'"
        )


def _words(grid: Grid) -> str:
    where = "" if grid.reaches_walls else f", and stops at {grid.extent} in {grid.domain}"
    return f"{'×'.join(map(str, grid.shape))} {grid.centering} points on {grid.domain}{where}"


def _whole(field: xr.DataArray) -> np.ndarray:
    return np.asarray(field.values)


def _blocks(field: xr.DataArray) -> Iterator[tuple[slice, np.ndarray]]:
    """The field in pieces along its samples, so that a file larger than memory passes through."""
    step = max(1, _BLOCK // max(1, field.nbytes // max(1, field.shape[0])))
    for start in range(0, field.shape[0], step):
        part = slice(start, min(start + step, field.shape[0]))
        yield part, np.asarray(field[part].values)
