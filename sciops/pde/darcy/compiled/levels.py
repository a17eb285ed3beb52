"""How functions are compiled, and where the workspace holds what belongs to a level.

`shapes` holds two whole numbers a level, its rows and columns; `start` holds `ARRAYS` of them, the first elements of d,
e, s, se, sw, f, u, r, of the weights towards the next level, and of the four of `relaxation_of_lines.factor_lines`.
"""

from __future__ import annotations

import numba

from sciops.pde.darcy.compiled.calls import at

ARRAYS, WEIGHTS, FACTORS = 13, 8, 9

# reassociation and contraction let sums vectorise; infinities and NaN stay what they are
FAST = {"reassoc", "contract", "arcp", "nsz"}

# of what compiled functions alone call: without entries for Python and C, which take a third of the time to compile
INNER = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

fast = numba.njit(fastmath=FAST, **INNER)

# copied into the function that calls it: for what is called from one place alone
inlined = numba.njit(inline="always", **INNER)


@fast
def arrays_of(work, start, level):
    """d, e, s, se, sw, f, u, r of a level."""
    first = at(start, ARRAYS * level)
    return (
        at(work, first[0]),
        at(work, first[1]),
        at(work, first[2]),
        at(work, first[3]),
        at(work, first[4]),
        at(work, first[5]),
        at(work, first[6]),
        at(work, first[7]),
    )


@fast
def weights_of(work, start, level):
    """The interpolation weights from the next coarser level, (2 or 8, rows, columns)."""
    return at(work, start[ARRAYS * level + WEIGHTS])


@fast
def factors_of(work, start, level):
    """(inverse pivot, multiplier of the line's point before) along the rows, and the same along the columns."""
    first = at(start, ARRAYS * level + FACTORS)
    return at(work, first[0]), at(work, first[1]), at(work, first[2]), at(work, first[3])


@fast
def rows_alone(shapes, level):
    """Whether the next level halves the rows and keeps the columns."""
    return shapes[2 * level + 3] == shapes[2 * level + 1]
