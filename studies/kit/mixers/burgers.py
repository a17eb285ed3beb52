"""Burgers' equation as a task for mixers: from a smooth field to the shocks it has become."""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from sciops.grids import Grid, restrict
from sciops.pde import burgers
from sciops.random_fields import gaussian_random_field
from studies.kit.cells import kept_arrays
from studies.kit.mixers.fields import FieldTask, error_on_task, field_task


@lru_cache(maxsize=2)
def burgers_task(
    *,
    points: int = 256,
    train: int = 512,
    test: int = 128,
    viscosity: float = 0.01,
    time: float = 1.0,
    kernel: int = 9,
    folder: Path | None = None,
) -> FieldTask:
    """u(·, 0) ↦ u(·, time) on the unit circle, u(·, 0) ~ N(0, 625(−Δ + 25)^{−2}), the law of arXiv:2010.08895.

    Solved on 2·points, to 1e-8 at 256 points and ν = 0.01; the grid of training holds every other point. Within
    time = 1 waves of that size run over half the circle: convolutions of 9 taps see 1/32 of it to each side after four
    blocks, so that the rest is up to the mixer.

    folder : where the solutions are kept
    """
    fine, grid = (Grid((n,), 1.0, "periodic") for n in (2 * points, points))

    def make() -> dict[str, np.ndarray]:
        start = 5**0.5 * gaussian_random_field(fine, train + test, tau=5.0, alpha=2.0, seed=0, modes=64)
        step = min(1 / 500, 0.5 / points)
        parts = (start[i : i + 64] for i in range(0, len(start), 64))  # a part stays in the cache through its steps
        ends = [burgers.solve(part, fine, times=[time], viscosity=viscosity, dt=step).u for part in parts]
        end = np.concatenate(ends)[:, 0]
        return {"x": restrict(start, fine, grid), "y": restrict(end, fine, grid), "x_fine": start, "y_fine": end}

    law = {"points": points, "fields": train + test, "viscosity": viscosity, "time": time}
    arrays = kept_arrays(folder, "burgers", law | {"tau": 5.0, "alpha": 2.0, "modes": 64, "seed": 0}, make)
    return field_task("burgers", arrays, (grid, fine), train=train, coordinates="periodic", kernel=kernel)


burgers_error = partial(error_on_task, burgers_task)
"""The record of one training of a mixer on `burgers_task`; see `error_on_task`."""
