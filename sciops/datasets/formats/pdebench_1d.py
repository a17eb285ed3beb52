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

from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import at_resolution, build_dataset
from sciops.datasets.formats.containers.sniff import Probe
from sciops.datasets.formats.shared.axes import (
    cell_extents,
    is_real,
    number,
    numbers,
    periodic_cells,
    stated_grid,
    times_of,
)
from sciops.datasets.formats.shared.reader import Reader, Resolution

if TYPE_CHECKING:
    import xarray as xr

X, T = "x-coordinate", "t-coordinate"


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


def read(probe: Probe, resolution: Resolution = None) -> xr.Dataset:
    """u = `tensor` over (sample, time, x), lazily; the equation and its parameters from the attributes."""
    from sciops.datasets.formats.containers.lazy import H5Array, lazy
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
    dataset = build_dataset(
        {"u": (("sample", "time", "x"), lazy(tensor if samples else OneSample(tensor)), about)},
        grid,
        layout="pdebench-1d",
        equation=equation,
        notes=(*placed, *timed, *known),
        times=times,
        state=("u",),
        parameters=parameters,
        boundary={"x": "periodic"},
        positions="assumed: cell centres" if placed else "stored",
    )
    if comment:
        dataset["time"].attrs["comment"] = comment
    return at_resolution(dataset, resolution)


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


READER = Reader(
    "pdebench-1d", "HDF5 with tensor ([samples,] times, n) and attributes beta, Nu, or Nu and rho", matches, read
)
