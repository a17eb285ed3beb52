"""Alternating zebra line relaxation of one sample, compiled: rows, then columns, the first of every two and the others.

What point smoothing leaves behind varies across the strong couplings alone; where their direction changes from place to
place no coarsening follows it, and lines along both axes remove what is strong along either. The order is reversed on
the way up, which keeps the cycle symmetric.
"""

from __future__ import annotations

import numpy as np

from sciops.pde.darcy.compiled.calls import calling
from sciops.pde.darcy.compiled.levels import arrays_of, factors_of, inlined, weights_of
from sciops.pde.darcy.multigrid import LITTLE

_ZERO, _ONE = np.float32(0.0), np.float32(1.0)

_factor_lines, _tighten, _interpolate_both = calling("factor_lines"), calling("tighten"), calling("interpolate_both")
_relax_rows, _relax_columns = calling("relax_row_lines"), calling("relax_column_lines")
_residual, _put = calling("residual"), calling("put")


@inlined
def prepare_lines(kernels, work, start, shapes, level):
    """The interpolation weights towards the next level, and the factors of the lines."""
    mx, my = shapes[2 * level], shapes[2 * level + 1]
    d, e, s, se, sw, _, _, tight = arrays_of(work, start, level)  # r is free until the first cycle
    count = (mx + 3) * (my + 3)
    _put(kernels, (tight, count, _ONE))
    _tighten(kernels, (tight, d, e, s, se, sw, LITTLE, mx, my))
    P, rows, columns = weights_of(work, start, level), shapes[2 * level + 2], shapes[2 * level + 3]
    _interpolate_both(kernels, (tight, e, s, se, sw, P, rows, columns, my + 3))
    _put(kernels, (tight, count, _ZERO))
    row_inverse, row_low, column_inverse, column_low = factors_of(work, start, level)
    _factor_lines(kernels, (d, e, s, row_inverse, row_low, column_inverse, column_low, mx, my))


@inlined
def lines_before(kernels, work, start, shapes, level, from_zero):
    """Rows, then columns, on u or from zero; what they leave goes into r."""
    mx, my, nine = shapes[2 * level], shapes[2 * level + 1], level > 0
    d, e, s, se, sw, f, u, r = arrays_of(work, start, level)
    row_inverse, row_low, column_inverse, column_low = factors_of(work, start, level)
    if from_zero:
        _put(kernels, (u, (mx + 3) * (my + 3), _ZERO))
    for first in range(1, 3):
        _relax_rows(kernels, (nine, first, s, se, sw, f, u, row_inverse, row_low, mx, my))
    for first in range(1, 3):
        _relax_columns(kernels, (nine, first, e, se, sw, f, u, column_inverse, column_low, mx, my))
    _residual(kernels, (nine, my + 4, mx * (my + 3) + my + 1, my + 3, r, f, d, e, s, se, sw, u))


@inlined
def lines_after(kernels, work, start, shapes, level):
    """The steps of `lines_before` in the reverse order."""
    mx, my, nine = shapes[2 * level], shapes[2 * level + 1], level > 0
    _, e, s, se, sw, f, u, _ = arrays_of(work, start, level)
    row_inverse, row_low, column_inverse, column_low = factors_of(work, start, level)
    for first in range(2, 0, -1):
        _relax_columns(kernels, (nine, first, e, se, sw, f, u, column_inverse, column_low, mx, my))
    for first in range(2, 0, -1):
        _relax_rows(kernels, (nine, first, s, se, sw, f, u, row_inverse, row_low, mx, my))
