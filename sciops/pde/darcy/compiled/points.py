"""Point smoothing of one sample, compiled: two Jacobi steps with Chebyshev weights before and after the coarser levels.

Passes that follow each other are fused by bands of rows, so that a row is still in cache when the next pass needs it.
"""

from __future__ import annotations

import numpy as np

from sciops.pde.darcy.compiled.interpolation import interpolate_both, interpolate_rows
from sciops.pde.darcy.compiled.levels import arrays_of, fast, inlined, residual, rows_alone, stencil_of, weights_of
from sciops.pde.darcy.multigrid import FIRST, SECOND

_W1, _W2 = np.float32(FIRST), np.float32(SECOND)
_ONE = np.float32(1.0)
_BAND = 1024  # elements that pass through the fused smoothing steps at a time


@fast
def _relax(nine, low, high, width, omega, out, f, d, e, s, se, sw, u):
    """out = u + ω (f − A u)/d on a run of a level's memory."""
    up, down = low - width, low + width
    size, rest = high - low, _ONE - omega
    o, f_, d_, uc, uw, ue = out[low:], f[low:], d[low:], u[low:], u[low - 1 :], u[low + 1 :]
    un, us, ec, ew, sc, sn = u[up:], u[down:], e[low:], e[low - 1 :], s[low:], s[up:]
    if nine:
        ac, an, bc, bn = se[low:], se[up - 1 :], sw[low:], sw[up + 1 :]
        unw, une, usw, use = u[up - 1 :], u[up + 1 :], u[down - 1 :], u[down + 1 :]
        for k in range(size):
            near = f_[k] + ec[k] * ue[k] + ew[k] * uw[k] + sc[k] * us[k] + sn[k] * un[k]
            flux = near + ac[k] * use[k] + an[k] * unw[k] + bc[k] * usw[k] + bn[k] * une[k]
            o[k] = rest * uc[k] + omega * flux / d_[k]
    else:
        for k in range(size):
            flux = f_[k] + ec[k] * ue[k] + ew[k] * uw[k] + sc[k] * us[k] + sn[k] * un[k]
            o[k] = rest * uc[k] + omega * flux / d_[k]


@fast
def _run(first, last, mx, my):
    """(low, high) of the memory from the first unknown of one row to the last of another, kept inside the grid."""
    first, last = max(first, 1), min(last, mx)
    low = first * (my + 3) + 1
    return low, max(low, last * (my + 3) + my + 1 if first <= last else low)


@inlined
def _down(nine, from_zero, band, d, e, s, se, sw, f, u, r, mx, my):
    """Two smoothing steps on u, or from zero into u, and what they leave into r: three passes that follow each other by
    bands of rows, the later ones a row behind. r first holds the first step, and is overwritten where that is used up.
    """
    for top in range(1, mx + 3, band):
        low, high = _run(top, top + band - 1, mx, my)
        if from_zero:
            r_, f_, d_ = r[low:high], f[low:high], d[low:high]
            for k in range(high - low):
                r_[k] = _W1 * f_[k] / d_[k]
        else:
            _relax(nine, low, high, my + 3, _W1, r, f, d, e, s, se, sw, u)
        low, high = _run(top - 1, top + band - 2, mx, my)
        _relax(nine, low, high, my + 3, _W2, u, f, d, e, s, se, sw, r)
        low, high = _run(top - 2, top + band - 3, mx, my)
        residual(nine, low, high, my + 3, r, f, d, e, s, se, sw, u)


@inlined
def _up(nine, band, d, e, s, se, sw, f, u, r, mx, my):
    """Two smoothing steps on u in the reverse order, the second a row behind; r holds the first."""
    for top in range(1, mx + 2, band):
        low, high = _run(top, top + band - 1, mx, my)
        _relax(nine, low, high, my + 3, _W2, r, f, d, e, s, se, sw, u)
        low, high = _run(top - 1, top + band - 2, mx, my)
        _relax(nine, low, high, my + 3, _W1, u, f, d, e, s, se, sw, r)


@inlined
def prepare_points(rows, work, start, shapes, level):
    """The interpolation weights towards the next level."""
    d, e, s, se, sw = stencil_of(work, start, shapes, level)
    mx, my = shapes[level + 1]
    P = weights_of(work, start, shapes, level)
    both = True if rows is None else not rows_alone(shapes, level)
    if both:
        interpolate_both(d, e, s, se, sw, P, mx, my)
    elif rows is not None:
        interpolate_rows(d, e, s, se, sw, P, mx, my)


@inlined
def points_before(work, start, shapes, level, from_zero):
    """Smooths u, or starts from zero, and leaves the residual in r."""
    mx, my = shapes[level]
    d, e, s, se, sw, f, u, r = arrays_of(work, start, shapes, level)
    # on small grids one band is the whole grid: long runs vectorise better than short rows
    _down(level > 0, from_zero, max(1, _BAND // (my + 3)), d, e, s, se, sw, f, u, r, mx, my)


@inlined
def points_after(work, start, shapes, level):
    """The steps of `points_before` in the reverse order."""
    mx, my = shapes[level]
    d, e, s, se, sw, f, u, r = arrays_of(work, start, shapes, level)
    _up(level > 0, max(1, _BAND // (my + 3)), d, e, s, se, sw, f, u, r, mx, my)
