"""From any known layout to another; what a layout cannot hold is refused, never bent to fit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciops.datasets._native_layout import samples_of
from sciops.datasets.conventions import split_indices
from sciops.datasets.writers import WRITERS

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["WRITERS", "convert"]


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
    layout : a name in ``WRITERS``: "native" (HDF5, or Zarr v3 where the destination ends in .zarr), "neuralop",
        "li2020" and "li2020-v7.3", "pdebench-1d", "the-well", "cno", "arrays", … `sciops convert --help` lists all
    resolution : the grid to take; None takes the finest, or for native to native all of them
    split : "train", "validation" or "test": these samples alone, for layouts that keep one file a split

    Numbers and dtypes are kept bit for bit; what a layout has no place for is refused, or, where its own readers would
    not look at it, added under a name of ours (``sciops_grid``). "neuralop" keeps an indicator as bool. Layouts other
    than native hold fields, positions, times and constants: seeds, residuals and stored splits stay behind.

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
