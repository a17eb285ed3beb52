"""Sequences and grids in blocks, and back to front."""

from __future__ import annotations

from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from sciops.mixers.padding import padded


def block_size(block: int | str, level: int, n: int) -> int:
    """Tokens a block of a sequence of n tokens, at least 1 and at most n."""
    if block == "auto":
        # at level 0, rows at a time, what is fastest
        block = min(256, max(128, n // 16)) if level == 0 else round(n ** (1 / 3 if level == 1 else 1 / 2))
    return max(1, min(int(block), n))


def in_blocks(z: Tensor, m: int) -> Tensor:
    """(batch, heads, n, …) → (batch, heads, K, m, …), zeros after the end."""
    n = z.shape[2]
    blocks = -(-n // m)
    z = padded(z, (0,) * (2 * (z.ndim - 3)) + (0, blocks * m - n))
    return z.unflatten(2, (blocks, m))


def backwards(z: Tensor, lengths: Tensor) -> Tensor:
    """(batch, heads, n, …) with the first length tokens of every sequence in the opposite order."""
    at = torch.arange(z.shape[2], device=z.device)
    at = torch.where(at < lengths[:, None], lengths[:, None] - 1 - at, at)
    at = at.reshape(z.shape[0], 1, z.shape[2], *(1,) * (z.ndim - 3))
    return z.gather(2, at.expand(-1, z.shape[1], -1, *z.shape[3:]))


def tile_order(shape: tuple[int, ...], tokens: int, device: torch.device) -> Tensor:
    """(K, m) places of the points of a grid tile by tile, row by row in both; −1 where a tile extends beyond the grid.

    tokens : about as many points a tile; tiles are cubes of round(tokens^{1/axes}) points
    """
    side = max(1, round(tokens ** (1 / len(shape))))
    sides = [min(side, n) for n in shape]
    places = F.pad(
        torch.arange(prod(shape), device=device).reshape(shape),
        [p for n, s in zip(reversed(shape), reversed(sides)) for p in (0, -n % s)],
        value=-1,
    )
    counts = [n // s for n, s in zip(places.shape, sides)]
    split = places.reshape([size for pair in zip(counts, sides) for size in pair])
    axes = list(range(0, 2 * len(shape), 2)) + list(range(1, 2 * len(shape), 2))
    return split.permute(axes).reshape(prod(counts), prod(sides))
