"""The distribution that any model gives, through the statistics around it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sciops.datasets.fields.normalizers import Normalizer
from sciops.grids import Grid
from sciops.models.apply import apply_model, unwrapped
from sciops.models.distributions.base import Cells, DistributionModel
from sciops.models.spine import wall_mask
from sciops.models.wrappers import Normalized


def distribution_inside(model: nn.Module) -> DistributionModel | None:
    """The model of a distribution inside `Normalized`, or None for a model that gives one field.

    Raises ValueError where another wrapper is around it, which would pass on its mean alone.
    """
    inner = unwrapped(model)
    while isinstance(inner, Normalized):
        inner = unwrapped(inner.model)
    if isinstance(inner, DistributionModel):
        return inner
    inside = next((m for m in inner.modules() if isinstance(m, DistributionModel)), None)
    if inside is not None:
        raise ValueError(
            f"{type(inner).__name__} around a model {inside.name!r} gives its mean alone: put it inside, as in "
            f"{type(inside).__name__}({type(inner).__name__}(…)), or use the model without it"
        )
    return None


def cells_of(
    model: nn.Module,
    x: Tensor,
    grid: Grid | None = None,
    *,
    samples: int = 32,
    generator: torch.Generator | None = None,
) -> Cells:
    """The points and weights of any model in the units of its fields; one point for a model that gives one field.

    Parameters
    ----------
    model : nn.Module
        Also inside `Normalized`, or torch's wrappers.
    x : Tensor
        Input fields (batch, channels, *grid).
    grid, samples, generator
        As in `DistributionModel.cells`.

    Raises
    ------
    ValueError
        As `distribution_inside` does.
    """
    model = unwrapped(model)
    if isinstance(model, DistributionModel):
        return model.cells(x, grid, samples=samples, generator=generator)
    if isinstance(model, Normalized) and distribution_inside(model) is not None:
        z = x if model.input is None else model.input.encode(x)
        cells = cells_of(model.model, z, grid, samples=samples, generator=generator)
        if model.output is None:
            return cells
        mask = wall_mask(model.grid_for(x, grid), x.dtype, x.device) if model.wall == "zero" else None
        return decoded(cells, model.output, mask)
    distribution_inside(model)
    y = apply_model(model, x, grid)[:, None]
    return Cells(y, y.new_ones(y.shape[:2]))


def decoded(cells: Cells, output: Normalizer, mask: Tensor | None = None) -> Cells:
    """Cells of normalised fields in the units of the fields: points by `output`, variances by its squared deviation."""
    points = output.decode(cells.points.flatten(0, 1)).view_as(cells.points)
    spread = cells.spread
    if spread is not None:
        std = output.std.to(spread.device, spread.dtype)
        spread = spread * std.square().view(1, 1, -1, *(1,) * (spread.ndim - 3))
    if mask is not None:
        points, spread = points * mask, None if spread is None else spread * mask
    return Cells(points, cells.weights, spread)
