"""Li et al.'s Darcy files, MATLAB v5 and v7.3; the layout is said in `sciops.datasets.formats.li2020`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sciops.datasets.formats.shared.expectations import DERIVED, expect, expect_nodes, expect_values, words
from sciops.datasets.formats.shared.hdf5_writing import expect_nothing_else
from sciops.datasets.formats.shared.matlab_writing import Stored, write_v5, write_v73
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr


def write(groups: list[xr.Dataset], path: Path) -> None:
    """MATLAB v5."""
    (dataset,) = groups
    write_v5(path, _li_fields(dataset, "li2020"), {}, "li2020")


def write_hdf5(groups: list[xr.Dataset], path: Path) -> None:
    """MATLAB v7.3."""
    (dataset,) = groups
    write_v73(path, _li_fields(dataset, "li2020-v7.3"), {})


def _li_fields(dataset: xr.Dataset, layout: str) -> dict[str, Stored]:
    grid = expect(dataset, layout)
    expect_values(dataset, layout)
    expect_nodes(grid, layout)
    if grid != Grid(grid.shape):
        raise ValueError(
            f"layout {layout!r} holds nodes of the unit box, walls on the grid; the data set has {words(grid)}"
        )
    if float(dataset.attrs.get("forcing", 1.0)) != 1.0:
        raise ValueError(f"layout {layout!r} means a source of 1; the data set has {dataset.attrs['forcing']}")
    expect_nothing_else(dataset, layout, ("a", "u", *DERIVED))
    names = {"coeff": "a", "sol": "u"} | {n: n for n in DERIVED if n in dataset}
    return {stored: Stored(dataset[name].transpose("sample", "x", "y")) for stored, name in names.items()}
