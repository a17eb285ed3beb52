"""The compiled form of the solver: threads share out the samples of a batch.

Kernels that Python calls release its lock and are run by ordinary threads, each taking the next sample that is left,
in its own workspace: no threading layer to choose, safe after a fork, callable from several threads at once, and one
busy core does not hold up the others.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

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
        self.faces, self.setup, self.iterate = (solver.function(name) for name in ("faces", "setup", "iterate"))
        axes = axes[::-1] if way.transposed else axes
        mx, my = (axis.size for axis in axes)
        self.shapes, self.start, self.work, self.fields = _memory(mx, my, way.rows_alone, way.lines)
        self.over = [np.zeros((2, axis.size + 1)) for axis in axes]
        for table, axis in zip(self.over, axes):
            table[0, :-1], table[1] = axis.dual, axis.inverse
        self.numbers, self.shape = np.zeros(3), (mx, my)
        self.solver, self.called = solver, (place(solver.table), way.lines)
        # addresses, of arrays that live as long as this does
        self.levels = *map(place, (self.work, self.shapes, self.start)), len(self.shapes)
        self.places = tuple(map(place, (*self.over, *self.fields[:2], self.numbers, *self.fields[2:])))

    def solve(self, a, factor, b, exchange, out, singular, tol, limit):
        """One sample into out; (true relative residual, its float64 floor, iterations)."""
        if self.transposed:
            a, b, out = np.ascontiguousarray(a[::-1].transpose(0, 2, 1)), np.ascontiguousarray(b.T), out.T
            exchange = exchange[[2, 3, 0, 1]]
        over, places = self.places[:2], self.places[2:]
        walls = place(exchange), exchange.shape[1]
        self.faces(place(a), place(a[-1]), factor, *over, *walls, *places[:2], *self.shape)
        self.setup(*self.called, *places[:2], *self.levels)
        self.iterate(*self.called, place(b), singular, tol, limit, *self.levels, *places)
        out[:] = self.fields[-1][1:-1, 1:-1]
        rho, floor, iterations = self.numbers.tolist()
        if not rho <= tol:  # a sample that overflowed leaves NaN in the halo, and with it its successors
            self.work[:] = 0.0
        return rho, floor, int(iterations)


def place(array: np.ndarray) -> int:
    """The address of an array's first element; kernels take arrays whose numbers follow each other without gaps."""
    return array.__array_interface__["data"][0]


def solve_samples(a, factor, b, exchange, out, axes, ways, singular, tol, limit, threads):
    """(true relative residual, its float64 floor, iterations) per sample; the solutions go into out (batch, mx, my).

    a (batch, 1 or 2, mx + 2, my + 2) padded, factor (batch,): the coefficient is a · factor; b (1 or batch, mx, my);
    exchange (1 or batch, 4, longest side or 0): conductances through the low and high end of x and of y, times factor;
    ways: of each sample; singular: no wall holds a value
    """
    batch = len(a)
    a, b, exchange = (np.ascontiguousarray(array, dtype=np.float64) for array in (a, b, exchange))
    rho, floor, iterations = np.empty(batch), np.empty(batch), np.empty(batch, dtype=np.int64)
    todo, lock, tol, limit = iter(range(batch)), threading.Lock(), float(tol), int(limit)

    def work_through() -> None:
        workspaces = {}
        while True:
            with lock:
                i = next(todo, None)
            if i is None:
                return
            if ways[i] not in workspaces:
                workspaces[ways[i]] = _Workspace(axes, ways[i])
            right, walls = (array[i if len(array) > 1 else 0] for array in (b, exchange))
            rho[i], floor[i], iterations[i] = workspaces[ways[i]].solve(
                a[i], factor[i], right, walls, out[i], singular, tol, limit
            )

    workers = min(threads, batch)
    for way in set(ways):
        solver_of(form_of(way))
    if workers <= 1:
        work_through()
    else:
        with ThreadPoolExecutor(workers) as pool:
            for future in [pool.submit(work_through) for _ in range(workers)]:
                future.result()
    return rho, floor, iterations
