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


@constant
@kept(8)
def _weights(grid: Grid, dtype: torch.dtype, device: torch.device) -> Tensor:
    weights = grid.weights().reshape(-1)
    return torch.from_numpy(weights / weights.mean()).to(dtype=dtype, device=device)
