"""What the compiled multigrid stores, level by level: stencil, right side, solution, residual, interpolation weights.

Plain loops whose inner loop runs over contiguous memory, so that they vectorise.
"""

from __future__ import annotations

import numba
import numpy as np

# reassociation and contraction let sums vectorise; infinities and NaN stay what they are
FAST = {"reassoc", "contract", "arcp", "nsz"}

# of what compiled functions alone call: without entries for Python and C, which take a third of the time to compile
INNER = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

fast = numba.njit(fastmath=FAST, **INNER)

# numba compiles a function once more for an argument that is written as a number or truth value: these are variables
FINEST, YES, NO = np.int64(0), np.bool_(True), np.bool_(False)

# copied into the function that calls it, with that one's arithmetic: numba optimises a compiled function again in each
# function that it is compiled into, so that what is called from one place alone is not to be a function of its own
inlined = numba.njit(inline="always", **INNER)


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
    """The numbers of a level, halo included, as a matrix."""
    return array.reshape((shape[0] + 3, shape[1] + 3))


@fast
def stencil_of(work, start, shapes, level):
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
    """The interpolation weights from the next coarser level, (2 or 8, rows, columns)."""
    rows, columns = shapes[level + 1, 0] + 2, shapes[level + 1, 1] + 2
    first, count = start[level, 8], 2 if rows_alone(shapes, level) else 8
    return work[first : first + count * rows * columns].reshape((count, rows, columns))


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
