"""What the arrays of a file mean: the JSON beside it, inside it or in its folder, read and checked.

    {"arrays": {"u": {"dims": ["sample", "time", "x", "y"], "units": "m/s", "long_name": "…"}},
     "grid": {"shape": [64, 64], "extent": [[0, 1], [0, 1]], "centering": "periodic"},
     "equation": "burgers", "state": ["u"], "times": {"start": 0, "step": 0.1, "units": "s"},
     "parameters": {"viscosity": 0.01}, "boundary": {"x": "periodic", "y": "periodic"}}

``arrays``: variable → its dimensions in the order of the stored axes, of "sample", "time", "x", "y", "z", "channel"
(then "components" names the variables along it) and "" (an axis of length one, left out); "array" is the name in the
file where it differs, "grid" the variable's own grid where it is staggered; "real_imaginary": true opens an array of
complex numbers as two variables, ``u_real`` and ``u_imag``. ``times`` is {"start", "step"}, {"values": […]} or
{"array": name}, with "units". All but ``arrays`` and ``grid`` may be left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sciops.datasets.conventions import SPACE, SPLIT_WORDS
from sciops.datasets.formats.containers.numpy_files import npz_description
from sciops.datasets.formats.containers.sniff import Probe, readable
from sciops.files.remote import RemotePath
from sciops.files.untrusted import parse_json
from sciops.grids import Grid

DIMS = ("sample", "time", *SPACE, "channel", "")
FOLDER = "sciops.json"  # the name of a description for all files of a folder
ALONE = "(the array)"  # the name of a .npy file's one array in its table of contents
_KEYS = ("arrays", "grid", "equation", "state", "times", "parameters", "boundary", "attrs")
_LARGEST = 1 << 20


@dataclass(frozen=True)
class Described:
    """One variable: the array it comes from, its stored axes, the entry of the channel axis it is, its attributes.

    part : 0 for the real part of the numbers, 1 for the imaginary one, None for the numbers themselves
    """

    name: str
    array: str
    dims: tuple[str, ...]
    channel: int | None
    channels: int
    attrs: dict[str, Any]
    part: int | None = None


@dataclass(frozen=True)
class Description:
    """What the arrays of a file mean: their variables, the grid, times, constants and walls."""

    variables: tuple[Described, ...]
    grid: Grid
    equation: str = "unknown"
    state: tuple[str, ...] = ()
    times: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, float] = field(default_factory=dict)
    boundary: Mapping[str, str] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def alone(self) -> bool:
        """Whether the file is one sample, since no variable has an axis of samples."""
        return not any("sample" in one.dims for one in self.variables)


def sidecar(path: Path) -> Path:
    """Where the description of a file lies that does not hold it itself."""
    return path.with_name(path.name + ".json")


def stated(probe: Probe) -> Mapping[str, Any] | None:
    """The JSON object that goes with the file, inside it, beside it, or in its folder; None where there is none.

    The folder of a file in train, valid or test is the one that holds these, unless they have a description of their
    own. No other folder above is looked into: it may be anybody's.
    """
    if probe.kind == "npz":
        with readable(probe.path, "a NumPy .npz archive"):
            text = npz_description(probe.path)
        if text is not None:
            return _parsed(text)
    if isinstance(probe.path, RemotePath):
        return None
    if os.path.isfile(sidecar(probe.path)):  # which is False for a name too long to have one
        return _read(sidecar(probe.path))
    own = probe.path.absolute().parent
    for folder in (own, own.parent) if own.name.lower() in SPLIT_WORDS else (own,):
        content = _read(folder / FOLDER) if (folder / FOLDER).is_file() else None
        if content is not None:
            return content if _holds(probe, content) else None
    return None


def _read(path: Path) -> Mapping[str, Any] | None:
    return _parsed(path.read_bytes()) if path.stat().st_size <= _LARGEST else None


def _parsed(text: str | bytes) -> Mapping[str, Any] | None:
    try:
        content = parse_json(text, largest=_LARGEST)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _holds(probe: Probe, content: Mapping[str, Any]) -> bool:
    """Whether a description that is not this file's own speaks of arrays that are in it."""
    arrays = content.get("arrays")
    if not isinstance(arrays, dict) or not arrays:
        return False
    if probe.kind == "npy":  # its one array has no name
        dims = [about.get("dims") if isinstance(about, dict) else about for about in arrays.values()]
        rank = len(probe.arrays[ALONE].shape)
        return all(isinstance(one, list) and len(one) == rank for one in dims)
    named = [about.get("array", name) if isinstance(about, dict) else name for name, about in arrays.items()]
    return all(str(name) in probe.arrays for name in named)


def parse(content: Mapping[str, Any], where: Path, alone: bool) -> Description:
    """A checked description; ValueError in one line naming what is wrong in it.

    alone : whether the file holds a single array without a name
    """
    try:
        unknown = sorted(set(content) - set(_KEYS))
        if unknown:
            raise ValueError(f"{unknown[0]!r} is none of {', '.join(_KEYS)}")
        if not isinstance(content.get("arrays"), dict) or not content["arrays"]:
            raise ValueError("arrays is missing: {'u': {'dims': ['sample', 'time', 'x']}} and the like belong there")
        variables = tuple(one for name, about in content["arrays"].items() for one in _variables(name, about, alone))
        names = [one.name for one in variables]
        if len(set(names)) < len(names):
            raise ValueError(f"two variables have one name among {', '.join(names)}")
        state = tuple(map(str, content.get("state", ())))
        needed = {"time"} | ({"sample"} if any("sample" in one.dims for one in variables) else set())
        for name in state:
            dims = next((one.dims for one in variables if one.name == name), ())
            if not needed <= set(dims):
                raise ValueError(
                    f"state has {name!r}, which is not a variable with a {' and a '.join(sorted(needed))} axis"
                )
        parts = {key: content.get(key, {}) for key in ("times", "parameters", "boundary", "attrs")}
        for key, value in parts.items():
            if not isinstance(value, dict):
                raise ValueError(f"{key} is {type(value).__name__}, a JSON object is expected")
        parts["parameters"] = {str(k): float(v) for k, v in parts["parameters"].items()}
        parts["attrs"] = {str(k): v for k, v in parts["attrs"].items() if isinstance(v, (str, int, float))}
        if "grid" not in content:
            raise ValueError("grid is missing: {'shape': [64], 'extent': [[0, 1]], 'centering': 'periodic'}")
        return Description(
            variables, grid_from(content["grid"]), str(content.get("equation", "unknown")), state, **parts
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        text = " ".join(str(error).split())
        raise ValueError(f"the description of {where} cannot be used: {text}") from None


def grid_from(content: Any) -> Grid:
    """The grid of a description: `extent` and `domain` may be left out, a shape may be one number."""
    if not isinstance(content, dict) or "shape" not in content or "centering" not in content:
        raise ValueError("grid needs shape and centering ('node', 'cell' or 'periodic')")
    options = {key: content[key] for key in ("extent", "domain") if content.get(key) is not None}
    return Grid(content["shape"], centering=content["centering"], **options)


def _variables(name: str, about: Any, alone: bool) -> list[Described]:
    about = {"dims": about} if isinstance(about, list) else dict(about)
    dims = tuple(dim or "" for dim in about.pop("dims"))
    array = ALONE if alone else str(about.pop("array", name))
    components = list(map(str, about.pop("components", ())))
    own, apart = about.pop("grid", None), about.pop("real_imaginary", False)
    wrong = [dim for dim in dims if dim not in DIMS]
    if wrong:
        raise ValueError(f"{name} has the dimension {wrong[0]!r}: expected one of {', '.join(DIMS[:-1])}")
    named = [dim for dim in dims if dim]
    if len(set(named)) < len(named):
        raise ValueError(f"{name} has one dimension twice: {', '.join(named)}")
    if ("channel" in dims) != bool(components):
        raise ValueError(f"{name}: components names the variables along its dimension channel, and goes with it")
    attrs = {"units": "1", "long_name": name, **{k: v for k, v in about.items() if isinstance(v, (str, int, float))}}
    if own is not None:
        attrs["grid"] = json.dumps(grid_from(own).to_dict())
    pieces = [{**attrs, "long_name": f"{attrs['long_name']}, {one}"} for one in components]
    variables = [Described(one, array, dims, i, len(components), pieces[i]) for i, one in enumerate(components)]
    variables = variables or [Described(name, array, dims, None, 1, attrs)]
    return [part for one in variables for part in _parts(one)] if apart else variables


def _parts(one: Described) -> list[Described]:
    """The real and the imaginary part of a variable."""
    return [
        replace(one, name=f"{one.name}_{end}", part=i, attrs={**one.attrs, "long_name": f"{word} part of {words}"})
        for i, (end, word) in enumerate((("real", "real"), ("imag", "imaginary")))
        for words in (one.attrs["long_name"],)
    ]
