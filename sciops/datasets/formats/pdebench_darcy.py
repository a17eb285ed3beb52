"""PDEBench's Darcy files (arXiv:2210.07182), `2D_DarcyFlow_beta1.0_Train.hdf5`.

``tensor`` : (samples, 1, n, n) the solution; ``nu`` : (samples, n, n) the coefficient, 0.1 or 1; ``x-coordinate``,
``y-coordinate`` : (n,) cell centres; attribute ``beta`` : the constant source. −∇·(a∇u) = β on the unit square, u = 0
on its wall, values at the centres of n × n cells, no wall point on the grid. The solution is the late state of a
time-dependent solve. No splits are stored, and its own two loaders take them from opposite ends of the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sciops.datasets.conventions import build_dataset
from sciops.datasets.formats.containers.sniff import Probe
from sciops.datasets.formats.shared import expectations as expect
from sciops.datasets.formats.shared.axes import cell_extents, number
from sciops.datasets.formats.shared.expectations import DERIVED, words
from sciops.datasets.formats.shared.hdf5_writing import blocks_of, sizes
from sciops.datasets.formats.shared.reader import Reader
from sciops.files.whole_files import replacing
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

_AXES = ("x-coordinate", "y-coordinate")


def matches(probe: Probe) -> bool:
    """Whether the file is HDF5 with `tensor` (N, 1, n, n) and `nu` (N, n, n)."""
    if probe.kind != "hdf5" or not probe.stored("tensor", "nu"):
        return False
    u, a = probe.arrays["tensor"].shape, probe.arrays["nu"].shape
    return len(a) == 3 and len(u) == 4 and u[1] == 1 and (u[0], *u[2:]) == a


def read(probe: Probe) -> xr.Dataset:
    """a = `nu`, u = `tensor` without its channel axis, on cell centres."""
    from sciops.datasets.formats.containers.hdf5_arrays import H5Array

    shape = probe.arrays["nu"].shape[1:]
    extents, seen = cell_extents(probe, _AXES, shape)
    notes = list(seen)
    inside = all(low >= 0 and high <= 1 for low, high in extents)
    grid = Grid(shape, tuple(extents), "cell", ((0.0, 1.0),) * 2 if inside else None)
    beta = number(probe.attrs.get("beta"))
    if beta is None:
        notes.append("attribute beta is missing or no number: a source of 1 is assumed")
    fields = {
        "a": (
            ("sample", "x", "y"),
            H5Array(probe.path, "nu"),
            {"units": "1", "long_name": "coefficient", "stored_as": "nu"},
        ),
        "u": (
            ("sample", "x", "y"),
            H5Array(probe.path, "tensor", drop=(1,)),
            {"units": "1", "long_name": "solution", "stored_as": "tensor"},
        ),
    }
    return build_dataset(
        fields,
        grid,
        layout="pdebench-darcy",
        equation="darcy",
        notes=tuple(notes),
        coefficient="values",
        forcing=1.0 if beta is None else beta,
        positions="assumed" if notes else "stored",
    )


def write(groups: list[xr.Dataset], path: Path) -> None:
    """Writes the one data set of `groups` to path, in the layout of this module."""
    import h5py

    (dataset,) = groups
    grid = expect.coefficient_and_solution(dataset, "pdebench-darcy")
    expect.phase_values(dataset, "pdebench-darcy")
    expect.nothing_else(dataset, "pdebench-darcy", ("a", "u", *DERIVED))
    if grid.centering != "cell" or grid != Grid(grid.shape, None, "cell"):
        raise ValueError(
            f"layout 'pdebench-darcy' holds cell centres of the unit box; the data set has {words(grid)}: resampling "
            "a coefficient would change the equation, so generate on Grid(shape, centering='cell')"
        )
    size = sizes({name: dataset[name] for name in ("a", "u")})
    with replacing(path, size=size) as temporary, h5py.File(temporary, "w") as file:
        for stored, name, between in (("nu", "a", ()), ("tensor", "u", (1,))):
            field = dataset[name].transpose("sample", "x", "y")
            shape = (field.shape[0], *between, *field.shape[1:])
            target = file.create_dataset(stored, shape, field.dtype, chunks=(1, *shape[1:]))
            for part, (block,) in blocks_of([field]):
                target[(part[0], *(0,) * len(between), *part[1:])] = block
        for name, points in zip(("x-coordinate", "y-coordinate"), grid.coordinates()):
            file[name] = points.astype(np.float32)
        file.attrs["beta"] = float(dataset.attrs.get("forcing", 1.0))


READER = Reader("pdebench-darcy", "HDF5 with tensor (samples, 1, n, n) and nu (samples, n, n)", matches, read)
WRITERS = {"pdebench-darcy": write}
