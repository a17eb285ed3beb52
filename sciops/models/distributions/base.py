"""What models of distributions share: the network inside, its grid, and the points with weights that they give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.models.apply import apply_model, config_of, grid_for, wall_of
from sciops.models.spine import description, wall_mask
from sciops.models.summary import model_text
from sciops.options import names_of, read_options

Options = TypeVar("Options")


class Cells(NamedTuple):
    """Points with weights, and what lies around them.

    points : (batch, n, channels, *grid)
    weights : (batch, n), their sum is 1
    spread : (batch, n, channels, *grid) variance about each point, in every number; None where it is not modelled
    """

    points: Tensor
    weights: Tensor
    spread: Tensor | None = None


class DistributionModel(nn.Module):
    """Base class of models of the conditional distribution of an output field, given the input field.

    ``forward(x, grid=None)`` gives the mean of the distribution, (batch, out_channels, *grid), so that such a model can
    stand wherever a model of fields does. `cells` gives the distribution itself.

    Parameters
    ----------
    model : nn.Module, optional
        The network inside, on (batch, channels, *grid).
    in_channels, out_channels : int
        Number of fields in and out of the distribution's model.
    """

    name: str  # the word before the colon

    __repr__ = model_text

    def __init__(self, model: nn.Module | None, in_channels: int, out_channels: int) -> None:
        super().__init__()
        if model is not None:
            self.model = model
        self.in_channels, self.out_channels = in_channels, out_channels
        self.options: dict[str, Any] = {}

    @property
    def wall(self) -> str:
        return wall_of(self.model)

    @property
    def config(self) -> dict[str, Any]:
        channels = {"in_channels": self.in_channels, "out_channels": self.out_channels}
        return description(self.name, {"model": config_of(self.model), **channels, **self.options})

    def grid_for(self, x: Tensor, grid: Grid | None = None) -> Grid:
        return grid_for(self.model, x, grid)

    def cells(
        self, x: Tensor, grid: Grid | None = None, *, samples: int = 32, generator: torch.Generator | None = None
    ) -> Cells:
        """The distribution as points with weights.

        Parameters
        ----------
        x : Tensor
            Input fields (batch, in_channels, *grid).
        grid : Grid, optional
            Their grid.
        samples : int
            Number of points of models that draw them; others have their own number.
        generator : torch.Generator, optional
            Of those draws, on the CPU; torch's global one by default.
        """
        raise NotImplementedError

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        raise NotImplementedError

    def masked(self, y: Tensor, x: Tensor, grid: Grid | None) -> Tensor:
        """y (…, *grid), zero at the nodes on the wall where the network inside sets its output to zero there."""
        return y * wall_mask(self.grid_for(x, grid), y.dtype, y.device) if self.wall == "zero" else y


def built(
    kind: type[DistributionModel],
    options_of: type[Options],
    build: Callable[..., nn.Module],
    trunk: str,
    in_channels: int,
    out_channels: int,
    options: dict[str, Any],
    channels: Callable[[Options], tuple[int, int]],
) -> DistributionModel:
    """A model of a distribution around a network by name.

    Parameters
    ----------
    kind, options_of
        The class and the dataclass of its options.
    build : callable
        `sciops.build_model`.
    trunk : str
        Name of the network inside; an empty one is refused.
    in_channels, out_channels : int
        Fields in and out of the whole.
    options : dict
        Those of `options_of` and those of the network.
    channels : callable
        options → fields in and out of the network inside.
    """
    if not trunk:
        raise ValueError(f"model '{kind.name}:': expected the name of a model after the colon, as {kind.name}:fno")
    own = {name: options.pop(name) for name in options.keys() & names_of(options_of)}
    read = read_options(options_of, kind.name, own)
    inside, outside = channels(read)
    network = build(trunk, in_channels=inside, out_channels=outside, **options)
    return kind(network, in_channels=in_channels, out_channels=out_channels, **vars(read))


def mean_of(cells: Cells) -> Tensor:
    """Σ_i p_i f_i, (batch, channels, *grid)."""
    weights = cells.weights.reshape(*cells.weights.shape, *(1,) * (cells.points.ndim - 2))
    return (weights * cells.points).sum(1)


def applied(model: nn.Module, x: Tensor, grid: Grid | None) -> Tensor:
    """The output of the network inside, channels last: (batch, *grid, channels)."""
    return apply_model(model, x, grid).movedim(1, -1)
