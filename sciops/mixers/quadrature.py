"""Weights of the points of a grid in means over all of them."""

from __future__ import annotations

import torch
from torch import Tensor

from sciops.arrays.compiling import constant, kept
from sciops.grids import Grid


def quadrature(grid: Grid | None, dtype: torch.dtype, device: torch.device) -> Tensor | None:
    """Quadrature weights (n,) of the points, divided by their mean, row by row; None where they are all equal."""
    if grid is None or grid.centering != "node":
        return None
    return _weights(grid, dtype, device)


def token_weights(x: Tensor, mask: Tensor | None, grid: Grid | None, dtype: torch.dtype) -> Tensor:
    """Weights (batch or 1, n) of the tokens of x (batch, n, channels) in a mean over the grid, 0 at padding."""
    weights = quadrature(grid, dtype, x.device)
    weights = x.new_ones(1, x.shape[1], dtype=dtype) if weights is None else weights.unsqueeze(0)
    return weights if mask is None else weights * mask.to(dtype)


@constant
@kept(8)
def _weights(grid: Grid, dtype: torch.dtype, device: torch.device) -> Tensor:
    weights = grid.weights().reshape(-1)
    return torch.from_numpy(weights / weights.mean()).to(dtype=dtype, device=device)
