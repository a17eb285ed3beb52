"""What the numbers near the ends of an axis say about its walls, where a file does not."""

from __future__ import annotations

from typing import Any

import numpy as np

_ON_WALL, _CELL = 0.2, 0.45
_LOOKED_AT = 4  # samples
_SEAM = 2.0


def zero_walls(u: Any, value: np.ndarray | float = 0.0) -> str:
    """Where the end rows lie of a field that is `value` on the wall: "node", "cell", or "unknown".

    u : (samples, *grid), lazy or not; a few samples are read

    Next to the wall u − value grows linearly, so that the first row over the second is 0 where it is on the wall and
    1/3 where it is half a cell inside.
    """
    few = np.asarray(u[:_LOOKED_AT], np.float64)
    few = np.abs(few - np.reshape(np.asarray(value, np.float64)[..., None], (-1, *(1,) * (few.ndim - 1)))[: len(few)])
    ratios = []
    for axis in range(1, few.ndim):
        if few.shape[axis] < 4:
            return "unknown"
        rows = np.moveaxis(few, axis, 0).reshape(few.shape[axis], -1).mean(1)
        for first, second in ((rows[0], rows[1]), (rows[-1], rows[-2])):
            ratios.append(first / second if second > 0 else np.inf)
    if max(ratios) < _ON_WALL:
        return "node"
    return "cell" if min(ratios) > _ON_WALL and max(ratios) < _CELL else "unknown"


def is_periodic(fields: list[np.ndarray], axis: int) -> bool:
    """Whether the step from the last row to the first is like the steps inside, for fields (*grid) of one state."""
    for u in fields:
        step = np.abs(np.diff(u, axis=axis)).mean()
        seam = np.abs(np.take(u, 0, axis) - np.take(u, -1, axis)).mean()
        if not seam <= _SEAM * step:
            return False
    return True
