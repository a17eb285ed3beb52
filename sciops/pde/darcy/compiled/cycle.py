"""The compiled multigrid cycle of one sample: V(2, 2) with point smoothing, or the lines of `lines`.

Plain loops whose inner loop runs over contiguous memory, so that they vectorise; passes that follow each other are
fused by rows, so that a row is still in cache when the next pass wants it. Nothing here is kept in numba's cache on
disk by itself: `sample.solve_one`, which calls it, is.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from sciops.pde.darcy.compiled.levels import arrays_of, as_matrix, fast, residual, rows_alone, weights_of
from sciops.pde.darcy.compiled.lines import factor_lines, lines_after, lines_before
from sciops.pde.darcy.multigrid import FIRST, SECOND, nested_level

_W1, _W2 = np.float32(FIRST), np.float32(SECOND)
_ONE, _ZERO = np.float32(1.0), np.float32(0.0)
_BAND = 1024  # elements that pass through the fused smoothing steps at a time

_nested_level = fast(nested_level)


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


@fast
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


@fast
def _up(nine, band, d, e, s, se, sw, f, u, r, mx, my):
    """Two smoothing steps on u in the reverse order, the second a row behind; r holds the first."""
    for top in range(1, mx + 2, band):
        low, high = _run(top, top + band - 1, mx, my)
        _relax(nine, low, high, my + 3, _W2, r, f, d, e, s, se, sw, u)
        low, high = _run(top - 1, top + band - 2, mx, my)
        _relax(nine, low, high, my + 3, _W1, u, f, d, e, s, se, sw, r)


@fast
def _points_before(work, start, shapes, level, from_zero):
    mx, my = shapes[level]
    d, e, s, se, sw, f, u, r = arrays_of(work, start, shapes, level)
    # on small grids one band is the whole grid: long runs vectorise better than short rows
    _down(level > 0, from_zero, max(1, _BAND // (my + 3)), d, e, s, se, sw, f, u, r, mx, my)


@fast
def _points_after(work, start, shapes, level):
    mx, my = shapes[level]
    d, e, s, se, sw, f, u, r = arrays_of(work, start, shapes, level)
    _up(level > 0, max(1, _BAND // (my + 3)), d, e, s, se, sw, f, u, r, mx, my)


def smooth_before(work, start, shapes, level, from_zero):
    """The smoothing steps of a level on the way down, on its u or from zero, and what they leave into its r."""


def smooth_after(work, start, shapes, level):
    """The smoothing steps of a level on the way up."""


def prepare(work, start, shapes):
    """What the smoothing steps need besides the stencils."""


@overload(smooth_before)
def _smooth_before(work, start, shapes, level, from_zero):
    if work.dtype == types.float64:
        return lambda work, start, shapes, level, from_zero: lines_before(work, start, shapes, level, from_zero)
    return lambda work, start, shapes, level, from_zero: _points_before(work, start, shapes, level, from_zero)


@overload(smooth_after)
def _smooth_after(work, start, shapes, level):
    if work.dtype == types.float64:
        return lambda work, start, shapes, level: lines_after(work, start, shapes, level)
    return lambda work, start, shapes, level: _points_after(work, start, shapes, level)


@overload(prepare)
def _prepare(work, start, shapes):
    if work.dtype == types.float64:
        return lambda work, start, shapes: factor_lines(work, start, shapes)
    return lambda work, start, shapes: None


@fast
def _restrict(r, P, F, mx, my):
    """F = Pᵀ r."""
    for i in range(1, mx + 1):
        ra, rb, rc, out = r[2 * i - 1], r[2 * i], r[2 * i + 1], F[i]
        nw, n, ne, w = P[0, i], P[1, i], P[2, i], P[3, i]
        ea, so, s_, se_ = P[4, i], P[5, i], P[6, i], P[7, i]
        for j in range(my):
            k = 2 * j + 2
            out[j + 1] = (
                rb[k]
                + nw[j + 1] * ra[k - 1]
                + n[j + 1] * ra[k]
                + ne[j + 1] * ra[k + 1]
                + w[j + 1] * rb[k - 1]
                + ea[j + 1] * rb[k + 1]
                + so[j + 1] * rc[k - 1]
                + s_[j + 1] * rc[k]
                + se_[j + 1] * rc[k + 1]
            )


@fast
def _prolong(u, P, U, mx, my):
    """u += P U; each fine row gathers from the coarse rows it lies between."""
    for i in range(0, mx + 1):
        # fine row 2i: coincident and east-west points of coarse row i
        if i > 0:
            fine, U_, w, ea = u[2 * i], U[i], P[3, i], P[4, i]
            for j in range(my + 1):
                fine[2 * j] += U_[j]
                fine[2 * j + 1] += ea[j] * U_[j] + w[j + 1] * U_[j + 1]
        # fine row 2i + 1: south of coarse row i and north of coarse row i + 1
        fine, U0, U1 = u[2 * i + 1], U[i], U[i + 1]
        so, s_, se_, nw, n, ne = P[5, i], P[6, i], P[7, i], P[0, i + 1], P[1, i + 1], P[2, i + 1]
        for j in range(my + 1):
            fine[2 * j] += s_[j] * U0[j] + n[j] * U1[j]
            fine[2 * j + 1] += se_[j] * U0[j] + so[j + 1] * U0[j + 1] + ne[j] * U1[j] + nw[j + 1] * U1[j + 1]


@fast
def _restrict_rows(r, P, F, mx, my):
    """F = Pᵀ r where rows alone are halved."""
    for i in range(1, mx + 1):
        ra, rb, rc, out, n, s_ = r[2 * i - 1], r[2 * i], r[2 * i + 1], F[i], P[0, i], P[1, i]
        for j in range(1, my + 1):
            out[j] = rb[j] + n[j] * ra[j] + s_[j] * rc[j]


@fast
def _prolong_rows(u, P, U, mx, my):
    """u += P U where rows alone are halved."""
    for i in range(0, mx + 1):
        even, odd, U0, U1, s_, n = u[2 * i], u[2 * i + 1], U[i], U[i + 1], P[1, i], P[0, i + 1]
        for j in range(1, my + 1):
            even[j] += U0[j]
            odd[j] += s_[j] * U0[j] + n[j] * U1[j]


@fast
def _bottom(singular, d, e, s, f, u, c, mx, my):
    """Exact solve of the coarsest level, one unknown wide: tridiagonal elimination along the other axis.

    Where constants are in the kernel the last unknown is set to zero: the last pivot is nothing but rounding.
    """
    last = max(mx, my)
    before, value = _ZERO, _ZERO
    for t in range(1, last + 1):
        i, j = (t, 1) if my == 1 else (1, t)
        pivot = d[i, j] - before * (c[i - 1, 1] if my == 1 else c[1, j - 1])
        value = _ZERO if singular and t == last else (f[i, j] + before * value) / pivot
        u[i, j] = value
        before = s[i, j] if my == 1 else e[i, j]
        c[i, j] = before / pivot
    for t in range(last - 1, 0, -1):
        i, j = (t, 1) if my == 1 else (1, t)
        value = u[i, j] + c[i, j] * value
        u[i, j] = value


@fast
def cycle(work, shapes, start, singular, first=0, from_zero=True):
    """One V(2, 2)-cycle on the right side stored at level `first`, from zero or from that level's u, into it;
    `singular` says that no wall holds a value, so that u is determined up to a constant."""
    levels = len(shapes)
    for step in range(2 * (levels - first) - 1):
        down = step < levels - first
        level = first + step if down else 2 * levels - 2 - first - step
        mx, my = shapes[level]
        d, e, s, se, sw, f, u, r = arrays_of(work, start, shapes, level)
        n = shapes[level]
        if level == levels - 1:
            _bottom(
                singular,
                as_matrix(d, n),
                as_matrix(e, n),
                as_matrix(s, n),
                as_matrix(f, n),
                as_matrix(u, n),
                as_matrix(r, n),
                mx,
                my,
            )
            continue
        if down:
            smooth_before(work, start, shapes, level, from_zero or level > first)
            _coarser(work, shapes, start, level, r)
        else:
            _finer(work, shapes, start, level, u)
            smooth_after(work, start, shapes, level)


@fast
def nested_start(work, shapes, start, singular):
    """Full multigrid for the right side at the finest level, up to the level below it: its solution there, by one cycle
    a level from a coarse one on, interpolated into the finest u. There are two levels at least."""
    first = _nested_level(shapes)
    for level in range(first):
        _, _, _, _, _, f, _, _ = arrays_of(work, start, shapes, level)
        _coarser(work, shapes, start, level, f)
    cycle(work, shapes, start, singular, first)
    for level in range(first - 1, -1, -1):
        _, _, _, _, _, _, u, _ = arrays_of(work, start, shapes, level)
        u[:] = _ZERO
        _finer(work, shapes, start, level, u)
        if level > 0:
            cycle(work, shapes, start, singular, level, False)


@fast
def _coarser(work, shapes, start, level, r):
    """The right side of the next level from r on this one."""
    P, c = weights_of(work, start, shapes, level), shapes[level + 1]
    _, _, _, _, _, right, _, _ = arrays_of(work, start, shapes, level + 1)
    if rows_alone(shapes, level):
        _restrict_rows(as_matrix(r, shapes[level]), P, as_matrix(right, c), c[0], c[1])
    else:
        _restrict(as_matrix(r, shapes[level]), P, as_matrix(right, c), c[0], c[1])


@fast
def _finer(work, shapes, start, level, u):
    """Adds the next level's u, interpolated, to the u of this one."""
    P, c = weights_of(work, start, shapes, level), shapes[level + 1]
    _, _, _, _, _, _, correction, _ = arrays_of(work, start, shapes, level + 1)
    if rows_alone(shapes, level):
        _prolong_rows(as_matrix(u, shapes[level]), P, as_matrix(correction, c), c[0], c[1])
    else:
        _prolong(as_matrix(u, shapes[level]), P, as_matrix(correction, c), c[0], c[1])
