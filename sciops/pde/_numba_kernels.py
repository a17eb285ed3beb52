"""The compiled multigrid cycle of one sample, in float32: `setup` builds the levels, `cycle` runs a V(2, 2) on them.

Plain loops whose inner loop runs over contiguous memory, so that they vectorise; passes that follow each other are
fused by rows, so that a row is still in cache when the next pass wants it. Nothing here is kept in numba's cache on
disk by itself: `_numba_solve.solve_one`, which calls it, is.
"""

from __future__ import annotations

import numba
import numpy as np

from sciops.pde._galerkin import BOTH, ROWS, galerkin_source
from sciops.pde._multigrid import FIRST, SECOND, nested_level

# reassociation and contraction let sums vectorise; infinities and NaN stay what they are
_FAST = {"reassoc", "contract", "arcp", "nsz"}
_W1, _W2 = np.float32(FIRST), np.float32(SECOND)
_ONE, _ZERO = np.float32(1.0), np.float32(0.0)
_BAND = 1024  # elements that pass through the fused smoothing steps at a time

fast = numba.njit(nogil=True, fastmath=_FAST, error_model="numpy")
_nested_level = fast(nested_level)


def _compiled(name, nine, steps):
    """The generated Galerkin product."""
    scope = {"__name__": __name__}
    exec(compile(galerkin_source(name, nine, steps), __file__, "exec"), scope)
    return fast(scope[name])


_galerkin_5, _galerkin_9 = _compiled("_galerkin_from_5", False, BOTH), _compiled("_galerkin_from_9", True, BOTH)
_rows_from_5, _rows_from_9 = _compiled("_rows_from_5", False, ROWS), _compiled("_rows_from_9", True, ROWS)


@fast
def arrays_of(work, start, shapes, level):
    """d, e, s, se, sw, f, u, r of a level, flat, as views of the workspace."""
    size, at = (shapes[level, 0] + 3) * (shapes[level, 1] + 3), start[level]
    return (
        work[at[0] : at[0] + size],
        work[at[1] : at[1] + size],
        work[at[2] : at[2] + size],
        work[at[3] : at[3] + size],
        work[at[4] : at[4] + size],
        work[at[5] : at[5] + size],
        work[at[6] : at[6] + size],
        work[at[7] : at[7] + size],
    )


@fast
def as_matrix(array, shape):
    return array.reshape((shape[0] + 3, shape[1] + 3))


@fast
def _stencil(work, start, shapes, level):
    """d, e, s, se, sw of a level as matrices."""
    d, e, s, se, sw, _, _, _ = arrays_of(work, start, shapes, level)
    n = shapes[level]
    return as_matrix(d, n), as_matrix(e, n), as_matrix(s, n), as_matrix(se, n), as_matrix(sw, n)


@fast
def _rows_alone(shapes, level):
    """Whether the next level halves the rows and keeps the columns."""
    return shapes[level + 1, 1] == shapes[level, 1]


@fast
def _weights(work, start, shapes, level):
    rows, columns = shapes[level + 1, 0] + 2, shapes[level + 1, 1] + 2
    first, count = start[level, 8], 2 if _rows_alone(shapes, level) else 8
    return work[first : first + count * rows * columns].reshape((count, rows, columns))


@fast
def _interpolate_rows(d, e, s, se, sw, P, mx, my):
    """Black-box weights; the order of P is that of `NEIGHBOURS`: NW N NE W E SW S SE."""
    for i in range(1, mx + 1):
        nw, n, ne, w = P[0, i], P[1, i], P[2, i], P[3, i]
        ea, so, s_, se_ = P[4, i], P[5, i], P[6, i], P[7, i]
        r0, r1, r2 = 2 * i - 1, 2 * i, 2 * i + 1
        d0, d1, d2, e0, e1, e2 = d[r0], d[r1], d[r2], e[r0], e[r1], e[r2]
        s0, s1, q0, q1, t0, t1 = s[r0], s[r1], se[r0], se[r1], sw[r0], sw[r1]
        for j in range(my):
            k = 2 * j + 2
            # weights on the four edges: the couplings of three neighbours over the collapsed diagonal
            up = (s0[k] + q0[k] + t0[k]) / (d0[k] - e0[k] - e0[k - 1])
            down = (s1[k] + q1[k - 1] + t1[k + 1]) / (d2[k] - e2[k] - e2[k - 1])
            left = (e1[k - 1] + t0[k] + q1[k - 1]) / (d1[k - 1] - s1[k - 1] - s0[k - 1])
            right = (e1[k] + q0[k] + t1[k + 1]) / (d1[k + 1] - s1[k + 1] - s0[k + 1])
            n[j + 1], s_[j + 1], w[j + 1], ea[j + 1] = up, down, left, right
            nw[j + 1] = (q0[k - 1] + e0[k - 1] * up + s0[k - 1] * left) / d0[k - 1]
            ne[j + 1] = (t0[k + 1] + e0[k] * up + s0[k + 1] * right) / d0[k + 1]
            so[j + 1] = (t1[k] + e2[k - 1] * down + s1[k - 1] * left) / d2[k - 1]
            se_[j + 1] = (q1[k] + e2[k] * down + s1[k + 1] * right) / d2[k + 1]


@fast
def _interpolate_between_rows(d, e, s, se, sw, P, mx, my):
    """Black-box weights N and S where rows alone are halved."""
    for i in range(1, mx + 1):
        n, s_ = P[0, i], P[1, i]
        r0, r1, r2 = 2 * i - 1, 2 * i, 2 * i + 1
        d0, d2, e0, e2, s0, s1, q0, q1, t0, t1 = (
            d[r0],
            d[r2],
            e[r0],
            e[r2],
            s[r0],
            s[r1],
            se[r0],
            se[r1],
            sw[r0],
            sw[r1],
        )
        for k in range(1, my + 1):
            n[k] = (s0[k] + q0[k] + t0[k]) / (d0[k] - e0[k] - e0[k - 1])
            s_[k] = (s1[k] + q1[k - 1] + t1[k + 1]) / (d2[k] - e2[k] - e2[k - 1])


@fast
def setup(along_y, along_x, work, shapes, start):
    """Every level from the finest conductances; halos of the workspace are zero already, diagonals get ones."""
    levels = len(shapes)
    mx, my = shapes[0]
    d, e, s, _, _ = _stencil(work, start, shapes, 0)
    d[:] = _ONE
    for i in range(mx):
        d_, e_, s_ = d[i + 1], e[i + 1], s[i + 1]
        y_, x0, x1 = along_y[i], along_x[i], along_x[i + 1]
        for j in range(my):
            d_[j + 1] = y_[j] + y_[j + 1] + x0[j] + x1[j]
            e_[j + 1] = y_[j + 1]
            s_[j + 1] = x1[j]
        e_[my] = _ZERO
        if i == mx - 1:
            s_[:] = _ZERO
    for level in range(levels - 1):
        d, e, s, se, sw = _stencil(work, start, shapes, level)
        D, E, S, SE, SW = _stencil(work, start, shapes, level + 1)
        P = _weights(work, start, shapes, level)
        cx, cy = shapes[level + 1]
        D[:] = _ONE
        if _rows_alone(shapes, level):
            _interpolate_between_rows(d, e, s, se, sw, P, cx, cy)
            if level == 0:
                _rows_from_5(d, e, s, se, sw, P, D, E, S, SE, SW, cx, cy)
            else:
                _rows_from_9(d, e, s, se, sw, P, D, E, S, SE, SW, cx, cy)
            continue
        _interpolate_rows(d, e, s, se, sw, P, cx, cy)
        if level == 0:
            _galerkin_5(d, e, s, se, sw, P, D, E, S, SE, SW, cx, cy)
        else:
            _galerkin_9(d, e, s, se, sw, P, D, E, S, SE, SW, cx, cy)


@fast
def _residual(nine, low, high, width, out, f, d, e, s, se, sw, u):
    """out = f − A u on a run of a level's memory; the halo inside it stays zero, since no coupling reaches it."""
    up, down = low - width, low + width
    size = high - low
    o, f_, d_, uc, uw, ue = out[low:], f[low:], d[low:], u[low:], u[low - 1 :], u[low + 1 :]
    un, us, ec, ew, sc, sn = u[up:], u[down:], e[low:], e[low - 1 :], s[low:], s[up:]
    if nine:
        ac, an, bc, bn = se[low:], se[up - 1 :], sw[low:], sw[up + 1 :]
        unw, une, usw, use = u[up - 1 :], u[up + 1 :], u[down - 1 :], u[down + 1 :]
        for k in range(size):
            near = f_[k] - d_[k] * uc[k] + ec[k] * ue[k] + ew[k] * uw[k] + sc[k] * us[k] + sn[k] * un[k]
            o[k] = near + ac[k] * use[k] + an[k] * unw[k] + bc[k] * usw[k] + bn[k] * une[k]
    else:
        for k in range(size):
            o[k] = f_[k] - d_[k] * uc[k] + ec[k] * ue[k] + ew[k] * uw[k] + sc[k] * us[k] + sn[k] * un[k]


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
        _residual(nine, low, high, my + 3, r, f, d, e, s, se, sw, u)


@fast
def _up(nine, band, d, e, s, se, sw, f, u, r, mx, my):
    """Two smoothing steps on u in the reverse order, the second a row behind; r holds the first."""
    for top in range(1, mx + 2, band):
        low, high = _run(top, top + band - 1, mx, my)
        _relax(nine, low, high, my + 3, _W2, r, f, d, e, s, se, sw, u)
        low, high = _run(top - 1, top + band - 2, mx, my)
        _relax(nine, low, high, my + 3, _W1, u, f, d, e, s, se, sw, r)


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
        # on small grids one band is the whole grid: long runs vectorise better than short rows
        band = max(1, _BAND // (my + 3))
        if down:
            _down(level > 0, from_zero or level > first, band, d, e, s, se, sw, f, u, r, mx, my)
            _coarser(work, shapes, start, level, r)
        else:
            _finer(work, shapes, start, level, u)
            _up(level > 0, band, d, e, s, se, sw, f, u, r, mx, my)


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
    P, c = _weights(work, start, shapes, level), shapes[level + 1]
    _, _, _, _, _, right, _, _ = arrays_of(work, start, shapes, level + 1)
    if _rows_alone(shapes, level):
        _restrict_rows(as_matrix(r, shapes[level]), P, as_matrix(right, c), c[0], c[1])
    else:
        _restrict(as_matrix(r, shapes[level]), P, as_matrix(right, c), c[0], c[1])


@fast
def _finer(work, shapes, start, level, u):
    """Adds the next level's u, interpolated, to the u of this one."""
    P, c = _weights(work, start, shapes, level), shapes[level + 1]
    _, _, _, _, _, _, correction, _ = arrays_of(work, start, shapes, level + 1)
    if _rows_alone(shapes, level):
        _prolong_rows(as_matrix(u, shapes[level]), P, as_matrix(correction, c), c[0], c[1])
    else:
        _prolong(as_matrix(u, shapes[level]), P, as_matrix(correction, c), c[0], c[1])
