"""Coordinate arrays of a file as a `Grid`, and what is to be said where they do not make one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciops.datasets.conventions import SPACE
from sciops.datasets.formats.containers.hdf5_attributes import hdf5_packing
from sciops.datasets.formats.containers.sniff import Probe, readable
from sciops.datasets.native.hdf5.guard import open_survivable
from sciops.datasets.native.hdf5.inflation import Inflation
from sciops.files.untrusted import parse_json
from sciops.grids import Grid, Interval

GRID_ATTR = "sciops_grid"  # the JSON of a Grid: our writers add it where the layout's own rule would give another
MOST_POINTS = 2**24  # on one axis; a table of contents that states more is damaged or hostile
_UNIFORM = 1e-3  # of a step


@dataclass(frozen=True)
class Axis:
    """n points from `first` on, `step` apart; the file knows them to ± `slack`."""

    n: int
    first: float
    step: float
    slack: float

    @property
    def last(self) -> float:
        return self.first + (self.n - 1) * self.step

    def between(self, before: float, after: float) -> Interval:
        """The interval from `before` steps ahead of the first point to `after` steps behind the last one.

        Its ends are round numbers (or quarters of π) where they are that to the precision of the file.
        """
        return _snap(self.first - before * self.step, self.slack), _snap(self.last + after * self.step, self.slack)

    @property
    def cells(self) -> Interval:
        """The interval whose n cells have these points as centres."""
        return self.between(0.5, 0.5)


def axis_of(points: np.ndarray | None, n: int) -> Axis | str:
    """The uniform axis these n points make, or what keeps them from being one ("holds NaN", "is not uniform", …)."""
    if points is None:
        return "is missing"
    if points.shape != (n,):
        return f"has shape {points.shape} for {n} points"
    if not np.isfinite(points).all():
        return "holds NaN or infinity"
    if n < 2:
        return "holds a single point, which has no spacing"
    exact = points.astype(np.float64)
    step = (exact[-1] - exact[0]) / (n - 1)
    size = float(np.abs(exact).max())
    precision = np.finfo(points.dtype).eps if points.dtype.kind == "f" else np.finfo(np.float64).eps
    slack = 8 * float(precision) * size
    if step <= 0:
        return "does not increase"
    if np.abs(exact - (exact[0] + step * np.arange(n))).max() > max(_UNIFORM * step, slack):
        return "is not uniform"
    return Axis(n, float(exact[0]), float(step), slack)


def numbers(probe: Probe, name: str, most: int = MOST_POINTS) -> np.ndarray | None:
    """A small array of the file in its own precision; None where it is not there, is no array of numbers, or is longer
    than `most`."""

    entry = probe.arrays.get(name)
    if entry is None or not is_real(entry.dtype) or not 0 < int(np.prod(entry.shape, dtype=object)) <= most:
        return None
    with readable(probe.path, "an HDF5 file"), open_survivable(probe.path) as file:
        packing = hdf5_packing(file[name])
        Inflation(probe.path, name).check(file[name])
        return np.asarray(file[name][()]) if packing is None else packing.unpacked(file[name][()])


def axis_in(probe: Probe, name: str, n: int) -> Axis | str:
    """`axis_of` an array of the file, which is not read where its shape is another: it may be long, in tiny chunks."""
    entry = probe.arrays.get(name)
    if entry is not None and is_real(entry.dtype) and tuple(entry.shape) != (n,):
        return f"has shape {tuple(entry.shape)} for {n} points"
    return axis_of(numbers(probe, name), n)


def is_real(dtype: str, kinds: str = "iuf") -> bool:
    """Whether a dtype, as a table of contents states it, is one of real numbers (`kinds` "f": of floats)."""
    try:
        return np.dtype(dtype).kind in kinds
    except (TypeError, ValueError, SyntaxError):  # compound types print as lists, torch has names of its own
        return False


def runs_end_to_end(axis: Axis) -> bool:
    """Whether the points run from one end of an interval to the other, both included, as nodes do.

    The ends that somebody chose are the shorter numbers: those of linspace(−1, 1, 128) are −1 and 1, and −1.0079 and
    1.0079 if its points were cell centres, −1 and 1.0157 if they were one period without its end.
    """
    nodes, cells, period = (
        max(_figures(end, axis) for end in axis.between(*reach)) for reach in ((0, 0), (0.5, 0.5), (0, 1))
    )
    return nodes + (nodes > 2) < min(cells, period)


def cells_of(axis: Axis, name: str) -> tuple[Interval, str]:
    """(the interval that these cell centres fill, "").

    Points that run from end to end are no cell centres, and in one period they hold a point twice: then the interval is
    theirs, and a note says so.
    """
    if not runs_end_to_end(axis):
        return axis.cells, ""
    first, last = ends = axis.between(0, 0)
    return ends, (
        f"{name} runs from wall to wall, as nodes do: cell centres of [{first:g}, {last:g}] are used instead; where "
        "the last values repeat the first, leave them out"
    )


def cell_extents(
    probe: Probe, names: Sequence[str], shape: Sequence[int], otherwise: Interval = (0.0, 1.0)
) -> tuple[list[Interval], tuple[str, ...]]:
    """The interval of each axis for a layout that stores cell centres, and notes on what the file says instead.

    Coordinates that cannot be cell centres (missing, not uniform, NaN) give the interval `otherwise` and a note, those
    that run from wall to wall as nodes do their own and a note.
    """
    check_size(probe, shape)
    extents, notes = [], []
    for name, n in zip(names, shape):
        axis = axis_in(probe, name, n)
        words = f"cell centres of [{otherwise[0]:g}, {otherwise[1]:g}]"
        if isinstance(axis, str):
            notes.append(f"{name} {axis}: {words} are assumed")
        elif np.abs(np.subtract((axis.first, axis.last), otherwise)).max() < max(_UNIFORM * axis.step, axis.slack):
            notes.append(f"{name} runs from wall to wall, as nodes do: {words} are used instead")
        else:
            found, note = cells_of(axis, name)
            extents.append(found)
            notes += [note] * bool(note)
            continue
        extents.append(otherwise)
    return extents, tuple(notes)


def periodic_cells(shape: Sequence[int], extents: Sequence[Interval]) -> Grid:
    """The periodic grid whose points are the cell centres of `extents`: half a cell further on, same period.

    A field with that period has no walls for its cells to touch, so its points can be strided like any periodic ones.
    """
    halves = [0.5 * (b - a) / n for n, (a, b) in zip(shape, extents)]
    return Grid(tuple(shape), tuple((a + h, b + h) for h, (a, b) in zip(halves, extents)), "periodic")


def stated_grid(probe: Probe, names: Sequence[str], rule: Callable[[], tuple[Grid, tuple[str, ...]]]) -> Any:
    """(grid, notes): the grid our own writer stated where it fits the coordinates in the file, otherwise `rule()`'s."""
    text = probe.attrs.get(GRID_ATTR)
    if not isinstance(text, str):
        return rule()
    try:
        grid = Grid.from_dict(parse_json(text))
    except (ValueError, KeyError, TypeError):
        grid = None
    if grid is None or not _fits(probe, names, grid):
        natural, notes = rule()
        return natural, (*notes, f"attribute {GRID_ATTR} does not fit the coordinates in the file, and is passed over")
    return grid, ()


def times_of(points: np.ndarray | None, steps: int, name: str) -> tuple[np.ndarray | None, str, tuple[str, ...]]:
    """(times, comment, notes) of a trajectory of so many states; None where the file does not say them.

    PDEBench's generators store one time more than states; the last is left out, which the comment says.
    """
    if points is None:
        return None, "", (f"{name} is missing: times are not known, only their order",)
    comment = ""
    if points.shape == (steps + 1,):
        comment = f"{name} holds {steps + 1} times for {steps} states; the last is left out"
        points = points[:-1]
    exact = points.astype(np.float64)
    if points.shape != (steps,):
        return None, "", (f"{name} has shape {points.shape} for {steps} states: times are not known",)
    if not np.isfinite(exact).all() or (np.diff(exact) <= 0).any():
        return None, "", (f"{name} is not finite and increasing: times are not known",)
    return exact, comment, ()


def is_round(axis: Axis, ends: Interval) -> bool:
    """Whether both ends are decimals of two figures, or quarters of π: what a person would type."""
    slack = max(_UNIFORM * axis.step, axis.slack)
    figures = (float(f"{end:.1e}") for end in ends)
    quarters = (round(end / (np.pi / 4)) * np.pi / 4 for end in ends)
    return all(min(abs(end - f), abs(end - q)) <= slack for end, f, q in zip(ends, figures, quarters))


def unplaced(dataset: Any, axes: Mapping[str, np.ndarray | None], why: str) -> Any:
    """The data set with its coordinates as the file has them and no grid, so that whatever needs one says so.

    Attribute ``no_grid`` holds `why`. Coordinates of more axes than one become variables ``position_x``; those the
    file lacks are left out.
    """
    result = dataset.drop_vars([axis for axis in SPACE if axis in dataset.coords])
    result.attrs.pop("grid", None)
    result.attrs["no_grid"] = why
    for axis, points in axes.items():
        about = dict(dataset[axis].attrs)
        for key in ("centering", "extent", "domain"):
            about.pop(key, None)
        if points is not None and points.shape == (dataset.sizes[axis],):
            result = result.assign_coords({axis: (axis, points.astype(np.float64), about)})
        elif points is not None and points.ndim == 2 and points.shape[1] == dataset.sizes[axis]:
            other = next((d for d in ("sample", "time") if result.sizes.get(d) == points.shape[0]), f"{axis}_row")
            result[f"position_{axis}"] = ((other, axis), points, about)
    return result


def number(value: Any) -> float | None:
    """An attribute as one finite number; None where it is none."""
    array = np.asarray(value if value is not None else np.nan)
    if array.dtype.kind not in "iuf" or array.size != 1 or not np.isfinite(array).all():
        return None
    return float(array.reshape(()))


def check_size(probe: Probe, shape: Sequence[int]) -> None:
    """Raises ValueError for an axis that no file of this kind has, before anything of that length is made."""
    if max(shape) > MOST_POINTS:
        raise ValueError(
            f"{probe.path} states an axis of {max(shape)} points, more than {MOST_POINTS}: the file is damaged"
        )


def _fits(probe: Probe, names: Sequence[str], grid: Grid) -> bool:
    for name, points, h in zip(names, grid.coordinates(), grid.spacing):
        stored = numbers(probe, name)
        if stored is None or stored.shape != points.shape or not np.abs(stored - points).max() <= _UNIFORM * h:
            return False
    return True


def _figures(value: float, axis: Axis) -> int:
    """How many figures a number takes to the precision of an axis; a multiple of π/4 is written with one."""
    slack, quarter = max(_UNIFORM * axis.step, axis.slack), np.pi / 4
    if abs(value) <= slack:
        return 0
    multiple = round(value / quarter)
    if slack < 0.01 * quarter and abs(multiple) <= 256 and abs(multiple * quarter - value) <= slack:
        return 1
    return next((n for n in range(1, 9) if abs(float(f"{value:.{n - 1}e}") - value) <= slack), 9)


def _snap(value: float, slack: float) -> float:
    for digits in range(5):
        if abs(round(value, digits) - value) <= slack:
            return round(value, digits) + 0.0
    quarter = np.pi / 4
    if abs(round(value / quarter) * quarter - value) <= slack:
        return float(round(value / quarter) * quarter)
    return float(value)
