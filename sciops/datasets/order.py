"""The input check of a data set: dimensions of every variable in one order, by name, and fields of real numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sciops.arrays.dimensions import SPACE, ordered
from sciops.arrays.kinds import refuse_complex
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr


def in_order(dataset: xr.Dataset) -> xr.Dataset:
    """The data set with the dimensions of every variable as (sample, time, any others, x, y, z).

    Numbers that are read when asked for still are. A data set that is in order comes back as it is; otherwise its copy
    closes the same file.
    """
    import xarray as xr

    from sciops.datasets.lazy import TransposedArray, lazy

    moved = {}
    for name, variable in dataset.variables.items():
        dims = ordered(variable.dims)
        if dims != variable.dims:
            moved[name] = xr.Variable(dims, lazy(TransposedArray(variable, dims)), variable.attrs)
    if not moved:
        return dataset
    result = dataset.assign(moved)
    result.set_close(dataset.close)
    return result


def check_field(field: xr.DataArray, grid: Grid) -> None:
    """Raises ValueError unless the grid's axes are dimensions of the field, by name and size, and its numbers real."""
    refuse_complex(field, str(field.name))
    axes = [dim for dim in SPACE if dim in field.dims]
    if tuple(field.sizes[axis] for axis in axes) == grid.shape and list(field.dims[-len(axes) :]) == axes:
        return
    has = ", ".join(f"{dim} {size}" for dim, size in field.sizes.items())
    raise ValueError(
        f"field {field.name!r} has the dimensions ({has}); expected sample, then any others, then "
        f"{', '.join(SPACE[: grid.ndim])} of the grid {grid.shape}: name them so, dataset.rename({{'lat': 'x', …}})"
    )
