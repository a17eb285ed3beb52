"""Every level of the compiled multigrid, filled from the conductances by Galerkin products."""

from __future__ import annotations

import numpy as np

from sciops.pde.darcy.compiled.calls import calling
from sciops.pde.darcy.compiled.levels import arrays_of, rows_alone, weights_of
from sciops.pde.darcy.compiled.lines import prepare_lines
from sciops.pde.darcy.compiled.points import prepare_points

_ONE = np.float32(1.0)

_put, _finest = calling("put"), calling("finest")
_both_from_five, _both_from_nine = calling("both_from_five"), calling("both_from_nine")
_rows_from_five, _rows_from_nine = calling("rows_from_five"), calling("rows_from_nine")


def setup(kernels, lines, along_y, along_x, work, shapes, start, levels):
    """Every level from the finest conductances; halos of the workspace are zero already, diagonals get ones."""
    mx, my = shapes[0], shapes[1]
    d, e, s, se, sw, _, _, _ = arrays_of(work, start, 0)
    _put(kernels, (d, (mx + 3) * (my + 3), _ONE))
    _finest(kernels, (d, e, s, along_y, along_x, mx, my))
    for level in range(levels - 1):
        if lines:
            prepare_lines(kernels, work, start, shapes, level)
        else:
            prepare_points(kernels, work, start, shapes, level)
        d, e, s, se, sw, _, _, _ = arrays_of(work, start, level)
        D, E, S, SE, SW, _, _, _ = arrays_of(work, start, level + 1)
        P, width = weights_of(work, start, level), shapes[2 * level + 1] + 3
        mx, my = shapes[2 * level + 2], shapes[2 * level + 3]
        _put(kernels, (D, (mx + 3) * (my + 3), _ONE))
        if rows_alone(shapes, level):
            if level == 0:
                _rows_from_five(kernels, (d, e, s, se, sw, P, D, E, S, SE, SW, mx, my, width))
            else:
                _rows_from_nine(kernels, (d, e, s, se, sw, P, D, E, S, SE, SW, mx, my, width))
        elif level == 0:
            _both_from_five(kernels, (d, e, s, se, sw, P, D, E, S, SE, SW, mx, my, width))
        else:
            _both_from_nine(kernels, (d, e, s, se, sw, P, D, E, S, SE, SW, mx, my, width))
