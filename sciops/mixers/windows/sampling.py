"""The samplers of a pyramid, (batch, *sizes, channels) ↔ (batch, *⌈sizes/rate⌉, channels): learned, or mean and copy.

The learned ones are a convolution with kernel and stride `rate` and a transposed one. On disjoint blocks both are
matrix products: the cells of a block become one row.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from sciops.mixers.windows.tiling import Tiling, crop_to, pad_to


def coarsened(x: Tensor, kernel: Tensor, rate: int) -> Tensor:
    """The convolution, missing cells counted as zero.

    x : (batch, *sizes, channels), kernel : (out, in, *rates) → (batch, *⌈sizes/rate⌉, channels)
    """
    blocks = Tiling(tuple(x.shape[1:-1]), rate, rate, whole=True)
    y = F.linear(blocks.cut(x, False).flatten(1), rows_of(kernel))
    return y.reshape(x.shape[0], *blocks.counts, y.shape[-1])


def refined(r: Tensor, kernel: Tensor, rate: int, sizes: tuple[int, ...]) -> Tensor:
    """The transposed convolution, cropped.

    r : (batch, *⌈sizes/rate⌉, channels), kernel : (in, out, *rates) → (batch, *sizes, channels)
    """
    blocks = Tiling(sizes, rate, rate, whole=True)
    y = F.linear(r.reshape(-1, r.shape[-1]), rows_of(kernel).t())
    return crop_to(blocks.join(y.unflatten(1, (blocks.tokens, -1)), False), sizes)


def averaged(x: Tensor, rate: int) -> Tensor:
    """The mean of the cells of a block that exist."""
    sizes, axes = x.shape[1:-1], x.ndim - 2
    coarse = tuple(-(-n // rate) for n in sizes)
    children = pad_to(x, tuple(n * rate for n in coarse))
    children = children.reshape(x.shape[0], *(s for n in coarse for s in (n, rate)), x.shape[-1])
    total = children.sum(tuple(range(2, 2 * axes + 1, 2)))
    for axis, (n, m) in enumerate(zip(sizes, coarse), start=1):
        real = torch.full((m,), float(rate), dtype=x.dtype, device=x.device)
        real[-1] -= m * rate - n
        total = total / real.reshape(-1, *(1,) * (x.ndim - 1 - axis))
    return total


def copied(r: Tensor, rate: int, sizes: tuple[int, ...]) -> Tensor:
    """The value of a block in each of its cells."""
    batch, *coarse, channels = r.shape
    y = r.reshape(batch, *(s for n in coarse for s in (n, 1)), channels)
    y = y.expand(batch, *(s for n in coarse for s in (n, rate)), channels)
    return crop_to(y.reshape(batch, *(n * rate for n in coarse), channels), sizes)


def rows_of(kernel: Tensor) -> Tensor:
    """(a, b, *rates) → (a, rate^axes·b)"""
    return kernel.movedim(1, -1).reshape(len(kernel), -1)
