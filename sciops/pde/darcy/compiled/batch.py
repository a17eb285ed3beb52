"""The compiled form of the solver: threads share out the samples of a batch.

Kernels that Python calls release its lock and are run by ordinary threads, each taking the next samples that are left,
in its own workspace: no threading layer to choose, safe after a fork, callable from several threads at once, and one
busy core does not hold up the others. Small samples are taken several at a time: what Python does for a call would else
be a quarter of their time, which threads cannot share.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby

import numpy as np

from sciops.pde.darcy.compiled.kernels import Form, form_of, solver_of
from sciops.pde.darcy.compiled.levels import ARRAYS, FACTORS, WEIGHTS
from sciops.pde.darcy.multigrid import Way, level_shapes


def layout(mx: int, my: int, rows_alone: int = 0, lines: bool = False) -> tuple[np.ndarray, np.ndarray, int]:
    """(shapes (levels, 2), first element of each array (levels, ARRAYS), elements in all) of the workspace.

    A level's arrays are those of `levels`, d to r with a halo; the last four with `lines` alone.
    """
    shapes = np.array(level_shapes(mx, my, rows_alone), dtype=np.int64)
    start = np.zeros((len(shapes), ARRAYS), dtype=np.int64)
    size = 0
    for level, (rows, columns) in enumerate(shapes):
        for array in range(WEIGHTS):
            start[level, array] = size
            size += (rows + 3) * (columns + 3)
            size += -size % 16  # every array begins on a cache line of its own
        start[level, WEIGHTS] = size
        if level + 1 < len(shapes):
            weights = 2 if shapes[level + 1, 1] == columns else 8
            size += weights * (shapes[level + 1, 0] + 2) * (shapes[level + 1, 1] + 2)
            size += -size % 16
        for array in range(FACTORS, ARRAYS if lines else FACTORS):
            start[level, array] = size
            size += (rows + 3) * (columns + 3)
            size += -size % 16
    return shapes, start, size


_kept = threading.local()
_TOGETHER = 2**15  # unknowns of the samples that a thread takes at a time: a millisecond or two
_MOST_KEPT = 2**22  # elements; beyond them the memory goes back to the system after every call


def _memory(
    mx: int, my: int, rows_alone: int, lines: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
    """(shapes, first elements, workspace, float64 fields), those of this thread's last call where they fit.

    Memory that is new to a process costs a page fault every 4 kB: about an iteration's time.
    """
    key = (mx, my, rows_alone, lines)
    if getattr(_kept, "key", None) == key:
        return _kept.memory
    shapes, start, size = layout(*key)
    inner, halo = (mx, my), (mx + 2, my + 2)
    fields = [np.zeros(shape) for shape in ((mx, my + 1), (mx + 1, my), halo, inner, inner, halo)]
    memory = shapes, start, np.zeros(size, dtype=Form(lines=lines).stored), fields
    if size <= _MOST_KEPT:
        _kept.key, _kept.memory = key, memory
    return memory


class _Workspace:
    """What one thread needs for the samples of one `way`; the axes change places where it says so."""

    def __init__(self, axes, way: Way) -> None:
        self.transposed = way.transposed
        solver = solver_of(form_of(way))
        self.samples = solver.function("samples")
        axes = axes[::-1] if way.transposed else axes
        mx, my = (axis.size for axis in axes)
        shapes, start, work, fields = _memory(mx, my, way.rows_alone, way.lines)
        over = [np.zeros((2, axis.size + 1)) for axis in axes]
        for table, axis in zip(over, axes):
            table[0, :-1], table[1] = axis.dual, axis.inverse
        numbers = np.zeros(3)
        self.arrays = [solver.table, shapes, start, work, *fields, *over, numbers]  # whose addresses follow
        self.called = place(solver.table), way.lines
        self.levels = place(work), work.size, place(shapes), place(start), len(shapes)
        self.places = tuple(map(place, (*over, *fields[:2], numbers, *fields[2:])))

    def solve(self, a, factor, b, exchange, out, found, singular, tol, limit):
        """Samples that follow each other: the solutions into out, found (count, 3) as `solve_samples` gives it."""
        if self.transposed:
            a = np.ascontiguousarray(a[:, ::-1].transpose(0, 1, 3, 2))
            b, out = np.ascontiguousarray(b.transpose(0, 2, 1)), out.transpose(0, 2, 1)
            exchange = np.ascontiguousarray(exchange[:, [2, 3, 0, 1]])
        self.samples(
            *self.called,
            len(a),
            *(place(a), place(a) + a.strides[1] * (a.shape[1] - 1), _step(a)),
            place(factor),
            *(place(b), _step(b)),
            *(place(exchange), _step(exchange), exchange.shape[2]),
            *(place(out), *(stride // out.itemsize for stride in out.strides)),
            place(found),
            *(singular, tol, limit),
            *self.levels,
            *self.places,
        )


def _step(array: np.ndarray) -> int:
    """Elements from a sample to the next; 0 where one stands for all."""
    return array.strides[0] // array.itemsize if len(array) > 1 else 0


def place(array: np.ndarray) -> int:
    """The address of an array's first element; kernels take arrays whose numbers follow each other without gaps."""
    return array.__array_interface__["data"][0]


def solve_samples(a, factor, b, exchange, out, axes, ways, singular, tol, limit, threads):
    """(true relative residual, its float64 floor, iterations) per sample; the solutions go into out (batch, mx, my).

    a (batch, 1 or 2, mx + 2, my + 2) padded, factor (batch,): the coefficient is a · factor; b (1 or batch, mx, my);
    exchange (1 or batch, 4, longest side or 0): conductances through the low and high end of x and of y, times factor;
    ways: of each sample; singular: no wall holds a value
    """
    a, b, exchange, factor = (np.ascontiguousarray(array, dtype=np.float64) for array in (a, b, exchange, factor))
    found, tol, limit = np.empty((len(a), 3)), float(tol), int(limit)
    todo, lock = iter(_parts(ways, max(1, _TOGETHER // max(1, out[:1].size)))), threading.Lock()

    def work_through() -> None:
        workspaces = {}
        while True:
            with lock:
                part = next(todo, None)
            if part is None:
                return
            way = ways[part.start]
            if way not in workspaces:
                workspaces[way] = _Workspace(axes, way)
            right, walls = (array[part] if len(array) > 1 else array for array in (b, exchange))
            workspaces[way].solve(a[part], factor[part], right, walls, out[part], found[part], singular, tol, limit)

    workers = min(threads, len(a))
    for way in set(ways):
        solver_of(form_of(way))
    if workers <= 1:
        work_through()
    else:
        with ThreadPoolExecutor(workers) as pool:
            for future in [pool.submit(work_through) for _ in range(workers)]:
                future.result()
    return found[:, 0].copy(), found[:, 1].copy(), found[:, 2].astype(np.int64)


def _parts(ways: list[Way], most: int) -> Iterator[slice]:
    """Samples that follow each other and are solved in the same way, at most so many at a time."""
    first = 0
    for _, same in groupby(ways):
        last = first + sum(1 for _ in same)
        yield from (slice(i, min(i + most, last)) for i in range(first, last, most))
        first = last
