"""The sweeps of Highway-BP over a stack whose layers an engine has run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sciops.models.sequences.through_time.scan import Diagonal, reverse_scan


def sweeps(
    engine: Any, gradients: Sequence[Tensor | None], iterations: int, gamma: float | str, *, to_first: bool
) -> Tensor:
    """wᵏ_i of the states i = 0 … L, (L + 1, *state); w_0 counts only where `to_first`.

    engine : as `LayerByLayer`, after its forward pass
    gradients : ∂ℓ/∂h_i from outside the stack, i = 1 … L; None counts as 0
    """
    depth = len(gradients)
    e = torch.zeros(depth + 1, *engine.shape, dtype=engine.dtype, device=engine.device)
    for row, gradient in zip(e[1:], gradients):
        if gradient is not None:
            row.copy_(gradient)
    shares = _hutchinson(engine, e) if isinstance(gamma, str) else gamma
    first = w = _carried(engine, e, shares)
    v = torch.zeros_like(e)
    for k in range(min(iterations, depth if to_first else depth - 1)):
        # w_i is exact after L − i sweeps: what the last layers send down does not change any more
        layers = range(0 if to_first else 1, depth - k)
        for n, product in zip(layers, engine.products(layers, w)):
            v[n] = product
            if gamma:
                v[n] += _share(shares, n + 1) * engine.carry(n, w[n + 1])
        w = first + _carried(engine, v, shares)
    return w


def _share(shares: float | Tensor, i: int) -> float | Tensor:
    return shares[i] if isinstance(shares, Tensor) else shares


def _carried(engine: Any, v: Tensor, shares: float | Tensor) -> Tensor:
    """S v, by one scan where every K is diagonal, else layer by layer."""
    if engine.diagonals is None:
        u = v.clone()
        for n in range(len(v) - 2, -1, -1):
            u[n] += (1 - _share(shares, n + 1)) * engine.carry(n, u[n + 1])
        return u
    kept = (1 - shares) * engine.diagonals
    return reverse_scan(v, Diagonal(kept) if isinstance(kept, Tensor) else kept)


def _hutchinson(engine: Any, like: Tensor) -> Tensor:
    """γ_i = −⟨J_iᵀs, K_iᵀs⟩ / ‖K_iᵀs‖² in [0, 1] for random signs s: −tr(J)/d on average where K = 1."""
    signs = torch.randint(0, 2, like.shape, device=like.device).to(like.dtype) * 2 - 1
    shares = like.new_zeros(len(like), *(1,) * (like.ndim - 1))
    layers = range(len(like) - 1)
    for n, product in zip(layers, engine.products(layers, signs)):
        kept = engine.carry(n, signs[n + 1])
        shares[n + 1] = -(product * kept).sum() / kept.square().sum().clamp_min(torch.finfo(like.dtype).tiny)
    return shares.clamp_(0, 1)
