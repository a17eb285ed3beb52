"""The Gray–Scott equations of two reacting species, from which spots, stripes, spirals and gliders grow:

A_t = δ_A ΔA − AB² + F(1 − A),    B_t = δ_B ΔB + AB² − (F + k)B    on a periodic box.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from sciops.grids import Grid
from sciops.pde.evolution.fourier import FourierSpace
from sciops.pde.evolution.trajectory import Trajectory, evolve
from sciops.pde.inputs import constant, initial

__all__ = ["PATTERNS", "Trajectory", "solve"]

PATTERNS: dict[str, tuple[float, float]] = {
    "gliders": (0.014, 0.054),
    "bubbles": (0.098, 0.057),
    "maze": (0.029, 0.057),
    "worms": (0.058, 0.065),
    "spirals": (0.018, 0.051),
    "spots": (0.030, 0.062),
}
"""(F, k) of the six sets of The Well (arXiv:2412.00568), for δ = (2e-5, 1e-5) on (−1, 1)²."""


def solve(
    u0: Any,
    grid: Grid,
    *,
    times: Any,
    feed: Any,
    kill: Any,
    diffusivity: tuple[Any, Any] = (2e-5, 1e-5),
    dt: float = 1.0,
    order: int = 4,
    dealias: bool = True,
    estimate: bool = False,
    on_failure: Literal["raise", "flag"] = "raise",
) -> Trajectory:
    """Solves the Gray–Scott equations: A and B at the output times from their fields at time 0.

    Parameters
    ----------
    u0
        (batch, 2, *grid) or (2, *grid), A before B, numpy or torch, float32 or float64; 0 ≤ A ≤ 1, B ≥ 0.
    grid
        Periodic, 1 to 3 axes.
    times
        Increasing output times, from 0 on.
    feed, kill
        F and k, one number or one per sample; `PATTERNS` holds named pairs.
    diffusivity
        (δ_A, δ_B), each one number or one per sample.
    dt
        Largest step. All rates of the equations are at most of order 1, so that 1 is enough (as in The Well's data) and
        0.5 is careful.
    dealias
        Products keep the modes of the 1/2 rule of cubic terms; The Well's own data keep those of the 2/3 rule.
    order, estimate, on_failure
        As in `sciops.pde.burgers.solve`, and so are the exceptions.

    Returns
    -------
    Trajectory
        With u of shape (batch, time, 2, *grid).

    Notes
    -----
    Good values: the patterns on (−1, 1)² with 128² points to t = 10 000, one output every 10.
    """
    start = initial(u0, grid, fields=2)
    space = FourierSpace(grid, start.field)
    d = grid.ndim
    if np.ndim(diffusivity) == 0 or len(diffusivity) != 2:
        raise ValueError(f"diffusivity={diffusivity!r}: expected a pair, (δ_A, δ_B)")
    delta_a, delta_b = (
        constant(value, "diffusivity", start, least=0.0, trailing=d) * space.laplacian for value in diffusivity
    )
    f, k = (constant(v, name, start, least=0.0, trailing=d) for v, name in ((feed, "feed"), (kill, "kill")))
    one = torch.zeros(space.laplacian.shape, dtype=torch.float64)
    one[(0,) * d] = 1.0  # the spectrum of 1
    source, mask = space.cast(f * one), space.mask(3) if dealias else 1.0

    def reaction(v: Tensor) -> Tensor:
        a, b = space.inverse(mask * v).unbind(1)
        eaten = mask * space.forward(a * b * b)
        return torch.stack([source - eaten, eaten], 1)

    linear = torch.stack(torch.broadcast_tensors(delta_a - f, delta_b - (f + k)), 1)
    return evolve(
        start, space, linear, reaction, times=times, dt=dt, order=order, estimate=estimate, on_failure=on_failure
    )
