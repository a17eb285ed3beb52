"""jax-cfd's NetCDF files (`jax_cfd.data.xarray_utils`), NetCDF-4 or NetCDF-3: velocities on the faces of a grid.

``u``, ``v``[, ``w``], perhaps ``c``, over ([sample,] time, x, y[, z]) in any order, by the names of the file's own
dimensions, each with an attribute ``offset``: its place in
the cell, (1, ½) on the right face, (½, 1) on the upper one. The file has one coordinate an axis, the cell centres,
whatever a variable's offset (a little sloppy, in its authors' words); here each variable carries its own ``grid``. A
file without samples is one sample. Without offsets those of jax-cfd's own grids are assumed.

Whether the flow is periodic is not in the file but in its numbers: where the step across the seam is like any step
inside, for every component, the grids are periodic and can be strided; else they are cells and faces between walls.
Simple attributes of the file are kept as they are; ``viscosity``, where it is one of them, is a parameter.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import SPACE, build_dataset, grid_of, state_of
from sciops.datasets.formats.containers.named_axes import axes_by_name, shape_by_name
from sciops.datasets.formats.containers.sniff import Entry, Probe, readable
from sciops.datasets.formats.shared import expectations as expect
from sciops.datasets.formats.shared.axes import (
    Axis,
    axis_of,
    cells_of,
    is_real,
    number,
    numbers,
    periodic_cells,
    times_of,
)
from sciops.datasets.formats.shared.expectations import FLOATS, times_in, words
from sciops.datasets.formats.shared.hdf5_writing import sizes, write_blocks
from sciops.datasets.formats.shared.reader import Reader
from sciops.datasets.native.hdf5.guard import open_survivable
from sciops.datasets.native.layout import set_attributes
from sciops.files.whole_files import replacing
from sciops.grids import Grid, Interval

if TYPE_CHECKING:
    import xarray as xr

VELOCITY = ("u", "v", "w")
_OTHERS = ("c", "temperature", "pressure", "p")
_MOST_POINTS = 2**24
LAYOUT = "jax-cfd"
_OF_GRID = ("ndim", "save_grid_size", "domain_size", "save_grid_size_x", "save_grid_size_y", "aspect_ratio")
_ELSEWHERE = ("layout", "equation", "grid", "task", "state", "parameters", "boundary", "notes", "positions")


def matches(probe: Probe) -> bool:
    """Whether the file is NetCDF with u and v[, w] over ([sample,] time, x, y[, z]) and these coordinates."""
    if probe.kind not in ("hdf5", "netcdf3"):
        return False
    ndim = _ndim(probe)
    if ndim is None:
        return False
    entries = [probe.arrays[name] for name in VELOCITY[:ndim]]
    shapes, last = {shape_by_name(entry) for entry in entries}, ("time", *SPACE[:ndim])
    sizes = [_length(probe, name) for name in last]
    shape = shapes.pop()
    known = not shapes and len(shape) in (ndim + 1, ndim + 2) and list(shape[-ndim - 1 :]) == sizes
    named = all(_last_names(entry, ndim) == last for entry in entries if set(last) <= set(entry.dims))
    real = all(is_real(entry.dtype, "f") for entry in entries)
    return known and named and real and min(shape) >= 1 and min(shape[-ndim:]) >= 2


def read(probe: Probe) -> xr.Dataset:
    """The components over (sample, time, x, y[, z]), lazily, each with its own grid."""
    ndim, notes = _ndim(probe) or 2, []
    shape = shape_by_name(probe.arrays["u"])
    names = [*VELOCITY[:ndim], *(k for k in _OTHERS if k in probe.arrays and shape_by_name(probe.arrays[k]) == shape)]
    arrays = {name: _array(probe, name, len(shape) == ndim + 1) for name in names}
    attrs = {name: _attributes(probe, name) for name in names}
    axes = []
    for name, n in zip(SPACE, shape[-ndim:]):
        axis = axis_of(_small(probe, name), n)
        if isinstance(axis, str):
            notes.append(f"{name} {axis}: cell centres of the unit interval are assumed")
            axis = Axis(n, 0.5 / n, 1.0 / n, 1e-12)
        axes.append(axis)
    cells, placed = zip(*(cells_of(axis, name) for axis, name in zip(axes, SPACE)))
    notes += filter(None, placed)
    faces = np.eye(ndim) / 2 + 0.5
    periodic = _periodic(arrays, VELOCITY[:ndim], ndim)
    fields: dict[str, Any] = {}
    for i, name in enumerate(names):
        natural = faces[i] if i < ndim else np.full(ndim, 0.5)
        offset = _stated_offset(attrs[name].get("offset"), ndim)
        if offset is None:
            notes.append(f"{name} has no attribute offset: {tuple(map(float, natural))} is assumed")
            offset = natural
        own = place(shape[-ndim:], cells, offset, periodic)
        fields[name] = _field(arrays[name], own, attrs[name], name, ndim)
    points = _small(probe, "time")
    times, comment, timed = times_of(points, shape[-ndim - 1], "time")
    simple = {k: v for k, v in probe.attrs.items() if k not in _ELSEWHERE and not k.startswith("_")}
    simple = {k: _plain(v) for k, v in simple.items() if isinstance(_plain(v), (str, int, float))}
    viscosity = number(probe.attrs.get("viscosity"))
    simple.pop("viscosity", None)
    return build_dataset(
        fields,
        periodic_cells(shape[-ndim:], cells) if periodic else Grid(shape[-ndim:], cells, "cell"),
        layout="jax-cfd",
        equation="navier_stokes_velocity",
        notes=(*notes, *timed),
        times=times,
        time_comment=comment,
        state=VELOCITY[:ndim] if len(names) == ndim else tuple(names),
        parameters={} if viscosity is None else {"viscosity": viscosity},
        boundary=dict.fromkeys(SPACE[:ndim], "periodic") if periodic else None,
        positions="stored",
    ).assign_attrs(simple)


def place(shape: tuple[int, ...], cells: tuple[Interval, ...], offset: np.ndarray, periodic: bool) -> Grid:
    """Where the values lie that are at `offset` of each of these cells."""
    starts, ends = [], []
    for n, (a, b), off in zip(shape, cells, offset):
        h = (b - a) / n
        starts.append(a + float(off) * h)
        ends.append(b + float(off) * h if periodic else min(b, a + (n - 1 + float(off)) * h))
    extent = tuple(zip(starts, ends))
    if periodic:
        return Grid(shape, extent, "periodic")
    inside = bool((offset == 0.5).all())
    return Grid(shape, cells, "cell") if inside else Grid(shape, extent, "node", cells)


def _field(array: Any, own: Grid, attrs: dict[str, Any], name: str, ndim: int) -> tuple[Any, ...]:

    words = f"velocity along {SPACE[VELOCITY.index(name)]}" if name in VELOCITY else name
    about = {"units": str(attrs.get("units", "1")), "long_name": words, "grid": json.dumps(own.to_dict())}
    return ("sample", "time", *SPACE[:ndim]), array, about


def _ndim(probe: Probe) -> int | None:
    for ndim in (3, 2):
        if probe.stored("time", *VELOCITY[:ndim], *SPACE[:ndim]):
            return ndim
    return None


def _last_names(entry: Entry, ndim: int) -> tuple[str, ...]:
    return tuple(entry.dims[axis] for axis in axes_by_name(entry)[-ndim - 1 :])


def _length(probe: Probe, name: str) -> int:
    shape = probe.arrays[name].shape
    return shape[0] if len(shape) == 1 and shape[0] <= _MOST_POINTS else -1


def _periodic(arrays: dict[str, Any], names: tuple[str, ...], ndim: int) -> bool:
    from xarray.core import indexing

    from sciops.datasets.formats.shared.walls import is_periodic

    key = indexing.OuterIndexer((0, -1 % arrays[names[0]].shape[1], *(slice(None),) * ndim))
    state = [np.asarray(arrays[name][key], np.float64) for name in names]
    return all(is_periodic(state, axis) for axis in range(ndim))


def _array(probe: Probe, name: str, alone: bool) -> Any:
    from sciops.datasets.formats.containers.hdf5_arrays import H5Array
    from sciops.datasets.formats.containers.lazy_arrays import OneSample, netcdf3_array
    from sciops.datasets.formats.containers.netcdf3 import read_header

    axes = axes_by_name(probe.arrays[name])
    if probe.kind == "hdf5":
        array: Any = H5Array(probe.path, name, axes)
    else:
        array = netcdf3_array(probe.path, read_header(probe.path)[0][name], axes=axes)
    return OneSample(array) if alone else array


def _small(probe: Probe, name: str) -> np.ndarray | None:
    from xarray.core import indexing

    if probe.kind == "hdf5":
        return numbers(probe, name)
    array = _array(probe, name, False)
    return np.asarray(array[indexing.BasicIndexer((slice(None),) * len(array.shape))])


def _attributes(probe: Probe, name: str) -> dict[str, Any]:
    from sciops.datasets.formats.containers.netcdf3 import read_header

    if probe.kind == "netcdf3":
        return read_header(probe.path)[0][name].attrs
    with readable(probe.path, "an HDF5 file"), open_survivable(probe.path) as file:
        attrs = file[name].attrs
        return {key: attrs[key] for key in ("offset", "units") if key in attrs}


def _stated_offset(value: Any, ndim: int) -> np.ndarray | None:
    array = np.asarray(value if value is not None else np.nan)
    if array.dtype.kind not in "iuf" or array.shape != (ndim,) or not ((array >= 0) & (array <= 1)).all():
        return None
    return array.astype(np.float64)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, (np.generic, np.ndarray)) and np.size(value) == 1 else value


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
    expect.nothing_else(dataset, LAYOUT, names)
    parameters = expect.common_parameters(dataset, LAYOUT, ("viscosity",))
    cells, centres = _cells(grid)
    offsets = {name: _offset(dataset, name, grid, cells) for name in names}
    times = times_in(dataset, LAYOUT)
    fields = [dataset[name].transpose(*dims) for name in names]
    attrs = {k: v for k, v in dataset.attrs.items() if k not in (*_ELSEWHERE, *_OF_GRID)} | parameters
    attrs |= _grid_attributes(grid.shape, cells)
    size = sizes(dict(zip(names, fields)))
    with replacing(path, size=size) as temporary, h5netcdf.File(temporary, "w") as file:
        file.dimensions = dict(zip(dims, fields[0].shape))
        coordinates: dict[str, Any] = {"sample": np.arange(fields[0].shape[0]), "time": times}
        for name, values in {**coordinates, **dict(zip(SPACE, centres))}.items():
            file.create_variable(name, (name,), data=values)
        targets = []
        for name, field in zip(names, fields):
            target = file.create_variable(name, dims, field.dtype, chunks=(1, 1, *grid.shape))
            set_attributes(target, {"offset": offsets[name]})
            targets.append(target)
        write_blocks(targets, fields)
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


READER = Reader(
    "jax-cfd",
    "NetCDF with u, v[, w] over ([sample,] time, x, y[, z]), with these coordinates",
    matches,
    read,
    named=True,
)
WRITERS = {"jax-cfd": write}
