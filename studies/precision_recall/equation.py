"""Burgers' equation from four families of initial fields, which differ in their mean flow."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sciops.grids import Grid, restrict
from sciops.pde import burgers
from sciops.random_fields import gaussian_random_field
from studies.kit.cells import kept_arrays

MEANS = (-1.0, -1 / 3, 1 / 3, 1.0)  # mean flows, which the equation preserves: family i is the fields 4j + i
VISCOSITY, TIME = 0.01, 0.4


def grid_of(points: int) -> Grid:
    return Grid((points,), 1.0, "periodic")


def burgers_fields(folder: Path | None, count: int, points: int) -> dict[str, np.ndarray]:
    """{"a", "u"}: (count, points), fields at time 0 and at `TIME`, solved on twice the points.

    a = m + g/2 with m the mean of the family and g ~ N(0, ∝ (−Δ + 25)^{−2}) of deviation 1.
    """
    fine, grid = grid_of(2 * points), grid_of(points)

    def make() -> dict[str, np.ndarray]:
        waves = gaussian_random_field(fine, count, tau=5.0, alpha=2.0, seed=0, modes=33, normalize=True)
        start = np.asarray(MEANS)[np.arange(count) % len(MEANS), None] + 0.5 * waves
        parts = (start[i : i + 256] for i in range(0, count, 256))
        step = min(1 / 300, 0.5 / points)
        ends = [burgers.solve(part, fine, times=[TIME], viscosity=VISCOSITY, dt=step).u for part in parts]
        return {"a": restrict(start, fine, grid), "u": restrict(np.concatenate(ends)[:, 0], fine, grid)}

    law = {"count": count, "points": points, "means": MEANS, "viscosity": VISCOSITY, "time": TIME, "modes": 33}
    return kept_arrays(folder, "burgers", law, make)
