"""The parts of the compiled Darcy cycle, with points smoothed, as functions of their own that numba keeps on disk."""

from __future__ import annotations

from collections.abc import Callable

import numba

from sciops.pde.darcy.compiled.cycle import cycle, nested_start
from sciops.pde.darcy.compiled.levels import FINEST, YES
from sciops.pde.darcy.compiled.sample import sources_checksum
from sciops.pde.darcy.compiled.setup import setup
from sciops.pde.darcy.compiled.smoothing import ROWS


def _compiled(checksum: int) -> tuple[Callable, Callable, Callable]:
    """As `sciops.pde.darcy.compiled.sample.compiled`: a checksum of the sources is part of the key on disk."""
    kept = numba.njit(cache=True, nogil=True, error_model="numpy")
    rows, lines = ROWS

    @kept
    def setup_points(along_y, along_x, work, shapes, start):
        _ = checksum
        setup(rows, lines, along_y, along_x, work, shapes, start)

    @kept
    def cycle_points(work, shapes, start, singular):
        _ = checksum
        cycle(rows, lines, work, shapes, start, singular, FINEST, YES)

    @kept
    def nested_start_points(work, shapes, start, singular):
        _ = checksum
        nested_start(rows, lines, work, shapes, start, singular)

    return setup_points, cycle_points, nested_start_points


setup_points, cycle_points, nested_start_points = _compiled(sources_checksum())
