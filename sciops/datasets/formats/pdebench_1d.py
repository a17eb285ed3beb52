"""PDEBench's scalar files in one dimension (arXiv:2210.07182): advection, Burgers, reaction–diffusion.

``tensor`` : (samples, T, X) single, or (T, X) in test files of one trajectory; ``x-coordinate`` : (X,) cell centres;
``t-coordinate`` : (T + 1,), of which the last belongs to no state and is left out. The attributes decide the equation,
never the file's name or its rank:

* ``beta``       advection         u_t + β u_x = 0                 parameters {"velocity": β}
* ``Nu``         burgers           u_t + u u_x = (Nu/π) u_xx       parameters {"viscosity": Nu/π}
* ``Nu, rho``    fisher_kpp        u_t = Nu u_xx + ρ u (1 − u)     parameters {"diffusivity": Nu, "rate": ρ}

The π is in PDEBench's solver, not in its files: their ``Nu`` is a viscosity times π. Without these attributes the
equation is "unknown".

All three are periodic, with the initial values taken at the cell centres. Such points are a periodic grid that begins
half a cell after the wall that is none: positions stay true, and so does the period, so that a spectral method fits
and a coarser grid is a stride, as PDEBench itself takes it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import build_dataset, parameters_of
from sciops.datasets.formats.containers.sniff import Probe
from sciops.datasets.formats.shared import expectations as expect
from sciops.datasets.formats.shared.axes import (
    cell_extents,
    is_real,
    number,
    numbers,
    periodic_cells,
    stated_grid,
    times_of,
)
from sciops.datasets.formats.shared.expectations import state_fields, times_in, words
from sciops.datasets.formats.shared.hdf5_writing import (
    cells_around,
    lossless,
    sizes,
    state_grid,
    with_spare,
    write_blocks,
)
from sciops.datasets.formats.shared.reader import Reader
from sciops.files.whole_files import replacing

if TYPE_CHECKING:
    import xarray as xr

X, T = "x-coordinate", "t-coordinate"
LAYOUT = "pdebench-1d"


def matches(probe: Probe) -> bool:
    """Whether the file is HDF5 with a `tensor` of three axes, or of two that its coordinates name, and no `nu`."""
    if probe.kind != "hdf5" or "tensor" not in probe.arrays or "nu" in probe.arrays:
        return False
    shape = probe.arrays["tensor"].shape
    if len(shape) == 2:
        named = [probe.arrays[name].shape if name in probe.arrays else () for name in (T, X)]
        known = named[0] in (shape[:1], (shape[0] + 1,)) and named[1] == shape[1:]
    else:
        known = len(shape) == 3
    return known and min(shape) >= 1 and shape[-1] >= 2 and is_real(probe.arrays["tensor"].dtype, "f")


def read(probe: Probe) -> xr.Dataset:
    """u = `tensor` over (sample, time, x), lazily; the equation and its parameters from the attributes."""
    from sciops.datasets.formats.containers.hdf5_arrays import H5Array
    from sciops.datasets.formats.containers.lazy_arrays import OneSample

    *samples, steps, n = probe.arrays["tensor"].shape
    tensor = H5Array(probe.path, "tensor")

    def rule() -> tuple[Any, tuple[str, ...]]:
        extents, seen = cell_extents(probe, (X,), (n,))
        return periodic_cells((n,), extents), seen

    grid, placed = stated_grid(probe, (X,), rule)
    times, comment, timed = times_of(numbers(probe, T), steps, T)
    equation, parameters, known = equation_of(probe.attrs)
    about = {"units": "1", "long_name": "solution", "stored_as": "tensor"}
    return build_dataset(
        {"u": (("sample", "time", "x"), tensor if samples else OneSample(tensor), about)},
        grid,
        layout="pdebench-1d",
        equation=equation,
        notes=(*placed, *timed, *known),
        times=times,
        time_comment=comment,
        state=("u",),
        parameters=parameters,
        boundary={"x": "periodic"},
        positions="assumed: cell centres" if placed else "stored",
    )


def equation_of(attrs: dict[str, Any]) -> tuple[str, dict[str, float], tuple[str, ...]]:
    """(equation, parameters, notes) by the attributes."""
    beta, nu, rho = (number(attrs.get(name)) for name in ("beta", "Nu", "rho"))
    stated = tuple(value is not None for value in (beta, nu, rho))
    if stated == (True, False, False):
        return "advection", {"velocity": beta}, ()
    if stated == (False, True, False):
        return "burgers", {"viscosity": nu / np.pi}, ()
    if stated == (False, True, True):
        return "fisher_kpp", {"diffusivity": nu, "rate": rho}, ()
    have = ", ".join(name for name, one in zip(("beta", "Nu", "rho"), stated) if one) or "none of them"
    note = f"the equation is not known: beta, Nu, or Nu and rho would say it; the attributes hold {have}"
    return "unknown", {}, (note,)


def write(groups: list[xr.Dataset], path: Path) -> None:
    """`tensor` (samples, T, X), coordinates, and the attributes that name the equation."""
    import h5py

    (dataset,) = groups
    grid = expect.trajectory(dataset, LAYOUT, (1,))
    fields = state_fields(dataset, grid)
    if len(fields) != 1:
        raise ValueError(f"layout {LAYOUT!r} holds one field; the data set evolves {', '.join(fields)}")
    if grid.centering != "periodic":
        raise ValueError(f"layout {LAYOUT!r} holds periodic fields; the data set has {words(grid)}")
    expect.nothing_else(dataset, LAYOUT, tuple(fields))
    expect.common_parameters(dataset, LAYOUT)
    attrs = _attributes(dataset)
    times = times_in(dataset, LAYOUT)
    points = lossless(grid.coordinates()[0])
    cells = cells_around([points], LAYOUT)
    (field,) = fields.values()
    with replacing(path, size=sizes(fields)) as temporary, h5py.File(temporary, "w") as file:
        target = file.create_dataset("tensor", field.shape, field.dtype, chunks=(1, *field.shape[1:]))
        write_blocks([target], [field])
        file[X], file[T] = points, lossless(with_spare(times))
        file.attrs.update(attrs)
        state_grid(file, grid, periodic_cells(grid.shape, cells))


def _attributes(dataset: xr.Dataset) -> dict[str, float]:
    have = parameters_of(dataset)
    needed = {
        "advection": ("velocity",),
        "burgers": ("viscosity",),
        "fisher_kpp": ("diffusivity", "rate"),
        "unknown": (),
    }
    equation = expect.equation(dataset, LAYOUT, tuple(needed))
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


READER = Reader(
    "pdebench-1d", "HDF5 with tensor ([samples,] times, n) and attributes beta, Nu, or Nu and rho", matches, read
)
WRITERS = {"pdebench-1d": write}
