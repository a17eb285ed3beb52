"""Fisher's equation u_t = νΔu + ρ u(1 − u) on a periodic box: fronts that travel at 2√(νρ) into the empty state."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor

from sciops.grids import Grid
from sciops.pde.evolution.fourier import FourierSpace
from sciops.pde.evolution.trajectory import Trajectory, evolve
from sciops.pde.inputs import constant, initial

__all__ = ["Trajectory", "solve"]


def solve(
    u0: Any,
    grid: Grid,
    *,
    times: Any,
    diffusivity: Any,
    rate: Any,
    dt: float | None = None,
    order: int = 4,
    dealias: bool = True,
    estimate: bool = False,
    on_failure: Literal["raise", "flag"] = "raise",
) -> Trajectory:
    """Solves Fisher's equation u_t = νΔu + ρu(1 − u) on a periodic box, u(·, 0) = u0; u = 0 and u = 1 are steady.

    Parameters
    ----------
    u0
        (batch, *grid) or (*grid), numpy or torch, float32 or float64; between 0 and 1, where it remains. Values below 0
        diverge to −∞ in finite time.
    grid
        Periodic, 1 to 3 axes.
    times
        Increasing output times, from 0 on.
    diffusivity, rate
        ν ≥ 0 and ρ ≥ 0, one number or one per sample.
    dt
        Largest step; default 0.02/ρ, with the largest ρ of the batch: pass dt where ρ differs by sample and results
        must not depend on the other samples of the batch.
    order, dealias, estimate, on_failure
        As in `sciops.pde.burgers.solve`, and so are the exceptions.

    Returns
    -------
    Trajectory
        The fields at the output times, in the kind of u0.

    Notes
    -----
    A front is about √(8ν/ρ) wide and needs about ten points across. Good values: ν = 0.5, ρ = 1 … 10 on the unit
    interval to t = 1 (PDEBench's ReacDiff, arXiv:2210.07182).
    """
    start = initial(u0, grid)
    space = FourierSpace(grid, start.field)
    rho = constant(rate, "rate", start, least=0.0)
    mask = space.mask(2) if dealias else 1.0
    factor = space.cast(rho) * mask

    def growth(v: Tensor) -> Tensor:
        # all of it by way of the points: what a spectrum has that no real field has, rounding puts it there, would grow
        # as e^{ρt} in a term ρv, unseen by the points and so unchecked by saturation
        u = space.inverse(mask * v)
        return factor * space.forward(u - u.square())

    linear = constant(diffusivity, "diffusivity", start, least=0.0) * space.laplacian
    step = 0.02 / max(float(rho.detach().max()), 1e-3) if dt is None else dt
    return evolve(
        start, space, linear, growth, times=times, dt=step, order=order, estimate=estimate, on_failure=on_failure
    )
