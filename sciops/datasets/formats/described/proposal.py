"""The description to write for a file of arrays, by what its own coordinates say, and what they leave open."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from sciops.datasets.conventions import SPACE
from sciops.datasets.formats.described.contents import Held
from sciops.datasets.formats.described.coordinates import Coordinate, coordinates, dimension, holds_points
from sciops.datasets.formats.described.description import ALONE
from sciops.datasets.formats.shared.axes import Axis, axis_of, is_round
from sciops.grids import Interval

_FEW = 8  # components, rather than samples
_TOGETHER = 4  # fields of one shape that are described at once
_DIMS = (*SPACE, "time", "sample", "channel")
_EXAMPLES: dict[int, tuple[str, ...]] = {
    1: ("x",),
    2: ("sample", "x"),
    3: ("sample", "time", "x"),
    4: ("sample", "time", "x", "y"),
    5: ("sample", "time", "x", "y", "z"),
}


@dataclass(frozen=True)
class Proposal:
    """A call of `describe_arrays` for a file, and what is to be said with it.

    reason : why the axes are named as they are, and what is open
    options : the arguments after the path, as Python text; "" where the arrays cannot be described as they are
    """

    reason: str
    options: str


def proposal(arrays: Mapping[str, Held]) -> Proposal:
    """How to describe these arrays (at least one)."""
    sizes = {name: math.prod(one.shape) for name, one in arrays.items()}
    said = {one.name for name in _largest(sizes) for one in coordinates(arrays, name)}
    fields = {name: size for name, size in sizes.items() if name not in said} or sizes
    name = _largest(fields)[0]
    shape = arrays[name].shape
    found = coordinates(arrays, name)
    scattered = [one for one in found if one.points is None and one.places(shape)]
    if scattered:
        return Proposal(_scattered(scattered[0], name, arrays), "")
    clouds = [one for one, other in arrays.items() if holds_points(one, other.shape) and other.shape[-2] in shape]
    if clouds:
        return Proposal(_clouds(clouds[0], arrays[clouds[0]].shape, name), "")
    choices = _choices(found, arrays[name], shape)
    dims = choices[0] if choices else {}
    if not dims:
        return Proposal(
            "numbers do not say what their axes mean, and their count does not tell. Say it once, such as",
            _call({name: _example(arrays[name])}, arrays, _unit_grid(shape, _example(arrays[name])), ""),
        )
    named = _names(dims, shape)
    space = [dim for dim in SPACE if dim in named]
    vectors = {one.dim: one for one in found if dims.get(one.dim) in one.places(shape)}
    axes = {dim: _axis(vectors[dim]) for dim in space if dim in vectors}
    bad = [f"{vectors[dim].name} {axis}" for dim, axis in axes.items() if isinstance(axis, str)]
    if bad:
        remedy = "reverse the fields along it" if "does not increase" in bad[0] else "interpolate the fields onto one"
        return Proposal(f"{bad[0]}, and fields here lie on grids of evenly spaced, increasing points: {remedy}", "")
    grid, kind = _grid([(shape[named.index(dim)], axes.get(dim)) for dim in space])
    alike = [n for n in fields if arrays[n].shape == shape and arrays[n].dtype.kind in "fc"][:_TOGETHER]
    alike = alike if name in alike and len({n.rsplit("/", 1)[-1] for n in alike}) == len(alike) else [name]
    reason = _reason(name, dims, named, vectors, choices, shape) + f" Check {kind}, then describe it once:"
    return Proposal(reason, _call(dict.fromkeys(alike, named), arrays, grid, _times(vectors.get("time"))))


def _largest(sizes: Mapping[str, int]) -> list[str]:
    most = max(sizes.values())
    return sorted((name for name, size in sizes.items() if size == most), reverse=True)


def _times(one: Coordinate | None) -> str:
    """The argument `times`: the array, or of a mesh grid its first time and step where these are even."""
    if one is None:
        return ""
    if one.count == math.prod(one.shape):
        return f", times={{'array': {one.name!r}}}"
    axis = _axis(one)
    return f", times={{'start': {axis.first!r}, 'step': {axis.step!r}}}" if isinstance(axis, Axis) else ""


def _choices(found: Sequence[Coordinate], field: Held, shape: tuple[int, ...]) -> list[dict[str, int]]:
    """Every way to give the dimensions that coordinates and names of axes speak of their own axes of the field.

    The first is the one in the order x, y, z, time. Dimensions that fit no axis are left out.
    """
    places: dict[str, set[int]] = {}
    for i, own in enumerate(field.dims or ()):
        dim = dimension(own)
        if dim:
            places.setdefault(dim, set()).add(i)
    for one in found:
        here = one.places(shape)
        known = places.get(one.dim, here) & here
        if known or one.dim not in places:
            places[one.dim] = known
    names = [dim for dim in (*SPACE, "time", "sample") if places.get(dim)]
    while names:
        ways = [w for w in product(*(sorted(places[dim]) for dim in names)) if len(set(w)) == len(w)]
        if ways:
            return [dict(zip(names, way)) for way in ways]
        names = names[:-1]
    return []


def _names(dims: Mapping[str, int], shape: tuple[int, ...]) -> tuple[str, ...]:
    """The name of every axis. Those that nothing speaks of are space where nothing else is, samples, times, components;
    few numbers that are not the first axis are components."""
    named = {axis: dim for dim, axis in dims.items()}
    rest = [axis for axis, n in enumerate(shape) if axis not in named and n > 1]
    if not set(dims) & set(SPACE):
        many = [axis for axis in rest if shape[axis] > _FEW or axis == 0] or rest
        space = many[1:] if len(many) > 1 and many[0] == 0 else many
        named |= dict(zip(space[-3:], SPACE))
    for axis in [axis for axis in rest if axis not in named]:
        few = shape[axis] <= _FEW and axis > 0
        free = [dim for dim in ("sample", "time", "channel") if dim not in named.values()]
        named[axis] = "channel" if few and "channel" in free else next(iter(free), "")
    return tuple(named.get(axis, "") for axis in range(len(shape)))


def _reason(
    name: str,
    dims: Mapping[str, int],
    named: tuple[str, ...],
    vectors: Mapping[str, Coordinate],
    choices: Sequence[Mapping[str, int]],
    shape: tuple[int, ...],
) -> str:
    parts = [
        f"{vectors[dim].name} runs over {vectors[dim].points[0]:.6g} … {vectors[dim].points[-1]:.6g} along axis {axis}"
        if dim in vectors
        else f"axis {axis} is called {dim}"
        for dim, axis in dims.items()
    ]
    text = f"by its own coordinates {', '.join(parts)} of {name}."
    if len(choices) > 1:
        others = "; ".join(str(_names(one, shape)) for one in choices[1:3])
        text += f" This order is a guess, since sizes are equal: {others} fits as well, so look at the values first."
    guessed = [axis for axis, dim in enumerate(named) if shape[axis] > 1 and axis not in dims.values()]
    if guessed:
        words = ", ".join(f"axis {axis} ({shape[axis]}) as {named[axis]!r}" for axis in guessed)
        text += f" Nothing says what the other axes are; {words} is a guess."
    return text


def _scattered(one: Coordinate, name: str, arrays: Mapping[str, Held]) -> str:
    text = (
        f"{one.name}{list(one.shape)} holds the positions of {one.count} points of {name}, which do not lie on a grid"
    )
    values = arrays[one.name].values()
    columns = values.reshape(len(values), -1)
    sizes = [len(np.unique(columns[:, k])) for k in range(columns.shape[1])]
    if len(sizes) > 1 and math.prod(sizes) == one.count:
        return (
            f"{text} as they are stored. They are all points of a {'×'.join(map(str, sizes))} grid, in a list: sort "
            f"them, reshape that axis of the fields to {tuple(sizes)} and save them with one vector for each axis"
        )
    return f"{text}: interpolate the fields onto one (scipy.interpolate.griddata) and save these"


def _clouds(name: str, shape: tuple[int, ...], field: str) -> str:
    what = f"{name}{list(shape)} holds positions of points" + (f", at which {field} is given" if field != name else "")
    return (
        f"{what}, and nothing says that these lie on a grid of evenly spaced points: interpolate the fields onto one "
        "(scipy.interpolate.griddata), or, where they do lie on one, save the fields alone with their axes in order"
    )


def _axis(one: Coordinate) -> Axis | str:
    return axis_of(one.points, one.count)


def _grid(axes: Sequence[tuple[int, Axis | str | None]]) -> tuple[str, str]:
    """(`Grid(...)` as text with the points where the file has them, what is to be checked about it)."""
    extents: list[Interval] = []
    kinds = set()
    for _, axis in axes:
        interval, kind = ((0.0, 1.0), "periodic") if not isinstance(axis, Axis) else _placed(axis)
        extents.append(interval)
        kinds.add(kind)
    kind = kinds.pop() if len(kinds) == 1 else "node"
    extents = [e if not isinstance(axis, Axis) else _placed(axis, kind)[0] for (_, axis), e in zip(axes, extents)]
    shape, intervals = tuple(n for n, _ in axes), tuple((float(low), float(high)) for low, high in extents)
    text = f"Grid({shape}, {intervals}, {kind!r})"
    return text, "the kind of the grid ('node' with points on the walls, 'periodic', or 'cell')"


def _placed(axis: Axis, kind: str | None = None) -> tuple[Interval, str]:
    """The extent and kind of grid that put points where this axis has them: the kind whose ends are round numbers."""
    ends = {"node": (0.0, 0.0), "periodic": (0.0, 1.0), "after": (1.0, 0.0), "cell": (0.5, 0.5)}
    if kind is None:
        raw = {k: (axis.first - a * axis.step, axis.last + b * axis.step) for k, (a, b) in ends.items()}
        likely = [k for k, interval in raw.items() if is_round(axis, interval)]
        centred = [k for k in likely if min(abs(raw[k][0]), abs(sum(raw[k]))) <= 1e-3 * axis.step]
        kind = next(iter(centred + likely), "node")  # from 0 on, or about 0, before other round ends
        kind = "periodic" if kind == "after" else kind  # points at h, 2h, …, L of a period L
    return axis.between(*ends[kind]), kind


def _example(one: Held) -> tuple[str, ...]:
    shape = one.shape
    if one.listed and 1 < len(shape) <= 4:
        return ("sample", *SPACE[: len(shape) - 1])
    return _EXAMPLES.get(len(shape), _EXAMPLES[5])


def _unit_grid(shape: tuple[int, ...], dims: tuple[str, ...]) -> str:
    ndim = sum(dim in SPACE for dim in dims)
    points = tuple(shape[-ndim:]) if len(shape) == len(dims) else (64,) * ndim
    return f"Grid({points}, 1.0, 'periodic')"


def _call(fields: Mapping[str, tuple[str, ...]], arrays: Mapping[str, Held], grid: str, times: str) -> str:
    """The arguments of `describe_arrays` after the path."""
    about, state = [], []
    for name, dims in fields.items():
        last = name.rsplit("/", 1)[-1]
        variable = last if last.isidentifier() and last not in _DIMS else f"{last}_field" if last in _DIMS else "u"
        more = {} if name in (variable, ALONE) else {"array": name}
        parts = [variable]
        if "channel" in dims:
            count = arrays[name].shape[dims.index("channel")]
            parts = [f"{variable}_{i}" for i in range(count)]
            more["components"] = tuple(parts)
        if arrays[name].dtype.kind == "c":
            more["real_imaginary"] = True
            parts = [f"{part}_{end}" for part in parts for end in ("real", "imag")]
        about.append(f"{variable!r}: {({'dims': dims} | more) if more else dims}")
        state += parts
    evolves = f", state={tuple(state)}" if any("time" in dims for dims in fields.values()) else ""
    return f"{{{', '.join(about)}}}, grid={grid}{evolves}{times}"
