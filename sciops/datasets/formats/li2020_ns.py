"""Li et al.'s Navier–Stokes files (arXiv:2010.08895), `NavierStokes_V1e-5_N1200_T20.mat` and kin.

``a`` : (samples, n, n) vorticity at time 0; ``u`` : (samples, n, n, T) vorticity afterwards; ``t`` : (1, T) its times.
MATLAB v5, or v7.3, which is HDF5 with every array's axes reversed; here they are put right: x before y, both periodic,
n points at j/n of the unit interval. `a` is not the grid, as its users keep asking, but the first state: it comes back
as time 0 of one trajectory w (sample, time, x, y), unless the file already holds it there.

    w_t + v·∇w = ν Δw + 0.1 (sin 2π(x + y) + cos 2π(x + y)),   v = (ψ_y, −ψ_x),   −Δψ = w

ν stands in the files' names alone, and a name is never looked at: it is a parameter here only where the file holds a
variable ``visc``, as the same authors' Burgers files and our writer have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import build_dataset
from sciops.datasets.formats.containers.sniff import Probe
from sciops.datasets.formats.shared import expectations as expect
from sciops.datasets.formats.shared.axes import check_size
from sciops.datasets.formats.shared.expectations import state_fields, times_in
from sciops.datasets.formats.shared.matlab_writing import Stored, matlab_writers, viscosity_value
from sciops.datasets.formats.shared.reader import Reader
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

_ABOUT = {"units": "1", "long_name": "vorticity"}


def matches(probe: Probe) -> bool:
    """Whether the file is MATLAB (v5, or v7.3 which is HDF5) with `a` (N, n, n) and `u` (N, n, n, T)."""
    return probe.kind in ("mat5", "hdf5") and probe.stored("a", "u") and _backwards(probe) is not None


def read(probe: Probe) -> xr.Dataset:
    """w over (sample, time, x, y), lazily: `a`, then `u`."""
    from sciops.datasets.formats.containers.lazy_arrays import PrecededArray, matlab_array

    backwards = _backwards(probe)
    check_size(probe, probe.arrays["u"].shape)
    first = matlab_array(probe, "a", (2, 1, 0) if backwards else None)
    later = matlab_array(probe, "u", (3, 0, 2, 1) if backwards else (0, 3, 1, 2))
    times, notes = _times(probe, later.shape[1])
    # a second time 0 would be the first state again
    whole = later if _holds_first(first, later, times) else PrecededArray(first, later, axis=1)
    if times is not None and whole is not later:
        times = np.concatenate([[0.0], times])
    viscosity, unstated = viscosity_of(probe)
    return build_dataset(
        {"w": (("sample", "time", "x", "y"), whole, {**_ABOUT, "stored_as": "u" if whole is later else "a, u"})},
        Grid(later.shape[2:], (0.0, 1.0), "periodic"),
        layout="li2020-ns",
        equation="navier_stokes",
        notes=(*notes, *unstated),
        times=times,
        state=("w",),
        parameters=viscosity,
        boundary={"x": "periodic", "y": "periodic"},
        positions="known",
    )


def viscosity_of(probe: Probe) -> tuple[dict[str, float], tuple[str, ...]]:
    """(parameters, notes): the variable `visc` of these authors' files, or a note that there is none."""
    from sciops.datasets.formats.containers.lazy_arrays import matlab_values

    if probe.stored("visc") and int(np.prod(probe.arrays["visc"].shape)) == 1:
        value = float(matlab_values(probe, "visc")[0])
        if np.isfinite(value):
            return {"viscosity": value}, ()
    return {}, ("the viscosity is not in the file, only, where at all, in its name: it is left out of the parameters",)


def _backwards(probe: Probe) -> bool | None:
    """Whether the axes are stored in MATLAB's order; None where the shapes fit neither order."""
    a, u = probe.arrays["a"].shape, probe.arrays["u"].shape
    if len(a) != 3 or len(u) != 4 or min(a + u) < 1:
        return None
    orders = {False: u[:3] == a, True: probe.kind == "hdf5" and u[1:] == a}
    preferred = probe.kind == "hdf5" and probe.matlab
    for order in (preferred, not preferred):
        space = a[:-1] if order else a[1:]
        if orders[order] and min(space) >= 2:
            return order
    return None


def _times(probe: Probe, steps: int) -> tuple[np.ndarray | None, tuple[str, ...]]:
    from sciops.datasets.formats.containers.lazy_arrays import matlab_values

    if not probe.stored("t"):
        return None, ("t is missing: times are not known, only their order",)
    if int(np.prod(probe.arrays["t"].shape)) != steps:
        return None, (f"t has shape {probe.arrays['t'].shape} for {steps} states: times are not known",)
    times = matlab_values(probe, "t")
    if not np.isfinite(times).all() or (np.diff(times) <= 0).any():
        return None, ("t is not finite and increasing: times are not known",)
    return times, ()


def _holds_first(first: Any, later: Any, times: np.ndarray | None) -> bool:
    """Whether u begins with a: by its times, or where these are not known by the first sample's numbers."""
    from xarray.core import indexing

    if times is not None:
        return bool(times[0] <= 0)
    whole = (slice(None), slice(None))
    one = np.asarray(first[indexing.BasicIndexer((0, *whole))])
    return bool(np.array_equal(one, later[indexing.BasicIndexer((0, 0, *whole))]))


def _contents(dataset: xr.Dataset, layout: str) -> tuple[dict[str, Stored], dict[str, Any]]:
    """Fields and times; ν, where it is known, as ``visc``."""
    grid = expect.trajectory(dataset, layout, (2,), state=("w",), equations=("navier_stokes",))
    forcing = dataset.attrs.get("forcing", "li2020")
    if forcing != "li2020":
        raise ValueError(f"layout {layout!r} means the forcing of its authors, li2020; the data set has {forcing!r}")
    expect.unit_period(grid, layout)
    expect.nothing_else(dataset, layout, ("w",))
    w = state_fields(dataset, grid)["w"]
    if w.shape[1] < 2:
        raise ValueError(f"layout {layout!r} holds time 0 and later ones; the data set has {w.shape[1]} time")
    values: dict[str, Any] = viscosity_value(dataset, layout)
    if "time" in dataset.coords or "times" in dataset:
        times = times_in(dataset, layout)
        if times[0] != 0:
            raise ValueError(
                f"layout {layout!r} begins at time 0; the data set begins at {times[0]:g}: shift its times"
            )
        values["t"] = times[None, 1:]
    fields = {"a": Stored(w[:, 0]), "u": Stored(w[:, 1:], time_last=True)}
    return fields, values


READER = Reader(
    "li2020-ns", "a MATLAB file (v5 or v7.3) with a (samples, n, n) and u (samples, n, n, times)", matches, read
)
WRITERS = matlab_writers("li2020-ns", _contents)
