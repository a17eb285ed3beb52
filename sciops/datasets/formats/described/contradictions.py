"""Where a description of arrays says something else than the file's own coordinates and names of axes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sciops.datasets.conventions import SPACE
from sciops.datasets.formats.described.contents import Held
from sciops.datasets.formats.described.coordinates import Coordinate, coordinates, dimension
from sciops.datasets.formats.described.description import Described, Description
from sciops.files.untrusted import parse_json
from sciops.grids import Grid

_CLOSE = 1e-3  # of a spacing


def contradictions(about: Description, arrays: Mapping[str, Held], times: np.ndarray | None) -> tuple[str, ...]:
    """One line for each axis that the description and the file name, place or time differently.

    times : those of the description; None where it states none
    """
    used = {variable.array for variable in about.variables}
    clock = str(about.times.get("array", ""))
    found: list[str] = []
    if dimension(clock) in SPACE:
        found.append(f"the times are described as the array {clock}, whose name is that of the axis {dimension(clock)}")
    for variable in about.variables:
        names = arrays[variable.array].dims or ()
        for described, own in zip(variable.dims, names):
            meant = dimension(own)
            if meant in (*SPACE, "time") and described and described != meant:
                found.append(f"the file calls an axis of {variable.array} {own}, described as {described!r}")
        for one in coordinates(arrays, variable.array, used | {clock}):
            said = _about_axis(one, variable, arrays[variable.array].shape, about, times)
            found += [said] if said else []
    return tuple(dict.fromkeys(found))


def _about_axis(
    one: Coordinate, variable: Described, shape: tuple[int, ...], about: Description, times: np.ndarray | None
) -> str | None:
    places = one.places(shape)
    if one.points is None:
        where = [variable.dims[i] for i in places if variable.dims[i] in SPACE]
        if not where:
            return None
        return f"{one.name} holds scattered positions of the {one.count} points of the axis described as {where[0]}"
    ends = f"{one.points[0]:.6g} … {one.points[-1]:.6g} ({len(one.points)} points)"
    if one.dim not in variable.dims:
        others = sorted({variable.dims[i] or "length one" for i in places})
        if len(others) != 1:
            return None
        return f"{one.name} of the file, {ends}, runs along the axis of {variable.array} described as {others[0]!r}"
    axis = variable.dims.index(one.dim)
    if places and axis not in places:
        others = sorted({variable.dims[i] or "length one" for i in places})
        return (
            f"{one.name} of the file, {ends}, runs along the axis of {variable.array} described as {others[0]!r}, "
            f"not along {one.dim}"
        )
    described = times if one.dim == "time" else _points(variable, about.grid, one.dim)
    if described is None:
        return f"no times are described, and {one.name} of the file holds {ends}"
    points = one.points.astype(np.float64)
    if len(points) == len(described) + 1:  # walls of cells
        points = (points[1:] + points[:-1]) / 2
    step = np.abs(np.diff(described)).min() if len(described) > 1 else np.abs(described).max()
    slack = 8 * np.finfo(one.points.dtype).eps * np.abs(points).max()
    if len(points) == len(described) and np.abs(points - described).max() <= max(_CLOSE * step, slack):
        return None
    return (
        f"{one.name} of the file runs over {ends}, and the description puts {one.dim} at {described[0]:.6g} … "
        f"{described[-1]:.6g} ({len(described)} points)"
    )


def _points(variable: Described, grid: Grid, dim: str) -> np.ndarray:
    own = variable.attrs.get("grid")
    grid = grid if own is None else Grid.from_dict(parse_json(own))
    return np.asarray(grid.coordinates()[SPACE.index(dim)])
