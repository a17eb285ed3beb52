"""What writers ask of a data set before they write it, and how they take its fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sciops.datasets.conventions import grid_of
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

BLOCK = 64 * 1024**2
FLOATS = ("float64", "float32")


def expect(dataset: xr.Dataset, layout: str, equations: tuple[str, ...] = ("darcy",)) -> Grid:
    equation = dataset.attrs.get("equation")
    if equation not in equations:
        raise ValueError(f"layout {layout!r} holds {' or '.join(equations)}; the data set is of {equation!r}")
    for name in ("a", "u"):
        if name not in dataset:
            raise ValueError(f"layout {layout!r} needs a and u; the data set holds {', '.join(map(str, dataset))}")
        if str(dataset[name].dtype) not in FLOATS:
            raise ValueError(f"layout {layout!r} holds floats; {name} is {dataset[name].dtype}: use astype('float32')")
    grid = grid_of(dataset)
    if equation == "darcy" and grid.ndim != 2:
        raise ValueError(f"layout {layout!r} holds 2-D fields; the data set has {words(grid)}")
    return grid


def expect_values(dataset: xr.Dataset, layout: str) -> None:
    if dataset.attrs.get("coefficient") != "values":
        raise ValueError(
            f"layout {layout!r} holds coefficient values; the data set has an indicator of two phases: state them "
            "first, convert(with_phases(open_dataset(path), low, high), …)"
        )


def expect_nodes(grid: Grid, layout: str) -> None:
    if grid.centering != "node":
        raise ValueError(
            f"layout {layout!r} holds values at nodes; the data set has {words(grid)}: use 'pdebench-darcy'"
        )


def words(grid: Grid) -> str:
    where = "" if grid.reaches_walls else f", and stops at {grid.extent} in {grid.domain}"
    return f"{'×'.join(map(str, grid.shape))} {grid.centering} points on {grid.domain}{where}"


def whole(field: xr.DataArray) -> np.ndarray:
    return np.asarray(field.values)


def blocks(field: xr.DataArray) -> Iterator[tuple[slice, np.ndarray]]:
    """The field in pieces along its samples, so that a file larger than memory passes through."""
    step = max(1, BLOCK // max(1, field.nbytes // max(1, field.shape[0])))
    for start in range(0, field.shape[0], step):
        part = slice(start, min(start + step, field.shape[0]))
        yield part, np.asarray(field[part].values)
