"""A model that takes and returns physical units."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from sciops.datasets.fields.normalizers import Normalizer
from sciops.grids import Grid
from sciops.models.apply import apply_model, config_of, grid_for, wall_of
from sciops.models.spine.features import wall_mask
from sciops.models.summary import model_text


class Normalized(nn.Module):
    """A model in physical units, u = decode(model(encode(a))).

    The statistics are buffers, saved with the weights. If the model sets its output to zero on the wall, the decoded
    output is set to zero there again, since zero decodes to the mean. The result has the dtype of x, under autocast
    too.

    Parameters
    ----------
    model : nn.Module
        Any model on (batch, channels, *grid).
    input, output : Normalizer, optional
        Statistics of the training split; None leaves that side unchanged.
    """

    __repr__ = model_text

    def __init__(self, model: nn.Module, input: Normalizer | None = None, output: Normalizer | None = None) -> None:
        super().__init__()
        self.model, self.input, self.output = model, input, output

    @property
    def wall(self) -> str:
        return wall_of(self.model)

    @property
    def config(self) -> dict[str, Any]:
        channels = {k: None if n is None else len(n.mean) for k, n in (("input", self.input), ("output", self.output))}
        return {"name": "normalized", "options": {"model": config_of(self.model), **channels}}

    def grid_for(self, x: Tensor, grid: Grid | None = None) -> Grid:
        return grid_for(self.model, x, grid)

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        z = x if self.input is None else self.input.encode(x)
        y = apply_model(self.model, z, grid).to(x.dtype)
        if self.output is None:
            return y
        y = self.output.decode(y)
        if self.wall == "zero":
            y = y * wall_mask(self.grid_for(x, grid), y.dtype, y.device)
        return y
