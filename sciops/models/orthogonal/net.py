"""`OrthogonalNet`: a plain stack of length-keeping layers, for `gradients="forward_only"`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sciops.models.apply import of_no_samples
from sciops.models.orthogonal.layers import OrthogonalConvolution, UnitarySpectral
from sciops.models.spine.inputs import check_input
from sciops.models.spine.operator import description

ACTIVATIONS = {
    "identity": nn.Identity,
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "leaky_relu": lambda: nn.LeakyReLU(0.5),
    "gelu": nn.GELU,
}


class OrthogonalNet(nn.Module):
    """y = W_L h_{L−1} + b_L,  h_l = φ(W_l h_{l−1} + b_l) with W_l W_lᵀ = I: no skips, no norms, one shape throughout.

    kind, and what x becomes:

    * ``dense``: x (batch, in_channels, *shape), flattened, through `depth` hidden layers of `width` numbers →
      (batch, out_channels)
    * ``convolution``: images (batch, in_channels, *shape); patches of `patch` points a side become channels, `depth`
      `OrthogonalConvolution`s of `size` points a side keep them, and one linear map of all → (batch, out_channels)
    * ``spectral``: fields (batch, in_channels, *grid) of any grid, lifted at every point to `width` channels, through
      `depth` `UnitarySpectral` layers of `modes` → (batch, out_channels, *grid)

    shape : points per axis of x ("dense", "convolution"); () for plain vectors
    width : hidden numbers or channels, at most as many as x has for "dense"
    activation : "tanh", "identity", "relu", "gelu" or "leaky_relu", whose slope is 1/2
    outside : of the spectral layers: what modes that are not kept go through
    dropout : share of hidden numbers that is left out in training
    gain : times the last layer's initial weights, which start with orthonormal rows; they stay free in training

    `stack` is the network as one `nn.Sequential`; `lift`, whether its first layer is one that widens.

    Raises ValueError for widths that would have to widen and shapes that patches do not divide.
    """

    def __init__(
        self,
        in_channels: int = 1,
        out_channels: int = 1,
        *,
        kind: Literal["dense", "convolution", "spectral"] = "dense",
        shape: Sequence[int] = (),
        width: int = 64,
        depth: int = 4,
        activation: str = "tanh",
        modes: Sequence[int] = (8, 8),
        outside: Literal["identity", "zero"] = "identity",
        size: int = 3,
        patch: int = 2,
        bias: bool = True,
        dropout: float = 0.0,
        gain: float = 1.0,
    ) -> None:
        super().__init__()
        if not isinstance(modes, Sequence):
            raise ValueError(f"modes={modes!r}: expected one number for each grid axis, such as ({modes!r}, {modes!r})")
        shape, modes = tuple(shape), tuple(modes)
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation={activation!r}: expected one of {', '.join(ACTIVATIONS)}")
        if depth < 1 or width < 1:
            raise ValueError(f"depth={depth}, width={width}: expected at least 1")
        self.config = description(
            "orthogonal",
            in_channels=in_channels,
            out_channels=out_channels,
            kind=kind,
            shape=shape,
            width=width,
            depth=depth,
            activation=activation,
            modes=modes,
            outside=outside,
            size=size,
            patch=patch,
            bias=bias,
            dropout=dropout,
            gain=gain,
        )
        self.kind, self.lift = kind, kind == "spectral"
        points = math.prod(shape)
        parts: list[nn.Module] = []
        hidden: list[nn.Module] = []
        if kind == "dense":
            features = in_channels * points
            if width > features:
                raise ValueError(f"width={width} > {features} inputs: a layer that widens cannot have orthonormal rows")
            parts = [nn.Flatten()]
            hidden = [_linear(features if i == 0 else width, width, bias) for i in range(depth)]
            last = [_linear(width, out_channels, True, gain)]
        elif kind == "convolution":
            if len(shape) != 2 or shape[0] % patch or shape[1] % patch:
                raise ValueError(f"shape={shape}, patch={patch}: expected two axes that patches divide")
            channels = in_channels * patch**2
            parts = [nn.PixelUnshuffle(patch)] if patch > 1 else []
            hidden = [OrthogonalConvolution(channels, size=size, bias=bias) for _ in range(depth)]
            last = [nn.Flatten(), _linear(in_channels * points, out_channels, True, gain)]
        elif kind == "spectral":
            parts = [nn.Linear(in_channels, width)]
            hidden = [UnitarySpectral(width, modes, outside=outside, bias=bias) for _ in range(depth)]
            last = [_linear(width, out_channels, True, gain)]
        else:
            raise ValueError(f"kind={kind!r}: expected 'dense', 'convolution' or 'spectral'")
        for layer in hidden:
            parts += [layer, ACTIVATIONS[activation](), *([nn.Dropout(dropout)] if dropout else [])]
        self.stack = nn.Sequential(*parts, *last)

    def forward(self, x: Tensor, grid: Any = None) -> Tensor:
        check_input(self, x)
        if self.kind == "spectral":
            return self.stack(x.movedim(1, -1)).movedim(-1, 1)
        return self.stack(x) if x.shape[0] else of_no_samples(self.stack, x)


def _linear(channels: int, out_channels: int, bias: bool, gain: float = 1.0) -> nn.Linear:
    layer = nn.Linear(channels, out_channels, bias=bias)
    nn.init.orthogonal_(layer.weight, gain)
    if bias:
        with torch.no_grad():
            layer.bias.zero_()
    return layer
