"""What every opened data set looks like: dimensions, coordinates with their centering, the grid, the split."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.arrays.dimensions import SPACE
from sciops.arrays.kinds import refuse_masked
from sciops.files.messages import shown
from sciops.files.untrusted import parse_json
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

SPLITS = ("train", "validation", "test")
SPLIT_WORDS = {  # in names of files and folders
    "train": "train",
    "training": "train",
    "smooth1": "train",  # Li et al.: smooth1 trains, smooth2 tests
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
    "testing": "test",
    "smooth2": "test",
}
RECORDS = ("split", "seed", "residual", "iterations", "status", "error")  # of a sample's making, not of its equation
SPLIT_ATTRS = {"flag_values": np.arange(3, dtype=np.int8), "flag_meanings": " ".join(SPLITS)}


def build_dataset(
    fields: Mapping[str, tuple[tuple[str, ...], Any] | tuple[tuple[str, ...], Any, dict[str, Any]]],
    grid: Grid,
    *,
    layout: str,
    equation: str,
    notes: tuple[str, ...] = (),
    coordinates: tuple[np.ndarray, ...] | None = None,
    times: Any = None,
    time_units: str = "1",
    time_comment: str = "",
    state: tuple[str, ...] = (),
    parameters: Mapping[str, float] | None = None,
    boundary: Mapping[str, str] | None = None,
    **attrs: Any,
) -> xr.Dataset:
    """A data set in the common form.

    fields : name → (dimension names, array, `LazyArray` or xarray variable data[, attributes])
    grid : where the spatial dimensions (x, y, z in order) are sampled
    notes : what the reader saw and could not put right; `validate` turns each into a finding
    coordinates : positions as the file states them, where they differ from ``grid.coordinates()``
    times : positions along ``time``, where the file states them and all samples share them, in `time_units`, with
        `time_comment` as an attribute
    state : the variables that evolve together, for a trajectory; their fields have dimensions (sample, time, x, …).
        Without it the data set is steady
    parameters : constants of the equation that all samples share, name → number. Those that differ by sample are
        fields with the one dimension ``sample``
    boundary : axis → "periodic", "wall" or "open", where known
    attrs : further attributes of the data set, such as ``coefficient="values"``, ``forcing=1.0``

    returns : xarray.Dataset with attributes ``layout``, ``equation``, ``grid`` (JSON), ``task`` ("steady" or
        "trajectory"), ``state``, ``parameters`` and ``boundary`` (JSON, where there are any), and `attrs`

    Raises ValueError for a field that is not (dimension names, array), or whose shape does not fit its dimensions, the
    grid, the times or another field, and for numpy masked arrays with a masked value. Complex fields are kept; what
    trains refuses them.
    """
    import xarray as xr

    axes = grid.coordinates() if coordinates is None else coordinates
    sizes = {name: len(points) for name, points in zip(SPACE, axes)}
    sizes |= {} if times is None else {"time": len(times)}
    variables = {name: _variable(name, given, sizes) for name, given in fields.items()}
    dataset = xr.Dataset(variables)
    for name, points, extent, domain in zip(SPACE, axes, grid.extent, grid.domain):
        about = {"centering": grid.centering, "extent": np.array(extent), "domain": np.array(domain)}
        dataset = dataset.assign_coords({name: xr.Variable((name,), np.asarray(points, np.float64), about)})
    if times is not None:
        about = {"units": time_units, "long_name": "time"} | ({"comment": time_comment} if time_comment else {})
        dataset = dataset.assign_coords(time=xr.Variable(("time",), np.asarray(times, np.float64), about))
    dataset.attrs = {"layout": layout, "equation": equation, "grid": json.dumps(grid.to_dict())}
    dataset.attrs["task"] = "trajectory" if state else "steady"
    for name, value in (("state", list(state)), ("parameters", parameters), ("boundary", boundary)):
        if value:
            dataset.attrs[name] = json.dumps(value if name == "state" else dict(value))
    dataset.attrs |= attrs
    if notes:
        dataset.attrs["notes"] = json.dumps(list(notes))
    return dataset


def _variable(name: str, given: Any, sizes: dict[str, int]) -> xr.Variable:
    """One field of `build_dataset`; `sizes` are those of the dimensions so far, and take in its own."""
    import xarray as xr

    from sciops.datasets.lazy import LazyArray, lazy

    if not isinstance(given, (tuple, list)) or len(given) not in (2, 3) or not _names(given[0]):
        raise ValueError(
            f"field {name!r} is not (names of its dimensions, array), such as fields={{{name!r}: (('sample', 'x'), "
            "array)}"
        )
    dims, data, *about = given
    refuse_masked(data, name)
    dims, shape = (dims,) if isinstance(dims, str) else tuple(dims), np.shape(data)
    if len(dims) != len(shape):
        raise ValueError(
            f"field {name!r} has shape {shape} and {len(dims)} dimensions {dims}: expected a name for each axis"
        )
    for dim, size in zip(dims, shape):
        if sizes.setdefault(dim, size) != size:
            where = "the grid" if dim in SPACE else "another field or the times"
            raise ValueError(f"field {name!r} of shape {shape} has {size} along {dim}, {where} {sizes[dim]}")
    return xr.Variable(dims, lazy(data) if isinstance(data, LazyArray) else data, *about)


def _names(dims: Any) -> bool:
    return isinstance(dims, str) or (isinstance(dims, (tuple, list)) and all(isinstance(dim, str) for dim in dims))


def grid_of(dataset: xr.Dataset, field: str = "a") -> Grid:
    """The grid a field lives on: its own ``grid`` attribute, else the data set's, else its coordinates'.

    dataset : an opened data set
    field : variable name; when the data set has no such variable the data set's own grid is returned

    Raises ValueError when neither says where the points lie.
    """
    sources = [dataset[field].attrs] if field in dataset else []
    for attrs in (*sources, dataset.attrs):
        if "grid" in attrs:
            try:
                return Grid.from_dict(parse_json(attrs["grid"]))
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise ValueError(
                    f"attribute grid={shown(repr(attrs['grid']), 200)} is not a grid: expected the JSON of "
                    "Grid.to_dict()"
                ) from error
    dims = dataset[field].dims if field in dataset else tuple(dataset.sizes)
    axes = [dataset.coords[name] for name in SPACE if name in dims and name in dataset.coords]
    if not axes or any("centering" not in axis.attrs for axis in axes):
        of = f" of {field!r}" if field in dataset else ""
        if "no_grid" in dataset.attrs:
            raise ValueError(
                f"the data set does not say where the points{of} lie on a grid ({dataset.attrs['no_grid']}): where one "
                "is near enough, state it, convert(open_dataset(path, grid=sciops.Grid(...)), 'near.h5', 'native')"
            )
        raise ValueError(
            f"the data set does not say where the points{of} lie: set dataset.attrs['grid'] = "
            "json.dumps(Grid(...).to_dict())"
        )
    extent = [tuple(axis.attrs["extent"]) for axis in axes]
    domain = [tuple(axis.attrs.get("domain", axis.attrs["extent"])) for axis in axes]
    return Grid(tuple(axis.size for axis in axes), tuple(extent), axes[0].attrs["centering"], tuple(domain))


def state_of(dataset: xr.Dataset) -> tuple[str, ...]:
    """The variables that evolve together; empty for a steady problem.

    Raises ValueError when the ``state`` attribute names variables that are not there or have no time axis.
    """
    try:
        names = parse_json(dataset.attrs.get("state", "[]"))
        wrong = [name for name in names if name not in dataset or "time" not in dataset[name].dims]
    except (json.JSONDecodeError, TypeError) as error:
        raise ValueError(
            f"attribute state={shown(repr(dataset.attrs['state']), 200)}: expected a JSON list of variables"
        ) from error
    if wrong:
        held = ", ".join(str(name) for name, v in dataset.data_vars.items() if "time" in v.dims) or "none"
        named = shown(", ".join(wrong), 200)
        raise ValueError(f"attribute state names {named}; variables with a time axis here: {held}")
    return tuple(names)


def parameters_of(dataset: xr.Dataset) -> dict[str, float]:
    """The constants of the equation that all samples share."""
    try:
        return {name: float(value) for name, value in parse_json(dataset.attrs.get("parameters", "{}")).items()}
    except (json.JSONDecodeError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"attribute parameters={shown(repr(dataset.attrs['parameters']), 200)}: expected a JSON object of numbers"
        ) from error


def with_grid(dataset: xr.Dataset, grid: Grid) -> xr.Dataset:
    """The same fields, said to live on `grid`: for files whose layout does not state positions.

    Raises ValueError when the shapes differ.
    """
    shape = tuple(dataset.sizes[name] for name in SPACE if name in dataset.sizes)
    if shape != grid.shape:
        raise ValueError(f"grid={grid.shape}: the fields have {shape} points; pass a Grid of that shape")
    result = dataset.copy()
    for name, points, extent, domain in zip(SPACE, grid.coordinates(), grid.extent, grid.domain):
        about = {"centering": grid.centering, "extent": np.array(extent), "domain": np.array(domain)}
        result = result.assign_coords({name: (name, points, about)})
    result.attrs["grid"] = json.dumps(grid.to_dict())
    result.attrs["positions"] = "stated by the caller"
    why = result.attrs.pop("no_grid", None)
    if why is not None:
        notes = parse_json(result.attrs.get("notes", "[]"))
        result.attrs["notes"] = json.dumps([f"{n}; the caller states one" if n == why else n for n in notes])
    result.set_close(dataset.close)  # xarray's copies do not close the file they read from
    return result


def at_resolution(dataset: xr.Dataset, resolution: int | tuple[int, ...] | None) -> xr.Dataset:
    """The data set on its nested grid with `resolution` points per axis; unchanged for None or its own resolution.

    Nodes and periodic points are strided. Cells are refused: averaging a coefficient over cells changes the equation.
    Raises ValueError naming the resolutions that are nested in the file's grid.
    """
    if resolution is None:
        return dataset
    grid = grid_of(dataset)
    wanted = (resolution,) * grid.ndim if isinstance(resolution, (int, np.integer)) else tuple(resolution)
    if wanted == grid.shape:
        return dataset
    factors = None if grid.centering == "cell" else _factors(grid, wanted)
    if factors is None:
        nested = {} if grid.centering == "cell" else _nested(grid)
        known = ", ".join("×".join(map(str, shape)) for shape in nested) or "none"
        raise ValueError(
            f"resolution={resolution}: the file holds {'×'.join(map(str, grid.shape))} {grid.centering} points; "
            f"nested in it: {known}; use one of these or sciops.resample"
        )
    coarse = grid.coarsen(factors)
    strided = {name: slice(0, (n - 1) * f + 1, f) for name, n, f in zip(SPACE, coarse.shape, factors)}
    result = dataset.isel({name: part for name, part in strided.items() if name in dataset.sizes})
    result = _keep_attrs(with_grid(result, coarse), dataset)
    for name, field in result.data_vars.items():
        if "grid" in field.attrs:  # a staggered variable keeps its own place
            own = grid_of(dataset, str(name)).coarsen(factors)
            result[name].attrs = {**field.attrs, "grid": json.dumps(own.to_dict())}
    return result


def split_indices(dataset: xr.Dataset, split: str) -> np.ndarray:
    """Samples of one split, by the stored ``split`` variable.

    Raises ValueError when the data set stores none, or knows no split of that name.
    """
    if split not in SPLITS:
        raise ValueError(f"split={split!r}: expected one of {', '.join(SPLITS)}")
    if "split" not in dataset:
        raise ValueError(
            f"split={split!r}: this {dataset.attrs.get('layout', '')} file stores no split; name the samples with "
            "sciops.datasets.load_splits(path, train=…, validation=…, test=…)"
        )
    return np.flatnonzero(np.asarray(dataset["split"].values) == SPLITS.index(split))


def _factors(grid: Grid, wanted: tuple[int, ...]) -> tuple[int, ...] | None:
    """The strides that take the grid to the shape `wanted`, one for all axes where it can be; None if not nested."""
    if len(wanted) != grid.ndim:
        return None
    common = _nested(grid).get(wanted)
    if common is not None:
        return (common,) * grid.ndim
    axes = zip(grid.shape, grid.extent, grid.domain, wanted)
    found = []
    for n, extent, domain, points in axes:
        own = Grid(n, (extent,), grid.centering, (domain,))
        found.append(1 if points == n else _nested(own).get((points,)))
    return None if None in found else tuple(found)


def _nested(grid: Grid) -> dict[tuple[int, ...], int]:
    nested = {}
    for factor in range(2, max(grid.shape)):
        try:
            nested[grid.coarsen(factor).shape] = factor
        except ValueError:
            continue
    return nested


def _keep_attrs(result: xr.Dataset, original: xr.Dataset) -> xr.Dataset:
    if "positions" in original.attrs:
        result.attrs["positions"] = original.attrs["positions"]
    else:
        result.attrs.pop("positions", None)
    result.set_close(original.close)
    return result
