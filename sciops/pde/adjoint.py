"""Darcy flow that gradients pass through: one more solve with the same matrix gives the derivative of a functional."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sciops.grids import Grid
from sciops.pde import darcy

__all__ = ["solve"]


def solve(a: Tensor, grid: Grid | None = None, *, forcing: Any = 1.0, tol: float = 1e-8) -> Tensor:
    """u with −∇·(a∇u) = f, u = 0 on the wall, as `sciops.pde.darcy.solve` gives it, differentiable in a and f.

    With Au = b the discrete problem, symmetric, and J a function of u:

        Aλ = ∂J/∂u,   ∂J/∂c = −(λ_P − λ_Q)(u_P − u_Q) for the face between P and Q,   ∂J/∂f = h_x h_y λ,

    and ∂c/∂a_P = 2a_Q²/(a_P + a_Q)² for the harmonic mean c = 2a_P a_Q/(a_P + a_Q), times h_y/h_x or h_x/h_y of the
    face.

    a : (batch, nx, ny), positive, any floating dtype and device; solved in float64, returned in a's dtype
    grid : nodes that reach the walls; default the unit box
    forcing : a number, or a tensor (nx, ny) or (batch, nx, ny)
    tol : relative residual of both solves, and about the gradient's relative error

    returns : (batch, nx, ny)

    The gradient with respect to a at a wall node counts the faces that end there. Derivatives of first order only.
    Raises ValueError and SolverError as `darcy.solve` does.
    """
    if a.ndim != 3:
        raise ValueError(f"a has shape {tuple(a.shape)}; expected (batch, nx, ny): add the batch axis with a[None]")
    grid = Grid(tuple(a.shape[1:])) if grid is None else grid
    if grid.centering != "node" or not grid.reaches_walls:
        raise ValueError(f"the grid is {grid}; expected nodes that reach the walls")
    f = forcing if isinstance(forcing, Tensor) else torch.tensor(float(forcing), dtype=a.dtype, device=a.device)
    return _Solve.apply(a, f, grid, tol)


class _Solve(Function):
    @staticmethod
    def forward(ctx, a: Tensor, f: Tensor, grid: Grid, tol: float) -> Tensor:
        given = f.double() if f.ndim else float(f)
        u = darcy.solve(a.detach().double(), grid, forcing=given, tol=tol).u
        ctx.save_for_backward(a, u)
        ctx.grid, ctx.tol, ctx.forcing = grid, tol, f
        return u.to(a.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, g: Tensor):
        a, u = ctx.saved_tensors
        grid, f = ctx.grid, ctx.forcing
        hx, hy = grid.spacing
        wide = a.double()
        adjoint = darcy.solve(wide, grid, forcing=g.double() / (hx * hy), tol=ctx.tol).u
        ga = gf = None
        if ctx.needs_input_grad[0]:
            ga = torch.zeros_like(wide)
            for axis, weight in ((1, hy / hx), (2, hx / hy)):
                n = wide.shape[axis]
                low, high = wide.narrow(axis, 0, n - 1), wide.narrow(axis, 1, n - 1)
                # along a wall both differences vanish: the faces between wall nodes, which do not exist, add nothing
                share = -2 * weight * u.diff(dim=axis) * adjoint.diff(dim=axis) / (low + high).square()
                ga.narrow(axis, 0, n - 1).addcmul_(share, high.square())
                ga.narrow(axis, 1, n - 1).addcmul_(share, low.square())
            ga = ga.to(a.dtype)
        if ctx.needs_input_grad[1]:
            gf = (adjoint * (hx * hy)).sum_to_size(f.shape).to(f.dtype)
        return ga, gf, None, None
