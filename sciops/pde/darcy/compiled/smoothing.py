"""The smoother of the compiled multigrid, chosen by an argument: `POINTS` or `LINES`.

They are None and True: values of two types, so that numba compiles a solver for each with that smoother alone.
(Compiled functions as values would keep the solvers out of numba's cache on disk.)
"""

from __future__ import annotations

from numba import types
from numba.extending import overload

from sciops.pde.darcy.compiled.lines import lines_after, lines_before, prepare_lines
from sciops.pde.darcy.compiled.points import points_after, points_before, prepare_points

POINTS, LINES = None, True


def prepare(lines, work, start, shapes, level):
    """The interpolation weights towards the next level, and what the smoothing itself needs."""


def smooth_before(lines, work, start, shapes, level, from_zero):
    """Smooths u, or starts from zero, and leaves the residual in r."""


def smooth_after(lines, work, start, shapes, level):
    """The steps of `smooth_before` in the reverse order, which keeps the cycle symmetric."""


@overload(prepare)
def _prepare(lines, work, start, shapes, level):
    chosen = prepare_points if lines is types.none else prepare_lines
    return lambda lines, work, start, shapes, level: chosen(work, start, shapes, level)


@overload(smooth_before)
def _smooth_before(lines, work, start, shapes, level, from_zero):
    chosen = points_before if lines is types.none else lines_before
    return lambda lines, work, start, shapes, level, from_zero: chosen(work, start, shapes, level, from_zero)


@overload(smooth_after)
def _smooth_after(lines, work, start, shapes, level):
    chosen = points_after if lines is types.none else lines_after
    return lambda lines, work, start, shapes, level: chosen(work, start, shapes, level)
