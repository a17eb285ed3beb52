"""PDEBench's Darcy files (arXiv:2210.07182), `2D_DarcyFlow_beta1.0_Train.hdf5`.

``tensor`` : (samples, 1, n, n) the solution; ``nu`` : (samples, n, n) the coefficient, 0.1 or 1; ``x-coordinate``,
``y-coordinate`` : (n,) cell centres; attribute ``beta`` : the constant source. −∇·(a∇u) = β on the unit square, u = 0
on its wall, values at the centres of n × n cells, no wall point on the grid. The solution is the late state of a
time-dependent solve. No splits are stored, and its own two loaders take them from opposite ends of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sciops.datasets.conventions import at_resolution, build_dataset
from sciops.datasets.readers._reader import Reader, Resolution
from sciops.datasets.readers._sniff import Probe, readable
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

_AXES = ("x-coordinate", "y-coordinate")
_TOLERANCE = 1e-3  # of a cell: the files hold their coordinates in single precision


def matches(probe: Probe) -> bool:
    """Whether the file is HDF5 with `tensor` (N, 1, n, n) and `nu` (N, n, n)."""
    if probe.kind != "hdf5" or not probe.stored("tensor", "nu"):
        return False
    u, a = probe.arrays["tensor"].shape, probe.arrays["nu"].shape
    return len(a) == 3 and len(u) == 4 and u[1] == 1 and (u[0], *u[2:]) == a


def read(probe: Probe, resolution: Resolution = None) -> xr.Dataset:
    """a = `nu`, u = `tensor` without its channel axis, on cell centres."""
    from sciops.datasets.readers._lazy import H5Array, lazy

    shape = probe.arrays["nu"].shape[1:]
    notes, centres = [], []
    for name, n in zip(_AXES, shape):
        exact = (np.arange(n) + 0.5) / n
        points = _coordinate(probe, name)
        if points is None or points.shape != (n,) or not np.isfinite(points).all():
            notes.append(f"{name} is missing or does not hold {n} numbers: cell centres of the unit box are assumed")
        elif np.ptp(np.diff(points)) > _TOLERANCE / n or points[-1] <= points[0]:
            notes.append(f"{name} is not uniform and increasing: cell centres of the unit box are assumed")
        elif np.abs(points - np.linspace(0, 1, n)).max() < _TOLERANCE / n:
            notes.append(f"{name} runs from wall to wall, as nodes do: cell centres of the unit box are used instead")
        else:
            exact = points
        centres.append(exact)
    extent = tuple(_cells(points) for points in centres)
    grid = Grid(shape, extent, "cell", ((0.0, 1.0),) * 2 if _inside(extent) else None)
    beta = probe.attrs.get("beta")
    if beta is None:
        notes.append("attribute beta is missing: a source of 1 is assumed")
    fields = {
        "a": (("sample", "x", "y"), lazy(H5Array(probe.path, "nu")), {"units": "1", "stored_as": "nu"}),
        "u": (
            ("sample", "x", "y"),
            lazy(H5Array(probe.path, "tensor", drop=(1,))),
            {"units": "1", "stored_as": "tensor"},
        ),
    }
    dataset = build_dataset(
        fields,
        grid,
        layout="pdebench-darcy",
        equation="darcy",
        notes=tuple(notes),
        coefficient="values",
        forcing=1.0 if beta is None else float(np.ravel(beta)[0]),
        positions="assumed" if notes else "stored",
    )
    return at_resolution(dataset, resolution)


def _coordinate(probe: Probe, name: str) -> np.ndarray | None:
    import h5py

    if name not in probe.arrays:
        return None
    with readable(probe.path, "an HDF5 file"), h5py.File(probe.path, "r") as file:
        return np.asarray(file[name][()], dtype=np.float64)


def _cells(points: np.ndarray) -> tuple[float, float]:
    """The interval whose cells have these centres; the unit box where it is that to single precision."""
    h = (points[-1] - points[0]) / max(len(points) - 1, 1) if len(points) > 1 else 1.0
    low, high = points[0] - 0.5 * h, points[-1] + 0.5 * h
    if abs(low) < _TOLERANCE * h and abs(high - 1) < _TOLERANCE * h:
        return 0.0, 1.0
    return float(low), float(high)


def _inside(extent: tuple[tuple[float, float], ...]) -> bool:
    return all(low >= 0 and high <= 1 for low, high in extent)


READER = Reader("pdebench-darcy", "HDF5 with tensor (samples, 1, n, n) and nu (samples, n, n)", matches, read)
