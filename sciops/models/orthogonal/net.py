"""`OrthogonalNet`: a plain stack of length-keeping layers, for `gradients="forward_only"`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sciops.models.apply import of_no_samples
from sciops.models.orthogonal.layers import OrthogonalConvolution, UnitarySpectral
from sciops.models.spine import check_input, description
from sciops.models.summary import model_text
from sciops.options import Count, Probability, read_options

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "identity": nn.Identity,
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "leaky_relu": lambda: nn.LeakyReLU(0.5),
    "gelu": nn.GELU,
}


@dataclass(frozen=True, kw_only=True)
class OrthogonalOptions:
    """Options of `OrthogonalNet`.

    Parameters
    ----------
    in_channels, out_channels : int
        Number of channels of x and of values out.
    kind : str
        "dense", "convolution" or "spectral", see `OrthogonalNet`.
    shape : sequence of int
        Points per axis of x for "dense" and "convolution"; () for plain vectors.
    width, depth : int
        Number of hidden values or channels, for "dense" at most as many as x has, and of hidden layers.
    activation : str
        "tanh", "identity", "relu", "gelu" or "leaky_relu", whose slope is 1/2.
    modes, outside
        Of `UnitarySpectral` layers: modes kept along each axis, and what the other modes go through.
    size, patch : int
        Points per side of a convolution and of a patch.
    bias : bool
        Whether hidden layers have a bias.
    dropout : float
        Probability of zeroing a hidden value in training.
    gain : float
        Factor of the last layer's initial weights, which start with orthonormal rows and are free in training.
    """

    in_channels: Count = 1
    out_channels: Count = 1
    kind: Literal["dense", "convolution", "spectral"] = "dense"
    shape: Sequence[Count] = ()
    width: Count = 64
    depth: Count = 4
    activation: Literal["identity", "tanh", "relu", "leaky_relu", "gelu"] = "tanh"
    modes: Sequence[Count] = (8, 8)
    outside: Literal["identity", "zero"] = "identity"
    size: Count = 3
    patch: Count = 2
    bias: bool = True
    dropout: Probability = 0.0
    gain: float = 1.0


class OrthogonalNet(nn.Module):
    """A plain stack of orthogonal layers, y = W_L h_{L−1} + b_L, h_l = φ(W_l h_{l−1} + b_l) with W_l W_lᵀ = I.

    It has no skip connections and no norms, and all hidden layers have one shape. By `kind`:

    * ``dense``: x (batch, in_channels, *shape), flattened, through `depth` hidden layers of `width` values →
      (batch, out_channels)
    * ``convolution``: images (batch, in_channels, *shape); patches of `patch` points a side become channels, `depth`
      `OrthogonalConvolution`s of `size` points a side keep them, and one linear map of all → (batch, out_channels)
    * ``spectral``: fields (batch, in_channels, *grid) of any grid, lifted at every point to `width` channels, through
      `depth` `UnitarySpectral` layers of `modes` → (batch, out_channels, *grid)

    `stack` is the network as one `nn.Sequential`; `lift` is whether its first layer widens.

    Parameters
    ----------
    in_channels, out_channels : int
        Number of channels of x and of values out.
    **options
        The fields of `OrthogonalOptions`.

    Raises
    ------
    ValueError
        For widths larger than the input and shapes that patches do not divide.
    """

    __repr__ = model_text

    def __init__(self, in_channels: int = 1, out_channels: int = 1, **options: Any) -> None:
        super().__init__()
        given = dict(options, in_channels=in_channels, out_channels=out_channels)
        o = read_options(OrthogonalOptions, "orthogonal", given)
        self.config = description("orthogonal", o)
        kind, shape, width, depth, patch, bias, gain = o.kind, o.shape, o.width, o.depth, o.patch, o.bias, o.gain
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
            last: list[nn.Module] = [_linear(width, out_channels, True, gain)]
        elif kind == "convolution":
            if len(shape) != 2 or shape[0] % patch or shape[1] % patch:
                raise ValueError(f"shape={shape}, patch={patch}: expected two axes that patches divide")
            channels = in_channels * patch**2
            parts = [nn.PixelUnshuffle(patch)] if patch > 1 else []
            hidden = [OrthogonalConvolution(channels, size=o.size, bias=bias) for _ in range(depth)]
            last = [nn.Flatten(), _linear(in_channels * points, out_channels, True, gain)]
        else:
            parts = [nn.Linear(in_channels, width)]
            hidden = [UnitarySpectral(width, o.modes, outside=o.outside, bias=bias) for _ in range(depth)]
            last = [_linear(width, out_channels, True, gain)]
        for layer in hidden:
            parts += [layer, ACTIVATIONS[o.activation](), *([nn.Dropout(o.dropout)] if o.dropout else [])]
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
