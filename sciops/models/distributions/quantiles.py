"""Quantiles of every number of the output: right margins, without what ties the numbers together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.models.apply import apply_model
from sciops.models.distributions.base import Cells, DistributionModel, built
from sciops.options import Count, read_options


@dataclass(frozen=True, kw_only=True)
class QuantileOptions:
    """Options of `QuantileModel`.

    Parameters
    ----------
    levels : int
        Number of quantiles n, at the levels (2i − 1)/2n.
    """

    levels: Count = 8


class QuantileModel(DistributionModel):
    """Quantiles of the levels (2i − 1)/2n of every output number, i = 1 … n, by one network.

    The i-th point of `cells` has the i-th quantile everywhere, with weight 1/n: the margins are those of the output,
    the joint law is the one in which all numbers rise together. Quantiles that cross are sorted.

    Parameters
    ----------
    model : nn.Module
        The network inside, with levels·out_channels output channels.
    in_channels, out_channels : int
        Number of fields in and out.
    **options
        The fields of `QuantileOptions`.
    """

    name = "quantiles"

    def __init__(self, model: nn.Module, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__(model, in_channels, out_channels)
        o = read_options(QuantileOptions, self.name, options)
        self.levels, self.options = o.levels, vars(o)

    def taus(self, like: Tensor) -> Tensor:
        """The levels, (n,)."""
        return (torch.arange(self.levels, dtype=like.dtype, device=like.device) + 0.5) / self.levels

    def fields(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        """The quantiles as they come from the network, (batch, n, channels, *grid)."""
        return apply_model(self.model, x, grid).unflatten(1, (self.levels, self.out_channels))

    def cells(
        self, x: Tensor, grid: Grid | None = None, *, samples: int = 32, generator: torch.Generator | None = None
    ) -> Cells:
        points = self.fields(x, grid).sort(1).values
        return Cells(points, points.new_full(points.shape[:2], 1 / self.levels))

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        return self.fields(x, grid).mean(1)


def quantiles(
    build: Callable[..., nn.Module], trunk: str, *, in_channels: int = 1, out_channels: int = 1, **options: Any
) -> DistributionModel:
    """A `QuantileModel` around a model by name: "quantiles:fno"; see `quantized` for the parameters."""
    return built(
        QuantileModel,
        QuantileOptions,
        build,
        trunk,
        in_channels,
        out_channels,
        options,
        lambda o: (in_channels, o.levels * out_channels),
    )
