"""Outputs of a function on noisy copies of one field, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from sciops.arrays.kinds import as_tensor
from sciops.grids import Grid, check_on_grid
from sciops.robustness.checks import check_evaluation_mode, check_level, check_size
from sciops.robustness.smoothing.noise import Noise
from sciops.values import check_whole


def noisy_outputs(
    function: Callable[[Tensor], Tensor],
    field: Tensor,
    samples: int,
    *,
    grid: Grid,
    noise: Noise,
    seed: int,
    first: int = 0,
    batch_size: int,
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
    """`a` as a tensor (batch, channels, *grid), and the function that converts results to the kind of `a`."""
    tensor, restore = as_tensor(a, "a")
    check_on_grid(tensor, grid, "a")
    if tensor.ndim != grid.ndim + 2:
        raise ValueError(
            f"a has shape {tuple(tensor.shape)}; expected (batch, channels, *grid) on the grid {grid.shape}"
        )
    return tensor.detach(), restore


def check_smoothing(*, radius: float = 0.0, samples: int, **alphas: float) -> None:
    """Raises ValueError for a negative radius, no samples, or a probability outside (0, 1)."""
    check_size(radius=radius)
    check_whole(samples=samples)
    check_level(**alphas)
