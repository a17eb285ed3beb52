"""Attention inside very many very small windows, vectorised across the windows.

A fused attention kernel spends its time on setting up each tiny matrix. Here the window index is the last, contiguous
one, so that every multiplication runs over all windows at once.
"""

from __future__ import annotations

import torch
from torch import Tensor


def small_attention(qkv: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """p = softmax_s(qₜ·kₛ/√d + maskₛ) and Σ_s p vₛ in every window and head.

    qkv : (3, heads, d, tokens, windows)
    mask : (tokens, windows) added to the scores of the keys, or None
    returns : the sums (heads, d, tokens, windows), and p (heads, t, s, windows)
    """
    q, k, v = qkv
    heads, d, tokens, windows = q.shape
    shape = (heads, tokens, tokens, windows)
    scores = q.new_zeros(shape) if mask is None else mask.expand(shape).clone()
    q = q * d**-0.5
    for i in range(d):
        scores.addcmul_(q[:, i, :, None], k[:, i, None])
    p = scores.softmax(2)
    out = p[:, None, :, 0] * v[:, :, 0, None]
    for s in range(1, tokens):
        out.addcmul_(p[:, None, :, s], v[:, :, s, None])
    return out, p


def small_attention_gradient(qkv: Tensor, p: Tensor, g: Tensor, out: Tensor) -> Tensor:
    """The gradient by qkv, written to `out`, where that by the sums is g : (heads, d, tokens, windows)."""
    q, k, v = qkv
    dq, dk, dv = out
    d, tokens, _ = q.shape[1:]
    torch.mul(p[:, None, 0], g[:, :, 0, None], out=dv)
    for t in range(1, tokens):
        dv.addcmul_(p[:, None, t], g[:, :, t, None])
    ds = g[:, 0, :, None] * v[:, 0, None]
    for i in range(1, d):
        ds.addcmul_(g[:, i, :, None], v[:, i, None])
    ds.sub_((p * ds).sum(2, keepdim=True)).mul_(p).mul_(d**-0.5)
    torch.mul(ds[:, None, :, 0], k[:, :, 0, None], out=dq)
    torch.mul(ds[:, None, 0], q[:, :, 0, None], out=dk)
    for s in range(1, tokens):
        dq.addcmul_(ds[:, None, :, s], k[:, :, s, None])
        dk.addcmul_(ds[:, None, s], q[:, :, s, None])
    return out
