"""The forms of the compiled multigrid, chosen by two arguments, `rows` and `lines`, each None or True.

A comparison with None is decided when numba compiles, so that a form holds its own smoother and coarsenings alone and a
solve does not wait for those of the others. (Compiled functions as values would keep the solvers out of numba's cache
on disk.)
"""

from __future__ import annotations

from sciops.pde.darcy.compiled.levels import inlined
from sciops.pde.darcy.compiled.lines import lines_after, lines_before, prepare_lines
from sciops.pde.darcy.compiled.points import points_after, points_before, prepare_points

# (rows, lines): points smoothed and both axes halved; points smoothed and rows halved alone on some levels; lines
POINTS, ROWS, LINES = (None, None), (True, None), (None, True)


@inlined
def prepare(rows, lines, work, start, shapes, level):
    """The interpolation weights towards the next level, and what the smoothing itself needs."""
    if lines is None:
        prepare_points(rows, work, start, shapes, level)
    else:
        prepare_lines(work, start, shapes, level)


@inlined
def smooth_before(lines, work, start, shapes, level, from_zero):
    """Smooths u, or starts from zero, and leaves the residual in r."""
    if lines is None:
        points_before(work, start, shapes, level, from_zero)
    else:
        lines_before(work, start, shapes, level, from_zero)


@inlined
def smooth_after(lines, work, start, shapes, level):
    """The steps of `smooth_before` in the reverse order, which keeps the cycle symmetric."""
    if lines is None:
        points_after(work, start, shapes, level)
    else:
        lines_after(work, start, shapes, level)
