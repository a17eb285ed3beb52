"""NumPy's .npy and .npz files whose axes are described: never guessed from their number.

The description is JSON, its form is said in `sciops.datasets.readers._description`: ``<file>.json`` beside the file,
which `describe_arrays` writes, or a member ``sciops.json`` of the archive. Arrays of a .npy file and uncompressed
members of an archive are mapped from the disk; compressed ones are unpacked whole at the first read. Arrays of Python
objects are refused: opening them could run code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import SPACE, at_resolution, build_dataset
from sciops.datasets.readers._axes import check_size
from sciops.datasets.readers._description import ALONE, Described, Description, parse, sidecar, stated
from sciops.datasets.readers._numpy_files import NumpyArray, npy_array, npz_arrays
from sciops.datasets.readers._reader import Reader, Resolution
from sciops.datasets.readers._sniff import Probe, readable
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

_ORDER = ("sample", "time", *SPACE)
_WHAT = {"npy": "a NumPy .npy array", "npz": "a NumPy .npz archive"}


def matches(probe: Probe) -> bool:
    """Whether the file is .npy or .npz with a description, inside it or beside it."""
    return probe.kind in _WHAT and "arrays" in (stated(probe) or {})


def read(probe: Probe, resolution: Resolution = None) -> xr.Dataset:
    """The described variables with their axes in order; ValueError where description and shapes differ."""
    from sciops.datasets.readers._lazy import lazy
    from sciops.datasets.readers._lazy_arrays import numpy_array

    arrays = contents(probe)
    about = parse(stated(probe) or {}, probe.path, alone=probe.kind == "npy")
    check_size(probe, about.grid.shape)
    sizes: dict[str, int] = dict(zip(SPACE, about.grid.shape))
    fields: dict[str, Any] = {}
    for variable in about.variables:
        array = _stored(probe, arrays, variable)
        _check_axes(probe, variable, array, sizes)
        dims = [dim for dim in _ORDER if dim in variable.dims]
        index = {"": 0, "channel": variable.channel}
        pick = {i: index[dim] for i, dim in enumerate(variable.dims) if dim in index}
        view = numpy_array(probe.path, array, axes=[variable.dims.index(dim) for dim in dims], pick=pick)
        fields[variable.name] = (tuple(dims), lazy(view), variable.attrs)
    times, units = _times(probe, arrays, about, sizes.get("time"))
    dataset = build_dataset(
        fields,
        about.grid,
        layout="arrays",
        equation=about.equation,
        times=times,
        time_units=units,
        state=about.state,
        parameters=about.parameters,
        boundary=about.boundary,
        **{"positions": "stored", **about.attrs},
    )
    return at_resolution(dataset, resolution)


def contents(probe: Probe) -> dict[str, NumpyArray]:
    """Name → array of a .npy (under one fixed name) or .npz file."""
    with readable(probe.path, _WHAT[probe.kind]):
        return {ALONE: npy_array(probe.path)} if probe.kind == "npy" else npz_arrays(probe.path)


def undescribed(probe: Probe) -> str:
    """What to do with a file of arrays that nothing describes."""
    name, entry = next(iter(probe.arrays.items()), (ALONE, None))
    shape = entry.shape if entry is not None else (8, 64)
    example = _EXAMPLES.get(len(shape), "('sample', 'time', 'x', 'y', 'z')")
    variable = "u" if name == ALONE else name
    return (
        f"{probe.path} is {probe.describe()}: numbers do not say what their axes mean, and their count is no hint. Say "
        f"it once, such as sciops.datasets.describe_arrays({probe.path.name!r}, {{{variable!r}: {example}}}, "
        f"grid=Grid((64,), 1.0, 'periodic'), state=({variable!r},)), which writes {sidecar(probe.path).name} beside "
        "it; APEBench's arrays open as they are with open_dataset(path, layout='apebench')"
    )


def describe_arrays(
    path: str | os.PathLike,
    arrays: Mapping[str, Sequence[str] | Mapping[str, Any]],
    *,
    grid: Grid,
    equation: str = "unknown",
    state: Sequence[str] = (),
    times: Mapping[str, Any] | Sequence[float] | None = None,
    parameters: Mapping[str, float] | None = None,
    boundary: Mapping[str, str] | None = None,
) -> Path:
    """Writes what the arrays of a .npy or .npz file mean to ``<file>.json`` beside it, and returns that path.

    path : the file of arrays, which stays as it is
    arrays : variable → names of its axes in their order, of "sample", "time", "x", "y", "z", "" (length one, left out)
        and "channel"; or {"dims": …, "array": name in the archive, "components": names along "channel", "units": …,
        "long_name": …}. A .npy file has one array, whatever it is called here
    grid : where the points lie
    state : the variables that evolve together; none for a steady problem
    times : the times themselves, or {"start": 0, "step": 0.1, "units": "s"}, or {"array": name in the archive}

    Raises ValueError in one line where this does not fit the shapes in the file; nothing is written then.

    >>> describe_arrays("u.npy", {"u": ("sample", "time", "x")}, grid=Grid(64, 1.0, "periodic"), state=("u",),
    ...                 equation="burgers", parameters={"viscosity": 0.01})    # doctest: +SKIP
    """
    from sciops.datasets._native_files import replacing
    from sciops.datasets.readers import probe as look

    path = Path(path)
    if times is not None and not isinstance(times, Mapping):
        times = {"values": [float(t) for t in times]}
    content: dict[str, Any] = {
        "arrays": {k: dict(v) if isinstance(v, Mapping) else {"dims": list(v)} for k, v in arrays.items()},
        "grid": grid.to_dict(),
        "equation": equation,
        "state": list(state),
        "times": dict(times or {}),
        "parameters": dict(parameters or {}),
        "boundary": dict(boundary or {}),
    }
    content = json.loads(json.dumps({key: value for key, value in content.items() if value}))
    found = look(path)
    if found.kind not in _WHAT:
        raise ValueError(f"{path} is {found.describe()}: .npy and .npz files are described")
    stored = contents(found)
    about = parse(content, path, alone=found.kind == "npy")
    sizes: dict[str, int] = dict(zip(SPACE, about.grid.shape))
    for variable in about.variables:
        _check_axes(found, variable, _stored(found, stored, variable), sizes)
    _times(found, stored, about, sizes.get("time"))
    with replacing(sidecar(path)) as temporary:
        temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return sidecar(path)


_EXAMPLES = {
    1: "('x',)",
    2: "('sample', 'x')",
    3: "('sample', 'time', 'x')",
    4: "('sample', 'time', 'x', 'y')",
}


def _stored(probe: Probe, arrays: Mapping[str, NumpyArray], variable: Described) -> NumpyArray:
    if variable.array not in arrays:
        raise ValueError(
            f"the description of {probe.path} names the array {variable.array!r}; the file holds {', '.join(arrays)}"
        )
    array = arrays[variable.array]
    if array.dtype.kind not in "biufc":
        raise ValueError(f"{probe.path} holds {variable.array} of type {array.dtype}; fields are numbers")
    return array


def _check_axes(probe: Probe, variable: Described, array: NumpyArray, sizes: dict[str, int]) -> None:
    """Compares an array's shape with its dimensions, and those with the grid and with the arrays before it."""
    expected = {**sizes, "": 1, "channel": variable.channels}
    fits = len(array.shape) == len(variable.dims)
    fits = fits and all(size == expected.get(dim, size) for size, dim in zip(array.shape, variable.dims))
    if not fits:
        words = ", ".join(f"{dim or 'length one'} {expected.get(dim, '')}".strip() for dim in variable.dims)
        raise ValueError(
            f"the description of {probe.path} gives {variable.name} the axes ({words}); the array there is "
            f"{array.dtype}{list(array.shape)}"
        )
    for size, dim in zip(array.shape, variable.dims):
        if dim in ("sample", "time"):
            sizes[dim] = size


def _times(
    probe: Probe, arrays: Mapping[str, NumpyArray], about: Description, steps: int | None
) -> tuple[np.ndarray | None, str]:
    from xarray.core import indexing

    from sciops.datasets.readers._lazy_arrays import numpy_array

    stated, units = about.times, str(about.times.get("units", "1"))
    if not stated or steps is None:
        return None, units
    if "step" in stated:
        return float(stated.get("start", 0.0)) + float(stated["step"]) * np.arange(steps), units
    if "values" in stated:
        times = np.asarray(stated["values"], np.float64)
    elif str(stated.get("array")) in arrays:
        array = numpy_array(probe.path, arrays[str(stated["array"])])
        times = np.asarray(array[indexing.BasicIndexer((slice(None),) * len(array.shape))])
    else:
        raise ValueError(
            f"the description of {probe.path} has times {dict(stated)}: expected step, values, or the name of an array"
        )
    if times.shape != (steps,) or times.dtype.kind not in "iuf":
        raise ValueError(f"the description of {probe.path} states {times.shape} times for {steps} states")
    return times.astype(np.float64), units


READER = Reader(
    "arrays", "a .npy or .npz file with its axes described (sciops.datasets.describe_arrays)", matches, read
)
