"""What the HDF5 writers share: fields in blocks, coordinates without loss, the grid where the layout cannot say it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.blocks import pieces
from sciops.datasets.conventions import RECORDS, SPACE, grid_of, state_of
from sciops.datasets.formats.shared.axes import GRID_ATTR, axis_of, cells_of
from sciops.datasets.formats.shared.expectations import FLOATS, leave_out, words
from sciops.datasets.native.layout import stored_bytes
from sciops.grids import Grid, Interval

if TYPE_CHECKING:
    import xarray as xr


def lossless(points: Any) -> np.ndarray:
    """Positions in single precision, as most layouts hold them, where that loses nothing; in double otherwise."""
    exact = np.asarray(points, dtype=np.float64)
    single = exact.astype(np.float32)
    return single if np.array_equal(single.astype(np.float64), exact) else exact


def expect_trajectory(dataset: xr.Dataset, layout: str, ndims: Sequence[int], *, samples: bool = True) -> Grid:
    """The grid of a data set whose state is of floats over (sample, time, *space); ValueError in one line otherwise."""
    state = state_of(dataset)
    if not state:
        raise ValueError(
            f"layout {layout!r} holds trajectories; the data set is steady ({', '.join(map(str, dataset.data_vars))})"
        )
    grid = grid_of(dataset, state[0])
    if grid.ndim not in ndims:
        allowed = " or ".join(f"{d}-D" for d in ndims)
        raise ValueError(f"layout {layout!r} holds {allowed} fields; the data set has {words(grid)}")
    dims = ("sample", "time", *SPACE[: grid.ndim])
    for name in state:
        field = dataset[name]
        if set(field.dims) != set(dims):
            raise ValueError(f"layout {layout!r} holds {name} over {dims}; the data set has it over {field.dims}")
        if str(field.dtype) not in FLOATS:
            raise ValueError(f"layout {layout!r} holds floats; {name} is {field.dtype}: use astype('float32')")
        if not grid_of(dataset, name).same_points(grid):
            raise ValueError(
                f"layout {layout!r} holds all fields at the same points; {name} is staggered: resample it first"
            )
    return grid


def state_fields(dataset: xr.Dataset, grid: Grid) -> dict[str, xr.DataArray]:
    """The evolving variables with their axes in order."""
    return {name: dataset[name].transpose("sample", "time", *SPACE[: grid.ndim]) for name in state_of(dataset)}


def expect_nothing_else(dataset: xr.Dataset, layout: str, held: Sequence[str]) -> None:
    """Refuses a data set with further fields: they would be lost. Records of a sample may stay behind."""
    lost = [
        str(name)
        for name, variable in dataset.data_vars.items()
        if name not in held and name != "times" and set(variable.dims) - {"sample"}
    ]
    if lost:
        raise ValueError(
            f"layout {layout!r} has no place for {', '.join(lost)}: {leave_out(lost)}, or use layout='native'"
        )


def expect_common_parameters(dataset: xr.Dataset, layout: str) -> None:
    """Refuses parameters that differ by sample, for layouts that state one value a file."""
    varying = [n for n, v in dataset.data_vars.items() if v.dims == ("sample",) and n not in RECORDS]
    if varying:
        raise ValueError(
            f"layout {layout!r} states one value a file; {', '.join(map(str, varying))} differ by sample: write one "
            "file a value, or use layout='native'"
        )


def times_in(dataset: xr.Dataset, layout: str) -> np.ndarray:
    """The common times; ValueError where they differ by sample or are not known."""
    if "times" in dataset:
        raise ValueError(f"layout {layout!r} holds times common to all samples; here they differ: use layout='native'")
    if "time" not in dataset.coords:
        raise ValueError(
            f"layout {layout!r} states times; the data set does not know them: dataset.assign_coords(time=…) first"
        )
    return np.asarray(dataset["time"].values, dtype=np.float64)


def sizes(fields: dict[str, xr.DataArray]) -> int:
    """Bytes the fields take, for the question whether there is room."""
    return stored_bytes([(field.dims, field.shape, field.dtype) for field in fields.values()])


def cells_around(axes: Sequence[np.ndarray], layout: str) -> list[Interval]:
    """The interval of each axis that a reader of cell centres finds for these positions."""
    found = [axis_of(points, len(points)) for points in axes]
    wrong = [f"{name} {axis}" for name, axis in zip(SPACE, found) if isinstance(axis, str)]
    if wrong:
        raise ValueError(f"layout {layout!r} holds uniform coordinates of two points or more; {', '.join(wrong)}")
    return [cells_of(axis, name)[0] for name, axis in zip(SPACE, found) if not isinstance(axis, str)]


def with_spare(times: np.ndarray) -> np.ndarray:
    """One time more, a last step on, as PDEBench's generators store them; its readers do not look at it."""
    return np.append(times, times[-1] + (times[-1] - times[-2] if len(times) > 1 else 1.0))


def state_grid(file: Any, grid: Grid, natural: Grid) -> None:
    """Adds the grid as an attribute where the layout's own rule, which gives `natural`, would lose it."""
    if not natural.same_points(grid) or not _same_walls(natural, grid):
        file.attrs[GRID_ATTR] = json.dumps(grid.to_dict())


def blocks_of(fields: Sequence[xr.DataArray]) -> Iterator[tuple[tuple[slice, ...], list[np.ndarray]]]:
    """(place in the first axis or the first two, what several fields hold there): a few samples at once, of samples
    larger than that a few times, so that files and samples larger than memory pass through."""
    for part in pieces(fields[0].shape, sum(field.dtype.itemsize for field in fields)):
        yield part, [np.asarray(field[part].values) for field in fields]


def samples_of(fields: Sequence[xr.DataArray]) -> Iterator[tuple[int, list[np.ndarray]]]:
    """(number, what several fields hold of it) of each sample, read a few at once."""
    for (part,) in pieces(fields[0].shape, sum(field.dtype.itemsize for field in fields), whole_samples=True):
        yield from enumerate(map(list, zip(*(np.asarray(field[part].values) for field in fields))), part.start)


def _same_walls(one: Grid, other: Grid) -> bool:
    pairs = zip(one.domain, other.domain, one.spacing)
    return all(abs(p - q) <= 1e-9 * h for a, b, h in pairs for p, q in zip(a, b))
