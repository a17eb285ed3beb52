"""The L² norm of a grid, in which perturbations and outputs of operators are measured."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sciops.arrays.kinds import as_tensor
from sciops.arrays.scale import norm_of, widened
from sciops.grids import Grid, check_on_grid

__all__ = ["field_norm"]


def field_norm(v: Any, grid: Grid | None) -> Any:
    """‖v‖_h = √(Σ_j w_j |v_j|²) per sample, w the grid's quadrature weights; channels are summed.

    v : (batch, ..., *grid)   numpy or torch
    grid : None counts every number with weight 1, the Euclidean norm
    returns : (batch,)        same kind, half precision in float32; the subgradient at v = 0 is 0

    The norm of one function agrees between grids up to quadrature error; the Euclidean norm grows like h^{−d/2}.
    Raises ValueError when v does not live on the grid.
    """
    tensor, restore = as_tensor(v, "v")
    if grid is not None:
        check_on_grid(tensor, grid, "v")
        tensor = widened(tensor)
        tensor = tensor * weights_like(grid, tensor).sqrt()
    return restore(norm_of(tensor.flatten(1), 1))


def weights_like(grid: Grid, tensor: Tensor) -> Tensor:
    """The quadrature weights (*grid) with the device and the real dtype of a tensor."""
    dtype = tensor.real.dtype if tensor.is_complex() else tensor.dtype
    return torch.as_tensor(grid.weights(), dtype=dtype, device=tensor.device)
