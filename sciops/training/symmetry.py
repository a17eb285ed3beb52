"""Random symmetries of the square, applied to coefficient and solution alike."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sciops.grids import Grid


def check_symmetric(grid: Grid, augment: str) -> None:
    """Raises ValueError unless the symmetries named by `augment` map the grid and its walls onto themselves.

    transpose : both axes alike (points, extent, walls)
    square : besides, each axis is its own mirror image between the walls; a node grid that stops short of one wall
        only is not
    """
    if augment == "none":
        return
    axes = list(zip(grid.shape, grid.extent, grid.domain))
    slack = [1e-9 * h for h in grid.spacing]
    if grid.ndim != 2 or axes[0][0] != axes[1][0] or not _close(axes[0], axes[1], min(slack)):
        raise ValueError(
            f"augment={augment!r} swaps the axes, but the grid {grid.shape} on {grid.extent} in {grid.domain} is not "
            "the same on both; pass augment='none'"
        )
    if augment == "square":
        for (_, (a, b), (left, right)), e in zip(axes, slack):
            if abs((a - left) - (right - b)) > e:
                raise ValueError(
                    f"augment='square' mirrors each axis, but the points [{a:.6g}, {b:.6g}] lie unevenly between the "
                    f"walls [{left:.6g}, {right:.6g}]; pass augment='transpose'"
                )


def apply_symmetry(fields: Tensor, codes: np.ndarray | Tensor, grid: Grid, augment: str) -> Tensor:
    """Every sample moved by its own element of the group: bit 0 swaps the axes, bits 1 and 2 mirror axis 0 and 1.

    fields : (batch, channel, n, n); every channel is a scalar field (a vector's components would have to be mixed)
    codes : (batch,) in 0 … 7; "transpose" uses bit 0 alone

    On a periodic grid a mirror keeps the point j = 0 in its place.
    """
    if augment == "none":
        return fields
    codes = torch.as_tensor(codes, device=fields.device).view(-1, 1, 1, 1)
    moved = fields
    if augment == "square":
        for bit, axis in ((2, -2), (4, -1)):
            mirror = moved.flip(axis)
            if grid.centering == "periodic":
                mirror = mirror.roll(1, axis)
            moved = torch.where(codes & bit != 0, mirror, moved)
    return torch.where(codes & 1 != 0, moved.transpose(-1, -2), moved)


def _close(p: tuple, q: tuple, slack: float) -> bool:
    return all(abs(u - v) <= slack for r, s in zip(p[1:], q[1:]) for u, v in zip(r, s))
