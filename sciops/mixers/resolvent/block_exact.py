"""The resolvent of causal attention block after block: the same numbers without the matrix."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sciops.arrays.compiling import transformed
from sciops.mixers.precision import full_precision
from sciops.mixers.resolvent.dense import resolvent, solve


def exact(
    q: Tensor, k: Tensor, v: Tensor, gamma: Tensor | float, *, block: int, slopes: Tensor | None = None
) -> Tensor:
    """Y = (1−γ) A (I − γA)⁻¹ V with A = softmax_{j≤i}(q_i·k_j/√d − slope·(i − j)), by rows of `block` tokens.

    q, k, v : (batch, heads, n, d); gamma : number or (heads, 1, 1); slopes : (heads, 1, 1)

    (I − γA_bb) Y_b = A_{b,<b} Z_{<b} + (1−γ) A_bb V_b with Z = γY + (1−γ)V: half the work of the whole matrix, and
    memory O(block·n), since the backward pass makes the rows of A again. Under torch.func and compilers the whole A.
    """
    if transformed():
        return resolvent(_rows(q, k, slopes, 0, max(1, v.shape[-2])), v, gamma, "lower")
    return _Exact.apply(q, k, v, gamma, slopes, block)


class _Exact(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, gamma: Tensor | float, slopes: Tensor | None, block: int
    ) -> Tensor:
        y, z = torch.empty_like(v), torch.empty_like(v)
        for first in range(0, v.shape[-2], block):
            here = slice(first, first + block)
            A = _rows(q, k, slopes, first, block)
            own = A[..., first:]
            known = (1 - gamma) * (own @ v[..., here, :])
            if first:
                known += A[..., :first] @ z[..., :first, :]
            y[..., here, :] = solve(own, known, gamma, "lower")
            z[..., here, :] = gamma * y[..., here, :] + (1 - gamma) * v[..., here, :]
        ctx.gamma, ctx.block = None if isinstance(gamma, Tensor) else gamma, block
        ctx.save_for_backward(q, k, v, y, z, slopes, gamma if isinstance(gamma, Tensor) else None)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, y, z, slopes, gamma = ctx.saved_tensors
        gamma = ctx.gamma if gamma is None else gamma
        scale = q.shape[-1] ** -0.5
        of_q, of_k, back = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)  # back is AᵀΛ
        with full_precision(g):
            for first in reversed(range(0, v.shape[-2], ctx.block)):
                here = slice(first, first + ctx.block)
                A = _rows(q, k, slopes, first, ctx.block)
                end = A.shape[-1]
                own = A[..., first:]
                dual = solve(own.mT, g[..., here, :] + gamma * back[..., here, :], gamma, "upper")
                back[..., :end, :] += A.mT @ dual
                of_A = dual @ z[..., :end, :].mT
                of_scores = A * (of_A - (A * of_A).sum(-1, keepdim=True))
                of_q[..., here, :] = of_scores @ k[..., :end, :]
                of_k[..., :end, :] += of_scores.mT @ q[..., here, :]
        of_gamma = None
        if ctx.needs_input_grad[3]:
            of_gamma = (back * (y - v)).sum_to_size(1, *gamma.shape).reshape(gamma.shape)
        return of_q * scale, of_k * scale, (1 - gamma) * back, of_gamma, None, None


def _rows(q: Tensor, k: Tensor, slopes: Tensor | None, first: int, block: int) -> Tensor:
    """A of the rows first … first + block − 1, up to the diagonal."""
    end = min(first + block, q.shape[-2])
    scores = (q[..., first:end, :] * q.shape[-1] ** -0.5) @ k[..., :end, :].mT
    at = torch.arange(end, device=q.device)
    apart = at[first:, None] - at
    if slopes is not None:
        scores -= slopes.to(scores.dtype) * apart
    scores[..., first:].masked_fill_(apart[:, first:] < 0, -torch.inf)
    return scores.softmax(-1)
