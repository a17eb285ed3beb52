"""Burgers' equation u_t + u u_x = ν u_xx on a periodic interval, by Fourier modes and exponential Runge–Kutta."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from sciops.grids import Grid
from sciops.pde.evolution.backends import Backend
from sciops.pde.evolution.convection import ConvectiveTerm
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
    backend: Backend = "auto",
) -> Trajectory:
    """Solves Burgers' equation u_t + ∂_x(u²/2) = ν u_xx on a periodic interval, u(·, 0) = u0.

    Parameters
    ----------
    u0
        (batch, n) or (n,), numpy or torch, float32 or float64.
    grid
        Periodic, one axis, any length.
    times
        Increasing output times, from 0 on.
    viscosity
        ν ≥ 0, one number or one per sample. PDEBench's files name ε where ν = ε/π; Li et al.'s and neuraloperator's
        name ν itself (arXiv:2010.08895: 0.1; the file burgers_train_16.pt: 0.01).
    dt
        Largest step; default h/5 with h the spacing, suited to |u| up to about 5: a step is stable while
        |u| dt < 1.3 h. Smooth fields with ν ≥ 0.01 allow much larger steps.
    order
        Of the exponential Runge–Kutta method, 1 to 4.
    dealias
        Whether products keep only the modes of the 2/3 rule.
    estimate
        Whether to estimate the relative error of the time stepping too, for three quarters of a run more.
    on_failure
        "raise", or "flag" a sample that blows up with NaN.
    backend
        "numba" takes the steps compiled: order 4, on the CPU, without gradients, with the extra "fast"; "torch" takes
        any. "auto" compiles where it can. The first use on a machine takes some 10 s of processor time, and says so.

    Returns
    -------
    Trajectory
        The fields at the output times, in the kind of u0.

    Raises
    ------
    ValueError
        The grid is not periodic; shapes, times or numbers do not fit; NaN.
    TypeError
        Complex or half-precision fields.
    RuntimeError
        A sample blew up; the message names it and the time.

    Notes
    -----
    A shock is 4ν/(jump of u) wide and needs a few points across; thinner ones oscillate. h = 1/1024 is enough for
    ν = 0.003. Good values: ν = 0.01 … 0.1 on the unit interval with 128 to 1024 points, order 4.

    References
    ----------
    Cox & Matthews 2002 (doi:10.1006/jcph.2002.6995).
    """
    start = initial(u0, grid, axes=(1,))
    space = FourierSpace(grid, start.field)
    linear = constant(viscosity, "viscosity", start, least=0.0) * space.laplacian
    nonlinear = ConvectiveTerm(space, 1.0, dealias=dealias)
    step = grid.spacing[0] / 5 if dt is None else dt
    options: Any = {"order": order, "estimate": estimate, "on_failure": on_failure, "backend": backend}
    return evolve(start, space, linear, nonlinear, times=times, dt=step, **options)


def cole_hopf(
    primitive: Callable[[np.ndarray], np.ndarray], x: np.ndarray, t: float, *, viscosity: float, mean: float = 0.0
) -> np.ndarray:
    """Exact solution of Burgers' equation on the line, from the integral U of the initial field.

        u = ∫ (x − y)/t E dy / ∫ E dy,    E = exp(−(x − y)²/(4νt) − U(y)/(2ν)),    U' = u0 − mean

    Parameters
    ----------
    primitive
        y → U(y), periodic with the period that the x span, or nearly.
    x
        Positions, (n,).
    t
        Time, > 0.
    viscosity
        ν > 0.
    mean
        Of u0; the solution of the rest is taken in a frame that moves with it.

    Raises
    ------
    ValueError
        t ≤ 0 or ν ≤ 0.

    Notes
    -----
    Trapezoidal rule over 4096 panels as far as E reaches, exponents shifted by their largest. Correct to 1e-13 while a
    panel is well below the width √(2ν/(1/t + max|u0'|)) of its peaks, as for ν ≥ 0.002, t ≤ 1, |u0| ≤ 1 on a unit
    interval.

    References
    ----------
    Hopf 1950, Cole 1951.
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
