"""What a figure draws: values on axes with positions and units, from numpy, torch on any device, or xarray."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sciops.arrays.dimensions import LEADING, SPACE, by_name
from sciops.arrays.kinds import refuse_complex, refuse_masked
from sciops.grids import Grid, check_on_grid

_NO_UNIT = ("", "1", "none", "dimensionless")


@dataclass(frozen=True)
class Axis:
    """One axis of a field: its name, the positions of its points, and their unit ("" for none)."""

    name: str
    points: np.ndarray
    unit: str = ""

    @property
    def label(self) -> str:
        return with_unit(self.name, self.unit)


@dataclass(frozen=True)
class Sampled:
    """Fields at known positions, in memory.

    values : (entries, *points)   real, the first entries of those there are
    axes : one for each axis after the first
    entries : what each entry is, such as "sample 3, time 0.5 s"
    total : entries that the array has
    label : what the values are, with their unit
    """

    values: np.ndarray
    axes: tuple[Axis, ...]
    entries: tuple[str, ...]
    total: int
    label: str


def sampled(u: Any, grid: Grid | None = None, *, most: int, name: str = "u") -> Sampled:
    """The first `most` fields of an array whose last axes are those of the grid.

    Parameters
    ----------
    u : array
        numpy, torch or xarray. Only the entries that are drawn are read from a file or copied from a device. xarray
        may also be without a grid: its coordinates are the positions.
    grid : Grid, optional
        Where the points lie. An array of one or two axes may go without: positions are then the numbers of the points.

    Raises
    ------
    TypeError
        For what is not an array of real numbers.
    ValueError
        For an array that does not fit the grid, or is empty.
    """
    if hasattr(u, "data_vars"):
        raise TypeError(f"{name} is a data set with {', '.join(map(str, u.data_vars))}: pass one of its fields")
    labelled = hasattr(u, "dims") and hasattr(u, "coords")
    given = u
    u = u if isinstance(u, torch.Tensor) else by_name(u) if labelled else np.ma.asanyarray(u)
    if not u.ndim:
        raise TypeError(f"{name} is {type(given).__name__}, one value: expected an array of numbers over a grid")
    if labelled and grid is None:
        axes, u = _labelled_axes(u)
    elif grid is not None:
        check_on_grid(u, grid, name)
        names = SPACE if grid.ndim <= len(SPACE) else tuple(f"axis {i}" for i in range(grid.ndim))
        axes = tuple(Axis(*pair) for pair in zip(names, grid.coordinates()))
    elif u.ndim in (1, 2):
        axes = tuple(Axis(f"{one} (points)", np.arange(n, dtype=float)) for one, n in zip(SPACE, u.shape))
    else:
        raise ValueError(
            f"{name} has shape {tuple(u.shape)}: without a grid only one or two axes can be drawn; pass "
            f"grid=sciops.Grid({tuple(u.shape[-2:])}), or one field of it"
        )
    leading = tuple(u.shape[: u.ndim - len(axes)])
    total = math.prod(leading)
    if not total * math.prod(u.shape):
        raise ValueError(f"{name} has shape {tuple(u.shape)}: there is nothing to draw")
    first = range(min(most, total))
    places = [tuple(int(at) for at in np.unravel_index(i, leading)) if leading else () for i in first]
    values = np.stack([real_values(u[place] if place else u, name) for place in places])
    if labelled:
        entries = tuple(_entry(u, place) for place in places)
    else:
        entries = tuple(", ".join(map(str, place)) if total > 1 else "" for place in places)
    return Sampled(values, axes, entries, total, _label(u) if labelled else "")


def real_values(x: Any, name: str) -> np.ndarray:
    """Real numbers as a numpy array of at least single precision, from any device and graph."""
    if isinstance(x, torch.Tensor):
        refuse_complex(x, name)
        x = x.detach().cpu()
        return (x.float() if x.dtype in (torch.bfloat16, torch.float16, torch.bool) else x).numpy()
    refuse_masked(x, name)
    array = np.asarray(x)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"{name}: got {type(x).__name__} of dtype {array.dtype}; expected an array of numbers")
    refuse_complex(array, name)
    return array.astype(np.float32) if array.dtype.kind == "b" or array.dtype.itemsize == 2 else array


def with_unit(name: str, unit: str) -> str:
    """ "name (unit)", or the name alone where the unit is none."""
    return f"{name} ({unit})" if unit.strip().lower() not in _NO_UNIT else name


def _labelled_axes(u: Any) -> tuple[tuple[Axis, ...], Any]:
    """(the axes that are drawn, the array with these last): x, y, z, with time before a single one of them."""
    dims = tuple(map(str, u.dims))
    space = [dim for dim in dims if dim in SPACE] or [dim for dim in dims if dim not in (*LEADING, "channel", "split")]
    if not 1 <= len(space) <= 3:
        raise ValueError(f"dimensions {dims}: expected one to three of space; pass grid=, or one field of it")
    if len(space) == 1 and "time" in dims and u.sizes["time"] > 1:
        space = [*space, "time"]
    u = u.transpose(*(dim for dim in dims if dim not in space), *space)
    axes = []
    for dim in space:
        known = dim in u.coords and u.coords[dim].dtype.kind in "iuf"
        points = np.asarray(u.coords[dim].values, np.float64) if known else np.arange(u.sizes[dim], dtype=float)
        axes.append(Axis(dim, points, str(u.coords[dim].attrs.get("units", ""))) if known else Axis(dim, points))
    return tuple(axes), u


def _entry(u: Any, place: Sequence[int]) -> str:
    """What one entry of a labelled array is, by its dimensions and coordinates; those of length one go without."""
    words = []
    for dim, index in zip(u.dims, place):
        if u.sizes[dim] > 1:
            words.append(coordinate_text(u, str(dim), int(index)))
    return ", ".join(words)


def coordinate_text(u: Any, dim: str, index: int) -> str:
    """ "time 0.5 s", or "sample 3" where the dimension has no coordinate of numbers."""
    if dim in u.coords and u.coords[dim].dtype.kind in "iuf":
        coordinate = u.coords[dim]
        unit = str(coordinate.attrs.get("units", ""))
        return f"{dim} {float(coordinate.values[index]):.4g}" + (f" {unit}" if unit.lower() not in _NO_UNIT else "")
    return f"{dim} {index}"


def _label(u: Any) -> str:
    name = str(u.attrs.get("long_name") or u.name or "")
    return with_unit(name, str(u.attrs.get("units", "")))
