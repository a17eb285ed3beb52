"""`log_lipschitz_penalty`: the logarithm of a model's Lipschitz bound, to be made small in training."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.lipschitz.bounds.bound import best
from sciops.models.apply import real_dtype_of


def log_lipschitz_penalty(
    model: nn.Module, grid: Grid, *, radius: float | None = None, vacuous: bool = False
) -> Tensor:
    """Σ_l log L_l over the parts of the model, differentiable: what `lipschitz_bound` multiplies, on the same grid.

    model, grid, radius, vacuous : as in `lipschitz_bound`
    returns : a number in the dtype of the parameters, float64 or float32

    The gradient of each log L is that of a largest singular value, uvᵀ/σ; where σ is repeated it is one of its
    subgradients. Computed in float64: every call decomposes each spectral layer's matrices, mode by mode, on the
    parameters' device. ``loss + 1e-3 * log_lipschitz_penalty(model, grid)`` weighs one e-fold of the bound like 1e-3 of
    the loss.

    Raises ValueError, naming the part, where the model has no finite bound.
    """
    part, _ = best(model, grid, torch.float64, radius, vacuous)
    if part.value is None:
        row = next(row for row in part.rows if row.value is None)
        raise ValueError(f"{row.name} has no finite bound, so that there is nothing to penalise: {row.reason}")
    dtype = real_dtype_of(model)
    return part.value.log() if dtype is None else part.value.log().to(torch.promote_types(dtype, torch.float32))
