"""Window attention in torch's own operations: the reference, and the form for devices, compilers and every option.

The kernels in `cpu` compute the same function, and are tested against this one in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sciops.arrays.compiling import symbolic
from sciops.mixers.softmax_attention import attended
from sciops.mixers.windows.groups import Band, Group, cat, joined

LARGEST_SCALE = math.log(100)  # of cosine scores, as published


def plain_attention(layer: Any, groups: tuple[Group, ...], fused: bool, *inputs: Tensor | None) -> list[Tensor]:
    """W_o · softmax(scores) v + b_o in the windows of several fields, with the options of a layer.

    layer : WindowAttention
    groups : of all windows, see `groups_of`; each goes through one call
    fused : torch's attention kernel, whose second derivative torch may lack; else its formula, with every derivative
    inputs : the weights γ, β (None without a LayerNorm), W_qkv, W_o, b_o, then the fields (batch, *grid, channels)
    """
    parts: dict[int, list[tuple[Band, Tensor]]] = {}
    for group in groups:
        call = partial(_in_group, layer, group, fused)
        # torch.func refuses the hooks of a checkpoint, and an exported program has no backward pass
        again = layer.recompute and not symbolic()
        outputs = _checkpointed(call, inputs) if again else call(*inputs)
        for band, y in zip(group.bands, outputs):
            parts.setdefault(band.field, []).append((band, y))
    if layer.shift:
        return [joined(parts[i], x.ndim - 2) for i, x in enumerate(inputs[5:])]
    return [cat([y for _, y in parts[i]], 1).reshape(x.shape) for i, x in enumerate(inputs[5:])]


def _in_group(layer: Any, group: Group, fused: bool, gamma, beta, w_qkv, w_o, b_o, *fields: Tensor) -> list[Tensor]:
    """The results by band of one group of windows."""
    cut = [band.tiling.cut(band.of(fields[band.field]), False) for band in group.bands]
    x = torch.cat(cut) if len(cut) > 1 else cut[0]
    n = x if gamma is None else F.layer_norm(x, x.shape[-1:], gamma, beta, layer.norm.eps)
    q, k, v = F.linear(n, w_qkv).unflatten(-1, (3, layer.heads, -1)).permute(2, 0, 3, 1, 4)
    if layer.qv_bias is not None:
        of_q, of_v = layer.qv_bias.to(q.dtype).view(2, layer.heads, 1, -1)
        q, v = q + of_q, v + of_v
    scale = q.shape[-1] ** -0.5
    if layer.cosine:
        sharpness = layer.log_scale.clamp(max=LARGEST_SCALE).exp()
        floor = layer.cosine_floor
        q, k, scale = (_direction(q, floor) * sharpness).to(v.dtype), _direction(k, floor).to(v.dtype), 1.0
    mask = _added_to_scores(layer, group, q)
    y = attended(q, k, v, bias=mask, scale=scale, fused=fused)
    y = F.linear(y.transpose(1, 2).reshape(x.shape), w_o, b_o)
    parts = y.split([c.shape[0] for c in cut]) if len(cut) > 1 else [y]
    return [band.tiling.join(part, False) for band, part in zip(group.bands, parts)]


def _added_to_scores(layer: Any, group: Group, like: Tensor) -> Tensor | None:
    """−∞ for keys that do not exist, and the relative bias; broadcasts to (windows, heads, tokens, tokens)."""
    mask = group.mask(False, torch.float32, like.device)
    if mask is not None:
        mask = mask[:, None, None, :].to(like.dtype)
        mask = mask if group.bands[0].batch is not None else mask.repeat(like.shape[0] // mask.shape[0], 1, 1, 1)
    if layer.relative is None:
        return mask
    shapes = {band.tiling.shape for band in group.bands}
    bias = {shape: layer.relative(shape).to(like.dtype) for shape in shapes}
    if len(shapes) == 1:
        added = bias[shapes.pop()][None]
    else:
        added = torch.cat([bias[b.tiling.shape].expand(b.windows, -1, -1, -1) for b in group.bands])
    return added if mask is None else added + mask


def _checkpointed(call: Callable[..., list[Tensor]], inputs: Sequence[Tensor | None]) -> list[Tensor]:
    """call(*inputs), of which only the inputs are kept for the backward pass."""
    from torch.utils.checkpoint import checkpoint

    return checkpoint(call, *inputs, use_reentrant=False, preserve_rng_state=False)


def _direction(q: Tensor, floor: float = 0.0) -> Tensor:
    """q / √(|q|² + floor²), in float32 at least.

    Without a floor q / max(|q|, ε); ε = 1e-12, and 1e-3 for float16, which must hold the derivative 1/ε.
    """
    if floor:
        q = q.to(torch.promote_types(q.dtype, torch.float32))
        return q * torch.rsqrt(q.square().sum(-1, keepdim=True) + floor**2)
    shortest = max(1e-12, 64 / torch.finfo(q.dtype).max)
    return F.normalize(q.to(torch.promote_types(q.dtype, torch.float32)), dim=-1, eps=shortest)
