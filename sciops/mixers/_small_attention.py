"""Attention inside very many very small windows, vectorised across the windows.

A fused attention kernel spends its time on setting up each tiny matrix. Here the window index is the last, contiguous
one, so that every multiplication runs over all windows at once.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import Function

from sciops.mixers._precision import full_precision


def small_attention(qkv: Tensor, mask: Tensor | None) -> Tensor:
    """softmax_s(qₜ·kₛ/√d + maskₛ) vₛ in every window and head.

    qkv : (3, heads, d, tokens, windows)
    mask : (tokens, windows) added to the scores of the keys, or None
    returns : (heads, d, tokens, windows)
    """
    with full_precision(qkv):
        wide = qkv.to(torch.promote_types(qkv.dtype, torch.float32))
        return _SmallAttention.apply(wide, mask).to(qkv.dtype)


class _SmallAttention(Function):
    @staticmethod
    def forward(ctx, qkv, mask):
        q, k, v = qkv
        heads, d, tokens, windows = q.shape
        shape = (heads, tokens, tokens, windows)
        scores = q.new_zeros(shape) if mask is None else mask.to(q.dtype).expand(shape).clone()
        q = q * d**-0.5
        for i in range(d):
            scores.addcmul_(q[:, i, :, None], k[:, i, None])
        p = scores.softmax(2)
        out = p[:, None, :, 0] * v[:, :, 0, None]
        for s in range(1, tokens):
            out.addcmul_(p[:, None, :, s], v[:, :, s, None])
        ctx.save_for_backward(qkv, p)
        ctx.mask = mask
        return out

    @staticmethod
    def backward(ctx, g):
        qkv, p = ctx.saved_tensors
        with full_precision(g):
            if torch.is_grad_enabled():  # a second derivative is wanted: the same formulas, recorded
                return _recorded_gradient(qkv, ctx.mask, g), None
            return _gradient(qkv, p, g.contiguous()), None


def _gradient(qkv: Tensor, p: Tensor, g: Tensor) -> Tensor:
    q, k, v = qkv
    heads, d, tokens, windows = q.shape
    result = torch.empty_like(qkv)
    dq, dk, dv = result
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
    return result


def _recorded_gradient(qkv: Tensor, mask: Tensor | None, g: Tensor) -> Tensor:
    q, k, v = qkv.unbind(0)
    scale = q.shape[1] ** -0.5
    scores = torch.einsum("hdtr,hdsr->htsr", q, k) * scale
    p = (scores if mask is None else scores + mask).softmax(2)
    dp = torch.einsum("hdtr,hdsr->htsr", g, v)
    ds = p * (dp - (p * dp).sum(2, keepdim=True)) * scale
    dq = torch.einsum("htsr,hdsr->hdtr", ds, k)
    dk = torch.einsum("htsr,hdtr->hdsr", ds, q)
    dv = torch.einsum("htsr,hdtr->hdsr", p, g)
    return torch.stack([dq, dk, dv])
