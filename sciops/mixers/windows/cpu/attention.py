"""LayerNorm, attention in windows and both projections, band by band in the cache: the kernel behind `plain`.

At most the softmax (small windows), its normaliser (large ones) and the heads' output are kept for the backward pass.
Normalised input, queries, keys and values are computed again there, which takes no longer than to write and read them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd import Function

from sciops.mixers.windows.cpu.across_windows import small_attention, small_attention_gradient
from sciops.mixers.windows.cpu.memory import Scratch, contiguous, recorded_gradient
from sciops.mixers.windows.groups import Group

ACROSS = 9
"""tokens per window up to which the kernel across windows beats the fused one on CPUs"""

_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_flash_gradient = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


Weights = Sequence[Tensor | None]


@dataclass(frozen=True)
class Work:
    """What an attention in bands needs beside the tensors."""

    groups: tuple[Group, ...]
    heads: int
    eps: float | None
    """of the LayerNorm; None where there is none"""
    keep: bool
    """whether the softmax and the heads' output are kept for the backward pass"""
    recorded: Callable[..., Sequence[Tensor]]
    """recorded(*weights, *fields): the plain form, whose operations have derivatives of every order"""


def banded_attention(work: Work, weights: Weights, fields: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """W_o · attention(W_qkv · LayerNorm(x)) + b_o in the windows of every field x : (batch, *sizes, channels) → same.

    weights : γ, β (None without a LayerNorm), W_qkv, W_o, b_o
    """
    return _BandedAttention.apply(work, *weights, *fields)


class _BandedAttention(Function):
    @staticmethod
    def forward(ctx, work, *inputs):
        results, kept = attend(work, inputs[:5], contiguous(inputs[5:]), Scratch(inputs[3]))
        ctx.work = work
        ctx.save_for_backward(*inputs, *kept)
        return tuple(results)

    @staticmethod
    def backward(ctx, *gradients):
        count = 5 + len(gradients)
        inputs, kept = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        if torch.is_grad_enabled():  # create_graph: this gradient will itself be differentiated
            return None, *recorded_gradient(ctx.work.recorded, inputs, gradients)
        fields, gradients = contiguous(inputs[5:]), contiguous(gradients)
        return None, *attend_gradient(ctx.work, inputs[:5], fields, kept, gradients, Scratch(inputs[3]))


def attend(
    work: Work, weights: Weights, fields: Sequence[Tensor], scratch: Scratch
) -> tuple[list[Tensor], list[Tensor]]:
    """The results by contiguous field, and what is kept for the backward pass where `work.keep`."""
    gamma, beta, w_qkv, w_o, b_o = weights
    results = [torch.empty_like(x) for x in fields]
    kept: list[Tensor] = []
    for group in _filled(work.groups):
        across = group.tokens <= ACROSS
        x = group.gather(fields, scratch.take("x", group.tokens * group.windows, len(w_o)), across)
        n, *_ = _normed(x, gamma, beta, work.eps)
        y, rest = _attention(_times(n, w_qkv.t(), across, scratch, "qkv"), group, work.heads)
        group.scatter(torch.addmm(b_o, y, w_o.t(), out=scratch.take("y", *x.shape)), results, across)
        if work.keep:
            kept += [y, rest]
    return results, kept


def attend_gradient(
    work: Work,
    weights: Weights,
    fields: Sequence[Tensor],
    kept: Sequence[Tensor],
    gradients: Sequence[Tensor],
    scratch: Scratch,
) -> list[Tensor | None]:
    """The gradients by weights and fields, where those by the results are given; all contiguous."""
    gamma, beta, w_qkv, w_o, _ = weights
    results = [torch.empty_like(x) for x in fields]
    d_gamma, d_beta, d_qkv, d_o, d_b = (None if w is None else torch.zeros_like(w) for w in weights)
    for i, group in enumerate(_filled(work.groups)):
        across = group.tokens <= ACROSS
        shape = (group.tokens * group.windows, len(w_o))
        x = group.gather(fields, scratch.take("x", *shape), across)
        g = group.gather(gradients, scratch.take("g", *shape), across)
        n, mean, scale = _normed(x, gamma, beta, work.eps)
        qkv = _times(n, w_qkv.t(), across, scratch, "qkv")
        y, rest = kept[2 * i : 2 * i + 2] if kept else _attention(qkv, group, work.heads)
        # from here on backwards: y = attention, result = y W_oᵀ + b_o, qkv = n W_qkvᵀ, n = LayerNorm(x)
        d_b += g.sum(0)
        d_o.addmm_(g.t(), y)
        g = _times(g, w_o, across, scratch, "heads")
        d = _attention_gradient(qkv, y, rest, g, group, work.heads, scratch)
        d_qkv.addmm_(d.t(), n)
        dx = torch.mm(d, w_qkv, out=scratch.take("y", *shape))
        if work.eps is not None:
            dx, *of_norm = torch.ops.aten.native_layer_norm_backward(
                dx, x, x.shape[1:], mean, scale, gamma, beta, [True, True, True]
            )
            d_gamma += of_norm[0]
            d_beta += of_norm[1]
        group.scatter(dx, results, across)
    return [d_gamma, d_beta, d_qkv, d_o, d_b, *results]


def _filled(groups: Sequence[Group]) -> list[Group]:
    """Those with windows: of a batch of 0 there are none."""
    return [group for group in groups if group.windows]


def _normed(x: Tensor, gamma: Tensor | None, beta: Tensor | None, eps: float | None) -> Sequence[Tensor]:
    return (x, x, x) if eps is None else torch.native_layer_norm(x, x.shape[1:], gamma, beta, eps)


def _times(x: Tensor, matrix: Tensor, across: bool, scratch: Scratch, name: str) -> Tensor:
    """x · matrix, with rows next to each other in memory if `across`: the layout that kernel wants, without a copy."""
    if across:
        return torch.mm(matrix.t(), x.t(), out=scratch.take(name, matrix.shape[1], x.shape[0])).t()
    return torch.mm(x, matrix, out=scratch.take(name, x.shape[0], matrix.shape[1]))


def _attention(qkv: Tensor, group: Group, heads: int) -> tuple[Tensor, Tensor]:
    """Heads' output (rows, channels) and what else the gradient needs."""
    if group.tokens <= ACROSS:
        y, p = small_attention(_split(qkv.t(), 3, heads, group), group.mask(True, qkv.dtype, qkv.device))
        return y.view(-1, qkv.shape[0]).t(), p
    q, k, v = _by_window(qkv, 3, heads, group)
    y, normaliser = _flash(q, k, v, attn_mask=_key_mask(group, qkv))
    return y.transpose(1, 2).reshape(qkv.shape[0], -1), normaliser


def _attention_gradient(
    qkv: Tensor, y: Tensor, rest: Tensor, g: Tensor, group: Group, heads: int, scratch: Scratch
) -> Tensor:
    """The gradient by qkv where that by y is g."""
    if group.tokens <= ACROSS:
        out = scratch.take("d_qkv", qkv.shape[1], qkv.shape[0])
        small_attention_gradient(
            _split(qkv.t(), 3, heads, group), rest, _split(g.t(), 1, heads, group)[0], _split(out, 3, heads, group)
        )
        return out.t()
    q, k, v = _by_window(qkv, 3, heads, group)
    (g,), (y,) = _by_window(g, 1, heads, group), _by_window(y, 1, heads, group)
    out = scratch.take("d_qkv", *qkv.shape)
    parts = _flash_gradient(g, q, k, v, y, rest, 0.0, False, attn_mask=_key_mask(group, qkv))
    for to, part in zip(_by_window(out, 3, heads, group), parts):
        to.copy_(part)
    return out


def _split(x: Tensor, parts: int, heads: int, group: Group) -> Tensor:
    """(part·head·d, token·window) → (part, head, d, token, window)."""
    return x.view(parts, heads, -1, group.tokens, group.windows)


def _by_window(x: Tensor, parts: int, heads: int, group: Group) -> Tensor:
    """(window·token, part·head·d) → (part, window, head, token, d)."""
    return x.view(group.windows, group.tokens, parts, heads, -1).permute(2, 0, 3, 1, 4)


def _key_mask(group: Group, like: Tensor) -> Tensor | None:
    mask = group.mask(False, like.dtype, like.device)
    return None if mask is None else mask[:, None, None, :]
