"""Files of arrays whose axes are described, never guessed: .npy, .npz, HDF5, MATLAB, NetCDF, torch.save.

The description is JSON, its form is in `sciops.datasets.formats.described.description`: ``<file>.json`` beside the
file, which `describe_arrays` writes, a member ``sciops.json`` of a .npz archive, or ``sciops.json`` in the folder, for
all files that hold the arrays it names; for files in its folders train, valid and test as well. It goes before every
layout that the file may look like.
Where no variable has a sample axis the file is one sample, as where a program writes one file each.

HDF5 is read as it is asked for; arrays of .npy, NetCDF-3 and torch files and uncompressed members of an archive are
mapped from the disk; compressed ones, and lists of tensors, are read whole at the first access. Arrays of Python
objects are refused: opening them could run code.
"""

from __future__ import annotations

import json
import math
import os
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import (
    SPACE,
    SPLIT_WORDS,
    build_dataset,
    grid_of,
    parameters_of,
    state_of,
)
from sciops.datasets.formats.containers.named_axes import contradicted
from sciops.datasets.formats.containers.numpy_files import DESCRIPTION
from sciops.datasets.formats.containers.sniff import Probe
from sciops.datasets.formats.containers.torch_files import DIFFERENT
from sciops.datasets.formats.described.contents import KINDS, Held, held
from sciops.datasets.formats.described.contradictions import contradictions
from sciops.datasets.formats.described.description import DIMS, FOLDER, Described, Description, parse, sidecar, stated
from sciops.datasets.formats.described.proposal import proposal
from sciops.datasets.formats.shared.axes import check_size
from sciops.datasets.formats.shared.hdf5_writing import sizes
from sciops.datasets.formats.shared.numpy_writing import write_npy
from sciops.datasets.formats.shared.reader import Reader
from sciops.files.messages import shown
from sciops.files.untrusted import parse_json
from sciops.files.whole_files import replacing
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

_ORDER = ("sample", "time", *SPACE)
_SAID_ELSEWHERE = ("layout", "equation", "grid", "task", "state", "parameters", "boundary", "notes", "positions")


def matches(probe: Probe) -> bool:
    """Whether the file is of arrays with a description, inside it, beside it or in its folder."""
    return probe.kind in KINDS and "arrays" in (stated(probe) or {})


def read(probe: Probe) -> xr.Dataset:
    """The described variables with their axes in order; ValueError where description and shapes differ."""
    from sciops.datasets.formats.containers.lazy_arrays import OneSample
    from sciops.datasets.formats.described.complex_parts import PartArray

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
        view = view if variable.part is None else PartArray(view, variable.part)
        if about.alone:
            dims, view = ["sample", *dims], OneSample(view)
        fields[variable.name] = (tuple(dims), view, variable.attrs)
    times, units = _times(probe, arrays, about, sizes.get("time"))
    return build_dataset(
        fields,
        about.grid,
        layout="arrays",
        equation=about.equation,
        times=times,
        time_units=units,
        state=about.state,
        parameters=about.parameters,
        boundary=about.boundary,
        notes=contradictions(about, arrays, times),
        **{"positions": "stored", **about.attrs},
    )


def undescribed(probe: Probe) -> str:
    """What to do with a file of arrays that nothing describes."""
    if any(DIFFERENT in what for what in probe.others.values()):
        return f"{probe.path} is {probe.describe()}, which is not a known layout and cannot be described as it is"
    about = proposal(held(probe))
    text = f"{probe.path} is {probe.describe()}, which is not a known layout: {about.reason}"
    if about.options:
        text += (
            f" sciops.datasets.describe_arrays({probe.path.name!r}, {about.options}), which writes "
            f"{sidecar(probe.path).name} beside it"
        )
    return (
        text
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

    path : a file of arrays, .npy, .npz, HDF5, MATLAB, NetCDF or torch.save, which stays as it is; or a folder of such
        files, which is given one ``sciops.json`` for all in it and in its folders train, valid and test, checked on the
        first of them
    arrays : variable → names of its axes in the order in which `sciops info` prints them, of "sample", "time", "x",
        "y", "z", "" (length one, left out) and "channel"; or {"dims": …, "array": its name or path in the file,
        "components": names along "channel", "units": …, "long_name": …, "real_imaginary": True}, the last for an
        array of complex numbers, which then opens as two real fields, ``u_real`` and ``u_imag``. A .npy file has one
        array, whatever it is called here. Without "sample" in any of them a file is one sample
    grid : where the points lie
    state : the variables that evolve together; none for a steady problem
    times : the times themselves, or {"start": 0, "step": 0.1, "units": "s"}, or {"array": name in the file}

    Raises ValueError in one line where this does not fit the shapes in the file; nothing is written then. Warns where
    the file's own coordinates (arrays named x, y, z, t and the like) or names of axes say something else than this;
    `validate` reports the same of the opened file.

    >>> describe_arrays("u.npy", {"u": ("sample", "time", "x")}, grid=Grid(64, 1.0, "periodic"), state=("u",),
    ...                 equation="burgers", parameters={"viscosity": 0.01})    # doctest: +SKIP
    """
    from sciops.datasets.formats import probe as look
    from sciops.files.whole_files import replacing

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
        raise ValueError(
            f"{path} is {found.describe()}: .npy, .npz, HDF5, MATLAB, NetCDF and torch.save files are described"
        )
    stored = held(found)
    about = parse(content, path, alone=found.kind == "npy")
    sizes: dict[str, int] = dict(zip(SPACE, about.grid.shape))
    for variable in about.variables:
        _check_axes(found, variable, _stored(found, stored, variable), sizes)
    times, _ = _times(found, stored, about, sizes.get("time"))
    for line in contradictions(about, stored, times):
        warnings.warn(f"the description of {path} differs from what is in the file: {line}", stacklevel=2)
    target = path / FOLDER if path.is_dir() else sidecar(path)
    with replacing(target) as temporary:
        temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return target


def _first_in(folder: Path) -> Path:
    """The first file of arrays of a folder, or of its train, valid and test."""
    from sciops.datasets.formats import probe as look

    parts = (path for path in sorted(folder.glob("*/*")) if path.parent.name.lower() in SPLIT_WORDS)
    for path in (*sorted(folder.iterdir()), *parts):
        if path.is_file() and path.suffix != ".json" and path.name[0] != "." and look(path).kind in KINDS:
            return path
    raise ValueError(
        f"{folder} holds no .npy, .npz, HDF5, MATLAB, NetCDF or torch.save file: name a file of arrays, or a folder of "
        "them"
    )


def _stored(probe: Probe, arrays: Mapping[str, Held], variable: Described) -> Held:
    if variable.array in probe.others:
        raise ValueError(
            f"the description of {probe.path} names {variable.array}, which is not an array of numbers there: "
            f"{shown(probe.others[variable.array], 300)}"
        )
    if variable.array not in arrays:
        raise ValueError(
            f"the description of {probe.path} names the array {variable.array!r}; the file holds "
            f"{shown(', '.join(arrays), 300)}"
        )
    array = arrays[variable.array]
    if array.dtype.kind not in "biufc":
        raise ValueError(f"{probe.path} holds {variable.array} of type {array.dtype}; fields are numbers")
    if variable.part is not None and array.dtype.kind != "c":
        raise ValueError(
            f"the description of {probe.path} opens {variable.array} as real and imaginary parts; it is {array.dtype}: "
            "leave real_imaginary out"
        )
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
        if math.prod(array.shape) != steps or array.dtype.kind not in "iufc":  # of any size: it is not read
            raise ValueError(
                f"the description of {probe.path} has times in {stated['array']}, {array.dtype}{list(array.shape)}, "
                f"for {steps} states"
            )
        times = array.positions().ravel()  # MATLAB keeps them as a row or a column
    else:
        raise ValueError(
            f"the description of {probe.path} has times {dict(stated)}: expected step, values, or the name of an array"
        )
    if times.shape != (steps,) or times.dtype.kind not in "iuf":
        raise ValueError(f"the description of {probe.path} states {times.shape} times for {steps} states")
    return times.astype(np.float64), units


def write(groups: list[xr.Dataset], path: Path) -> None:
    """Every variable as an uncompressed array, and ``sciops.json`` with what they are."""
    (dataset,) = groups
    fields = {str(name): variable for name, variable in dataset.data_vars.items()}
    for name, field in fields.items():
        strange = [str(dim) for dim in field.dims if dim not in DIMS]
        if strange or field.dtype.kind not in "biufc" or "/" in name:
            raise ValueError(
                f"layout 'arrays' holds numbers over {', '.join(DIMS[:5])}; {name} is {field.dtype} over {field.dims}"
            )
    with replacing(path, size=sizes(fields)) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, field in fields.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                write_npy(file, [field])
        # with the date that the arrays have: by default it would be the time of day, and the bytes would differ
        archive.writestr(zipfile.ZipInfo(DESCRIPTION), json.dumps(_description(dataset, fields)))


def _description(dataset: xr.Dataset, fields: dict[str, xr.DataArray]) -> dict[str, Any]:
    arrays = {}
    for name, field in fields.items():
        plain = {key: _plain(value) for key, value in field.attrs.items()}
        about = {key: value for key, value in plain.items() if isinstance(value, (str, int, float)) and key != "grid"}
        arrays[name] = {**about, "dims": [str(dim) for dim in field.dims]}
        if "grid" in field.attrs:
            arrays[name]["grid"] = grid_of(dataset, name).to_dict()
    content = {
        "arrays": arrays,
        "grid": grid_of(dataset, "").to_dict(),
        "equation": dataset.attrs.get("equation", "unknown"),
        "state": list(state_of(dataset)),
        "parameters": parameters_of(dataset),
        "boundary": parse_json(dataset.attrs.get("boundary", "{}")),
        "attrs": {
            key: _plain(value)
            for key, value in dataset.attrs.items()
            if key not in _SAID_ELSEWHERE and isinstance(_plain(value), (str, int, float))
        },
    }
    if "time" in dataset.coords:
        units = str(dataset["time"].attrs.get("units", "1"))
        content["times"] = {"values": [float(t) for t in dataset["time"].values], "units": units}
    return content


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, (np.generic, np.ndarray)) and np.size(value) == 1 else value


READER = Reader(
    "arrays",
    "a .npy, .npz, HDF5, MATLAB, NetCDF or torch.save file with its axes described (sciops.datasets.describe_arrays)",
    matches,
    read,
    named=True,
)
WRITERS = {"arrays": write}
