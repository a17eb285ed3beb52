"""The order of named dimensions: sample, time, any others, then x, y, z."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

LEADING = ("sample", "time")
SPACE = ("x", "y", "z")


def ordered(dims: Sequence[str]) -> tuple[str, ...]:
    """The same names as (sample, time, any others as they come, x, y, z).

    >>> ordered(("y", "x", "channel", "sample"))
    ('sample', 'channel', 'x', 'y')
    """
    others = (dim for dim in dims if dim not in LEADING + SPACE)
    return (*(dim for dim in LEADING if dim in dims), *others, *(dim for dim in SPACE if dim in dims))


def named_order(dims: Sequence[str], known: Sequence[str] = LEADING + SPACE) -> tuple[int, ...]:
    """The axes in the order of the names that are `known`; axes of other names, or of none, keep their places.

    >>> named_order(("sample", "channel", "y", "x"))
    (0, 1, 3, 2)
    """
    places = [axis for axis, dim in enumerate(dims) if dim in known]
    moved = dict(zip(places, sorted(places, key=lambda axis: known.index(dims[axis]))))
    return tuple(moved.get(axis, axis) for axis in range(len(dims)))


def by_name(array: Any) -> Any:
    """A labelled array (xarray's) with its dimensions in order; anything else as it is."""
    dims = getattr(array, "dims", None)
    if not isinstance(dims, tuple) or not all(isinstance(dim, str) for dim in dims):
        return array
    return array if ordered(dims) == dims else array.transpose(*ordered(dims))
