"""Softmax attention of queries, keys and values: torch's fused kernel, or its formula where the kernel has no rule."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from sciops.arrays.compiling import functional

LARGEST_BATCH = 2**15  # of windows in one call: fused kernels of GPUs launch fewer than 2¹⁶ at once


def attended(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    bias: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    fused: bool = True,
) -> Tensor:
    """softmax(scale·q kᵀ + bias) v of q (…, n, d), k and v (…, m, d); scale is 1/√d unless given.

    causal : query i sees the keys up to i; not together with bias
    fused : torch's kernel, which has one derivative and no rule for `torch.func.vmap`. Under torch.func, and with
        fused=False, the formula itself, with scores in float32 at least
    """
    if fused and not functional():
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=causal, scale=scale)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = q @ k.mT * scale
    if causal:
        at = torch.arange(max(q.shape[-2], k.shape[-2]), device=q.device)
        scores = scores.masked_fill(at[: q.shape[-2], None] < at[: k.shape[-2]], -torch.inf)
    elif bias is not None:
        scores = scores + bias
    wide = torch.promote_types(scores.dtype, torch.float32)
    return scores.softmax(-1, dtype=wide).to(v.dtype) @ v
