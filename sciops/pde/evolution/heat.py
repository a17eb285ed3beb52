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
    """u with u_t = νΔu of the trigonometric interpolant of u0: no error in time, none in space for resolved fields.

    u0 : (batch, *grid) or (*grid), float32 or float64     numpy or torch
    grid : Grid          periodic, 1 to 3 axes
    times : increasing, from 0 on
    diffusivity : ν ≥ 0, a number or one a sample
    returns : `Trajectory` with dt = 0 and no error estimate

    Good values: ν t between 1e-3 and 1e-1 of the squared length of the box.

    Raises ValueError for a grid that is not periodic, shapes, times or numbers that do not fit, NaN.
    """
    start = initial(u0, grid)
    space = FourierSpace(grid, start.field)
    rate = constant(diffusivity, "diffusivity", start, least=0.0) * space.laplacian
    return evolve_exactly(start, space, times=times, at=lambda v, t: v * space.cast(torch.exp(rate * t)))
