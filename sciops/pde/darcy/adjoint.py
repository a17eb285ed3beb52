"""Darcy flow that gradients pass through: one more solve with the same matrix gives the derivative of a functional."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.utils._pytree import tree_flatten, tree_unflatten

from sciops.arrays.compiling import one_by_one, refuse_exporting
from sciops.grids import Grid
from sciops.pde.darcy import five_point as scheme
from sciops.pde.darcy import solver as darcy
from sciops.pde.darcy.system import coefficient_of, system_of
from sciops.pde.darcy.walls import Boundary, write_values

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
    """Solves −∇·(A∇u) = f as `sciops.pde.darcy.solve` does, differentiably in every tensor among the data.

    With Au = b the discrete problem, symmetric, θ what A and b depend on, and J a function of u:

        Aλ = ∂J/∂u,   dJ/dθ = ⟨λ, ∂b/∂θ⟩ − Σ (∂c/∂θ) (λ_P − λ_Q)(u_P − u_Q),

    summed over the faces between neighbours P and Q, whose conductance is c; given values also enter J through u on the
    wall nodes.

    Parameters
    ----------
    a
        (batch, nx, ny), or (batch, 2, nx, ny) with `tensor`; positive, any floating dtype and device; solved in
        float64, returned in a's dtype.
    grid, forcing, boundary, values, flux, transfer, tensor, mean
        As in `darcy.solve`; tensors that require a gradient get one.
    tol
        Relative residual of both solves, and about the gradient's relative error.

    Returns
    -------
    Tensor
        u, (batch, nx, ny).

    Raises
    ------
    ValueError, SolverError
        As `darcy.solve` does.
    TypeError
        a is not a tensor of floating dtype.

    Notes
    -----
    First-order derivatives only, by `backward`, `torch.func.grad` and `vjp`; `torch.func.vmap` solves the entries one
    by one, and forward-mode derivatives are refused.
    """
    if not (isinstance(a, Tensor) and a.is_floating_point()):
        got = f"a tensor of dtype {a.dtype}" if isinstance(a, Tensor) else type(a).__name__
        raise TypeError(f"a is {got}; expected a tensor of floating dtype, such as a.double(), to differentiate in")
    if a.ndim != 3 + tensor:
        shape = "(batch, 2, nx, ny)" if tensor else "(batch, nx, ny)"
        raise ValueError(f"a has shape {tuple(a.shape)}; expected {shape}: add the batch axis with a[None]")
    refuse_exporting("a solve to a tolerance", "export the network in front of it alone")
    leaves, spec = tree_flatten((forcing, values, flux, transfer))
    return _Solve.apply((spec, grid, boundary, tensor, mean, tol), a, *leaves).to(a.dtype)


class _Solve(Function):
    @staticmethod
    def forward(options, a: Tensor, *leaves: Any) -> Tensor:
        spec, grid, boundary, tensor, mean, tol = options
        forcing, values, flux, transfer = tree_unflatten(leaves, spec)
        data = dict(forcing=forcing, boundary=boundary, values=values, flux=flux, transfer=transfer)
        return darcy.solve(a.double(), grid, **data, tensor=tensor, mean=mean, tol=tol).u

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.options, a, *leaves = inputs
        ctx.save_for_backward(a, output, *(leaf for leaf in leaves if isinstance(leaf, Tensor)))
        ctx.leaves = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]

    @staticmethod
    def backward(ctx, g: Tensor):
        a, u, *tensors = ctx.saved_tensors
        tensors = iter(tensors)
        leaves = [a, *(next(tensors) if leaf is None else leaf for leaf in ctx.leaves)]
        wanted = tuple(k for k, needed in enumerate(ctx.needs_input_grad[1:]) if needed)
        return None, *_Gradient.apply((ctx.options, wanted), g, u, *leaves)

    @staticmethod
    def jvp(ctx, *_):
        raise NotImplementedError(
            "sciops.pde.darcy.adjoint.solve has no forward-mode derivatives: use torch.func.vjp, grad or backward()"
        )

    @staticmethod
    def vmap(info, axes, *arguments):
        return one_by_one(_Solve.apply, info.batch_size, axes, arguments)


class _Gradient(Function):
    """The gradients of ⟨g, u⟩ by a and the leaves, None for those that are not wanted; works on values."""

    @staticmethod
    def forward(options, g: Tensor, u: Tensor, *leaves: Any) -> tuple[Tensor | None, ...]:
        (spec, grid, boundary, tensor, mean, tol), wanted = options
        leaves = list(leaves)
        with torch.enable_grad():
            for k in wanted:
                leaves[k] = leaves[k].detach().requires_grad_()
            forcing, values, flux, transfer = tree_unflatten(leaves[1:], spec)
            wide, _, _, grid = coefficient_of(leaves[0].double(), grid, tensor, boundary)
            system = system_of(wide, grid, forcing, boundary, values, flux, transfer, mean, single=False)
            x, y = system.axes
            area = scheme.areas(system.axes, u)
            inside, given = g[:, x.unknown, y.unknown], torch.zeros_like(u)
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
        outputs = [(system.b, adjoint), (given, g)]
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
        gradients: list[Tensor | None] = [None] * len(leaves)
        for k, gradient in zip(wanted, found):
            gradients[k] = torch.zeros_like(leaves[k]) if gradient is None else gradient
        return tuple(gradients)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        pass

    @staticmethod
    def backward(ctx, *_):
        raise NotImplementedError("sciops.pde.darcy.adjoint.solve has derivatives of first order only")

    @staticmethod
    def vmap(info, axes, *arguments):
        return one_by_one(_Gradient.apply, info.batch_size, axes, arguments)
