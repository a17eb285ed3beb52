"""Kernels of alternating zebra line relaxation: whole lines solved at once, every second one.

A nine-point stencil couples a line to its two neighbours only, so that every second line is solved exactly for what the
others hold, and no weights are needed. mx, my : unknowns of the level
"""

from __future__ import annotations

import numpy as np

from sciops.pde.darcy.compiled.calls import at

_ZERO, _ONE = np.float64(0.0), np.float64(1.0)


def factor_lines(d, e, s, row_inverse, row_low, column_inverse, column_low, mx, my):
    """L D Lᵀ of every line of a level: inverse pivots, multipliers of the line's point before."""
    width = my + 3
    for i in range(1, mx + 1):
        d_, e_, inverse_, low_ = at(d, i * width), at(e, i * width), at(row_inverse, i * width), at(row_low, i * width)
        inverse = _ZERO
        for j in range(1, my + 1):
            low = e_[j - 1] * inverse
            inverse = _ONE / (d_[j] - e_[j - 1] * low)
            low_[j] = low
            inverse_[j] = inverse
        north, above = at(s, (i - 1) * width), at(column_inverse, (i - 1) * width)
        low_, inverse_ = at(column_low, i * width), at(column_inverse, i * width)
        for j in range(1, my + 1):
            low_[j] = north[j] * above[j]
            inverse_[j] = _ONE / (d_[j] - north[j] * low_[j])


def tighten(tight, d, e, s, se, sw, little, mx, my):
    """The diagonal for the weights where lines are smoothed: without what leaks through a wall, where that is little.

    A line of strong couplings moves as a whole. Were its end by a wall that exchanges a little interpolated with a
    little less than the rest, the strong couplings would turn that difference into a large energy.
    """
    width = my + 3
    for i in range(1, mx + 1):
        row, above = i * width, (i - 1) * width
        t_, d_, e_, s_, sn = at(tight, row), at(d, row), at(e, row), at(s, row), at(s, above)
        se_, sen, sw_, swn = at(se, row), at(se, above), at(sw, row), at(sw, above)
        for j in range(1, my + 1):
            total = e_[j] + e_[j - 1] + s_[j] + sn[j]
            total += se_[j] + sen[j - 1] + sw_[j] + swn[j + 1]
            t_[j] = total if d_[j] - total < little * d_[j] else d_[j]


def relax_row_lines(nine, first, s, se, sw, f, u, inverse, low, mx, my):
    """Rows first, first + 2, … solved for what the rows between them hold."""
    width = my + 3
    for i in range(first, mx + 1, 2):
        row, above = i * width, (i - 1) * width
        f_, un, uc, us = at(f, row), at(u, above), at(u, row), at(u, row + width)
        sn, ss, inverse_, low_ = at(s, above), at(s, row), at(inverse, row), at(low, row)
        if nine:
            an, ac, bn, bc = at(se, above), at(se, row), at(sw, above), at(sw, row)
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


def relax_column_lines(nine, first, e, se, sw, f, u, inverse, low, mx, my):
    """Columns first, first + 2, … solved for what the columns between them hold; rows of them at a time."""
    width, count = my + 3, (my - first) // 2 + 1
    for i in range(1, mx + 1):
        row, above = i * width, (i - 1) * width
        f_, un, uc, us = at(f, row), at(u, above), at(u, row), at(u, row + width)
        e_, low_ = at(e, row), at(low, row)
        if nine:
            an, ac, bn, bc = at(se, above), at(se, row), at(sw, above), at(sw, row)
            for k in range(count):
                j = first + 2 * k
                near = f_[j] + e_[j] * uc[j + 1] + e_[j - 1] * uc[j - 1] + low_[j] * un[j]
                uc[j] = near + ac[j] * us[j + 1] + an[j - 1] * un[j - 1] + bc[j] * us[j - 1] + bn[j + 1] * un[j + 1]
        else:
            for k in range(count):
                j = first + 2 * k
                uc[j] = f_[j] + e_[j] * uc[j + 1] + e_[j - 1] * uc[j - 1] + low_[j] * un[j]
    for i in range(mx, 0, -1):
        row = i * width
        uc, us, inverse_, low_ = at(u, row), at(u, row + width), at(inverse, row), at(low, row + width)
        for k in range(count):
            j = first + 2 * k
            uc[j] = uc[j] * inverse_[j] + low_[j] * us[j]
