"""Several models of one problem: each gives points of the distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.models.apply import apply_model, config_of, grid_for, wall_of
from sciops.models.distributions.base import Cells, DistributionModel
from sciops.models.distributions.wrapped import cells_of
from sciops.models.spine import description
from sciops.options import Count, names_of, read_options


@dataclass(frozen=True, kw_only=True)
class EnsembleOptions:
    """Options of an ensemble by name, "ensemble:fno".

    Parameters
    ----------
    members : int
        Number of models, each with its own initial parameters.
    """

    members: Count = 4


class Ensemble(DistributionModel):
    """The mixture of several models, each with the same weight.

    A member of a distribution brings its own points; any other model is one point. Members trained together by `fit`
    see the same batches, and share no parameter.

    Parameters
    ----------
    models : sequence of nn.Module
        Models of the same fields, such as those of runs with several seeds.
    in_channels, out_channels : int, optional
        Number of fields in and out; by default those that the first model states.

    Raises
    ------
    ValueError
        Without a model, and for channels that are not known.
    """

    name = "ensemble"

    def __init__(
        self, models: Sequence[nn.Module], in_channels: int | None = None, out_channels: int | None = None
    ) -> None:
        if not len(models):
            raise ValueError("models is empty: expected at least one model")
        channels = [
            own if own is not None else stated(models[0], side)
            for own, side in ((in_channels, "in_channels"), (out_channels, "out_channels"))
        ]
        super().__init__(None, *channels)
        self.models = nn.ModuleList(models)

    @property
    def wall(self) -> str:
        walls = {wall_of(model) for model in self.models}
        return walls.pop() if len(walls) == 1 else "none"

    @property
    def config(self) -> dict[str, Any]:
        channels = {"in_channels": self.in_channels, "out_channels": self.out_channels}
        return description(self.name, {"models": [config_of(model) for model in self.models], **channels})

    def grid_for(self, x: Tensor, grid: Grid | None = None) -> Grid:
        return grid_for(self.models[0], x, grid)

    def cells(
        self, x: Tensor, grid: Grid | None = None, *, samples: int = 32, generator: torch.Generator | None = None
    ) -> Cells:
        parts = [cells_of(model, x, grid, samples=samples, generator=generator) for model in self.models]
        spreads = [part.spread for part in parts if part.spread is not None]
        return Cells(
            torch.cat([part.points for part in parts], 1),
            torch.cat([part.weights for part in parts], 1) / len(parts),
            torch.cat(spreads, 1) if len(spreads) == len(parts) else None,
        )

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        return torch.stack([apply_model(model, x, grid) for model in self.models]).mean(0)


def stated(model: nn.Module, side: str) -> int:
    """The number of channels that a model, or the one inside its wrappers, states in its description."""
    options = config_of(model)["options"]
    while side not in options and isinstance(options.get("model"), dict):
        options = options["model"]["options"]
    if not isinstance(options.get(side), int):
        raise ValueError(f"{type(model).__name__} does not state its {side}: pass {side}=")
    return options[side]


def ensemble(
    build: Callable[..., nn.Module], trunk: str, *, in_channels: int = 1, out_channels: int = 1, **options: Any
) -> DistributionModel:
    """An `Ensemble` of models by name: "ensemble:fno"; see `quantized` for the parameters."""
    if not trunk:
        raise ValueError("model 'ensemble:': expected the name of a model after the colon, such as fno")
    own = {name: options.pop(name) for name in options.keys() & names_of(EnsembleOptions)}
    members = read_options(EnsembleOptions, "ensemble", own).members
    models = [build(trunk, in_channels=in_channels, out_channels=out_channels, **options) for _ in range(members)]
    return Ensemble(models, in_channels, out_channels)
