"""The advection equation u_t + β·∇u = 0 on a periodic box, solved exactly: u(x, t) = u0(x − βt)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sciops.arrays.kinds import as_tensor
from sciops.grids import Grid
from sciops.pde.evolution.fourier import FourierSpace
from sciops.pde.evolution.trajectory import Trajectory, evolve_exactly
from sciops.pde.inputs import Start, initial

__all__ = ["Trajectory", "solve"]


def solve(u0: Any, grid: Grid, *, times: Any, velocity: Any) -> Trajectory:
    """Translates the trigonometric interpolant of u0 by βt: exact in time, and in space for resolved fields.

    Parameters
    ----------
    u0
        (batch, *grid) or (*grid), numpy or torch, float32 or float64.
    grid
        Periodic, 1 to 3 axes.
    times
        Increasing output times, from 0 on.
    velocity
        β, (axes,), or (batch, axes) for one per sample; on one axis also a number, or (batch,).

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
    A translation by whole spacings is a roll. A field with jumps oscillates, because the interpolant of its samples
    does. Good values: β = 0.1 … 7 on the unit interval to t = 2 (PDEBench, arXiv:2210.07182).
    """
    start = initial(u0, grid)
    space = FourierSpace(grid, start.field)
    betas = _velocity(velocity, start, grid)

    def at(v0: Tensor, t: float) -> Tensor:
        v = v0
        for axis, (k, beta) in enumerate(zip(space.wavenumbers, betas)):
            turn = k * (beta * t)
            # the Nyquist mode stands for both signs of k: cos(k(x − βt)) is cos(kx) cos(kβt) at every point
            sine = torch.where(space.nyquist(axis), 0.0, -torch.sin(turn))
            v = v * space.cast(torch.complex(torch.cos(turn), sine))
        return v

    return evolve_exactly(start, space, times=times, at=at)


def _velocity(velocity: Any, start: Start, grid: Grid) -> list[Tensor]:
    """β per axis, float64, (1 or batch, 1, …)."""
    beta, _ = as_tensor(velocity, "velocity")
    beta, batch, d = beta.to("cpu", torch.float64), len(start.field), grid.ndim
    if d == 1 and beta.shape in ((), (batch,)):
        beta = beta.reshape(-1, 1)
    if beta.shape not in ((d,), (1, d), (batch, d)):
        raise ValueError(
            f"velocity has shape {tuple(beta.shape)}; expected ({d},), or ({batch}, {d}) for one per sample"
        )
    if not torch.isfinite(beta).all():
        raise ValueError(f"velocity={velocity!r}: expected finite numbers")
    return [component.reshape(-1, *(1,) * d) for component in beta.reshape(-1, d).unbind(1)]
