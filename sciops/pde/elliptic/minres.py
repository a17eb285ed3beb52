"""MINRES for batches of symmetric, indefinite systems with a preconditioner, and its gradients.

Paige & Saunders 1975 (doi:10.1137/0712047), preconditioned as in Elman, Silvester & Wathen 2014, algorithm 4.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sciops.arrays.compiling import one_by_one
from sciops.arrays.scale import power_of_two

__all__ = ["minres", "solve_differentiably"]

Apply = Callable[[Tensor], Tensor]
_LOOK_EVERY = 8  # iterations between looks at the true residual


def minres(
    operator: Apply, preconditioner: Apply, f: Tensor, weights: Tensor, tol: float, most: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(u, ‖f − Au‖₂/‖f‖₂, iterations) of every sample, each until its own residual is at most tol or `most` are done.

    operator, preconditioner : x → Ax, x → P⁻¹x, (batch, …), self-adjoint in Σ w x y; P positive
    f : (batch, …); weights : w > 0, of the shape of one sample
    """
    axes = tuple(range(1, f.ndim))
    unit = power_of_two(f, axes)  # products of f with itself would leave the range of its dtype
    f = f / unit

    def dot(x: Tensor, y: Tensor) -> Tensor:
        return (weights * x * y).sum(axes, keepdim=True)

    def relative(x: Tensor) -> Tensor:
        return (f - operator(x)).flatten(1).norm(dim=1) / size

    size = f.flatten(1).norm(dim=1)
    size = torch.where(size > 0, size, 1.0)
    u, v, z = torch.zeros_like(f), f, preconditioner(f)
    v_old, w, w_old = (torch.zeros_like(f) for _ in range(3))
    gamma = dot(z, v).clamp_min(0).sqrt()
    gamma_old, eta = torch.ones_like(gamma), gamma
    zero, one = torch.zeros_like(gamma), torch.ones_like(gamma)
    c_old, c, s_old, s = one, one, zero, zero
    live = gamma > 0
    count = torch.zeros(len(f), dtype=torch.int64, device=f.device)
    for i in range(1, most + 1):
        # what has converged has γ = 0 at the end of its Krylov space: it is divided by 1 and no longer moves
        z = z / torch.where(gamma > 0, gamma, 1.0)
        az = operator(z)
        delta = dot(az, z)
        v_new = az - delta / torch.where(gamma > 0, gamma, 1.0) * v - gamma / gamma_old * v_old
        z_new = preconditioner(v_new)
        gamma_new = dot(z_new, v_new).clamp_min(0).sqrt()
        a0, a2, a3 = c * delta - c_old * s * gamma, s * delta + c_old * c * gamma, s_old * gamma
        a1 = torch.hypot(a0, gamma_new)
        a1 = torch.where(a1 > 0, a1, 1.0)
        c_old, c, s_old, s = c, a0 / a1, s, gamma_new / a1
        w_old, w = w, (z - a3 * w_old - a2 * w) / a1
        u = torch.where(live, u + c * eta * w, u)
        eta = -s * eta
        count += live.flatten()
        v_old, v, z, gamma_old, gamma = v, v_new, z_new, torch.where(gamma > 0, gamma, 1.0), gamma_new
        live = live & (gamma > 0)
        if i % _LOOK_EVERY == 0 or i == most:
            live = live & (relative(u) > tol).reshape(live.shape)
            if not live.any():
                break
    return u * unit, relative(u), count


def solve_differentiably(
    operator: Callable[[Tensor, Tensor], Tensor],
    preconditioner: Apply,
    f: Tensor,
    shift: Tensor,
    weights: Tensor,
    tol: float,
    most: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """`minres` for A = K + shift, A being its own adjoint in w, with derivatives to f and to shift by one more solve.

    operator : (shift, x) → Kx + shift·x; shift : broadcasts over f

    Of every order, and under torch.func: Au = f gives A du = df − dshift·u, and A⁻ᵀg = w A⁻¹(g/w).
    """
    return _Solve.apply(f, shift, operator, preconditioner, weights, tol, most)


class _Solve(torch.autograd.Function):
    @staticmethod
    def forward(f, shift, operator, preconditioner, weights, tol, most):
        return minres(lambda x: operator(shift, x), preconditioner, f, weights, tol, most)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _, shift, *ctx.rest = inputs
        u, residual, count = output
        ctx.save_for_backward(u, shift)
        ctx.save_for_forward(u, shift)
        ctx.mark_non_differentiable(residual, count)

    @staticmethod
    def backward(ctx: Any, g: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        u, shift = ctx.saved_tensors
        weights = ctx.rest[2]
        adjoint = weights * _Solve.apply(g / weights, shift, *ctx.rest)[0]
        to_shift = (-adjoint * u).sum_to_size(shift.shape) if ctx.needs_input_grad[1] else None
        return adjoint, to_shift, *(None,) * 5

    @staticmethod
    def jvp(ctx: Any, df: Tensor | None, dshift: Tensor | None, *_: Any) -> tuple[Tensor, None, None]:
        u, shift = ctx.saved_tensors
        change = torch.zeros_like(u) if df is None else df
        if dshift is not None:
            change = change - dshift * u
        return _Solve.apply(change, shift, *ctx.rest)[0], None, None

    @staticmethod
    def vmap(info: Any, axes: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        return one_by_one(_Solve.apply, info.batch_size, axes, arguments)
