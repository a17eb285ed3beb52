"""Files of The Well (arXiv:2412.00568); the format is in its `docs/data_format.md`, and `check_well` checks it.

``t0_fields``, ``t1_fields``, ``t2_fields`` : scalars, vectors, tensors, (samples)(T)(space dimensions)(D)^order single,
where each field says which of the axes it has; ``dimensions`` : time and coordinates; ``scalars``;
``boundary_conditions``.

Vectors become one variable a component, named as The Well names its channels (velocity_x, D_xy); the space dimensions
become x, y, z in order, with their own names as ``long_name``. Fields without a time, sample or space axis keep to the
axes they have. What evolves over the whole grid is the ``state``. Constant scalars are ``parameters``, others are
variables.
``boundary`` tells the kind of wall by axis ("wall-open" where the two ends differ); masks of obstacles inside the box,
and values on walls, are variables ``mask_…`` and ``values_…``.

The format has no centering. Our writer adds ``sciops_centering`` to each dimension; other files get the periodic rule
where all walls are periodic, otherwise cells, or nodes where only so the box has round ends. Any of these keeps the
points where the file has them. Coordinates that are not uniform, or differ by sample or time, are kept as they are and
there is no grid: what needs one says so, and ``open_dataset(path, grid=…)`` states one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import SPACE, build_dataset
from sciops.datasets.formats.containers.sniff import Probe
from sciops.datasets.formats.shared.axes import (
    Axis,
    axis_of,
    check_size,
    is_real,
    is_round,
    number,
    runs_end_to_end,
    stated_grid,
    times_of,
    unplaced,
)
from sciops.datasets.formats.shared.reader import Reader
from sciops.datasets.formats.the_well.contents import GROUPS, Contents, Stored, Wall, contents
from sciops.files.untrusted import parse_json
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

OURS = "sciops"  # a root attribute of our writer: attributes of the data set that the format has no place for
_RESERVED = ("sample", "time", "times", *SPACE)


def matches(probe: Probe) -> bool:
    """Whether the file is HDF5 with an attribute grid_type, dimensions with a time, and a field."""
    if probe.kind != "hdf5" or "grid_type" not in probe.attrs or "dimensions/time" not in probe.arrays:
        return False
    space = [name for name in probe.arrays if name.startswith("dimensions/") and name != "dimensions/time"]
    fields = [name for name in probe.arrays if name.split("/")[0] in GROUPS]
    return 1 <= len(space) <= 3 and any(is_real(probe.arrays[name].dtype) for name in fields)


def read(probe: Probe) -> xr.Dataset:
    """All fields, scalars, walls and coordinates, the fields lazily."""
    held = contents(probe)
    shape = tuple(held.sizes[name] for name in held.space)
    check_size(probe, shape)
    short = dict(zip(held.space, SPACE))
    ours = _ours(probe.attrs.get(OURS))
    fields: dict[str, Any] = {}
    for stored in held.fields:
        fields |= _variables(probe, stored, short, fields)
    whole = ("sample", "time", *SPACE[: len(shape)])
    state = [name for name, (dims, _, _) in fields.items() if dims == whole]
    stated = [name for name in ours.pop("state", []) if name in state]
    parameters, scalars, told = _scalars(probe, held, fields)
    boundary, masks = _boundary(held.walls, short)
    times, own, timed = _times(held)
    evolves = any("time" in dims for dims, _, _ in (fields | scalars | masks).values())
    fields |= scalars | masks | (own if evolves else {})
    notes = [*held.notes, *told, *(timed if evolves else ())]
    grid, placed, centred = _grid(probe, held, boundary)
    if str(probe.attrs["grid_type"]).lower() != "cartesian":
        notes.append(f"grid_type is {probe.attrs['grid_type']}: distances along its axes are not lengths")
    attrs = {"grid_type": str(probe.attrs["grid_type"]), "dataset_name": str(probe.attrs.get("dataset_name", ""))}
    dataset = build_dataset(
        fields,
        grid or Grid(shape, None, "cell"),
        layout="the-well",
        equation=str(ours.pop("equation", "") or attrs["dataset_name"] or "unknown"),
        notes=(*notes, *placed),
        times=times if evolves else None,
        state=tuple(stated or state),
        parameters=parameters,
        boundary=boundary,
        positions=centred,
        **attrs,
        **ours,
    )
    for name, axis in short.items():
        dataset[axis].attrs["long_name"] = name
    if grid is None:
        dataset = unplaced(dataset, {short[name]: points for name, points in held.axes.items()}, placed[-1])
    return dataset


def _variables(probe: Probe, stored: Stored, short: dict[str, str], taken: dict[str, Any]) -> dict[str, Any]:
    """A field's components, named as The Well names them or as our writer found them."""
    from sciops.datasets.formats.containers.hdf5_arrays import H5Array

    long, dims = tuple(short), tuple(short.get(name, name) for name in stored.dims)
    count = len(long) ** stored.order
    named = _json(stored.attrs.get("sciops_names"), list, [])
    named = named if len(named) == count and all(isinstance(name, str) for name in named) else []
    found: dict[str, Any] = {}
    for i, index in enumerate(np.ndindex(*(len(long),) * stored.order)):
        about: dict[str, Any] = {"units": "1", "long_name": stored.name, "stored_as": stored.key}
        name = stored.name
        if stored.order:
            name = f"{stored.name}_{''.join(long[k] for k in index)}"
            about["part_of"], about["component"] = stored.name, "".join(SPACE[k] for k in index)
            about["stored_as"] = f"{stored.key}[..., {', '.join(map(str, index))}]"
        about |= {key: int(value) for key, value in stored.attrs.items() if key != "sciops_names"}
        name = named[i] if named else name
        if name in _RESERVED or name in taken or name in found:
            name = f"{stored.key.split('_')[0]}_{name}"
        pick = {k - stored.order: part for k, part in enumerate(index)}
        found[name] = (dims, H5Array(probe.path, stored.key, pick=pick), about)
    return found


def _scalars(probe: Probe, held: Contents, taken: dict[str, Any]) -> tuple[dict[str, float], dict[str, Any], list[str]]:
    """(constants, variables over sample and time, notes)."""
    constants: dict[str, float] = {}
    variables: dict[str, Any] = {}
    notes = []
    for name, (dims, values) in held.scalars.items():
        if dims:
            free = f"scalar_{name}" if name in taken or name in _RESERVED else name
            variables[free] = (dims, values, {"units": "1", "long_name": name, "stored_as": f"scalars/{name}"})
        elif number(values) is None:
            notes.append(f"scalar {name} is {values!r}, not finite: it is left out")
        else:
            constants[name] = float(values)
    for name in np.atleast_1d(probe.attrs.get("simulation_parameters", [])).tolist():
        # stated twice: as a root attribute, mostly in double precision, and in single among the scalars
        value = number(probe.attrs.get(name)) if isinstance(name, str) and name not in variables else None
        if value is not None and np.float32(constants.get(name, value)) != np.float32(value):
            notes.append(
                f"parameter {name} is {value:g} at the root and {constants[name]:g} in scalars, which is taken"
            )
        elif value is not None:
            constants[name] = value
    return constants, variables, notes


def _boundary(walls: tuple[Wall, ...], short: dict[str, str]) -> tuple[dict[str, str], dict[str, Any]]:
    """(kind of wall by axis, masks and values that are more than that)."""
    ends: dict[str, list[str]] = {axis: ["", ""] for axis in short.values()}
    kept: dict[str, Any] = {}
    for wall in walls:
        if len(wall.dims) == 1 and len(wall.space) == 1:
            mask = wall.mask if wall.mask is not None and wall.mask.ndim == 1 else np.zeros(2, bool)
            sides = [bool(mask[0]), bool(mask[-1])] if mask.any() else [True, True]  # an empty mask marks no end
            for side in range(2):
                if sides[side]:
                    ends[short[wall.space[0]]][side] = wall.kind
            if wall.values is None:
                continue
        about = {"bc_type": wall.kind, "associated_dims": json.dumps([short[name] for name in wall.space])}
        about |= {"associated_fields": json.dumps(list(wall.fields)), "units": "1", "long_name": wall.name}
        if wall.mask is not None and wall.mask.ndim == len(wall.dims) > 0:
            dims = tuple(short.get(name, name) for name in wall.dims)
            kept[f"mask_{wall.name}"] = (dims, wall.mask.astype(bool), about)
        if wall.values is not None:
            axes = tuple(f"{wall.name}_{i}" for i in range(wall.values.ndim))
            kept[f"values_{wall.name}"] = (axes, wall.values, about)
    kinds = {axis: {kind or "unknown": None for kind in pair} for axis, pair in ends.items()}
    return {axis: "-".join(kind) for axis, kind in kinds.items() if list(kind) != ["unknown"]}, kept


def _times(held: Contents) -> tuple[np.ndarray | None, dict[str, Any], tuple[str, ...]]:
    times, steps = held.times, held.sizes["time"]
    if times is not None and times.ndim == 2 and times.shape == (held.samples, steps) and held.samples:
        if (times == times[0]).all():
            times = times[0]
        elif np.isfinite(times).all() and (np.diff(times, axis=1) > 0).all():
            about = {"units": "1", "long_name": "time of each sample", "stored_as": "dimensions/time"}
            return np.arange(steps), {"times": (("sample", "time"), times.astype(np.float64), about)}, ()
    if times is not None and times.shape != (steps,):
        return None, {}, ("dimensions/time does not hold one time a state: times are not known",)
    found, _, notes = times_of(times, steps, "dimensions/time")
    return found, {}, notes


def _grid(probe: Probe, held: Contents, boundary: dict[str, str]) -> tuple[Grid | None, tuple[str, ...], str]:
    """(grid or None, notes, what is known of the positions)."""
    names = tuple(f"dimensions/{name}" for name in held.space)
    grid, notes = stated_grid(probe, names, lambda: (None, ()))
    if grid is not None:
        return grid, notes, "stored"
    axes, reasons = [], []
    for name, points in held.axes.items():
        if points is not None and points.ndim == 2 and len(points) and (points == points[0]).all():
            points = points[0]
        axis = axis_of(points, held.sizes[name])
        if isinstance(axis, str):
            reasons.append(f"{name} {axis}")
        else:
            axes.append(axis)
    if reasons:
        return None, (*notes, f"there is no grid: {'; '.join(reasons)}"), "coordinates as stored, no uniform grid"
    shape, kinds = tuple(axis.n for axis in axes), set(boundary.values())
    stated = set(held.centering.values())
    if len(stated) == 1 and stated <= {"node", "cell", "periodic"}:
        centering, sure = stated.pop(), "stored"
    elif kinds == {"periodic"} and len(boundary) == len(axes):
        centering, sure = "periodic", "stored"
    else:
        centering, sure = _round_box(axes, mixed="periodic" in kinds)
    if centering == "periodic":
        twice = [n for n, a in zip(held.space, axes) if runs_end_to_end(a)]
        notes += tuple(f"{name} fills a round interval with both its ends: is a point stored twice?" for name in twice)
    reach = {"node": (0.0, 0.0), "cell": (0.5, 0.5), "periodic": (0.0, 1.0)}[centering]
    return Grid(shape, tuple(axis.between(*reach) for axis in axes), centering), notes, sure


def _round_box(axes: list[Axis], *, mixed: bool) -> tuple[str, str]:
    cells = all(is_round(axis, axis.cells) for axis in axes)
    nodes = all(is_round(axis, axis.between(0, 0)) for axis in axes)
    if nodes and not cells and not mixed:
        return "node", "stored; nodes, since their ends are round"
    return "cell", "stored; cells" + (", since their walls are round" if cells else " are assumed")


def _ours(text: Any) -> dict[str, Any]:
    """Attributes our writer kept; nothing in them may replace what the reader finds."""
    allowed = ("equation", "state", "coefficient", "forcing", "walls")
    values = _json(text, dict, {})
    return {key: values[key] for key in allowed if key in values and isinstance(values[key], (str, float, int, list))}


def _json(text: Any, kind: type, otherwise: Any) -> Any:
    try:
        value = parse_json(text) if isinstance(text, str) else otherwise
    except ValueError:
        return otherwise
    return value if isinstance(value, kind) else otherwise


READER = Reader(
    "the-well",
    "HDF5 with the attribute grid_type and groups dimensions, t0_fields, t1_fields, t2_fields",
    matches,
    read,
    named=True,
)
