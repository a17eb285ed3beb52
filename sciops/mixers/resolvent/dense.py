"""(1−γ) A (I − γA)⁻¹ V and its gradients, for triangular and for full A."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from sciops.arrays.compiling import transformed
from sciops.mixers.precision import full_precision

_SMALL = 0.1  # below, (X − V)/γ would lose digits to cancellation


def resolvent(A: Tensor, v: Tensor, gamma: Tensor | float, how: str | int) -> Tensor:
    """Y = (1−γ) A (I − γA)⁻¹ V.

    A : (…, n, n) with row sums at most 1; v : (…, n, d)
    gamma : number or tensor that broadcasts with A
    how : "lower" or "upper", A is triangular; "dense", LU; a number T, Z ← A(γZ + (1−γ)V) T times

    Keeps A, V and Y alone for the backward pass, where Λ = (I − γA)⁻ᵀ G, ∂V = (1−γ)AᵀΛ, ∂A = Λ(γY + (1−γ)V)ᵀ and
    ∂γ = ⟨AᵀΛ, Y − V⟩. Under torch.func and compilers torch's own operations are differentiated.
    """
    if transformed():
        return _Resolvent.forward(A, v, gamma, how)
    return _Resolvent.apply(A, v, gamma, how)


def solve(A: Tensor, r: Tensor, gamma: Tensor | float, how: str | int) -> Tensor:
    """(I − γA)⁻¹ R; `how` as in `resolvent`, "lower" and "upper" read that half of A alone."""
    if isinstance(how, int):
        x = r
        for _ in range(how):
            x = r + gamma * (A @ x)
        return x
    system = one_minus(A, gamma)
    if how == "dense":
        return torch.linalg.solve(system, r)
    return torch.linalg.solve_triangular(system, r, upper=how == "upper")


def one_minus(A: Tensor, gamma: Tensor | float) -> Tensor:
    """I − γA."""
    # not on a view of the diagonal, which exported programs cannot write to
    return (-gamma * A).add_(torch.eye(A.shape[-1], dtype=A.dtype, device=A.device))


def iterations(gamma: Tensor | float, tolerance: float) -> int:
    """The least T with γ^T ≤ tolerance, for the largest γ; at least 1."""
    largest = float(gamma.detach().max()) if isinstance(gamma, Tensor) else gamma
    return 1 if largest <= tolerance else math.ceil(math.log(tolerance) / math.log(largest))


def unstable(gamma: Tensor | float) -> bool:
    """Whether Y must not be had from (X − V)/γ; a γ that is learned may become small."""
    return isinstance(gamma, Tensor) or gamma < _SMALL


class _Resolvent(torch.autograd.Function):
    @staticmethod
    def forward(A: Tensor, v: Tensor, gamma: Tensor | float, how: str | int) -> Tensor:
        if isinstance(how, int):
            v = (1 - gamma) * v
            y = A @ v
            for _ in range(how - 1):
                y = A @ (gamma * y + v)
            return y
        if unstable(gamma):
            return solve(A, (1 - gamma) * (A @ v), gamma, how)
        return (solve(A, v, gamma, how) - v) * ((1 - gamma) / gamma)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        A, v, gamma, how = inputs
        ctx.how = how
        ctx.gamma = None if isinstance(gamma, Tensor) else gamma
        ctx.save_for_backward(A, v, output, *([gamma] if isinstance(gamma, Tensor) else []))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        A, v, y, *rest = ctx.saved_tensors
        gamma = rest[0] if rest else ctx.gamma
        how = {"lower": "upper", "upper": "lower"}.get(ctx.how, ctx.how)
        with full_precision(g):
            dual = solve(A.mT, g, gamma, how)
            back = A.mT @ dual if unstable(gamma) else (dual - g) / gamma
            of_A = dual @ (gamma * y + (1 - gamma) * v).mT if ctx.needs_input_grad[0] else None
        if of_A is not None and ctx.how in ("lower", "upper"):
            of_A = of_A.tril() if ctx.how == "lower" else of_A.triu()
        of_gamma = None
        if rest and ctx.needs_input_grad[2]:
            reduced = (1,) * (v.ndim - gamma.ndim) + tuple(gamma.shape)
            of_gamma = (back * (y - v)).sum_to_size(reduced).reshape(gamma.shape)
        return of_A, (1 - gamma) * back, of_gamma, None
