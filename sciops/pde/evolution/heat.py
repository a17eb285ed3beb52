"""The heat equation u_t = νΔu on a periodic box, solved exactly: every mode decays as exp(−ν|k|²t)."""

from __future__ import annotations

from typing import Any

import torch

from sciops.grids import Grid
from sciops.pde.evolution.fourier import FourierSpace
from sciops.pde.evolution.trajectory import Trajectory, evolve_exactly
from sciops.pde.inputs import constant, initial

__all__ = ["Trajectory", "solve"]


def solve(u0: Any, grid: Grid, *, times: Any, diffusivity: Any) -> Trajectory:
    """Solves u_t = νΔu for the trigonometric interpolant of u0: exact in time, and in space for resolved fields.

    Parameters
    ----------
    u0
        (batch, *grid) or (*grid), numpy or torch, float32 or float64.
    grid
        Periodic, 1 to 3 axes.
    times
        Increasing output times, from 0 on.
    diffusivity
        ν ≥ 0, one number or one per sample.

    Returns
    -------
    Trajectory
        With dt = 0 and no error estimate.

    Raises
    ------
    ValueError
        The grid is not periodic; shapes, times or numbers do not fit; NaN.

    Notes
    -----
    Good values: νt between 1e-3 and 1e-1 of the squared length of the box.
    """
    start = initial(u0, grid)
    space = FourierSpace(grid, start.field)
    rate = constant(diffusivity, "diffusivity", start, least=0.0) * space.laplacian
    return evolve_exactly(start, space, times=times, at=lambda v, t: v * space.cast(torch.exp(rate * t)))
