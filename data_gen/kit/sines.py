"""Sums of sines with independent uniform coefficients: the law of CNO's Poisson and wave data (arXiv:2302.01178)."""

from __future__ import annotations

import numpy as np
import torch

from sciops.bases import functions
from sciops.grids import Grid
from sciops.random_fields import one_torch_thread


def sine_series(grid: Grid, numbers: np.ndarray, *, modes: int, power: float, seed: int) -> np.ndarray:
    """Samples of (π/K²) Σ_{i,j=1}^K a_ij (i² + j²)^p sin(πix/L_x) sin(πjy/L_y), a_ij iid uniform on [−1, 1].

    grid : 2 axes; the sines are those of its domain, evaluated at its own points, exactly 0 on the walls
    numbers : of the samples; number n draws a from ``SeedSequence(seed, spawn_key=(n,))``, the same on every grid
    modes : K ≥ 1; power : p
    returns : (samples, nx, ny) float64
    """
    k = np.arange(1, modes + 1)
    scale = np.pi / modes**2 * (k[:, None] ** 2 + k**2) ** float(power)
    x, y = (torch.tensor(functions("sine", s, modes)) for s in grid.fractions())
    fields = np.empty((len(numbers), *grid.shape))
    with one_torch_thread():
        for field, number in zip(fields, numbers.tolist()):
            a = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,))).uniform(-1, 1, (modes, modes))
            field[...] = x @ torch.tensor(a * scale) @ y.mT
    return fields
