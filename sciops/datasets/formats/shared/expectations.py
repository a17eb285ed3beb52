"""What writers ask of a data set before they write it, and how they take its fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sciops.datasets.conventions import grid_of
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

FLOATS = ("float64", "float32")
DERIVED = ("Kcoeff", "Kcoeff_x", "Kcoeff_y")  # Li et al.'s smoothed coefficient, which a gives


def expect(dataset: xr.Dataset, layout: str, equations: tuple[str, ...] = ("darcy",)) -> Grid:
    """The grid of a data set that a layout of a and u can hold; ValueError in one line for another."""
    equation = dataset.attrs.get("equation")
    if equation not in equations:
        raise ValueError(f"layout {layout!r} holds {' or '.join(equations)}; the data set is of {equation!r}")
    for name in ("a", "u"):
        if name not in dataset:
            raise ValueError(f"layout {layout!r} needs a and u; the data set holds {', '.join(map(str, dataset))}")
        if str(dataset[name].dtype) not in FLOATS:
            raise ValueError(f"layout {layout!r} holds floats; {name} is {dataset[name].dtype}: use astype('float32')")
    grid = grid_of(dataset)
    if equation == "darcy":
        if grid.ndim != 2:
            raise ValueError(f"layout {layout!r} holds 2-D fields; the data set has {words(grid)}")
        expect_zero_walls(dataset, layout)
    return grid


def expect_zero_walls(dataset: xr.Dataset, layout: str) -> None:
    """Refuses Darcy problems with other walls or a source that varies: layouts that name neither mean u = 0."""
    if "walls" in dataset.attrs:
        raise ValueError(
            f"layout {layout!r} means u = 0 on the wall; the data set has {dataset.attrs['walls']}: use layout='native'"
        )
    if "f" in dataset:
        raise ValueError(f"layout {layout!r} means a constant source; the data set has f: use layout='native'")


def expect_values(dataset: xr.Dataset, layout: str) -> None:
    """Raises ValueError for a coefficient that is an indicator of two phases."""
    if dataset.attrs.get("coefficient") != "values":
        raise ValueError(
            f"layout {layout!r} holds coefficient values; the data set has an indicator of two phases: state them "
            "first, convert(…, phases=(low, high)), --phases LOW HIGH, as with_phases does"
        )


def expect_nodes(grid: Grid, layout: str) -> None:
    """Raises ValueError for a grid of another centering than nodes."""
    if grid.centering != "node":
        raise ValueError(
            f"layout {layout!r} holds values at nodes; the data set has {words(grid)}: use 'pdebench-darcy'"
        )


def leave_out(names: Sequence[str]) -> str:
    """The remedy for variables and constants that a layout has no place for."""
    return f"leave them out with dataset.drop_vars({list(names)!r}) (--without {' '.join(names)})"


def words(grid: Grid) -> str:
    """The points of a grid and where they lie, for messages."""
    where = "" if grid.reaches_walls else f", and stops at {grid.extent} in {grid.domain}"
    return f"{'×'.join(map(str, grid.shape))} {grid.centering} points on {grid.domain}{where}"
