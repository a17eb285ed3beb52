"""`Convolution`: every point sees its neighbours, the mixer of convolutional networks."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.mixers.checks import check_choice, check_field

Padding = Literal["replicate", "zeros"]


class Convolution(nn.Module):
    """Convolution over the grid with full channel matrices: every point reads its neighbours.

    y_j = Σ_{|i|∞ ≤ (size−1)/2} W_i x_{j+i} + b; x : (batch, *grid, channels), one to three grid axes of any sizes →
    same.

    Parameters
    ----------
    channels : int
        Number of channels.
    size : int
        Points per axis of the kernel W, odd.
    padding : {"replicate", "zeros"}
        The field outside the grid: the value of the nearest point, or 0. Periodic grids wrap around instead.
    axes : {1, 2, 3}
        Number of grid axes of x.

    Raises
    ------
    ValueError
        For an even size, other options, x of another rank, and a kernel that reaches around a periodic grid.

    Notes
    -----
    The kernel spans a number of points, so on a finer grid it is physically smaller. Weights start Gaussian with unit
    gain.
    """

    def __init__(self, channels: int, *, size: int = 3, padding: Padding = "replicate", axes: int = 2) -> None:
        super().__init__()
        if size < 1 or size % 2 == 0:
            raise ValueError(f"size={size}: expected an odd number of points, so that every point is in the middle")
        check_choice("padding", padding, Padding)
        check_choice("axes", axes, Literal[1, 2, 3])
        self.channels, self.size, self.padding, self.axes = channels, size, padding, axes
        gain = 1 / math.sqrt(channels * size**axes)
        self.weight = nn.Parameter(gain * torch.randn(channels, channels, *(size,) * axes))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor, grid: Any = None) -> Tensor:
        check_field(x, self.channels, self.axes)
        periodic = getattr(grid, "centering", None) == "periodic"
        reach = self.size // 2
        if periodic and reach > min(x.shape[1:-1]):
            raise ValueError(
                f"size={self.size} reaches around a grid of {tuple(x.shape[1:-1])} points: pass a smaller one"
            )
        # the channel-last memory is what the convolution wants: no copy is made
        z = x.movedim(-1, 1)
        mode = "circular" if periodic else self.padding
        if mode != "zeros":
            z = F.pad(z, (reach,) * (2 * self.axes), mode=mode)
        convolve = (F.conv1d, F.conv2d, F.conv3d)[self.axes - 1]
        pad = reach if mode == "zeros" else 0
        return convolve(z, self.weight.to(z.dtype), self.bias.to(z.dtype), padding=pad).movedim(1, -1)

    def lipschitz_rule(self, setting: Any) -> tuple[Tensor, str]:
        mode = "circular" if setting.grid.centering == "periodic" else self.padding
        return setting.convolution(self.weight, padding_mode=mode), f"convolution, {mode} padding"

    def extra_repr(self) -> str:
        return f"{self.channels}, size={self.size}, padding={self.padding!r}"
