"""Arrays of a file that say where its fields lie: x, y, z, t and their usual spellings, vectors or mesh grids."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, islice

import numpy as np

from sciops.datasets.conventions import SPACE
from sciops.datasets.formats.described.contents import Held

_AROUND = r"grid|mesh|coords?|coordinates?|axis"
_LETTER = re.compile(
    rf"(?:(?:{_AROUND})[_ .-]?)?([xyzt])\1?(?:s|v|vec)?(?:[_ .-]?(?:{_AROUND}|star|vals?|values|points|pts|sol|span))?"
)
_WORDS = {"lon": "x", "longitude": "x", "lat": "y", "latitude": "y", "time": "time", "times": "time"}
_WORDS |= {"sample": "sample", "samples": "sample", "batch": "sample", "trajectory": "sample", "realization": "sample"}
_POINTS = re.compile(
    r"(?:.*[_ .-])?(?:vert(?:ex|ices)|points?|pts|pos|positions?|coords?|coordinates?|nodes?|centroids?|locations?"
    r"|xyz?)"
)
_FOLDER = re.compile(rf"{_AROUND}|scales|dimensions")  # folders that hold positions of what lies beside them
_MOST = 1 << 22  # numbers of a coordinate array; larger ones are fields
_ARRAYS = 64  # arrays that are read


@dataclass(frozen=True)
class Coordinate:
    """One array of positions or times.

    name, shape : of the array in the file
    dim : "x", "y", "z" or "time"
    points : the positions; None where the array holds the positions of scattered points
    along : the stored axis along which it varies; 0 for scattered points
    """

    name: str
    dim: str
    shape: tuple[int, ...]
    points: np.ndarray | None
    along: int = 0

    @property
    def count(self) -> int:
        """The number of positions along the axis, or of scattered points."""
        return max(self.shape) if self.points is None else len(self.points)

    def places(self, shape: tuple[int, ...]) -> set[int]:
        """The axes of a field of this shape along which the coordinate can run."""
        if self.points is None:
            return {i for i, n in enumerate(shape) if n == self.count}
        if self.shape == shape:
            return {self.along}
        n = len(self.points)
        if n == math.prod(self.shape):
            return {i for i, size in enumerate(shape) if size == n}
        # a mesh grid over some of the field's axes, in their order
        choices = combinations(range(len(shape)), len(self.shape))
        return {axes[self.along] for axes in choices if tuple(shape[i] for i in axes) == self.shape}


def dimension(name: str) -> str | None:
    """The dimension that a name of an array or axis means: "x", "y", "z", "time", "sample"; None for other names.

    >>> [dimension(name) for name in ("X", "tt", "x_grid", "t-coordinate", "U", "xi")]
    ['x', 'time', 'x', 'time', None, None]
    """
    text = name.rsplit("/", 1)[-1].lower()
    found = _LETTER.fullmatch(text)
    if found is None:
        return _WORDS.get(text)
    return "time" if found[1] == "t" else found[1]


def holds_points(name: str, shape: tuple[int, ...]) -> bool:
    """Whether an array of this name and shape (…, points, 2 or 3) holds positions, as of the vertices of a mesh.

    >>> holds_points("vertices", (100, 3586, 3)), holds_points("pressure", (100, 3586, 3))
    (True, False)
    """
    return len(shape) > 1 and shape[-1] in (2, 3) and bool(_POINTS.fullmatch(name.rsplit("/", 1)[-1].lower()))


def coordinates(arrays: Mapping[str, Held], field: str, leave_out: Collection[str] = ()) -> list[Coordinate]:
    """The coordinate arrays that go with `field`: in its own folder of the file, in one above it, or in "grid" and kin.

    Vectors, and mesh grids, that rise or fall along one axis and are constant along the others; lists of the positions
    of scattered points (`points` is None). Whatever else has such a name is a field.
    """

    def named() -> Iterator[str]:
        for name, one in arrays.items():
            folder = name.rpartition("/")[0]
            near = not folder or field.startswith(f"{folder}/") or _FOLDER.fullmatch(folder.rsplit("/", 1)[-1].lower())
            small = 2 <= math.prod(one.shape) <= _MOST
            if near and small and name != field and name not in leave_out and one.dtype.kind in "iufc":
                if dimension(name) in (*SPACE, "time"):
                    yield name

    each = (_coordinate(name, arrays[name].positions()) for name in islice(named(), _ARRAYS))
    found = [one for one in each if one is not None]
    scattered = [one for one in found if one.points is None]
    # positions of points come in pairs; one column of any numbers may be anything
    paired = [
        one
        for one in scattered
        if one.count < math.prod(one.shape)
        or any(one.count == other.count and one.dim != other.dim for other in scattered)
    ]
    return [one for one in found if one.points is not None] + paired


def _coordinate(name: str, values: np.ndarray) -> Coordinate | None:
    dim = dimension(name)
    if dim is None or values.dtype.kind == "c" or not np.isfinite(values).all():
        return None
    for axis, size in enumerate(values.shape):
        line = values[tuple(slice(None) if i == axis else 0 for i in range(values.ndim))]
        rises = np.diff(line.astype(np.float64))
        whole = line.reshape([-1 if i == axis else 1 for i in range(values.ndim)])
        if size > 1 and ((rises > 0).all() or (rises < 0).all()) and (values == whole).all():
            points = line if line.dtype.kind == "f" else line.astype(np.float64)
            return Coordinate(name, dim, values.shape, points, axis)
    listed = values.ndim == 1 or (values.ndim == 2 and min(values.shape) <= 3)
    return Coordinate(name, dim, values.shape, None) if listed and dim in SPACE else None
