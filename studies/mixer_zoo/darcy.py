"""Darcy flow as a task for mixers: from a coefficient of two phases to the pressure."""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from sciops.grids import Grid, restrict
from sciops.pde import darcy
from sciops.random_fields import gaussian_random_field, two_phase
from studies.kit.cells import kept_arrays
from studies.kit.mixers.fields import FieldTask, error_on_task, field_task


@lru_cache(maxsize=2)
def darcy_task(
    *, points: int = 33, train: int = 512, test: int = 128, kernel: int = 3, folder: Path | None = None
) -> FieldTask:
    """a ↦ u with −∇·(a∇u) = 1 on the unit square, u = 0 on its walls, a of the values 3 and 12 (arXiv:2010.08895).

    points : nodes per axis, walls included. Solved on 2·points − 1, of which training holds every other node

    folder : where the solutions are kept
    """
    fine, grid = (Grid((n, n)) for n in (2 * points - 1, points))

    def make() -> dict[str, np.ndarray]:
        a = two_phase(gaussian_random_field(fine, train + test, tau=3.0, alpha=2.0, seed=0))
        u = np.asarray(darcy.solve(a, fine, threads=1).u)
        return {"x": restrict(a, fine, grid), "y": restrict(u, fine, grid), "x_fine": a, "y_fine": u}

    law = {"points": points, "fields": train + test, "tau": 3.0, "alpha": 2.0, "seed": 0}
    arrays = kept_arrays(folder, "darcy", law, make)
    grids = (grid, fine)
    return field_task("darcy", arrays, grids, train=train, coordinates="wall", kernel=kernel, centre=7.5)


darcy_error = partial(error_on_task, darcy_task, batch=8)
"""The record of one training of a mixer on `darcy_task`; see `error_on_task`."""
