"""Darcy flow that gradients pass through: one more solve with the same matrix gives the derivative of a functional."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.utils._pytree import tree_flatten, tree_unflatten

from sciops.grids import Grid
from sciops.pde import _five_point as scheme
from sciops.pde import darcy
from sciops.pde._darcy_system import coefficient_of, system_of
from sciops.pde._walls import Boundary, write_values

__all__ = ["solve"]


def solve(
    a: Tensor,
    grid: Grid | None = None,
    *,
    forcing: Any = 1.0,
    boundary: Boundary = "dirichlet",
    values: Any = 0.0,
    flux: Any = 0.0,
    transfer: Any = 0.0,
    tensor: bool = False,
    mean: darcy.Mean = "refuse",
    tol: float = 1e-8,
) -> Tensor:
    """u with −∇·(A∇u) = f, as `sciops.pde.darcy.solve` gives it, differentiable in every tensor among the data.

    With Au = b the discrete problem, symmetric, θ what A and b depend on, and J a function of u:

        Aλ = ∂J/∂u,   dJ/dθ = ⟨λ, ∂b/∂θ⟩ − Σ (∂c/∂θ) (λ_P − λ_Q)(u_P − u_Q),

    summed over the faces between neighbours P and Q, whose conductance is c; given values also enter J through u on the
    wall nodes.

    a : (batch, nx, ny), or (batch, 2, nx, ny) with `tensor`; positive, any floating dtype and device; solved in
        float64, returned in a's dtype
    grid, forcing, boundary, values, flux, transfer, tensor, mean : as in `darcy.solve`; what is a tensor that requires
        it gets its gradient
    tol : relative residual of both solves, and about the gradient's relative error

    returns : (batch, nx, ny)

    Derivatives of first order only. Raises ValueError and SolverError as `darcy.solve` does; TypeError when a is no
    tensor of floating dtype.
    """
    if not (isinstance(a, Tensor) and a.is_floating_point()):
        got = f"a tensor of dtype {a.dtype}" if isinstance(a, Tensor) else type(a).__name__
        raise TypeError(f"a is {got}; expected a tensor of floating dtype, such as a.double(), to differentiate in")
    if a.ndim != 3 + tensor:
        shape = "(batch, 2, nx, ny)" if tensor else "(batch, nx, ny)"
        raise ValueError(f"a has shape {tuple(a.shape)}; expected {shape}: add the batch axis with a[None]")
    leaves, spec = tree_flatten((forcing, values, flux, transfer))
    return _Solve.apply((spec, grid, boundary, tensor, mean, tol), a, *leaves)


class _Solve(Function):
    @staticmethod
    def forward(ctx, options, a: Tensor, *leaves: Any) -> Tensor:
        spec, grid, boundary, tensor, mean, tol = options
        forcing, values, flux, transfer = tree_unflatten(leaves, spec)
        data = dict(forcing=forcing, boundary=boundary, values=values, flux=flux, transfer=transfer)
        u = darcy.solve(a.double(), grid, **data, tensor=tensor, mean=mean, tol=tol).u
        ctx.save_for_backward(a, u, *(leaf for leaf in leaves if isinstance(leaf, Tensor)))
        ctx.options, ctx.leaves = options, [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        return u.to(a.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, g: Tensor):
        a, u, *tensors = ctx.saved_tensors
        spec, grid, boundary, tensor, mean, tol = ctx.options
        tensors = iter(tensors)
        leaves = [a, *(next(tensors) if leaf is None else leaf for leaf in ctx.leaves)]
        wanted = [k for k, needed in enumerate(ctx.needs_input_grad[1:]) if needed]
        with torch.enable_grad():
            for k in wanted:
                leaves[k] = leaves[k].detach().requires_grad_()
            forcing, values, flux, transfer = tree_unflatten(leaves[1:], spec)
            wide, _, _, grid = coefficient_of(leaves[0].double(), grid, tensor, boundary)
            system = system_of(wide, grid, forcing, boundary, values, flux, transfer, mean, single=False)
            x, y = system.axes
            area = scheme.areas(system.axes, u)
            inside, given = g.double()[:, x.unknown, y.unknown], torch.zeros_like(u)
            source = torch.zeros_like(u)
            source[:, x.unknown, y.unknown] = inside / area
            with torch.no_grad():
                adjoint = darcy.solve(
                    leaves[0].double(),
                    grid,
                    forcing=source,
                    boundary=boundary,
                    transfer=transfer,
                    tensor=tensor,
                    mean="project",
                    tol=tol,
                ).u
            write_values(given, system.axes, system.walls)
        level, wraps = system.walls.level, tuple(axis.wraps for axis in system.axes)
        u, adjoint = u[:, x.unknown, y.unknown], adjoint[:, x.unknown, y.unknown]
        along_y, along_x = scheme.products(adjoint, u if level is None else u - level[:, None, None], wraps)
        outputs = [(system.b, adjoint), (given, g.double())]
        for (k, end), conductance in system.exchange.items():
            outputs.append((conductance, -(along_x if k == 0 else along_y.mT)[:, end]))
        if system.a.requires_grad:
            by_a = scheme.conductances_gradient(system.a.detach(), system.axes, along_y, along_x)
            outputs.append((system.a, by_a.neg_()))
        outputs = [(output, weight.sum_to_size(output.shape)) for output, weight in outputs if output.requires_grad]
        found = torch.autograd.grad(
            [output for output, _ in outputs],
            [leaves[k] for k in wanted],
            [weight for _, weight in outputs],
            allow_unused=True,
        )
        gradients = [None] * len(ctx.needs_input_grad)
        for k, gradient in zip(wanted, found):
            gradients[k + 1] = gradient
        return tuple(gradients)
