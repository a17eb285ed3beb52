"""PDEBench's compressible flow; the layout is said in `sciops.datasets.formats.pdebench_cfd`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from sciops._untrusted import parse_json
from sciops._whole_files import replacing
from sciops.datasets.conventions import parameters_of
from sciops.datasets.formats.pdebench_cfd import CONSTANTS, T, coordinates, names
from sciops.datasets.formats.shared.axes import periodic_cells
from sciops.datasets.formats.shared.expectations import words
from sciops.datasets.formats.shared.hdf5_writing import (
    blocks_of,
    cells_around,
    expect_common_parameters,
    expect_nothing_else,
    expect_trajectory,
    lossless,
    sizes,
    state_fields,
    state_grid,
    times_in,
    with_spare,
)
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

LAYOUT = "pdebench-cfd"


def write(groups: list[xr.Dataset], path: Path) -> None:
    """One array a field, coordinates, and the attributes eta, zeta and M where they are known."""
    import h5py

    (dataset,) = groups
    grid = expect_trajectory(dataset, LAYOUT, (1, 2, 3))
    fields = state_fields(dataset, grid)
    stored = names(grid.ndim)
    if set(fields) != set(stored.values()):
        raise ValueError(
            f"layout {LAYOUT!r} holds {', '.join(stored.values())} in {grid.ndim}-D; the data set evolves "
            f"{', '.join(fields)}"
        )
    if grid.centering == "node":
        raise ValueError(f"layout {LAYOUT!r} holds values of cells; the data set has {words(grid)}")
    if dataset.attrs.get("equation") != "compressible_navier_stokes":
        raise ValueError(
            f"layout {LAYOUT!r} holds compressible_navier_stokes; the data set is of {dataset.attrs.get('equation')!r}"
        )
    expect_nothing_else(dataset, LAYOUT, tuple(fields))
    expect_common_parameters(dataset, LAYOUT)
    parameters, times = parameters_of(dataset), times_in(dataset, LAYOUT)
    strange = sorted(set(parameters) - set(CONSTANTS))
    if strange:
        raise ValueError(f"layout {LAYOUT!r} states {', '.join(CONSTANTS)}; it has no place for {', '.join(strange)}")
    points = [lossless(axis) for axis in grid.coordinates()]
    cells = cells_around(points, LAYOUT)
    boundary = parse_json(dataset.attrs.get("boundary", "null"))
    with replacing(path, size=sizes(fields)) as temporary, h5py.File(temporary, "w") as file:
        chunks = (1, 1, *grid.shape)
        targets = [file.create_dataset(s, fields[n].shape, fields[n].dtype, chunks=chunks) for s, n in stored.items()]
        for part, blocks in blocks_of([fields[name] for name in stored.values()]):
            for target, block in zip(targets, blocks):
                target[part] = block
        for name, axis in zip(coordinates(grid.ndim), points):
            file[name] = axis
        file[T] = lossless(with_spare(times))
        file.attrs.update(parameters)
        if boundary:
            file.attrs["boundary"] = json.dumps(boundary)
        periodic = bool(boundary) and set(boundary.values()) == {"periodic"}
        natural = periodic_cells(grid.shape, cells) if periodic else Grid(grid.shape, tuple(cells), "cell")
        state_grid(file, grid, natural)
