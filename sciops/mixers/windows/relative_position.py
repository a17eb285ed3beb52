"""A number added to the score of two cells of a window, by how far apart they lie."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from sciops.arrays.compiling import kept, uncompiled

_HIDDEN = 512  # of the map of `ContinuousBias`, as published


class TableBias(nn.Module):
    """bias[h, t, s] = table[t − s, h]: one learned number per offset and head (Swin, arXiv:2103.14030).

    table : ((2·window − 1)^axes, heads), offsets −(window − 1) … window − 1 in row-major order; starts at zero.
    forward(shape) : (heads, cells, cells) of a window of this shape, at most `window` per axis
    """

    def __init__(self, heads: int, window: int, axes: int) -> None:
        super().__init__()
        self.window = window
        self.table = nn.Parameter(torch.zeros((2 * window - 1) ** axes, heads))

    def forward(self, shape: tuple[int, ...]) -> Tensor:
        tokens = math.prod(shape)
        return (
            self.table[_offset_index(shape, self.window, self.table.device)].reshape(tokens, tokens, -1).movedim(-1, 0)
        )


class ContinuousBias(nn.Module):
    """bias[h, t, s] = 16·sigmoid(W₂ · ReLU(W₁ ω + b₁))[h] of ω = sign(δ)·log₂(1 + 8|δ|)/3 (Swin V2, arXiv:2111.09883).

    δ = (t − s)/(window − 1) per axis; `reference` is the window whose size scales δ, for weights that were trained with
    another one. forward as in `TableBias`
    """

    def __init__(self, heads: int, window: int, axes: int, reference: int | None = None) -> None:
        super().__init__()
        self.window, self.axes, self.reference = window, axes, window if reference is None else reference
        self.hidden = nn.Linear(axes, _HIDDEN)
        self.to_heads = nn.Linear(_HIDDEN, heads, bias=False)

    def forward(self, shape: tuple[int, ...]) -> Tensor:
        offsets = torch.arange(1 - self.window, self.window, device=self.hidden.weight.device)
        offsets = offsets.to(self.hidden.weight.dtype) / max(self.reference - 1, 1)
        scaled = offsets.sign() * torch.log2(1 + 8 * offsets.abs()) / 3
        points = torch.stack(torch.meshgrid(*[scaled] * self.axes, indexing="ij"), -1).flatten(0, -2)
        table = 16 * torch.sigmoid(self.to_heads(torch.relu(self.hidden(points))))
        tokens = math.prod(shape)
        return table[_offset_index(shape, self.window, table.device)].reshape(tokens, tokens, -1).movedim(-1, 0)


@uncompiled
@kept(64)
def _offset_index(shape: tuple[int, ...], window: int, device: torch.device) -> Tensor:
    """Row-major number of the offset t − s for all pairs of cells of a window, (cells²)."""
    cells = torch.cartesian_prod(*(torch.arange(n) for n in shape)).reshape(math.prod(shape), len(shape))
    offsets = cells[:, None] - cells[None] + window - 1
    index = torch.zeros(offsets.shape[:2], dtype=torch.long)
    for axis in range(len(shape)):
        index = index * (2 * window - 1) + offsets[..., axis]
    return index.flatten().to(device)
