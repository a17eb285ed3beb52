"""Poisson's equation: −Δu = f on an interval, rectangle or box, solved directly by fast transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch

from sciops.grids import Grid
from sciops.pde.elliptic import shifted_laplacian
from sciops.pde.elliptic.eigenbasis import Boundary, Scheme
from sciops.pde.elliptic.shifted_laplacian import Solution
from sciops.pde.inputs import initial

__all__ = ["Solution", "residual", "solve"]

_NO_SHIFT = torch.zeros(1, dtype=torch.float64)


def solve(
    f: Any,
    grid: Grid,
    *,
    boundary: Boundary | Sequence[Boundary] | None = None,
    scheme: Scheme = "spectral",
    mean: Literal["refuse", "project"] = "refuse",
) -> Solution:
    """Solves −Δu = f directly: Fourier on periodic grids, sines for u = 0 and cosines for ∂u/∂n = 0 on the walls.

    Parameters
    ----------
    f
        (batch, *grid) or (*grid), 1 to 3 axes, numpy or torch, float32 or float64, any device.
    grid
        Periodic; or nodes or cells that reach the walls, any extent and aspect ratio.
    boundary
        "periodic" (the default on periodic grids), "dirichlet" u = 0 (the default on all others), "neumann" ∂u/∂n = 0,
        or a sequence of them, one per axis: the two kinds of wall mix on nodes, and with periods on cells,
        ("periodic", "dirichlet") for a channel. f on a wall node with u = 0 is not read. For walls at other values, and
        fluxes, see `sciops.pde.darcy.solve` with a = 1.
    scheme
        "spectral", exact for every eigenfunction that the grid holds, so faster than any order for f whose periodic,
        odd or even continuation is smooth; but f ≠ 0 on a wall where u = 0 makes a jump there, and then the error falls
        as h². "finite-volume", second order: the five-point scheme of `sciops.pde.darcy` with a = 1.
    mean
        Without a dirichlet wall a solution exists only where f has mean 0 (trapezoid rule on nodes). "refuse" what
        exceeds round-off, 100 ε of the root mean square; "project" solves for f less its mean. u then has mean 0.

    Returns
    -------
    Solution
        .u and the true .residual (of f less its mean), both differentiable.

    Raises
    ------
    ValueError
        A mean that makes it unsolvable, NaN or infinity, shapes and boundaries that do not fit, and grids that stop
        short of a wall.
    TypeError
        Complex numbers or half precision.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = Grid((33, 33)).meshgrid()
    >>> f = np.sin(np.pi * x) * np.sin(2 * np.pi * y)
    >>> bool(abs(solve(f, Grid((33, 33))).u - f / (5 * np.pi**2)).max() < 1e-15)
    True
    """
    p = shifted_laplacian.problem(f, grid, boundary, scheme)
    return shifted_laplacian.solve(p, shifted_laplacian.without_mean(p, mean) if p.has_constants else p.f, _NO_SHIFT)


def residual(
    f: Any,
    u: Any,
    grid: Grid,
    *,
    boundary: Boundary | Sequence[Boundary] | None = None,
    scheme: Scheme = "spectral",
) -> Any:
    """Relative residual ‖f + Δu‖₂ / ‖f‖₂ of a given u in the scheme, per sample; differentiable; ‖Δu‖₂ where f = 0.

    Parameters
    ----------
    f, u
        (batch, *grid) or (*grid), of one shape; f with its mean, u as if 0 on dirichlet wall nodes.
    grid, boundary, scheme
        As in `solve`.
    """
    p = shifted_laplacian.problem(f, grid, boundary, scheme)
    given = initial(u, grid, name="u").field
    if given.shape != p.f.shape:
        raise ValueError(f"u has shape {tuple(given.shape)} and f {tuple(p.f.shape)}; expected the same")
    return p.result(shifted_laplacian.residual(p, p.f, given.to(p.f), _NO_SHIFT))
