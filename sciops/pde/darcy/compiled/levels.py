"""What the compiled multigrid stores, level by level, and `setup`, which fills it by Galerkin products.

Plain loops whose inner loop runs over contiguous memory, so that they vectorise. The type of the workspace chooses the
smoother: float32 for points, float64 for lines, which are for couplings that differ by more than float32 resolves.
"""

from __future__ import annotations

import numba
import numpy as np

from sciops.pde.darcy.galerkin import BOTH, ROWS, galerkin_source
from sciops.pde.darcy.multigrid import LITTLE

# reassociation and contraction let sums vectorise; infinities and NaN stay what they are
_FAST = {"reassoc", "contract", "arcp", "nsz"}
_ONE, _ZERO = np.float32(1.0), np.float32(0.0)

fast = numba.njit(nogil=True, fastmath=_FAST, error_model="numpy")


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
def rows_alone(shapes, level):
    """Whether the next level halves the rows and keeps the columns."""
    return shapes[level + 1, 1] == shapes[level, 1]


@fast
def weights_of(work, start, shapes, level):
    rows, columns = shapes[level + 1, 0] + 2, shapes[level + 1, 1] + 2
    first, count = start[level, 8], 2 if rows_alone(shapes, level) else 8
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
        P = weights_of(work, start, shapes, level)
        cx, cy = shapes[level + 1]
        D[:] = _ONE
        if work.itemsize > 4:  # lines are smoothed; r is free until then
            tight = as_matrix(arrays_of(work, start, shapes, level)[7], shapes[level])
            _tighten(tight, d, e, s, se, sw, shapes[level, 0], shapes[level, 1])
            _interpolate_rows(tight, e, s, se, sw, P, cx, cy)
            tight[:] = _ZERO
        elif rows_alone(shapes, level):
            _interpolate_between_rows(d, e, s, se, sw, P, cx, cy)
            if level == 0:
                _rows_from_5(d, e, s, se, sw, P, D, E, S, SE, SW, cx, cy)
            else:
                _rows_from_9(d, e, s, se, sw, P, D, E, S, SE, SW, cx, cy)
            continue
        else:
            _interpolate_rows(d, e, s, se, sw, P, cx, cy)
        if level == 0:
            _galerkin_5(d, e, s, se, sw, P, D, E, S, SE, SW, cx, cy)
        else:
            _galerkin_9(d, e, s, se, sw, P, D, E, S, SE, SW, cx, cy)


@fast
def residual(nine, low, high, width, out, f, d, e, s, se, sw, u):
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
