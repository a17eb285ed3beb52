"""PDEBench's compressible flow (arXiv:2210.07182) in one, two or three dimensions.

``density``, ``pressure``, ``Vx``[, ``Vy``, ``Vz``] : (samples, T, X[, Y, Z]) single, or (T, X[, Y, Z]) in test files of
one trajectory: as many velocities as space axes tell which; ``x-``, ``y-``, ``z-coordinate`` : cell centres;
``t-coordinate`` : (T + 1,), of which the last belongs to no state and is left out; attributes ``eta`` and ``zeta``, the
shear and bulk viscosities, and ``M``, the Mach number of the initial state (2-D and 3-D).

    ρ_t + ∇·(ρv) = 0,  ρ(v_t + v·∇v) = −∇p + η Δv + (ζ + η/3) ∇(∇·v),  ideal gas

Whether a file is periodic or lets waves out stands in its name alone ("periodic", "trans"), so that it is not known
here: the points are cells, and ``open_dataset(path, grid=Grid(shape, extent, "periodic"))`` states otherwise. An
attribute ``boundary`` (JSON, {"x": "periodic"}), which our writer adds, is believed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciops.datasets.conventions import SPACE, build_dataset
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
from sciops.files.untrusted import parse_json
from sciops.files.whole_files import replacing
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

T = "t-coordinate"
VELOCITY = ("Vx", "Vy", "Vz")
CONSTANTS = ("eta", "zeta", "M")
_KINDS = ("periodic", "wall", "open")
LAYOUT = "pdebench-cfd"


def names(ndim: int) -> dict[str, str]:
    """Stored name → ours, for this many dimensions."""
    return {"density": "density", "pressure": "pressure"} | {name: name.lower() for name in VELOCITY[:ndim]}


def coordinates(ndim: int) -> tuple[str, ...]:
    """The stored names of the coordinates of this many dimensions."""
    return tuple(f"{axis}-coordinate" for axis in SPACE[:ndim])


def matches(probe: Probe) -> bool:
    """Whether the file is HDF5 with density, pressure and as many velocities as space axes, all of one shape."""
    if probe.kind != "hdf5" or not probe.stored("density", "pressure", "Vx"):
        return False
    shape, ndim = probe.arrays["density"].shape, _ndim(probe)
    if len(shape) not in (ndim + 1, ndim + 2) or min(shape) < 1 or min(shape[-ndim:]) < 2:
        return False
    return all(probe.arrays[name].shape == shape and is_real(probe.arrays[name].dtype, "f") for name in names(ndim))


def _ndim(probe: Probe) -> int:
    """How many velocities there are from Vx on: a count of axes alone takes (T, X, Y) for (samples, T, X)."""
    return next((i for i, name in enumerate(VELOCITY) if name not in probe.arrays), len(VELOCITY))


def read(probe: Probe) -> xr.Dataset:
    """density, pressure, vx[, vy, vz] over (sample, time, x[, y, z]), lazily."""
    from sciops.datasets.formats.containers.hdf5_arrays import H5Array
    from sciops.datasets.formats.containers.lazy_arrays import OneSample

    shape, ndim = probe.arrays["density"].shape, _ndim(probe)
    alone, steps, space = len(shape) == ndim + 1, shape[-ndim - 1], shape[-ndim:]
    axes = coordinates(len(space))
    boundary = _boundary(probe.attrs.get("boundary"), len(space))

    def rule() -> tuple[Grid, tuple[str, ...]]:
        extents, seen = cell_extents(probe, axes, space)
        if boundary and set(boundary.values()) == {"periodic"}:
            return periodic_cells(space, extents), seen
        return Grid(tuple(space), tuple(extents), "cell"), seen

    grid, placed = stated_grid(probe, axes, rule)
    times, comment, timed = times_of(numbers(probe, T), steps, T)
    parameters = {name: value for name in CONSTANTS if (value := number(probe.attrs.get(name))) is not None}
    missing = [name for name in CONSTANTS[:2] if name not in parameters]
    notes = (*placed, *timed, *(f"attribute {name} is missing: the viscosity is not known" for name in missing))
    fields: dict[str, Any] = {}
    for stored, name in names(len(space)).items():
        about = {"units": "1", "long_name": name, "stored_as": stored}
        if stored in VELOCITY:
            about |= {"long_name": f"velocity along {name[1]}", "part_of": "velocity", "component": name[1]}
        array = H5Array(probe.path, stored)
        fields[name] = (("sample", "time", *SPACE[:ndim]), OneSample(array) if alone else array, about)
    return build_dataset(
        fields,
        grid,
        layout="pdebench-cfd",
        equation="compressible_navier_stokes",
        notes=notes,
        times=times,
        time_comment=comment,
        state=tuple(fields),
        parameters=parameters,
        boundary=boundary,
        positions="assumed: cell centres" if placed else "stored",
    )


def _boundary(text: Any, ndim: int) -> dict[str, str] | None:
    try:
        stated = parse_json(text) if isinstance(text, str) else None
    except ValueError:
        return None
    if (
        not isinstance(stated, dict)
        or set(stated) != set(SPACE[:ndim])
        or not all(kind in _KINDS for kind in stated.values())
    ):
        return None
    return stated


def write(groups: list[xr.Dataset], path: Path) -> None:
    """One array a field, coordinates, and the attributes eta, zeta and M where they are known."""
    import h5py

    (dataset,) = groups
    grid = expect.trajectory(dataset, LAYOUT, (1, 2, 3))
    fields = state_fields(dataset, grid)
    stored = names(grid.ndim)
    if set(fields) != set(stored.values()):
        raise ValueError(
            f"layout {LAYOUT!r} holds {', '.join(stored.values())} in {grid.ndim}-D; the data set evolves "
            f"{', '.join(fields)}"
        )
    if grid.centering == "node":
        raise ValueError(f"layout {LAYOUT!r} holds values of cells; the data set has {words(grid)}")
    expect.equation(dataset, LAYOUT, ("compressible_navier_stokes",))
    expect.nothing_else(dataset, LAYOUT, tuple(fields))
    parameters = expect.common_parameters(dataset, LAYOUT, CONSTANTS)
    times = times_in(dataset, LAYOUT)
    points = [lossless(axis) for axis in grid.coordinates()]
    cells = cells_around(points, LAYOUT)
    boundary = parse_json(dataset.attrs.get("boundary", "null"))
    with replacing(path, size=sizes(fields)) as temporary, h5py.File(temporary, "w") as file:
        chunks = (1, 1, *grid.shape)
        targets = [file.create_dataset(s, fields[n].shape, fields[n].dtype, chunks=chunks) for s, n in stored.items()]
        write_blocks(targets, [fields[name] for name in stored.values()])
        for name, axis in zip(coordinates(grid.ndim), points):
            file[name] = axis
        file[T] = lossless(with_spare(times))
        file.attrs.update(parameters)
        if boundary:
            file.attrs["boundary"] = json.dumps(boundary)
        periodic = bool(boundary) and set(boundary.values()) == {"periodic"}
        natural = periodic_cells(grid.shape, cells) if periodic else Grid(grid.shape, tuple(cells), "cell")
        state_grid(file, grid, natural)


READER = Reader(
    "pdebench-cfd",
    "HDF5 with density, pressure, Vx[, Vy, Vz], all ([samples,] times, nx[, ny, nz])",
    matches,
    read,
)
WRITERS = {"pdebench-cfd": write}
