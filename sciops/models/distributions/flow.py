"""A conditional flow: samples by carrying white noise along a learned velocity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.models.apply import apply_model, grid_for
from sciops.models.distributions.base import Cells, DistributionModel, built
from sciops.options import Count, read_options


@dataclass(frozen=True, kw_only=True)
class FlowOptions:
    """Options of `FlowModel`.

    Parameters
    ----------
    steps : int
        Steps of Heun's method from noise to a sample; each runs the network twice.
    mean_samples : int
        Samples of which ``forward`` gives the mean.
    """

    steps: Count = 8
    mean_samples: Count = 16


class FlowModel(DistributionModel):
    """Samples z(1) of dz/dt = v(z, x, t) from white noise z(0), with the velocity v a network.

    Trained by flow matching along straight lines: v(z_t, x, t) ≈ y − z_0 at z_t = (1 − t) z_0 + t y. White noise
    belongs to a grid: on another grid than that of the training the samples are of another law.

    Parameters
    ----------
    model : nn.Module
        v, from the in_channels of x, the out_channels of z and one channel t, to out_channels.
    in_channels, out_channels : int
        Number of fields in and out.
    **options
        The fields of `FlowOptions`.

    References
    ----------
    Lipman et al., Flow Matching for Generative Modeling, arXiv:2210.02747; Liu, Gong, Liu, arXiv:2209.03003.
    """

    name = "flow"

    def __init__(self, model: nn.Module, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__(model, in_channels, out_channels)
        o = read_options(FlowOptions, self.name, options)
        self.steps, self.mean_samples, self.options = o.steps, o.mean_samples, vars(o)

    def grid_for(self, x: Tensor, grid: Grid | None = None) -> Grid:
        seen = x[:, :1].expand(-1, self.in_channels + self.out_channels + 1, *x.shape[2:])
        return grid_for(self.model, seen, grid)

    def velocity(self, z: Tensor, x: Tensor, t: Tensor, grid: Grid | None = None) -> Tensor:
        """v of states z (batch, out_channels, *grid) at the times t (batch,)."""
        time = t.to(x.dtype).reshape(-1, *(1,) * (x.ndim - 1)).expand(-1, 1, *x.shape[2:])
        return apply_model(self.model, torch.cat([x, z, time], 1), grid)

    def noise(self, x: Tensor, generator: torch.Generator | None) -> Tensor:
        """z(0) for every row of x, drawn on the CPU where a generator is given."""
        shape = (x.shape[0], self.out_channels, *x.shape[2:])
        if generator is None:
            return torch.randn(shape, dtype=x.dtype, device=x.device)
        return torch.randn(shape, dtype=x.dtype, generator=generator).to(x.device)

    def cells(
        self, x: Tensor, grid: Grid | None = None, *, samples: int = 32, generator: torch.Generator | None = None
    ) -> Cells:
        points = torch.stack([self._sample(x, grid, generator) for _ in range(samples)], 1)
        return Cells(points, points.new_full(points.shape[:2], 1 / samples))

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        """The mean of `mean_samples` samples, always from the same noise."""
        drawn = torch.Generator().manual_seed(0)
        return self.cells(x, grid, samples=self.mean_samples, generator=drawn).points.mean(1)

    def _sample(self, x: Tensor, grid: Grid | None, generator: torch.Generator | None) -> Tensor:
        z, h = self.noise(x, generator), 1 / self.steps
        for k in range(self.steps):
            t = torch.full((x.shape[0],), k * h, dtype=x.dtype, device=x.device)
            first = self.velocity(z, x, t, grid)
            second = self.velocity(z + h * first, x, t + h, grid)
            z = z + h / 2 * (first + second)
        return self.masked(z, x, grid)


def flow(
    build: Callable[..., nn.Module], trunk: str, *, in_channels: int = 1, out_channels: int = 1, **options: Any
) -> DistributionModel:
    """A `FlowModel` around a model by name: "flow:fno"; see `quantized` for the parameters."""
    return built(
        FlowModel,
        FlowOptions,
        build,
        trunk,
        in_channels,
        out_channels,
        options,
        lambda o: (in_channels + out_channels + 1, out_channels),
    )
