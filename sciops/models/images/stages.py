"""Parts of a classifier around the blocks: patch embedding and merging, positions, stages."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.arrays.compiling import kept, uncompiled
from sciops.grids import Grid
from sciops.mixers.windows.tiling import pad_to
from sciops.models.spine.norms import make_norm

OCTAVES = 4


class PatchEmbedding(nn.Module):
    """A linear map of all pixels of a patch, then a norm.

    Maps (batch, channels, H, W) to (batch, ⌈H/patch⌉, ⌈W/patch⌉, width). The image is padded with zeros below and to
    the right to whole patches.
    """

    def __init__(self, channels: int, width: int, patch: int, norm: str) -> None:
        super().__init__()
        self.patch = patch
        self.project = nn.Conv2d(channels, width, patch, patch)
        self.norm = make_norm(norm, width)

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[2:]
        if height % self.patch or width % self.patch:
            x = F.pad(x, (0, -width % self.patch, 0, -height % self.patch))
        return self.norm(self.project(x).movedim(1, -1))


class PatchMerging(nn.Module):
    """A linear map of the four cells of a 2×2 block, (batch, H, W, channels) → (batch, ⌈H/2⌉, ⌈W/2⌉, width).

    The norm comes before the map, or after it for order="post". Cells are ordered by columns, as in Swin's weights;
    odd sizes are padded with zeros.
    """

    def __init__(self, channels: int, width: int, norm: str, order: str) -> None:
        super().__init__()
        self.post = order == "post"
        self.norm = make_norm(norm, width if self.post else 4 * channels)
        self.reduce = nn.Linear(4 * channels, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, height, width, channels = x.shape
        x = pad_to(x, (height + height % 2, width + width % 2))
        x = x.view(batch, x.shape[1] // 2, 2, x.shape[2] // 2, 2, channels)
        x = x.permute(0, 1, 3, 4, 2, 5).flatten(3)
        return self.norm(self.reduce(x)) if self.post else self.reduce(self.norm(x))


class SinCosPosition(nn.Module):
    """Position of every cell, x + W·φ(ξ), φ = (sin 2ʲπξ, cos 2ʲπξ) for j = 0 … 3 and both axes.

    ξ ∈ (0, 1) is the position of a cell's centre in the image, not its index, so that φ exists at every size and is the
    same function for an image sampled more finely. Maps (batch, H, W, width) to the same shape.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, 4 * OCTAVES) / math.sqrt(4 * OCTAVES))

    def forward(self, x: Tensor) -> Tensor:
        return x + F.linear(_features(tuple(x.shape[1:-1]), self.weight.dtype, self.weight.device), self.weight)


class Stage(nn.Module):
    """Patch embedding or merging of cells, then blocks on one grid.

    least : smallest number of cells per axis that the blocks accept; a smaller grid is padded with zeros
    """

    def __init__(self, enter: nn.Module, position: nn.Module | None, blocks: list[nn.Module], least: int) -> None:
        super().__init__()
        self.enter, self.position, self.blocks, self.least = enter, position, nn.ModuleList(blocks), least

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        if self.position is not None:
            x = self.position(x)
        x = pad_to(x, tuple(max(n, self.least) for n in x.shape[1:-1]))
        return self.run_blocks(x, _cells(tuple(x.shape[1:-1])), (1, 1))

    def run_blocks(self, h: Tensor, grid: Grid, dilation: tuple[int, ...]) -> Tensor:
        """All blocks of h (batch, H, W, width); what rules for the gradient replace."""
        for block in self.blocks:
            h = block(h, grid, dilation)
        return h


@uncompiled
@lru_cache(maxsize=64)
def _cells(shape: tuple[int, ...]) -> Grid:
    return Grid(shape, centering="cell")


@uncompiled
@kept(64)
def _features(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    octaves = math.pi * 2.0 ** torch.arange(OCTAVES, dtype=torch.float64)
    parts = []
    for axis, n in enumerate(shape):
        angles = ((torch.arange(n, dtype=torch.float64) + 0.5) / n)[:, None] * octaves
        waves = torch.cat([angles.sin(), angles.cos()], -1)
        parts.append((waves[:, None] if axis == 0 else waves[None]).expand(*shape, -1))
    return torch.cat(parts, -1).to(device=device, dtype=dtype)
