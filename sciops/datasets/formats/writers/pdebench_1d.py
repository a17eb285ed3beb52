"""PDEBench's scalar files in one dimension; the layout is said in `sciops.datasets.formats.pdebench_1d`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from sciops._whole_files import replacing
from sciops.datasets.conventions import parameters_of
from sciops.datasets.formats.pdebench_1d import T, X
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

if TYPE_CHECKING:
    import xarray as xr

LAYOUT = "pdebench-1d"


def write(groups: list[xr.Dataset], path: Path) -> None:
    """`tensor` (samples, T, X), coordinates, and the attributes that name the equation."""
    import h5py

    (dataset,) = groups
    grid = expect_trajectory(dataset, LAYOUT, (1,))
    fields = state_fields(dataset, grid)
    if len(fields) != 1:
        raise ValueError(f"layout {LAYOUT!r} holds one field; the data set evolves {', '.join(fields)}")
    if grid.centering != "periodic":
        raise ValueError(f"layout {LAYOUT!r} holds periodic fields; the data set has {words(grid)}")
    expect_nothing_else(dataset, LAYOUT, tuple(fields))
    expect_common_parameters(dataset, LAYOUT)
    attrs = _attributes(dataset)
    times = times_in(dataset, LAYOUT)
    points = lossless(grid.coordinates()[0])
    cells = cells_around([points], LAYOUT)
    (field,) = fields.values()
    with replacing(path, size=sizes(fields)) as temporary, h5py.File(temporary, "w") as file:
        target = file.create_dataset("tensor", field.shape, field.dtype, chunks=(1, *field.shape[1:]))
        for part, (block,) in blocks_of([field]):
            target[part] = block
        file[X], file[T] = points, lossless(with_spare(times))
        file.attrs.update(attrs)
        state_grid(file, grid, periodic_cells(grid.shape, cells))


def _attributes(dataset: xr.Dataset) -> dict[str, float]:
    equation, have = dataset.attrs.get("equation"), parameters_of(dataset)
    needed = {
        "advection": ("velocity",),
        "burgers": ("viscosity",),
        "fisher_kpp": ("diffusivity", "rate"),
        "unknown": (),
    }
    if equation not in needed:
        raise ValueError(f"layout {LAYOUT!r} holds {', '.join(needed)}; the data set is of {equation!r}")
    if set(have) != set(needed[equation]):
        raise ValueError(
            f"layout {LAYOUT!r} states {', '.join(needed[equation]) or 'no parameter'} for {equation}; the data set "
            f"has {', '.join(have) or 'none'}"
        )
    if equation == "advection":
        return {"beta": have["velocity"]}
    if equation == "burgers":
        return {"Nu": _times_pi(have["viscosity"])}
    return {"Nu": have["diffusivity"], "rho": have["rate"]} if have else {}


def _times_pi(viscosity: float) -> float:
    """The number that divided by π gives this viscosity, to the last bit where there is one."""
    near = viscosity * math.pi
    candidates = (float(f"{near:.12g}"), near, math.nextafter(near, math.inf), math.nextafter(near, 0.0))
    return next((nu for nu in candidates if nu / math.pi == viscosity), near)
