"""The smoother of the compiled multigrid, chosen by an argument: `POINTS` or `LINES`.

They are None and True: values of two types, for each of which numba compiles its own code and leaves out the branch
that the type rules out. (Compiled functions as values would keep the solvers out of numba's cache on disk.)
"""

from __future__ import annotations

from sciops.pde.darcy.compiled.levels import fast
from sciops.pde.darcy.compiled.lines import lines_after, lines_before, prepare_lines
from sciops.pde.darcy.compiled.points import points_after, points_before, prepare_points

POINTS, LINES = None, True


@fast
def prepare(lines, work, start, shapes, level):
    """The interpolation weights towards the next level, and what the smoothing itself needs."""
    if lines is None:
        prepare_points(work, start, shapes, level)
    else:
        prepare_lines(work, start, shapes, level)


@fast
def smooth_before(lines, work, start, shapes, level, from_zero):
    """Smooths u, or starts from zero, and leaves the residual in r."""
    if lines is None:
        points_before(work, start, shapes, level, from_zero)
    else:
        lines_before(work, start, shapes, level, from_zero)


@fast
def smooth_after(lines, work, start, shapes, level):
    """The steps of `smooth_before` in the reverse order, which keeps the cycle symmetric."""
    if lines is None:
        points_after(work, start, shapes, level)
    else:
        lines_after(work, start, shapes, level)
