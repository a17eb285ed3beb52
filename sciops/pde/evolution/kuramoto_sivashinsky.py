"""The Kuramoto–Sivashinsky equation u_t + u u_x + u_xx + u_xxxx = 0 on a periodic interval: chaos in one dimension."""

from __future__ import annotations

from typing import Any, Literal

from sciops.grids import Grid
from sciops.pde.evolution.backends import Backend
from sciops.pde.evolution.convection import ConvectiveTerm
from sciops.pde.evolution.fourier import FourierSpace
from sciops.pde.evolution.trajectory import Trajectory, evolve
from sciops.pde.inputs import initial

__all__ = ["Trajectory", "solve"]


def solve(
    u0: Any,
    grid: Grid,
    *,
    times: Any,
    dt: float | None = None,
    order: int = 4,
    dealias: bool = True,
    estimate: bool = False,
    on_failure: Literal["raise", "flag"] = "raise",
    backend: Backend = "auto",
) -> Trajectory:
    """Solves the Kuramoto–Sivashinsky equation u_t + ∂_x(u²/2) + u_xx + u_xxxx = 0, u(·, 0) = u0.

    Parameters
    ----------
    u0
        (batch, n) or (n,), numpy or torch, float32 or float64.
    grid
        Periodic, one axis; its length L is the only parameter. Modes with 2πq/L < 1 grow, the fastest at a wavelength
        of 2π√2 = 8.9; L > 20 or so is chaotic.
    times
        Increasing output times, from 0 on.
    dt
        Largest step; default h/10 with h the spacing, at most 0.05. On the attractor |u| stays near 3 for any L.
    order, dealias, estimate, on_failure, backend
        As in `sciops.pde.burgers.solve`, and so are the exceptions.

    Returns
    -------
    Trajectory
        The fields at the output times, in the kind of u0.

    Notes
    -----
    ∫u is conserved to rounding and d/dt ½∫u² = ∫u_x² − ∫u_xx². Two runs diverge as e^{0.1 t} (Lyapunov exponent about
    0.09 for long L), so that a trajectory beyond t = 200 or so depends on rounding; statistics do not. Good values:
    L = 64 with 256 points (Brandstetter et al., arXiv:2202.07643), L = 32π with 128 (Kassam & Trefethen 2005).
    """
    start = initial(u0, grid, axes=(1,))
    space = FourierSpace(grid, start.field)
    linear = -space.derivative(order=2) - space.derivative(order=4)
    nonlinear = ConvectiveTerm(space, 1.0, dealias=dealias)
    step = min(grid.spacing[0] / 10, 0.05) if dt is None else dt
    options: Any = {"order": order, "estimate": estimate, "on_failure": on_failure, "backend": backend}
    return evolve(start, space, linear, nonlinear, times=times, dt=step, **options)
