"""jax-cfd's NetCDF files, as NetCDF-4; the layout is said in `sciops.datasets.formats.jax_cfd`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops._whole_files import replacing
from sciops.datasets.conventions import SPACE, grid_of, parameters_of, state_of
from sciops.datasets.formats.jax_cfd import VELOCITY, place
from sciops.datasets.formats.shared.expectations import FLOATS, words
from sciops.datasets.formats.shared.hdf5_writing import (
    blocks_of,
    expect_common_parameters,
    expect_nothing_else,
    sizes,
    times_in,
)
from sciops.datasets.native.layout import set_attributes
from sciops.grids import Grid, Interval

if TYPE_CHECKING:
    import xarray as xr

LAYOUT = "jax-cfd"
_OF_GRID = ("ndim", "save_grid_size", "domain_size", "save_grid_size_x", "save_grid_size_y", "aspect_ratio")
_ELSEWHERE = ("layout", "equation", "grid", "task", "state", "parameters", "boundary", "notes", "positions")


def write(groups: list[xr.Dataset], path: Path) -> None:
    """Each component with its offset in the cell, one coordinate an axis at the cell centres."""
    import h5netcdf

    (dataset,) = groups
    grid = grid_of(dataset, "")
    names = state_of(dataset)
    if grid.ndim not in (2, 3) or not names or names[: grid.ndim] != VELOCITY[: grid.ndim]:
        raise ValueError(
            f"layout {LAYOUT!r} evolves {', '.join(VELOCITY)} in 2-D or 3-D; the data set evolves "
            f"{', '.join(names) or 'nothing'} on {words(grid)}"
        )
    dims = ("sample", "time", *SPACE[: grid.ndim])
    for name in names:
        if set(dataset[name].dims) != set(dims) or str(dataset[name].dtype) not in FLOATS:
            raise ValueError(f"layout {LAYOUT!r} holds floats over {dims}; {name} is over {dataset[name].dims}")
    expect_nothing_else(dataset, LAYOUT, names)
    expect_common_parameters(dataset, LAYOUT)
    strange = sorted(set(parameters_of(dataset)) - {"viscosity"})
    if strange:
        raise ValueError(f"layout {LAYOUT!r} states the viscosity alone; it has no place for {', '.join(strange)}")
    cells, centres = _cells(grid)
    offsets = {name: _offset(dataset, name, grid, cells) for name in names}
    times = times_in(dataset, LAYOUT)
    fields = [dataset[name].transpose(*dims) for name in names]
    attrs = {k: v for k, v in dataset.attrs.items() if k not in (*_ELSEWHERE, *_OF_GRID)} | parameters_of(dataset)
    attrs |= _grid_attributes(grid.shape, cells)
    with (
        replacing(path, size=sizes(dict(zip(names, fields)))) as temporary,
        h5netcdf.File(temporary, "w") as file,
    ):
        file.dimensions = dict(zip(dims, fields[0].shape))
        coordinates: dict[str, Any] = {"sample": np.arange(fields[0].shape[0]), "time": times}
        for name, values in {**coordinates, **dict(zip(SPACE, centres))}.items():
            file.create_variable(name, (name,), data=values)
        targets = []
        for name, field in zip(names, fields):
            target = file.create_variable(name, dims, field.dtype, chunks=(1, 1, *grid.shape))
            set_attributes(target, {"offset": offsets[name]})
            targets.append(target)
        for part, blocks in blocks_of(fields):
            for target, block in zip(targets, blocks):
                target[part] = block
        set_attributes(file, attrs)


def _grid_attributes(shape: tuple[int, ...], cells: tuple[Interval, ...]) -> dict[str, Any]:
    """What jax-cfd's own `grid_from_attrs` makes the grid from; it knows cubes and (0, aspect) × (0, 1), from 0 on."""
    lengths, found = [b - a for a, b in cells], {"ndim": len(shape)}
    if any(a != 0 for a, _ in cells):
        return found
    if len(set(shape)) == 1 and max(lengths) - min(lengths) <= 1e-9 * lengths[0]:
        return found | {"save_grid_size": shape[0], "domain_size": lengths[0]}
    if len(shape) == 2 and lengths[1] == 1.0:
        sizes = {"save_grid_size_x": shape[0], "save_grid_size_y": shape[1]}
        return found | sizes | {"aspect_ratio": lengths[0]}
    return found


def _cells(grid: Grid) -> tuple[tuple[Interval, ...], list[np.ndarray]]:
    """(the interval of each axis that is split into cells, their centres)."""
    if grid.centering == "cell":
        return grid.extent, list(grid.coordinates())
    if grid.centering == "periodic":  # points are cell centres: the cells begin half a step before
        halves = [0.5 * h for h in grid.spacing]
        return tuple((a - h, b - h) for h, (a, b) in zip(halves, grid.extent)), list(grid.coordinates())
    raise ValueError(f"layout {LAYOUT!r} holds cells and their faces; the data set has {words(grid)}")


def _offset(dataset: xr.Dataset, name: str, grid: Grid, cells: tuple[Interval, ...]) -> list[float]:
    own = grid_of(dataset, name)
    firsts = [points[0] for points in own.coordinates()]
    offset = [round((x - a) / h, 6) for x, (a, _), h in zip(firsts, cells, grid.spacing)]
    fits = own.shape == grid.shape and min(offset) >= 0 and max(offset) <= 1
    if not fits or not place(grid.shape, cells, np.array(offset), grid.centering == "periodic").same_points(own):
        raise ValueError(
            f"layout {LAYOUT!r} holds values in the cells of one grid, at an offset; {name} lies at {words(own)}"
        )
    return offset
