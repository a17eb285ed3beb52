"""The logarithm of a model's Lipschitz bound, as a penalty in training."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.lipschitz.bounds.bound import best
from sciops.models.apply import real_dtype_of


def log_lipschitz_penalty(
    model: nn.Module, grid: Grid, *, radius: float | None = None, vacuous: bool = False
) -> Tensor:
    """The logarithm of a model's Lipschitz bound, Σ_l log L_l over its parts, differentiable.

    Parameters
    ----------
    model, grid, radius, vacuous
        As in `lipschitz_bound`.

    Returns
    -------
    Tensor
        A number in the dtype of the parameters, float64 or float32.

    Raises
    ------
    ValueError
        Where the model has no finite bound, naming the part.

    Notes
    -----
    The gradient of each log L is that of a largest singular value, uvᵀ/σ; where σ is repeated it is one of its
    subgradients. It is computed in float64 on the parameters' device: every call decomposes each spectral layer's
    matrices, mode by mode. ``loss + 1e-3 * log_lipschitz_penalty(model, grid)`` weighs one e-fold of the bound like
    1e-3 of the loss.
    """
    part, _ = best(model, grid, torch.float64, radius, vacuous)
    if part.value is None:
        row = next(row for row in part.rows if row.value is None)
        raise ValueError(f"{row.name} has no finite bound, so that there is nothing to penalise: {row.reason}")
    dtype = real_dtype_of(model)
    return part.value.log() if dtype is None else part.value.log().to(torch.promote_types(dtype, torch.float32))
