"""The parts of the compiled Darcy cycle, with points smoothed, as functions of arrays."""

from __future__ import annotations

import numpy as np

from sciops.pde.darcy.compiled.batch import place
from sciops.pde.darcy.compiled.kernels import Form, solver_of


def setup_points(along_y, along_x, work, shapes, start):
    solver = solver_of(Form(rows=True))
    faces = [np.ascontiguousarray(array, dtype=np.float64) for array in (along_y, along_x)]
    places = (place(array) for array in (*faces, work, shapes, start))
    solver.function("setup")(place(solver.table), False, *places, len(shapes))


def cycle_points(work, shapes, start, singular):
    solver = solver_of(Form(rows=True))
    places = (place(array) for array in (work, shapes, start))
    solver.function("cycle")(place(solver.table), False, *places, len(shapes), singular, 0, True)


def nested_start_points(work, shapes, start, singular):
    solver = solver_of(Form(rows=True))
    places = (place(array) for array in (work, shapes, start))
    solver.function("nested_start")(place(solver.table), False, *places, len(shapes), singular)
