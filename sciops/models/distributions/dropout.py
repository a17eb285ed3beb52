"""Dropout that stays on: each run of the network is a sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.models.apply import apply_model
from sciops.models.distributions.base import Cells, DistributionModel, built
from sciops.options import Probability, read_options


@dataclass(frozen=True, kw_only=True)
class DropoutOptions:
    """Options of `DropoutModel`.

    Parameters
    ----------
    rate : float
        Probability with which a channel is set to zero, over the whole grid; the others are divided by 1 − rate.
    """

    rate: Probability = 0.1


class DropoutModel(DistributionModel):
    """A network whose hidden channels are dropped at random: in training, and in every draw of `cells`.

    Channels are dropped after each block of a model on the spine; of any other network, after each of its
    ``torch.nn.Linear`` layers but the last, and its 1×1 convolutions alike. In evaluation mode ``forward`` drops none.

    Parameters
    ----------
    model : nn.Module
        The network inside.
    in_channels, out_channels : int
        Number of fields in and out.
    **options
        The fields of `DropoutOptions`.

    Raises
    ------
    ValueError
        For a network without such layers.

    References
    ----------
    Gal and Ghahramani, Dropout as a Bayesian Approximation, arXiv:1506.02142.
    """

    name = "dropout"

    def __init__(self, model: nn.Module, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__(model, in_channels, out_channels)
        o = read_options(DropoutOptions, self.name, options)
        self.rate, self.options = o.rate, vars(o)
        self._generator: torch.Generator | None = None
        self._drawing = False
        layers, self._channel = _dropped(model)
        if not layers:
            raise ValueError(f"dropout: {type(model).__name__} has no hidden layer whose channels could be dropped")
        for layer in layers:
            layer.register_forward_hook(self._drop)

    def cells(
        self, x: Tensor, grid: Grid | None = None, *, samples: int = 32, generator: torch.Generator | None = None
    ) -> Cells:
        self._generator, self._drawing = generator, True
        try:
            points = torch.stack([apply_model(self.model, x, grid) for _ in range(samples)], 1)
        finally:
            self._generator, self._drawing = None, False
        return Cells(points, points.new_full(points.shape[:2], 1 / samples))

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        return apply_model(self.model, x, grid)

    def _drop(self, layer: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        if not (self.training or self._drawing) or self.rate == 0:
            return output
        shape = [1] * output.ndim
        shape[0], shape[self._channel] = output.shape[0], output.shape[self._channel]
        if self._generator is None:
            drawn = torch.rand(shape, device=output.device)
        else:
            drawn = torch.rand(shape, generator=self._generator).to(output.device)
        return output * ((drawn >= self.rate) / (1 - self.rate)).to(output.dtype)


def _dropped(model: nn.Module) -> tuple[list[nn.Module], int]:
    """The layers after which channels are dropped, and the axis of their channels."""
    inner = (getattr(m, "blocks", None) for m in model.modules())
    blocks = next((one for one in inner if isinstance(one, nn.ModuleList)), None)
    if blocks is not None and len(blocks):
        return list(blocks), -1
    linear = [m for m in model.modules() if isinstance(m, nn.Linear)]
    if len(linear) > 1:
        return [*linear[:-1]], -1
    convolutions = [
        m for m in model.modules() if isinstance(m, (nn.Conv1d, nn.Conv2d, nn.Conv3d)) and set(m.kernel_size) == {1}
    ]
    return [*convolutions[:-1]], 1


def dropout(
    build: Callable[..., nn.Module], trunk: str, *, in_channels: int = 1, out_channels: int = 1, **options: Any
) -> DistributionModel:
    """A `DropoutModel` around a model by name: "dropout:fno"; see `quantized` for the parameters."""
    return built(
        DropoutModel,
        DropoutOptions,
        build,
        trunk,
        in_channels,
        out_channels,
        options,
        lambda o: (in_channels, out_channels),
    )
