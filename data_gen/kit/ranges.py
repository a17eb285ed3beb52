"""Samples by their numbers: half-open ranges, and random fields of the samples in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sciops.datasets.generation.writer import Ranges
from sciops.grids import Grid

__all__ = ["Ranges", "drawn", "numbers_of"]


def numbers_of(ranges: Ranges) -> np.ndarray:
    """The numbers of the samples in half-open ranges, int64."""
    return np.concatenate([np.arange(start, stop, dtype=np.int64) for start, stop in ranges])


def drawn(draw: Callable[..., np.ndarray], grid: Grid, ranges: Ranges, **law: Any) -> np.ndarray:
    """Fields of the samples in `ranges`, (samples, *grid), where draw(grid, count, first=i, **law) gives some."""
    fields = [draw(grid, stop - start, first=start, **law) for start, stop in ranges]
    return fields[0] if len(fields) == 1 else np.concatenate(fields)
