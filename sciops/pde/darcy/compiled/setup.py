"""Every level of the compiled multigrid, filled from the conductances by Galerkin products."""

from __future__ import annotations

import numpy as np

from sciops.pde.darcy.compiled.galerkin import both_from_five, both_from_nine, rows_from_five, rows_from_nine
from sciops.pde.darcy.compiled.levels import FINEST, inlined, rows_alone, stencil_of, weights_of
from sciops.pde.darcy.compiled.smoothing import prepare

_ONE, _ZERO = np.float32(1.0), np.float32(0.0)


@inlined
def setup(rows, lines, along_y, along_x, work, shapes, start):
    """Every level from the finest conductances; halos of the workspace are zero already, diagonals get ones."""
    levels = len(shapes)
    mx, my = shapes[0]
    d, e, s, _, _ = stencil_of(work, start, shapes, FINEST)
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
        prepare(rows, lines, work, start, shapes, level)
        d, e, s, se, sw = stencil_of(work, start, shapes, level)
        D, E, S, SE, SW = stencil_of(work, start, shapes, level + 1)
        P = weights_of(work, start, shapes, level)
        mx, my = shapes[level + 1]
        D[:] = _ONE
        both = True if rows is None else not rows_alone(shapes, level)
        if both and level == 0:
            both_from_five(d, e, s, se, sw, P, D, E, S, SE, SW, mx, my)
        elif both:
            both_from_nine(d, e, s, se, sw, P, D, E, S, SE, SW, mx, my)
        elif rows is not None:
            if level == 0:
                rows_from_five(d, e, s, se, sw, P, D, E, S, SE, SW, mx, my)
            else:
                rows_from_nine(d, e, s, se, sw, P, D, E, S, SE, SW, mx, my)
