"""Point smoothing of one sample, compiled: two Jacobi steps with Chebyshev weights before and after the coarser levels.

Passes that follow each other take turns by bands of rows, so that a row is still in cache when the next pass needs it.
"""

from __future__ import annotations

import numpy as np

from sciops.pde.darcy.compiled.calls import calling
from sciops.pde.darcy.compiled.levels import arrays_of, fast, inlined, rows_alone, weights_of
from sciops.pde.darcy.multigrid import FIRST, SECOND

_W1, _W2 = np.float32(FIRST), np.float32(SECOND)
_BAND = 1024  # elements that pass through the smoothing steps at a time

_relax, _residual, _first_step = calling("relax"), calling("residual"), calling("first_step")
_interpolate_both, _interpolate_rows = calling("interpolate_both"), calling("interpolate_rows")


@fast
def _run(first, last, mx, my):
    """(low, high) of the memory from the first unknown of one row to the last of another, kept inside the grid."""
    first, last = max(first, 1), min(last, mx)
    low = first * (my + 3) + 1
    return low, max(low, last * (my + 3) + my + 1 if first <= last else low)


@fast
def _band(width):
    """Rows of a band; on small grids one band is the whole grid: long runs vectorise better than short rows."""
    return max(1, _BAND // width)


@inlined
def prepare_points(kernels, work, start, shapes, level):
    """The interpolation weights towards the next level."""
    d, e, s, se, sw, _, _, _ = arrays_of(work, start, level)
    mx, my, width = shapes[2 * level + 2], shapes[2 * level + 3], shapes[2 * level + 1] + 3
    if rows_alone(shapes, level):
        _interpolate_rows(kernels, (d, e, s, se, sw, weights_of(work, start, level), mx, my, width))
    else:
        _interpolate_both(kernels, (d, e, s, se, sw, weights_of(work, start, level), mx, my, width))


@inlined
def points_before(kernels, work, start, shapes, level, from_zero):
    """Two smoothing steps on u, or from zero into u, and what they leave into r: three passes that follow each other by
    bands of rows, the later ones a row behind. r first holds the first step, and is overwritten where that is used up.
    """
    mx, my = shapes[2 * level], shapes[2 * level + 1]
    d, e, s, se, sw, f, u, r = arrays_of(work, start, level)
    nine, width = level > 0, my + 3
    band = _band(width)
    for top in range(1, mx + 3, band):
        low, high = _run(top, top + band - 1, mx, my)
        if from_zero:
            _first_step(kernels, (low, high, _W1, r, f, d))
        else:
            _relax(kernels, (nine, low, high, width, _W1, r, f, d, e, s, se, sw, u))
        low, high = _run(top - 1, top + band - 2, mx, my)
        _relax(kernels, (nine, low, high, width, _W2, u, f, d, e, s, se, sw, r))
        low, high = _run(top - 2, top + band - 3, mx, my)
        _residual(kernels, (nine, low, high, width, r, f, d, e, s, se, sw, u))


@inlined
def points_after(kernels, work, start, shapes, level):
    """The two steps on u in the reverse order, the second a row behind; r holds the first."""
    mx, my = shapes[2 * level], shapes[2 * level + 1]
    d, e, s, se, sw, f, u, r = arrays_of(work, start, level)
    nine, width = level > 0, my + 3
    band = _band(width)
    for top in range(1, mx + 2, band):
        low, high = _run(top, top + band - 1, mx, my)
        _relax(kernels, (nine, low, high, width, _W2, r, f, d, e, s, se, sw, u))
        low, high = _run(top - 1, top + band - 2, mx, my)
        _relax(kernels, (nine, low, high, width, _W1, u, f, d, e, s, se, sw, r))
