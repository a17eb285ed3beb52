"""What the HDF5 writers share: fields in blocks, coordinates without loss, the grid where the layout cannot say it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.blocks import pieces
from sciops.datasets.conventions import SPACE
from sciops.datasets.formats.shared.axes import GRID_ATTR, axis_of, cells_of
from sciops.datasets.native.layout import stored_bytes
from sciops.grids import Grid, Interval

if TYPE_CHECKING:
    import xarray as xr


def lossless(points: Any) -> np.ndarray:
    """Positions in single precision, as most layouts hold them, where that loses nothing; in double otherwise."""
    exact = np.asarray(points, dtype=np.float64)
    single = exact.astype(np.float32)
    return single if np.array_equal(single.astype(np.float64), exact) else exact


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


def write_blocks(targets: Sequence[Any], fields: Sequence[xr.DataArray]) -> None:
    """Copies each field into its open array, block by block."""
    for part, blocks in blocks_of(fields):
        for target, block in zip(targets, blocks):
            target[part] = block


def samples_of(fields: Sequence[xr.DataArray]) -> Iterator[tuple[int, list[np.ndarray]]]:
    """(number, what several fields hold of it) of each sample, read a few at once."""
    for (part,) in pieces(fields[0].shape, sum(field.dtype.itemsize for field in fields), whole_samples=True):
        yield from enumerate(map(list, zip(*(np.asarray(field[part].values) for field in fields))), part.start)


def _same_walls(one: Grid, other: Grid) -> bool:
    pairs = zip(one.domain, other.domain, one.spacing)
    return all(abs(p - q) <= 1e-9 * h for a, b, h in pairs for p, q in zip(a, b))
