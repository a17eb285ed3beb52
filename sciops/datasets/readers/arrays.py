"""Files of arrays whose axes are described, never guessed from their number: .npy, .npz, HDF5, MATLAB, NetCDF.

The description is JSON, its form is said in `sciops.datasets.readers._description`: ``<file>.json`` beside the file,
which `describe_arrays` writes, a member ``sciops.json`` of a .npz archive, or ``sciops.json`` in the folder or in the
one above it, for all files that hold the arrays it names. It goes before every layout that the file may look like.
Where no variable has a sample axis the file is one sample, as where a program writes one file each.

HDF5 is read as it is asked for; arrays of .npy and NetCDF-3 files and uncompressed members of an archive are mapped
from the disk; compressed ones are unpacked whole at the first read. Arrays of Python objects are refused: opening them
could run code.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets._messages import shown
from sciops.datasets.conventions import SPACE, at_resolution, build_dataset
from sciops.datasets.readers._axes import check_size
from sciops.datasets.readers._described import KINDS, Held, held
from sciops.datasets.readers._description import ALONE, FOLDER, Described, Description, parse, sidecar, stated
from sciops.datasets.readers._named_axes import contradicted
from sciops.datasets.readers._reader import Reader, Resolution
from sciops.datasets.readers._sniff import Probe
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

_ORDER = ("sample", "time", *SPACE)


def matches(probe: Probe) -> bool:
    """Whether the file is of arrays with a description, inside it, beside it or in its folder."""
    return probe.kind in KINDS and "arrays" in (stated(probe) or {})


def read(probe: Probe, resolution: Resolution = None) -> xr.Dataset:
    """The described variables with their axes in order; ValueError where description and shapes differ."""
    from sciops.datasets.readers._lazy import lazy
    from sciops.datasets.readers._lazy_arrays import OneSample

    arrays = held(probe)
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
        view = array.view([variable.dims.index(dim) for dim in dims], pick)
        if about.alone:
            dims, view = ["sample", *dims], OneSample(view)
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


def undescribed(probe: Probe) -> str:
    """What to do with a file of arrays that nothing describes."""
    name, entry = max(probe.arrays.items(), key=lambda item: (math.prod(item[1].shape), item[0]), default=(ALONE, None))
    shape = entry.shape if entry is not None else (8, 64)
    example = _EXAMPLES.get(len(shape), _EXAMPLES[5])
    last = name.rsplit("/", 1)[-1]
    variable = last if last.isidentifier() else "u"
    same = name in (variable, ALONE)
    about = str(example) if same else f"{{'dims': {example}, 'array': {name!r}}}"
    ndim = sum(axis in SPACE for axis in example)
    grid = f"Grid({tuple(shape[-ndim:]) if len(shape) == len(example) else (64,) * ndim}, 1.0, 'periodic')"
    state = f", state=({variable!r},)" if "time" in example else ""
    return (
        f"{probe.path} is {probe.describe()}, which is no known layout: numbers do not say what their axes mean, and "
        f"their count is no hint. Say it once, such as sciops.datasets.describe_arrays({probe.path.name!r}, "
        f"{{{variable!r}: {about}}}, grid={grid}{state}), which writes {sidecar(probe.path).name} beside it"
        + ("; APEBench's arrays open as they are with open_dataset(path, layout='apebench')" * (probe.kind == "npy"))
        + "; sciops.datasets.READERS[name].expects says what each known layout holds"
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
    """Writes what the arrays of a file mean to ``<file>.json`` beside it, and returns that path.

    path : a file of arrays, .npy, .npz, HDF5, MATLAB or NetCDF, which stays as it is; or a folder of such files, which
        is given one ``sciops.json`` for all in it and in the folders in it, checked on the first of them
    arrays : variable → names of its axes in the order in which `sciops info` prints them, of "sample", "time", "x",
        "y", "z", "" (length one, left out) and "channel"; or {"dims": …, "array": its name or path in the file,
        "components": names along "channel", "units": …, "long_name": …}. A .npy file has one array, whatever it is
        called here. Without "sample" in any of them a file is one sample
    grid : where the points lie
    state : the variables that evolve together; none for a steady problem
    times : the times themselves, or {"start": 0, "step": 0.1, "units": "s"}, or {"array": name in the file}

    Raises ValueError in one line where this does not fit the shapes in the file; nothing is written then.

    >>> describe_arrays("u.npy", {"u": ("sample", "time", "x")}, grid=Grid(64, 1.0, "periodic"), state=("u",),
    ...                 equation="burgers", parameters={"viscosity": 0.01})    # doctest: +SKIP
    """
    from sciops._whole_files import replacing
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
    found = look(_first_in(path) if path.is_dir() else path)
    if found.kind not in KINDS:
        raise ValueError(f"{path} is {found.describe()}: .npy, .npz, HDF5, MATLAB and NetCDF files are described")
    stored = held(found)
    about = parse(content, path, alone=found.kind == "npy")
    sizes: dict[str, int] = dict(zip(SPACE, about.grid.shape))
    for variable in about.variables:
        _check_axes(found, variable, _stored(found, stored, variable), sizes)
    _times(found, stored, about, sizes.get("time"))
    target = path / FOLDER if path.is_dir() else sidecar(path)
    with replacing(target) as temporary:
        temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return target


def _first_in(folder: Path) -> Path:
    """The first file of arrays of a folder, or of the folders in it."""
    from sciops.datasets.readers import probe as look

    for path in (*sorted(folder.iterdir()), *sorted(folder.glob("*/*"))):
        if path.is_file() and path.suffix != ".json" and path.name[0] != "." and look(path).kind in KINDS:
            return path
    raise ValueError(
        f"{folder} holds no .npy, .npz, HDF5, MATLAB or NetCDF file: name a file of arrays, or a folder of them"
    )


_EXAMPLES: dict[int, tuple[str, ...]] = {
    1: ("x",),
    2: ("sample", "x"),
    3: ("sample", "time", "x"),
    4: ("sample", "time", "x", "y"),
    5: ("sample", "time", "x", "y", "z"),
}


def _stored(probe: Probe, arrays: Mapping[str, Held], variable: Described) -> Held:
    if variable.array not in arrays:
        raise ValueError(
            f"the description of {probe.path} names the array {variable.array!r}; the file holds "
            f"{shown(', '.join(arrays), 300)}"
        )
    array = arrays[variable.array]
    if array.dtype.kind not in "biufc":
        raise ValueError(f"{probe.path} holds {variable.array} of type {array.dtype}; fields are numbers")
    return array


def _check_axes(probe: Probe, variable: Described, array: Held, sizes: dict[str, int]) -> None:
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
    entry = probe.arrays[variable.array]
    if contradicted(entry, variable.dims):
        raise ValueError(
            f"the description of {probe.path} gives {variable.name} the axes ({', '.join(variable.dims)}); the file "
            f"itself names them ({', '.join(entry.dims)}): describe them so"
        )
    for size, dim in zip(array.shape, variable.dims):
        if dim in ("sample", "time"):
            sizes[dim] = size


def _times(
    probe: Probe, arrays: Mapping[str, Held], about: Description, steps: int | None
) -> tuple[np.ndarray | None, str]:
    stated, units = about.times, str(about.times.get("units", "1"))
    if not stated or steps is None:
        return None, units
    if "step" in stated:
        return float(stated.get("start", 0.0)) + float(stated["step"]) * np.arange(steps), units
    if "values" in stated:
        times = np.asarray(stated["values"], np.float64)
    elif str(stated.get("array")) in arrays:
        array = arrays[str(stated["array"])]
        if math.prod(array.shape) != steps or array.dtype.kind not in "iuf":  # of any size: it is not read
            raise ValueError(
                f"the description of {probe.path} has times in {stated['array']}, {array.dtype}{list(array.shape)}, "
                f"for {steps} states"
            )
        times = array.values().ravel()  # MATLAB keeps them as a row or a column
    else:
        raise ValueError(
            f"the description of {probe.path} has times {dict(stated)}: expected step, values, or the name of an array"
        )
    if times.shape != (steps,) or times.dtype.kind not in "iuf":
        raise ValueError(f"the description of {probe.path} states {times.shape} times for {steps} states")
    return times.astype(np.float64), units


READER = Reader(
    "arrays",
    "a .npy, .npz, HDF5, MATLAB or NetCDF file with its axes described (sciops.datasets.describe_arrays)",
    matches,
    read,
    named=True,
)
