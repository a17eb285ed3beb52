"""Weights of the points of a grid in sums over all of them."""

from __future__ import annotations

import torch
from torch import Tensor

from sciops._compiling import constant, kept
from sciops.grids import Grid


def check_grid(x: Tensor, grid: Grid | None) -> None:
    """Raises ValueError unless x (batch, *sizes, channels) lies on the grid, if any, or is one of as many tokens."""
    sizes = tuple(x.shape[1:-1])
    if grid is None or grid.shape == sizes or sizes == (grid.size,):
        return
    has = f"{sizes[0]} tokens" if len(sizes) == 1 else f"the points {sizes}"
    raise ValueError(f"x has {has}, but the grid is {grid.shape}: pass the grid x was sampled on")


def quadrature(grid: Grid | None, dtype: torch.dtype, device: torch.device) -> Tensor | None:
    """(n,) weights of the points, row by row; None where all weigh alike."""
    if grid is None or grid.centering != "node":
        return None
    return _weights(grid, dtype, device)


@constant
@kept(8)
def _weights(grid: Grid, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.from_numpy(grid.weights().reshape(-1)).to(dtype=dtype, device=device)
