"""Random compositions of torch's layers, small enough for dense Jacobians."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.models.apply import evaluating

MOST = 48  # numbers of a field: the sides of a Jacobian

Shape = tuple[int, ...]
Maker = Callable[[random.Random, Shape], nn.Module]  # from the shape of its input, (1, channels, *sizes)


def grid_of(draw: random.Random, axes: int | None = None) -> Grid:
    axes = axes or draw.choice((1, 1, 1, 2, 2, 3))
    most = {1: 9, 2: 4, 3: 2}[axes]
    sizes = tuple(draw.randint(max(2, most - 3), most) for _ in range(axes))
    return Grid(sizes, centering=draw.choice(("cell", "cell", "periodic", "node")))


def _weighted(layer: nn.Module, draw: random.Random) -> nn.Module:
    """With weights of other sizes than those of a new layer, negative ones and zeros among them."""
    factor = draw.choice((1.0, 1.0, 0.1, 5.0))
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(factor * torch.randn(p.shape) / max(1, p[0].numel()) ** 0.5 if p.ndim > 1 else torch.randn(p.shape))
    return layer


def linear(draw: random.Random, shape: Shape) -> nn.Module:
    return _weighted(nn.Linear(shape[-1], draw.randint(1, 5), bias=draw.random() < 0.7), draw)


def convolution(draw: random.Random, shape: Shape) -> nn.Module:
    axes, channels = len(shape) - 2, shape[1]
    kinds = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
    transposed = draw.random() < 0.15
    if transposed:
        kinds = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    each = lambda *values: _each(draw, axes, *values)  # noqa: E731
    groups = draw.choice([g for g in (1, 1, 2, 3) if channels % g == 0])
    out = groups * draw.randint(1, max(1, 4 // groups))
    options = dict(groups=groups, bias=draw.random() < 0.5, dilation=each(1, 1, 1, 2))
    if transposed:
        stride = draw.choice((1, 2))
        options |= dict(stride=stride, padding=draw.choice((0, 1)), output_padding=draw.choice((0, stride - 1)))
    else:
        mode = draw.choice(("zeros", "circular", "reflect", "replicate"))
        padding = draw.choice(("same", "valid", each(0, 1, 2, 3)))
        options |= dict(padding=padding, padding_mode=mode, stride=1 if padding == "same" else each(1, 1, 2, 3))
    return _weighted(kinds[axes - 1](channels, out, each(1, 2, 3, 3, 5), **options), draw)


def _each(draw: random.Random, axes: int, *values: Any) -> Any:
    """One of the values for all axes, for all in a tuple of one number, or one for each axis."""
    one = draw.choice(values)
    return draw.choice((one, one, (one,), tuple(draw.choice(values) for _ in range(axes))))


def activation(draw: random.Random, shape: Shape) -> nn.Module:
    slope = draw.uniform(-4, 4)
    makers = (
        lambda: nn.ReLU(inplace=draw.random() < 0.3),
        lambda: nn.LeakyReLU(slope, inplace=draw.random() < 0.3),
        lambda: nn.PReLU(draw.choice((1, shape[1])), slope),
        lambda: nn.RReLU(0.2, abs(slope) + 0.2).eval(),
        lambda: nn.ELU(slope),
        lambda: nn.CELU(draw.choice((slope, abs(slope) + 0.1))),
        lambda: nn.Softplus(draw.choice((slope, 1.0)), draw.choice((20.0, 20.0, 30.0, 1.0))),
        lambda: nn.Threshold(draw.choice((slope, 0.5)), 0.5),
        lambda: nn.Hardtanh(-abs(slope) - 0.1, abs(slope), inplace=draw.random() < 0.3),
        lambda: nn.Softshrink(abs(slope)),
        lambda: nn.GELU(draw.choice(("none", "tanh"))),
        lambda: nn.Softmax(draw.choice((1, -1))),
        lambda: nn.Softmin(-1),
        *(lambda kind=kind: kind() for kind in _PLAIN),
    )
    return draw.choice(makers)().eval()


_PLAIN = (nn.Identity, nn.ReLU6, nn.Tanh, nn.Tanhshrink, nn.Softsign, nn.LogSigmoid, nn.Sigmoid, nn.Hardsigmoid)
_PLAIN += (nn.SiLU, nn.Mish, nn.Hardswish, nn.SELU, nn.Hardshrink, nn.Dropout, nn.AlphaDropout)


def norm(draw: random.Random, shape: Shape) -> nn.Module:
    axes, channels = len(shape) - 2, shape[1]
    batch = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[axes - 1]
    instance = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)[axes - 1]
    eps = draw.choice((1e-5, 1e-3, 0.3))
    makers = (
        lambda: batch(channels, eps, affine=draw.random() < 0.7).eval(),
        lambda: batch(channels, eps, affine=False).eval(),
        lambda: instance(channels, eps, affine=draw.random() < 0.5, track_running_stats=draw.random() < 0.2),
        lambda: nn.GroupNorm(draw.choice((1, channels)), channels, eps),
        lambda: nn.LayerNorm(shape[draw.choice((-1, 1)) :], eps, bias=draw.random() < 0.5),
        lambda: nn.RMSNorm(shape[draw.choice((-1, 1)) :], draw.choice((None, eps))),
    )
    layer = _weighted(draw.choice(makers)(), draw)
    if getattr(layer, "running_var", None) is not None:
        layer.running_var.uniform_(0.05, 3.0)
        layer.running_mean.normal_()
    return layer


def pooling(draw: random.Random, shape: Shape) -> nn.Module:
    axes = len(shape) - 2 if draw.random() < 0.95 else 2
    size, stride = _each(draw, axes, 1, 2, 3), draw.choice((None, _each(draw, axes, 1, 2, 3)))
    padding = _each(draw, axes, 0, 0, 1)
    largest = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)[axes - 1]
    mean = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)[axes - 1]
    whole = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)[axes - 1]
    other = (nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d)[axes - 1]
    makers = (
        lambda: largest(size, stride, padding, dilation=_each(draw, axes, 1, 2), ceil_mode=draw.random() < 0.3),
        lambda: mean(size, stride, padding, count_include_pad=draw.random() < 0.8, ceil_mode=draw.random() < 0.1),
        lambda: mean(size, stride, **(dict(divisor_override=draw.choice((1, 2, -3))) if axes > 1 else {})),
        lambda: whole(draw.choice((1, 1, 2))),
        lambda: other(1),
    )
    return draw.choice(makers)()


def padding(draw: random.Random, shape: Shape) -> nn.Module:
    axes = len(shape) - 2
    amounts = tuple(draw.randint(0, 2) for _ in range(2 * axes))
    kinds = (
        (nn.ReflectionPad1d, nn.ReflectionPad2d, nn.ReflectionPad3d),
        (nn.ReplicationPad1d, nn.ReplicationPad2d, nn.ReplicationPad3d),
        (nn.CircularPad1d, nn.CircularPad2d, nn.CircularPad3d),
        (nn.ZeroPad1d, nn.ZeroPad2d, nn.ZeroPad3d),
    )
    if draw.random() < 0.1:
        return (nn.ConstantPad1d, nn.ConstantPad2d, nn.ConstantPad3d)[axes - 1](draw.choice((-1, 1)), 3.0)
    return draw.choice(kinds)[axes - 1](amounts)


def rearrangement(draw: random.Random, shape: Shape) -> nn.Module:
    channels = shape[1]
    makers = (
        lambda: nn.Flatten(draw.choice((1, 2))),
        lambda: nn.Unflatten(1, (1, channels)),
        lambda: nn.ChannelShuffle(channels),
        lambda: nn.PixelShuffle(2),
        lambda: nn.PixelUnshuffle(2),
        lambda: nn.Upsample(scale_factor=2),
        lambda: nn.Upsample(size=shape[2:], mode="nearest"),
        lambda: nn.GLU(1),
        lambda: nn.LPPool1d(2, 2),
    )
    return draw.choice(makers)()


FAMILIES: dict[str, Maker] = {
    "linear": linear,
    "convolution": convolution,
    "activation": activation,
    "norm": norm,
    "pooling": pooling,
    "padding": padding,
    "rearrangement": rearrangement,
}


def layers(draw: random.Random, shape: Shape, names: Sequence[str], count: int) -> tuple[list[nn.Module], Shape]:
    """At most `count` layers of the named families that run one after another, and the shape of what they return."""
    found: list[nn.Module] = []
    x = torch.zeros(shape)
    for _ in range(4 * count):
        if len(found) == count:
            break
        if x.ndim < 3:  # flat
            names = ("linear", "activation")
        try:
            layer = FAMILIES[draw.choice(names)](draw, tuple(x.shape))
            y = output(layer, x)
        except (RuntimeError, ValueError, NotImplementedError, IndexError):
            continue  # it does not run on this shape
        if isinstance(y, Tensor) and 0 < y.numel() <= MOST and y.ndim > 1:
            found.append(layer)
            x = y
    return found, tuple(x.shape)


def output(layer: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad(), evaluating(layer):
        return layer(x.clone())


def first_layer(draw: random.Random, grid: Grid, kind: str) -> tuple[nn.Module, Shape]:
    """A layer that says how many channels it takes, and the shape of its input: channels last before a linear one."""
    channels = draw.randint(1, max(1, min(4, MOST // grid.size)))
    shape = (1, *grid.shape, channels) if kind == "linear" else (1, channels, *grid.shape)
    while True:
        try:
            layer = FAMILIES[kind](draw, shape)
            if 0 < output(layer, torch.zeros(shape)).numel() <= MOST:
                return layer, shape
        except (RuntimeError, ValueError):
            continue


def sequence(
    draw: random.Random, grid: Grid, *, first: str = "convolution", then: Sequence[str], most: int = 4
) -> tuple[list[nn.Module], Shape]:
    """Layers that run one after another, and the shape of one input."""
    head, shape = first_layer(draw, grid, first)
    rest, _ = layers(draw, tuple(output(head, torch.zeros(shape)).shape), then, draw.randint(0, most))
    return [head, *rest], shape
