"""What a function does to noisy copies of one field, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from sciops._arrays import as_tensor
from sciops.grids import Grid, check_on_grid
from sciops.robustness.checks import check_evaluation_mode, check_level, check_whole
from sciops.robustness.smoothing.noise import Noise


def noisy_outputs(
    function: Callable[[Tensor], Tensor],
    field: Tensor,
    grid: Grid,
    noise: Noise,
    samples: int,
    *,
    seed: int,
    first: int = 0,
    batch_size: int = 256,
) -> Iterator[Tensor]:
    """function(a + ξ_i) for i = first … first + samples − 1, without gradients.

    field : (channels, *grid); every channel has noise of its own
    yields : (at most batch_size, ...)

    Raises ValueError for a function with a part in training mode, and for outputs that hold NaN.
    """
    check_evaluation_mode(function, "the operator")
    check_whole(batch_size=batch_size)
    channels = len(field)
    for start in range(0, samples, batch_size):
        count = min(batch_size, samples - start)
        xi = noise.draw(grid, count * channels, seed=seed, first=(first + start) * channels)
        with torch.no_grad():
            outputs = function(field + xi.to(field).reshape(count, *field.shape))
        if bool(outputs.isnan().any()):
            raise ValueError("the operator returned NaN on a noisy field: check it there, or take a smaller noise")
        yield outputs


def batch_of_fields(a: Any, grid: Grid) -> tuple[Tensor, Callable[[Tensor], Any]]:
    """a as a tensor (batch, channels, *grid), and the way back to its kind."""
    tensor, restore = as_tensor(a, "a")
    check_on_grid(tensor, grid, "a")
    if tensor.ndim != grid.ndim + 2:
        raise ValueError(
            f"a has shape {tuple(tensor.shape)}; expected (batch, channels, *grid) on the grid {grid.shape}"
        )
    return tensor.detach(), restore


def check_smoothing(*, radius: float, samples: int, **alphas: float) -> None:
    """Raises ValueError for a negative radius, no samples, or a probability outside (0, 1)."""
    if not 0 <= radius < float("inf"):
        raise ValueError(f"radius={radius}: expected a size in the noise's norm, 0 or more")
    check_whole(samples=samples)
    check_level(**alphas)
