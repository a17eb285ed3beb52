"""The compiled multigrid cycle of one sample: V(2, 2) with a given smoother, and the first guess of full multigrid."""

from __future__ import annotations

import numpy as np

from sciops.pde.darcy.compiled.calls import calling
from sciops.pde.darcy.compiled.levels import arrays_of, fast, rows_alone, weights_of
from sciops.pde.darcy.compiled.lines import lines_after, lines_before
from sciops.pde.darcy.compiled.points import points_after, points_before
from sciops.pde.darcy.multigrid import COARSE

_ZERO = np.float32(0.0)

_bottom, _put, _cycle = calling("bottom"), calling("put"), calling("cycle")
_restrict_both, _restrict_rows = calling("restrict_both"), calling("restrict_rows")
_prolong_both, _prolong_rows = calling("prolong_both"), calling("prolong_rows")


def cycle(kernels, lines, work, shapes, start, levels, singular, first, from_zero):
    """One V(2, 2)-cycle on the right side stored at level `first`, from zero or from that level's u, into it;
    `singular` says that no wall holds a value, so that u is determined up to a constant."""
    for step in range(2 * (levels - first) - 1):
        down = step < levels - first
        level = first + step if down else 2 * levels - 2 - first - step
        d, e, s, _, _, f, u, r = arrays_of(work, start, level)
        if level == levels - 1:
            _bottom(kernels, (singular, d, e, s, f, u, r, shapes[2 * level], shapes[2 * level + 1]))
        elif down:
            zero = from_zero or level > first
            if lines:
                lines_before(kernels, work, start, shapes, level, zero)
            else:
                points_before(kernels, work, start, shapes, level, zero)
            _coarser(kernels, work, shapes, start, level, r)
        else:
            _finer(kernels, work, shapes, start, level, u)
            if lines:
                lines_after(kernels, work, start, shapes, level)
            else:
                points_after(kernels, work, start, shapes, level)


def nested_start(kernels, lines, work, shapes, start, levels, singular):
    """Full multigrid for the right side at the finest level, up to the level below it: its solution there, by one cycle
    a level from a coarse one on, interpolated into the finest u. There are two levels at least."""
    first = 1  # as `multigrid.nested_level`
    while first < levels - 1 and shapes[2 * first] * shapes[2 * first + 1] > COARSE:
        first += 1
    for level in range(first):
        _, _, _, _, _, f, _, _ = arrays_of(work, start, level)
        _coarser(kernels, work, shapes, start, level, f)
    _cycle(kernels, (kernels, lines, work, shapes, start, levels, singular, first, 1))
    for level in range(first - 1, -1, -1):
        _, _, _, _, _, _, u, _ = arrays_of(work, start, level)
        _put(kernels, (u, (shapes[2 * level] + 3) * (shapes[2 * level + 1] + 3), _ZERO))
        _finer(kernels, work, shapes, start, level, u)
        if level > 0:
            _cycle(kernels, (kernels, lines, work, shapes, start, levels, singular, level, 0))


@fast
def _coarser(kernels, work, shapes, start, level, r):
    """The right side of the next level from r on this one."""
    mx, my, width = shapes[2 * level + 2], shapes[2 * level + 3], shapes[2 * level + 1] + 3
    P = weights_of(work, start, level)
    _, _, _, _, _, right, _, _ = arrays_of(work, start, level + 1)
    if rows_alone(shapes, level):
        _restrict_rows(kernels, (r, P, right, mx, my, width))
    else:
        _restrict_both(kernels, (r, P, right, mx, my, width))


@fast
def _finer(kernels, work, shapes, start, level, u):
    """Adds the next level's u, interpolated, to the u of this one."""
    mx, my, width = shapes[2 * level + 2], shapes[2 * level + 3], shapes[2 * level + 1] + 3
    P = weights_of(work, start, level)
    _, _, _, _, _, _, correction, _ = arrays_of(work, start, level + 1)
    if rows_alone(shapes, level):
        _prolong_rows(kernels, (u, P, correction, mx, my, width))
    else:
        _prolong_both(kernels, (u, P, correction, mx, my, width))
