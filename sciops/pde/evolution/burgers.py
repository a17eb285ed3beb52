"""Burgers' equation u_t + u u_x = ν u_xx on a periodic interval, by Fourier modes and exponential Runge–Kutta."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from sciops.grids import Grid
from sciops.pde.evolution.convection import convective_term
from sciops.pde.evolution.fourier import FourierSpace
from sciops.pde.evolution.trajectory import Trajectory, evolve
from sciops.pde.inputs import constant, initial

__all__ = ["Trajectory", "cole_hopf", "solve"]

_PANELS = 4096


def solve(
    u0: Any,
    grid: Grid,
    *,
    times: Any,
    viscosity: Any,
    dt: float | None = None,
    order: int = 4,
    dealias: bool = True,
    estimate: bool = False,
    on_failure: Literal["raise", "flag"] = "raise",
) -> Trajectory:
    """u with u_t + ∂_x(u²/2) = ν u_xx at the asked times, u(·, 0) = u0; exact in space while the modes suffice.

    u0 : (batch, n) or (n,), float32 or float64     numpy or torch
    grid : Grid          periodic, one axis, any length
    times : increasing, from 0 on
    viscosity : ν ≥ 0, a number or one a sample. PDEBench's files name ε where ν = ε/π; Li et al.'s and
        neuraloperator's name ν itself (arXiv:2010.08895: 0.1; the file burgers_train_16.pt: 0.01)
    dt : largest step; default h/5 with h the spacing, right for |u| up to about 5: a step is stable while
        |u| dt < 1.3 h. Smooth fields with ν ≥ 0.01 stand much larger steps
    order : of the exponential Runge–Kutta method, 1 to 4 (Cox & Matthews 2002)
    dealias : products keep the modes of the 2/3 rule
    estimate : also the relative error of the time stepping, at the cost of three quarters of a run more
    on_failure : "raise", or "flag" a sample that blows up with NaN

    A shock is 4ν/(jump of u) wide and needs a few points across; thinner ones ring. h = 1/1024 serves ν = 0.003.
    Good values: ν = 0.01 … 0.1 on the unit interval with 128 to 1024 points, order 4.

    Raises ValueError for a grid that is not periodic, shapes, times or numbers that do not fit, NaN; TypeError for
    complex or half-precision fields; RuntimeError naming sample and time of a blow-up.
    """
    start = initial(u0, grid, axes=(1,))
    space = FourierSpace(grid, start.field)
    return evolve(
        start,
        space,
        times=times,
        linear=constant(viscosity, "viscosity", start, least=0.0) * space.laplacian,
        nonlinear=convective_term(space, 1.0, dealias=dealias),
        dt=grid.spacing[0] / 5 if dt is None else dt,
        order=order,
        estimate=estimate,
        on_failure=on_failure,
    )


def cole_hopf(
    primitive: Callable[[np.ndarray], np.ndarray], x: np.ndarray, t: float, *, viscosity: float, mean: float = 0.0
) -> np.ndarray:
    """The exact u(x, t) of Burgers' equation on the line, by its initial field's integral (Hopf 1950, Cole 1951):

        u = ∫ (x − y)/t E dy / ∫ E dy,    E = exp(−(x − y)²/(4νt) − U(y)/(2ν)),    U' = u0 − mean

    primitive : y → U(y), periodic with the period that the x span, or nearly
    x : (n,) positions; t : time, > 0; viscosity : ν > 0
    mean : of u0; the solution of the rest is seen from a frame that moves with it

    Integrals by the trapezoidal rule over 4096 panels as far as E reaches, exponents shifted by their largest: right to
    1e-13 while a panel is well below the width √(2ν/(1/t + max|u0'|)) of its peaks, as for ν ≥ 0.002, t ≤ 1, |u0| ≤ 1
    on a unit interval. Raises ValueError unless t > 0 and ν > 0.
    """
    if not (t > 0 and viscosity > 0):
        raise ValueError(f"t={t}, viscosity={viscosity}: expected both above 0; at t = 0 the field is U' + mean")
    x = np.asarray(x, dtype=np.float64) - mean * t
    span = np.ptp(primitive(np.linspace(x.min(), x.max(), 1000)))
    reach = np.sqrt(2 * t * span) + 14 * np.sqrt(2 * viscosity * t)
    away = np.linspace(-reach, reach, _PANELS + 1)
    exponent = -(away**2) / (4 * viscosity * t) - primitive(x[:, None] - away) / (2 * viscosity)
    weight = np.exp(exponent - exponent.max(1, keepdims=True))
    return mean + weight @ away / t / weight.sum(1)
