"""n points, their weights and the spread around them, as heads on any model of fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.models.distributions.base import Cells, DistributionModel, applied, built, mean_of
from sciops.models.spine import pointwise
from sciops.options import Count, Probability, Within, read_options

_LEAST = -25.0  # of the logarithm of a variance, in the units of the outputs


@dataclass(frozen=True, kw_only=True)
class QuantizedOptions:
    """Options of `Quantized`.

    Parameters
    ----------
    points : int
        Number of points, n. 1 is a model of the mean with its variance.
    features : int, optional
        Number of channels that the network inside hands to the heads; by default the larger of 32 and twice the
        channels of all points.
    schedule : str
        How training shares a target between the points: "annealed", by softmin weights whose temperature falls;
        "relaxed", the nearest point and a share of the others that falls to 0; "hard", the nearest point alone
        (`sciops.uncertainty.Schedule`).
    hard_share : float
        Last share of a training in which the nearest point alone is moved.
    relaxation : float
        Share of the other points together at the start of "relaxed".
    least_usage : float
        A point that is the nearest for less than this share of 1/n of the targets is replaced by a copy of the busiest
        one; 0 leaves all as they are.
    """

    points: Count = 8
    features: Count | None = None
    schedule: Literal["annealed", "relaxed", "hard"] = "annealed"
    hard_share: Annotated[float, Within(0, 1)] = 0.25
    relaxation: Probability = 0.1
    least_usage: Probability = 0.1


class Heads(NamedTuple):
    """Outputs of the heads of `Quantized`.

    points : (batch, n, channels, *grid)
    log_spread : (batch, n, channels, *grid), logarithm of the variance about each point
    logits : (batch, n), of the weights
    """

    points: Tensor
    log_spread: Tensor
    logits: Tensor


class Quantized(DistributionModel):
    """n functions f_i with weights p_i(x): the law of the output given x is approximated by Σ_i p_i(x) δ_{f_i(x)}.

    The points come by a linear map from the features h of the network inside, f_i = A_i h + b_i at every point of the
    grid. Weights and spread are read from the features and from x, and no gradient of theirs reaches the features: the
    weights by pointwise maps, a mean over the grid and a small network, the spread by a pointwise network. Trained by
    `sciops.uncertainty.training_losses`, which `fit` calls.

    Parameters
    ----------
    model : nn.Module
        The network inside, with ``features`` output channels.
    in_channels, out_channels : int
        Number of fields in and out.
    **options
        The fields of `QuantizedOptions`.

    Attributes
    ----------
    usage : Tensor
        (n,) moving average of the share of targets to which each point was the nearest.
    distortion : Tensor
        Moving average of the squared distance to the nearest point; 0 before the first step.
    start : Tensor
        First temperature of the annealing, taken at the first step; 0 before it.
    updates : Tensor
        Number of losses that these statistics saw.
    progress : float
        Share of the training that is over, at the last of them.

    References
    ----------
    Delattre, Delattre, Vérine, Allauzen, Conditional Distribution Quantization in Machine Learning, arXiv:2502.07151.
    """

    name = "quantized"
    usage: Tensor
    distortion: Tensor
    start: Tensor
    updates: Tensor

    def __init__(self, model: nn.Module, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__(model, in_channels, out_channels)
        o = read_options(QuantizedOptions, self.name, options)
        self.points, self.features = o.points, features_of(o, out_channels)
        self.options = {**vars(o), "features": self.features}
        outputs, seen = self.points * out_channels, self.features + in_channels
        self.point_head = nn.Linear(self.features, outputs)
        self.spread_head = pointwise((seen, self.features, outputs))
        self.weight_features = pointwise((seen, self.features, self.features))
        self.weight_head = pointwise((self.features, self.features, self.points))
        self.register_buffer("usage", torch.full((self.points,), 1 / self.points))
        self.register_buffer("distortion", torch.zeros(()))
        self.register_buffer("start", torch.zeros(()))
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))
        self.progress = 0.0

    def heads(self, x: Tensor, grid: Grid | None = None) -> Heads:
        """Points, logarithm of the spread, and logits of the weights for the input fields x."""
        h = applied(self.model, x, grid)
        if h.shape[-1] != self.features:
            raise ValueError(
                f"the network inside returned {h.shape[-1]} channels, expected features={self.features}: set its "
                "out_channels, or make the model by its name, as build_model('quantized:fno')"
            )
        seen = self.seen(h, x)
        log_spread = self._split(self.spread_head(seen)).clamp(min=_LEAST)
        return Heads(self.points_of(h, x, grid), log_spread, self.logits_of(seen))

    def seen(self, h: Tensor, x: Tensor) -> Tensor:
        """What weights and spread are read from, (batch, *grid, channels): features h, detached, and the input x."""
        return torch.cat([h.detach(), x.movedim(1, -1).to(h.dtype)], -1)

    def points_of(self, h: Tensor, x: Tensor, grid: Grid | None = None) -> Tensor:
        """Points (batch, n, channels, *grid) from features h (batch, *grid, features)."""
        return self.masked(self._split(self.point_head(h)), x, grid)

    def logits_of(self, seen: Tensor) -> Tensor:
        """Logits of the weights (batch, n) from what `seen` returns."""
        return self.weight_head(F.gelu(self.weight_features(seen)).flatten(1, -2).mean(1))

    def cells(
        self, x: Tensor, grid: Grid | None = None, *, samples: int = 32, generator: torch.Generator | None = None
    ) -> Cells:
        heads = self.heads(x, grid)
        spread = self.masked(heads.log_spread.exp(), x, grid)
        return Cells(heads.points, heads.logits.softmax(1), spread)

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        heads = self.heads(x, grid)
        return mean_of(Cells(heads.points, heads.logits.softmax(1)))

    def last_layers(self) -> list[nn.Linear]:
        """The layers whose rows belong to one point each: of the points, the spread and the weights."""
        last: list[Any] = [self.point_head, self.spread_head[-1], self.weight_head[-1]]
        return last

    def _split(self, z: Tensor) -> Tensor:
        """(batch, *grid, n·channels) → (batch, n, channels, *grid)."""
        return z.movedim(-1, 1).unflatten(1, (self.points, self.out_channels))


def features_of(options: QuantizedOptions, out_channels: int) -> int:
    """The number of channels that the heads read."""
    return options.features or max(32, 2 * options.points * out_channels)


def quantized(
    build: Callable[..., nn.Module], trunk: str, *, in_channels: int = 1, out_channels: int = 1, **options: Any
) -> DistributionModel:
    """A `Quantized` model around a model by name: "quantized:fno".

    Parameters
    ----------
    build : callable
        `sciops.build_model`.
    trunk : str
        Name of the network inside.
    in_channels, out_channels : int
        Number of fields in and out.
    **options
        The fields of `QuantizedOptions`, and the options of the network.
    """
    return built(
        Quantized,
        QuantizedOptions,
        build,
        trunk,
        in_channels,
        out_channels,
        options,
        lambda o: (in_channels, features_of(o, out_channels)),
    )
