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
    """The L² norm of each sample, by the quadrature of the grid.

    ‖v‖_h = √(Σ_j w_j |v_j|²), w the grid's quadrature weights, summed over the channels.

    Parameters
    ----------
    v : array (batch, ..., *grid)
        numpy or torch.
    grid : Grid or None
        None gives every value the weight 1, the Euclidean norm.

    Returns
    -------
    array (batch,)
        The same kind as `v`, in float32 for half precision; the subgradient at v = 0 is 0.

    Raises
    ------
    ValueError
        When the last axes of `v` are not those of the grid.

    Notes
    -----
    The norm of one function agrees between grids up to quadrature error; the Euclidean norm grows like h^{−d/2}.
    """
    tensor, restore = as_tensor(v, "v")
    if grid is not None:
        check_on_grid(tensor, grid, "v")
        tensor = widened(tensor)
        tensor = tensor * weights_like(grid, tensor).sqrt()
    return restore(norm_of(tensor.flatten(1), 1))


def per_sample(values: Tensor, like: Tensor) -> Tensor:
    """(batch,) values in a shape that multiplies a tensor (batch, ...) sample by sample."""
    return values.reshape(-1, *(1,) * (like.ndim - 1))


def unit(v: Tensor, grid: Grid | None) -> Tensor:
    """v/‖v‖_h per sample; a sample that is 0 stays 0."""
    size = per_sample(field_norm(v, grid), v)
    return v / torch.where(size > 0, size, 1.0)


def weights_like(grid: Grid, tensor: Tensor) -> Tensor:
    """The quadrature weights (*grid) with the device and the real dtype of a tensor."""
    dtype = tensor.real.dtype if tensor.is_complex() else tensor.dtype
    return torch.as_tensor(grid.weights(), dtype=dtype, device=tensor.device)
