"""pdearena's shallow water on the sphere (arXiv:2209.15616), `train/seed=…/run0001/output.nc` by SpeedyWeather.

NetCDF-4 of one trajectory: ``u``, ``v``, ``vor``, ``div`` (time, lev, lat, lon) single with one level, ``pres`` (time,
lat, lon) the displacement of the surface in metres, ``time`` in hours, ``lat``, ``lon`` in degrees. Collected files of
the same names, with an axis ``b`` before the others, hold several. What evolves is pres, u and v; vor and div follow
from these. pdearena itself takes every fourth or eighth state.

x is the latitude and y the longitude, in degrees: distances along them are not lengths. The files go from north to
south; here x increases, as it does in every grid. Their latitudes are Gaussian, uniform but for some per cent of a
step: the grid is of uniform cells with the first and last latitude as centres, and ``latitude`` (x) holds the true
ones. Longitudes are periodic, latitudes are not.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import build_dataset
from sciops.datasets.formats.containers.named_axes import axes_by_name, shape_by_name
from sciops.datasets.formats.containers.sniff import Probe, readable
from sciops.datasets.formats.shared import expectations as expect
from sciops.datasets.formats.shared.axes import axis_of, cells_of, check_size, is_real, numbers, times_of, unplaced
from sciops.datasets.formats.shared.expectations import times_in, words
from sciops.datasets.formats.shared.hdf5_writing import blocks_of, sizes
from sciops.datasets.formats.shared.reader import Reader
from sciops.datasets.native.hdf5.guard import open_survivable
from sciops.datasets.native.layout import set_attributes
from sciops.files.whole_files import replacing
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

STATE = ("pres", "u", "v")
DIMS = ("b", "sample", "time", "lev", "lat", "lon")
WORDS = {
    "pres": "displacement of the surface",
    "u": "velocity to the east",
    "v": "velocity to the north",
    "vor": "relative vorticity",
    "div": "divergence",
}
UNITS = {"pres": "m", "u": "m/s", "v": "m/s", "vor": "1/s", "div": "1/s"}
_NEARLY = 0.05  # of a step between Gaussian latitudes and uniform ones
_SPHERE = "x is the latitude and y the longitude, in degrees: distances along them are not lengths"
LAYOUT = "pdearena-swe"


def matches(probe: Probe) -> bool:
    """Whether the file is NetCDF-4 with u, v ([b,] time, one lev, lat, lon), pres without lev, and coordinates."""
    if probe.kind != "hdf5" or not probe.stored(*STATE, "time", "lat", "lon"):
        return False
    shapes = {name: shape_by_name(probe.arrays[name], DIMS) for name in (*STATE, "time", "lat", "lon")}
    u = shapes["u"]
    if len(u) not in (4, 5) or u[-3] != 1 or min(u) < 1 or min(u[-2:]) < 2:
        return False
    known = shapes["v"] == u and shapes["pres"] == (*u[:-3], *u[-2:])
    sized = (shapes["time"], shapes["lat"], shapes["lon"]) == ((u[-4],), (u[-2],), (u[-1],))
    return known and sized and all(is_real(probe.arrays[name].dtype, "f") for name in STATE)


def read(probe: Probe) -> xr.Dataset:
    """pres, u, v and what follows from them over (sample, time, x, y), lazily, from south to north."""
    import xarray as xr

    shapes = {name: shape_by_name(probe.arrays[name], DIMS) for name in WORDS if name in probe.arrays}
    shape = shapes["u"]
    steps, nlat, nlon = shape[-4], *shape[-2:]
    check_size(probe, (steps, nlat, nlon))
    alone, southward = len(shape) == 4, False
    lat, lon = (numbers(probe, name) for name in ("lat", "lon"))
    if lat is not None and lat[0] > lat[-1]:
        lat, southward = lat[::-1], True
    fields: dict[str, Any] = {}
    units = _units(probe)
    for name, long_name in WORDS.items():
        if shapes.get(name) != shapes["pres" if name == "pres" else "u"]:
            continue
        data = xr.Variable(("sample", "time", "x", "y"), _array(probe, name, alone))
        # a slice of a lazy variable is one too
        data = data.isel(x=slice(None, None, -1)) if southward else data
        fields[name] = (
            data.dims,
            data,
            {"units": units.get(name, UNITS[name]), "long_name": long_name, "stored_as": name},
        )
    times, comment, timed = times_of(numbers(probe, "time"), steps, "time")
    grid, true, placed = _grid(lat, lon, nlat, nlon)
    if true is not None:
        fields["latitude"] = (("x",), true, {"units": "degrees_north", "long_name": "latitude", "stored_as": "lat"})
    dataset = build_dataset(
        fields,
        grid or Grid((nlat, nlon), None, "cell"),
        layout="pdearena-swe",
        equation="shallow_water",
        notes=(*timed, *placed, _SPHERE),
        times=times,
        time_comment=comment,
        time_units=units.get("time", "1"),
        state=STATE,
        boundary={"y": "periodic"},
        positions="stored" if true is None else "stored; latitudes nearly",
        grid_type="spherical",
    )
    for axis, unit, long_name in (("x", "degrees_north", "latitude"), ("y", "degrees_east", "longitude")):
        dataset[axis].attrs |= {"units": unit, "long_name": long_name}
    if grid is None:
        dataset = unplaced(dataset, {"x": lat, "y": lon}, placed[-1])
    return dataset


def latitude_cells(lat: np.ndarray) -> tuple[tuple[float, float], float]:
    """(the interval whose uniform cells have the first and last latitude as centres, largest distance in steps)."""
    exact = lat.astype(np.float64)
    step = (exact[-1] - exact[0]) / (len(exact) - 1)
    away = np.abs(exact - (exact[0] + step * np.arange(len(exact)))).max() / step
    return (float(exact[0] - step / 2), float(exact[-1] + step / 2)), float(away)


def _grid(lat: Any, lon: Any, nlat: int, nlon: int) -> tuple[Grid | None, np.ndarray | None, tuple[str, ...]]:
    """(grid, true latitudes where it has others, notes); no grid where the coordinates make none."""
    east = axis_of(lon, nlon)
    if isinstance(east, str):
        return None, None, (f"there is no grid: lon {east}",)
    longitudes, note = cells_of(east, "lon")
    placed = (note,) * bool(note)
    north = axis_of(lat, nlat)
    if not isinstance(north, str):
        return Grid((nlat, nlon), (north.cells, longitudes), "cell"), None, placed
    if lat is None or not np.isfinite(lat).all() or (np.diff(lat) <= 0).any():
        return None, None, (f"there is no grid: lat {north}",)
    cells, away = latitude_cells(lat)
    if away > _NEARLY:
        return None, None, (f"there is no grid: lat {north}",)
    note = (
        f"latitudes lie up to {100 * away:.2g} % of a step from uniform ones, which the grid has; `latitude` holds them"
    )
    return Grid((nlat, nlon), (cells, longitudes), "cell"), lat.astype(np.float64), (*placed, note)


def _array(probe: Probe, name: str, alone: bool) -> Any:
    from sciops.datasets.formats.containers.hdf5_arrays import H5Array
    from sciops.datasets.formats.containers.lazy_arrays import OneSample
    from sciops.datasets.lazy import lazy

    axes = axes_by_name(probe.arrays[name], DIMS)
    array = H5Array(probe.path, name, axes, pick={} if name == "pres" else {axes[-3]: 0})
    return lazy(OneSample(array) if alone else array)


def _units(probe: Probe) -> dict[str, str]:
    """Units as the file states them."""

    found = {}
    with readable(probe.path, "an HDF5 file"), open_survivable(probe.path) as file:
        for name in ("time", *WORDS):
            stated = file[name].attrs.get("units") if name in file else None
            if isinstance(stated, (str, bytes)) and stated:
                found[name] = stated.decode("utf-8", "replace") if isinstance(stated, bytes) else stated
    return found


def write(groups: list[xr.Dataset], path: Path) -> None:
    """From north to south, one level, and no axis ``b`` where there is one sample, as the simulator writes it."""
    import h5netcdf

    (dataset,) = groups
    grid = expect.trajectory(dataset, LAYOUT, (2,), state=STATE, equations=("shallow_water",))
    if grid.centering != "cell" or dataset.attrs.get("grid_type") != "spherical":
        raise ValueError(f"layout {LAYOUT!r} holds cells of latitude and longitude; the data set has {words(grid)}")
    names = [name for name in WORDS if name in dataset]
    expect.nothing_else(dataset, LAYOUT, (*names, "latitude"))
    expect.common_parameters(dataset, LAYOUT, ())
    times = times_in(dataset, LAYOUT)
    fields = [dataset[name].transpose("sample", "time", "x", "y") for name in names]
    several = len(fields[0]) != 1
    lat, lon = grid.coordinates()
    lat = np.asarray(dataset["latitude"].values, np.float64) if "latitude" in dataset else lat
    lead = ("b",) * several
    size = sizes(dict(zip(names, fields)))
    with replacing(path, size=size) as temporary, h5netcdf.File(temporary, "w") as file:
        lengths = {"b": len(fields[0]), "time": len(times), "lev": 1, "lat": len(lat), "lon": len(lon)}
        file.dimensions = lengths if several else {name: n for name, n in lengths.items() if name != "b"}
        axes = {"time": times, "lev": np.ones(1, np.int32), "lat": lat[::-1], "lon": lon}
        units = {"time": dataset["time"].attrs.get("units", "1"), "lat": "degrees_north", "lon": "degrees_east"}
        for name, values in axes.items():
            variable = file.create_variable(name, (name,), data=values)
            set_attributes(variable, {"units": units.get(name, "1")})
        targets = []
        for name, field in zip(names, fields):
            dims = (*lead, "time", *(("lev",) if name != "pres" else ()), "lat", "lon")
            chunks = tuple(1 if dim in ("b", "time", "lev") else lengths[dim] for dim in dims)
            target = file.create_variable(name, dims, field.dtype, chunks=chunks)
            about = {"long_name": WORDS[name], "units": field.attrs.get("units", UNITS[name])}
            set_attributes(target, about)
            targets.append(target)
        for part, blocks in blocks_of(fields):
            for name, target, block in zip(names, targets, blocks):
                southward = block[:, :, ::-1] if name == "pres" else block[:, :, None, ::-1]
                target[part if several else slice(None)] = southward if several else southward[0]


READER = Reader(
    "pdearena-swe",
    "NetCDF-4 with u, v ([b,] time, lev, lat, lon), pres ([b,] time, lat, lon), and time, lev, lat, lon",
    matches,
    read,
    named=True,
)
WRITERS = {"pdearena-swe": write}
