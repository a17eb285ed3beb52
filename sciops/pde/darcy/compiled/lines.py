"""Alternating zebra line relaxation of one sample, compiled: whole lines solved at once, every second one, both ways.

What point smoothing leaves behind varies across the strong couplings alone; where their direction changes from place to
place no coarsening follows it, and lines along both axes remove what is strong along either. The order is reversed on
the way up, which keeps the cycle symmetric. A nine-point stencil couples a line to its two neighbours only, so that
every second line is solved exactly for what the others hold, and no weights are needed.
"""

from __future__ import annotations

import numpy as np

from sciops.pde.darcy.compiled.interpolation import interpolate_both
from sciops.pde.darcy.compiled.levels import arrays_of, as_matrix, fast, inlined, residual, stencil_of, weights_of
from sciops.pde.darcy.multigrid import LITTLE

_ZERO, _ONE = np.float64(0.0), np.float64(1.0)


@fast
def _factors_of(work, start, shapes, level):
    """(inverse pivot, multiplier of the line's point before) along the rows, and the same along the columns."""
    n, at = shapes[level], start[level]
    size = (n[0] + 3) * (n[1] + 3)
    return (
        as_matrix(work[at[9] : at[9] + size], n),
        as_matrix(work[at[10] : at[10] + size], n),
        as_matrix(work[at[11] : at[11] + size], n),
        as_matrix(work[at[12] : at[12] + size], n),
    )


@fast
def _factor(work, start, shapes, level):
    """L D Lᵀ of every line of a level."""
    n = shapes[level]
    d, e, s, _, _ = stencil_of(work, start, shapes, level)
    row_inverse, row_low, column_inverse, column_low = _factors_of(work, start, shapes, level)
    for i in range(1, n[0] + 1):
        inverse = _ZERO
        for j in range(1, n[1] + 1):
            low = e[i, j - 1] * inverse
            inverse = _ONE / (d[i, j] - e[i, j - 1] * low)
            row_low[i, j], row_inverse[i, j] = low, inverse
        d_, north = d[i], s[i - 1]
        above, low_, inverse_ = column_inverse[i - 1], column_low[i], column_inverse[i]
        for j in range(1, n[1] + 1):
            low_[j] = north[j] * above[j]
            inverse_[j] = _ONE / (d_[j] - north[j] * low_[j])


@fast
def _tighten(tight, d, e, s, se, sw, mx, my):
    """The diagonal for the weights where lines are smoothed: without what leaks through a wall, where that is little.

    A line of strong couplings moves as a whole. Were its end by a wall that exchanges a little interpolated with a
    little less than the rest, the strong couplings would turn that difference into a large energy.
    """
    tight[:] = _ONE
    for i in range(1, mx + 1):
        for j in range(1, my + 1):
            total = e[i, j] + e[i, j - 1] + s[i, j] + s[i - 1, j]
            total += se[i, j] + se[i - 1, j - 1] + sw[i, j] + sw[i - 1, j + 1]
            tight[i, j] = total if d[i, j] - total < LITTLE * d[i, j] else d[i, j]


@inlined
def prepare_lines(work, start, shapes, level):
    """The weights, and the factors of the lines."""
    d, e, s, se, sw = stencil_of(work, start, shapes, level)
    mx, my = shapes[level + 1]
    tight = as_matrix(arrays_of(work, start, shapes, level)[7], shapes[level])  # r is free until the first cycle
    _tighten(tight, d, e, s, se, sw, shapes[level, 0], shapes[level, 1])
    interpolate_both(tight, e, s, se, sw, weights_of(work, start, shapes, level), mx, my)
    tight[:] = _ZERO
    _factor(work, start, shapes, level)


@fast
def _relax_rows(nine, first, s, se, sw, f, u, inverse, low, mx, my):
    """Rows first, first + 2, … solved for what the rows between them hold."""
    for i in range(first, mx + 1, 2):
        f_, un, uc, us = f[i], u[i - 1], u[i], u[i + 1]
        sn, ss, inverse_, low_ = s[i - 1], s[i], inverse[i], low[i]
        if nine:
            an, ac, bn, bc = se[i - 1], se[i], sw[i - 1], sw[i]
            for j in range(1, my + 1):
                near = f_[j] + ss[j] * us[j] + sn[j] * un[j]
                uc[j] = near + ac[j] * us[j + 1] + an[j - 1] * un[j - 1] + bc[j] * us[j - 1] + bn[j + 1] * un[j + 1]
        else:
            for j in range(1, my + 1):
                uc[j] = f_[j] + ss[j] * us[j] + sn[j] * un[j]
        value = _ZERO
        for j in range(1, my + 1):
            value = uc[j] + low_[j] * value
            uc[j] = value
        value = _ZERO
        for j in range(my, 0, -1):
            value = uc[j] * inverse_[j] + low_[j + 1] * value
            uc[j] = value


@fast
def _relax_columns(nine, first, e, se, sw, f, u, inverse, low, mx, my):
    """Columns first, first + 2, … solved for what the columns between them hold; rows of them at a time."""
    count = (my - first) // 2 + 1
    for i in range(1, mx + 1):
        f_, un, uc, us, e_, low_ = f[i], u[i - 1], u[i], u[i + 1], e[i], low[i]
        if nine:
            an, ac, bn, bc = se[i - 1], se[i], sw[i - 1], sw[i]
            for k in range(count):
                j = first + 2 * k
                near = f_[j] + e_[j] * uc[j + 1] + e_[j - 1] * uc[j - 1] + low_[j] * un[j]
                uc[j] = near + ac[j] * us[j + 1] + an[j - 1] * un[j - 1] + bc[j] * us[j - 1] + bn[j + 1] * un[j + 1]
        else:
            for k in range(count):
                j = first + 2 * k
                uc[j] = f_[j] + e_[j] * uc[j + 1] + e_[j - 1] * uc[j - 1] + low_[j] * un[j]
    for i in range(mx, 0, -1):
        uc, us, inverse_, low_ = u[i], u[i + 1], inverse[i], low[i + 1]
        for k in range(count):
            j = first + 2 * k
            uc[j] = uc[j] * inverse_[j] + low_[j] * us[j]


@inlined
def lines_before(work, start, shapes, level, from_zero):
    """Rows, then columns, on u or from zero; what they leave goes into r."""
    mx, my = shapes[level]
    n, nine = shapes[level], level > 0
    d, e, s, se, sw, f, u, r = arrays_of(work, start, shapes, level)
    if from_zero:
        u[:] = _ZERO
    row_inverse, row_low, column_inverse, column_low = _factors_of(work, start, shapes, level)
    e_, s_, se_, sw_ = as_matrix(e, n), as_matrix(s, n), as_matrix(se, n), as_matrix(sw, n)
    f_, u_ = as_matrix(f, n), as_matrix(u, n)
    for first in range(1, 3):
        _relax_rows(nine, first, s_, se_, sw_, f_, u_, row_inverse, row_low, mx, my)
    for first in range(1, 3):
        _relax_columns(nine, first, e_, se_, sw_, f_, u_, column_inverse, column_low, mx, my)
    residual(nine, my + 4, mx * (my + 3) + my + 1, my + 3, r, f, d, e, s, se, sw, u)


@inlined
def lines_after(work, start, shapes, level):
    """The steps of `lines_before` in the reverse order."""
    mx, my = shapes[level]
    n, nine = shapes[level], level > 0
    _, e, s, se, sw, f, u, _ = arrays_of(work, start, shapes, level)
    row_inverse, row_low, column_inverse, column_low = _factors_of(work, start, shapes, level)
    e_, s_, se_, sw_ = as_matrix(e, n), as_matrix(s, n), as_matrix(se, n), as_matrix(sw, n)
    f_, u_ = as_matrix(f, n), as_matrix(u, n)
    for first in range(2, 0, -1):
        _relax_columns(nine, first, e_, se_, sw_, f_, u_, column_inverse, column_low, mx, my)
    for first in range(2, 0, -1):
        _relax_rows(nine, first, s_, se_, sw_, f_, u_, row_inverse, row_low, mx, my)
