"""Bytes that the compiled Darcy solver moves for a sample, counted by kernel, and the rate of the memory they lie in.

Small systems lie in a core's cache. What bounds them is the rate at which that gives and takes numbers, measured by a
sum of two arrays into a third that together fill as much memory as the solver's workspace.
"""

from __future__ import annotations

import numpy as np

from sciops.pde.darcy.multigrid import level_shapes, nested_level
from studies.kit.timing import interleaved

_SINGLE, _DOUBLE = 4, 8  # bytes of a number of the levels, and of conjugate gradients
_KEPT = {"levels": 5, "cycle": 3, "float64": 7}
"""arrays: stencil of a level; f, u, r of a level; conductances, p, Ap, r, u, b in float64"""


def bytes_moved(unknowns: int, iterations: float) -> float:
    """Bytes read and written for a system of unknowns² with f = 1, each array once in a pass over it.

    A pass counts what it reads and writes at a point: what lies beside it is still at hand. From the first kernel to
    the copy of the solution: setup, first guess, `iterations` of conjugate gradients with a V(2, 2)-cycle each, and the
    residual and rounding at the end, with one round of conjugate gradients.
    """
    shapes = level_shapes(unknowns, unknowns)
    counts = [rows * columns for rows, columns in shapes]
    finest, first = counts[0], nested_level(shapes) if len(counts) > 1 else 0
    start = _setup(counts) + 8 * _DOUBLE * finest  # with faces of a, copies of b and u, cleared u and p
    if len(counts) > 1:
        start += _SINGLE * (finest + sum(_between(counts, level, up=False) for level in range(first)))
        start += _cycle(counts, first, zero=True)
        for level in range(first):
            start += _SINGLE * (counts[level] + _between(counts, level, up=True))
            start += _cycle(counts, level, zero=False) if level else 0
        start += (_SINGLE + 7 * _DOUBLE) * finest  # the guess in float64, its residual, scaled
    iteration = _cycle(counts, 0, zero=True) + (13 * _DOUBLE + 3 * _SINGLE) * finest
    return start + iterations * iteration + 8 * _DOUBLE * finest  # true residual and rounding


def _stencil(level: int) -> int:
    return 5 if level else 3


def _setup(counts: list[int]) -> float:
    """Stencils of all levels and weights between them."""
    moved = (4 * _SINGLE + 2 * _DOUBLE) * counts[0]
    for level, (fine, coarse) in enumerate(zip(counts, counts[1:])):
        moved += _SINGLE * (2 * _stencil(level) * fine + (8 + 8 + 5 + 1) * coarse)
    return moved


def _between(counts: list[int], level: int, up: bool) -> int:
    """Numbers that restriction, or interpolation upwards, moves between a level and the next."""
    return (2 if up else 1) * counts[level] + 9 * counts[level + 1]


def _cycle(counts: list[int], first: int, zero: bool) -> float:
    """A V(2, 2)-cycle from level `first` on: four smoothing steps and a residual a level, of which the first step from
    zero reads the diagonal and the right side alone."""
    moved = 6 * counts[-1]
    for level in range(first, len(counts) - 1):
        whole = 3 + _stencil(level)  # f, the stencil, u; the result
        step = 3 if zero or level > first else whole
        moved += (step + 4 * whole) * counts[level]
        moved += _between(counts, level, up=False) + _between(counts, level, up=True)
    return _SINGLE * moved


def workspace(unknowns: int) -> float:
    """Bytes that a solve goes through again and again."""
    counts = [rows * columns for rows, columns in level_shapes(unknowns, unknowns)]
    levels = sum(counts) * (_KEPT["levels"] + _KEPT["cycle"]) + 8 * sum(counts[1:])
    return _SINGLE * levels + _DOUBLE * _KEPT["float64"] * counts[0]


def rate_within(size: float, *, repeats: int = 200, rounds: int = 9) -> float:
    """Bytes a second of a + b → c in float32 on one thread, over three arrays of `size` bytes together: the fastest of
    the rounds."""
    a = np.ones(int(size / 12), np.float32)
    b, c = a.copy(), np.zeros_like(a)

    def sums() -> None:
        for _ in range(repeats):
            np.add(a, b, out=c)

    return 3 * a.nbytes * repeats / min(interleaved({"sum": sums}, rounds=rounds)["sum"])
