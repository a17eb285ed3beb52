"""The smooth pyramid: means, cell-centred linear interpolation, depthwise kernels, and the norm of the linear map."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sciops.grids import Grid

_CONVOLVE = (F.conv1d, F.conv2d, F.conv3d)
_POOL = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)
_LINEAR = ("linear", "bilinear", "trilinear")
_UNKNOWNS = 2304  # of a level and those below it that are bounded as one dense map


def means(x: Tensor, rate: int) -> Tensor:
    """M x, the mean of the children that exist: (batch, *sizes, channels) → (batch, *⌈sizes/rate⌉, channels)."""
    pool = _POOL[x.ndim - 3]
    return pool(x.movedim(-1, 1), rate, ceil_mode=True, count_include_pad=False).movedim(1, -1)


def interpolated(r: Tensor, rate: int, sizes: tuple[int, ...], periodic: bool = False) -> Tensor:
    """B r, linear between coarse centres: (batch, *⌈sizes/rate⌉, channels) → (batch, *sizes, channels).

    Fine cell i reads position t = (i + ½)/rate − ½, constant beyond the outermost centres or periodic.
    """
    margin = 0
    if periodic:
        r, margin = wrapped(r), rate
    y = F.interpolate(r.movedim(-1, 1), scale_factor=float(rate), mode=_LINEAR[r.ndim - 3], align_corners=False)
    for axis, n in enumerate(sizes, start=2):
        y = y.narrow(axis, margin, n)
    return y.movedim(1, -1)


def depthwise(x: Tensor, kernel: Tensor, periodic: bool = False) -> Tensor:
    """k ∗ x channel by channel, x (batch, *sizes, channels), kernel (channels, 3, …, 3); zero or periodic outside."""
    axes = x.ndim - 2
    z = (wrapped(x) if periodic else x).movedim(-1, 1)
    weight = kernel.to(z.dtype)[:, None]
    return _CONVOLVE[axes - 1](z, weight, None, 1, 0 if periodic else 1, 1, z.shape[1]).movedim(1, -1)


def wrapped(x: Tensor) -> Tensor:
    """x (batch, *sizes, channels) continued periodically by one point at both ends of every axis."""
    for axis in range(1, x.ndim - 1):
        n = x.shape[axis]
        x = torch.cat([x.narrow(axis, n - 1, 1), x, x.narrow(axis, 0, 1)], axis)
    return x


def linear_pyramid_bound(layer: Any, setting: Any, grid: Grid, stretch: float) -> tuple[Tensor, Any, str]:
    """(bound of the linear part, bound of the attention, reason) of a smooth `MultipoleAttention` on a grid.

        T = Σ_{l<m} a…a B^l W_u^l k_l W_d^l M^l  +  a…a B^m (W_u^m T_m W_d^m) M^m

    The first terms are convolutions and bounded as such; the last, all levels from m on, is one dense matrix, whose
    norm Gram iteration bounds from above. m is the finest level for which that is affordable. B^l and M^l are products
    over the axes, whose norms are those of small matrices.
    """
    periodic = grid.centering == "periodic"
    count, rate, channels = layer.level_count(grid.shape), layer.rate, layer.channels
    shapes = [tuple(grid.shape)]
    for _ in range(1, count):
        shapes.append(tuple(-(-n // rate) for n in shapes[-1]))
    place = dict(dtype=setting.dtype, device=layer.kernels.device if layer.kernels is not None else layer.up.device)
    identity = torch.eye(channels, **place)
    down, up = (setting.cast(layer.down), setting.cast(layer.up)) if layer.sampler == "conv" else (identity, identity)
    factors = layer._factors(count, torch.zeros((), **place)).to(**place)
    scales = [torch.ones((), **place)]  # a of the merges above a level, from the finest
    for a in reversed(list(factors)):
        scales.append(scales[-1] * a)
    samplers = [_sampler_norm(shapes[0], rate, level, periodic) for level in range(count)]

    value, reason = torch.zeros((), **place), "no kernels"
    if layer.kernels is not None:
        whole = next((m for m in range(count) if math.prod(shapes[m]) * channels <= _UNKNOWNS), count)
        for level in range(min(whole, count)):
            kernel = setting.cast(layer._kernel(level))
            # W_u^l k_l W_d^l: (out, in, *taps)
            full = torch.einsum("oc,c...,ci->oi...", _power(up, level, identity), kernel, _power(down, level, identity))
            bound = setting.convolution(
                full, grid=shapes[level], padding=1, padding_mode="circular" if periodic else "zeros"
            )
            value = value + scales[level].abs() * samplers[level] * bound
        if whole < count:
            matrix = _dense(layer, setting, shapes, whole, factors, periodic, down, up, place)
            matrix = _mapped(matrix, _power(up, whole, identity), _power(down, whole, identity), channels)
            value = value + scales[whole].abs() * samplers[whole] * setting.sigma(matrix)
        dense = f"levels from {whole} on as one matrix" if whole < count else "level by level"
        reason = f"{count} levels, linear, {dense}"
    if layer.attention is None:
        return value * stretch, 0.0, reason

    radius, attention = setting.radius, torch.zeros((), **place)
    down_norm, up_norm = setting.sigma(down), setting.sigma(up)
    first = min(layer.attention_from, count - 1)
    for level in range(count):
        if level >= first:
            own, _, _ = layer.attention.bound(setting, shapes[level], radius)
            attention = attention + scales[level].abs() * samplers[level] * (down_norm * up_norm) ** level * own
        if radius is not None:  # a mean of tokens is no longer than the longest
            radius = radius * down_norm * (1 + 1e-12)
    return value * stretch, attention * stretch, reason


def _power(matrix: Tensor, power: int, identity: Tensor) -> Tensor:
    for _ in range(power):
        identity = matrix @ identity
    return identity


def _sampler_norm(shape: tuple[int, ...], rate: int, level: int, periodic: bool) -> float:
    """‖B^l‖‖M^l‖, every cell weighted alike, rounded up."""
    total = 1.0
    for n in shape:
        lengths = [n]
        for _ in range(level):
            lengths.append(-(-lengths[-1] // rate))
        mean = fine = torch.eye(n, dtype=torch.float64)
        for _ in range(level):
            mean = means(mean.t()[..., None], rate)[..., 0].t()
        fine = torch.eye(lengths[-1], dtype=torch.float64)
        for length in lengths[-2::-1]:
            fine = interpolated(fine.t()[..., None], rate, (length,), periodic)[..., 0].t()
        total *= float(torch.linalg.matrix_norm(mean, 2)) * float(torch.linalg.matrix_norm(fine, 2))
    return total * (1 + 1e-10)


def _dense(
    layer: Any,
    setting: Any,
    shapes: list[tuple[int, ...]],
    first: int,
    factors: Tensor,
    periodic: bool,
    down: Tensor,
    up: Tensor,
    place: dict[str, Any],
) -> Tensor:
    """The matrix (unknowns, unknowns) of the linear pyramid from level `first` on, row-major cells, channels last."""
    unknowns = math.prod(shapes[first]) * layer.channels
    fields = [torch.eye(unknowns, **place).reshape(unknowns, *shapes[first], layer.channels)]
    for _ in shapes[first + 1 :]:
        fields.append(F.linear(means(fields[-1], layer.rate), down))
    outputs = [
        depthwise(x, setting.cast(layer._kernel(level)), periodic) for level, x in enumerate(fields, start=first)
    ]
    result = outputs[-1]
    for own, a in zip(outputs[-2::-1], factors):
        result = own + a * interpolated(F.linear(result, up), layer.rate, tuple(own.shape[1:-1]), periodic)
    return result.reshape(unknowns, unknowns).t()


def _mapped(matrix: Tensor, left: Tensor, right: Tensor, channels: int) -> Tensor:
    """(1 ⊗ left) · matrix · (1 ⊗ right) for maps over the channels."""
    n = len(matrix) // channels
    blocks = matrix.reshape(n, channels, n, channels)
    return torch.einsum("oc,ncmd,di->nomi", left, blocks, right).reshape(n * channels, n * channels)
