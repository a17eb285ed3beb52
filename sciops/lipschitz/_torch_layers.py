"""Bounds of sequences of torch's own layers, in Euclidean norms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.lipschitz._mixing import of_mixer
from sciops.lipschitz._neuralop_bounds import of_batch_norm
from sciops.lipschitz._parts import Part, Setting, UnboundedError, chain, one
from sciops.lipschitz._pointwise import activation_constant, of_norm
from sciops.lipschitz.convolution import convolution_norm
from sciops.lipschitz.norms import spectral_norm
from sciops.lipschitz.rescaling import RescaledConv, RescaledLinear, RescaledResidual
from sciops.mixers import MIXERS
from sciops.models.norms import InstanceNorm, RMSNorm

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_AVERAGES = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
_GLOBAL_AVERAGES = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)
_MAXIMA = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
_NORMS = (nn.LayerNorm, nn.GroupNorm, RMSNorm, InstanceNorm)

Rule = Callable[[Any, tuple[int, ...], Setting], tuple[Tensor | float, str]]


def of_sequence(model: nn.Sequential, setting: Setting) -> Part:
    """Layer by layer; shapes are taken from a run on zeros. `flat` when the grid does not survive."""
    channels = next((c for m in model.modules() if (c := _inputs(m)) is not None), None)
    if channels is None:
        return one("layers", lambda: _refuse("the number of channels is not known: no layer says how many it takes"))
    place = next((p for p in model.parameters()), torch.zeros(()))
    first = (nn.Linear, RescaledLinear, RescaledResidual, *MIXERS.values())
    last = isinstance(_first(model), first)
    shape = (1, *setting.grid.shape, channels) if last else (1, channels, *setting.grid.shape)
    if isinstance(_first(model), nn.Flatten):
        count = math.prod(setting.grid.shape)
        shape = (1, max(channels // count, 1), *setting.grid.shape)
    x = torch.zeros(shape, dtype=place.dtype, device=place.device)
    training = [m for m in model.modules() if m.training]
    model.eval()
    try:
        part, y = _walk(model, "", x, setting, {id(m) for m in training})
    finally:
        for module in training:
            module.training = True
    grid = tuple(y.shape[1:-1] if last else y.shape[2:])
    return Part(part.value, part.rows, flat=grid != tuple(setting.grid.shape))


def _walk(model: nn.Sequential, prefix: str, x: Tensor, setting: Setting, training: set[int]) -> tuple[Part, Tensor]:
    parts = []
    for name, layer in model.named_children():
        label = f"{prefix}{name} {type(layer).__name__}"
        if isinstance(layer, nn.Sequential):
            part, x = _walk(layer, f"{prefix}{name}.", x, setting, training)
            parts.append(part)
            continue
        shape = tuple(x.shape)
        parts.append(one(label, lambda: _of_layer(layer, shape, setting, id(layer) in training)))  # noqa: B023
        with torch.no_grad():
            x = layer(x)
    return chain(parts), x


def _of_layer(layer: nn.Module, shape: tuple[int, ...], setting: Setting, training: bool) -> tuple[Tensor | float, str]:
    grid = shape[2:]
    constant = activation_constant(layer)
    if constant is not None:
        return constant, "largest slope"
    if isinstance(layer, (nn.Linear, RescaledLinear)):
        return setting.sigma(layer.weight), "largest singular value"
    if isinstance(layer, RescaledResidual):
        return 1.0, "x − 2Wᵀ D⁻¹ σ(Wx + b) with W Wᵀ ≤ D"
    if isinstance(layer, RescaledConv):
        mode = layer.padding
        bracket = convolution_norm(setting.cast(layer.weight), grid=grid, padding_mode=mode, lower_iterations=0)
        return bracket.upper, f"convolution, {mode} padding"
    if isinstance(layer, _CONVOLUTIONS):
        value = spectral_norm(layer, grid=grid, method="svdvals", lower_iterations=0).upper
        return value, f"convolution, {layer.padding_mode} padding"
    if isinstance(layer, nn.modules.batchnorm._BatchNorm):
        if training:
            _refuse("batch norm in training mixes the samples: call model.eval()")
        return of_batch_norm(layer, setting), "max |w|/√(var + ε)"
    if isinstance(layer, _NORMS):
        return of_norm(layer, setting)[0], "largest slope, vacuous"
    if isinstance(layer, _DROPOUTS):
        return (1 / (1 - layer.p) if training and layer.p < 1 else 1.0), "at most 1/(1 − p) in training"
    if isinstance(layer, (nn.Flatten, nn.Unflatten)):
        return 1.0, "the same numbers"
    if isinstance(layer, (*_AVERAGES, *_GLOBAL_AVERAGES, *_MAXIMA)):
        return _of_pooling(layer, grid)
    if isinstance(layer, tuple(MIXERS.values())):
        here = setting.on(Grid(shape[1:-1], centering="cell"))
        return of_mixer(layer, here)
    return _refuse(f"no rule for {type(layer).__name__}")


def _of_pooling(layer: Any, grid: tuple[int, ...]) -> tuple[float, str]:
    axes = len(grid)
    if isinstance(layer, _GLOBAL_AVERAGES):
        if set(_each(layer.output_size, axes)) != {1}:
            _refuse(f"{type(layer).__name__} to {layer.output_size}: only a mean over everything has a rule")
        return 1 / math.sqrt(math.prod(grid)) * (1 + 1e-15), "mean over the grid"
    size, stride = _each(layer.kernel_size, axes), _each(layer.stride, axes)
    overlap = math.sqrt(math.prod(-(-k // s) for k, s in zip(size, stride))) * (1 + 1e-15)
    if isinstance(layer, _MAXIMA):
        spread = _each(layer.dilation, axes)
        overlap = math.sqrt(math.prod(k if d > 1 else -(-k // s) for k, s, d in zip(size, stride, spread)))
        return overlap * (1 + 1e-15), "a point is in at most so many windows"
    if any(_each(layer.padding, axes)) and not layer.count_include_pad or layer.ceil_mode:
        _refuse("average pooling that counts other than its kernel: no rule")
    return overlap / math.sqrt(math.prod(size)) * (1 + 1e-15), "means; a point is in at most so many windows"


def _each(value: Any, axes: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * axes


def _inputs(module: nn.Module) -> int | None:
    for name in ("in_channels", "in_features", "channels"):
        count = getattr(module, name, None)
        if isinstance(count, int):
            return count
    raw = getattr(module, "raw", None)
    return raw.shape[1] if isinstance(raw, Tensor) else None


def _first(model: nn.Module) -> nn.Module:
    """The first layer that is not a wrapper or an activation."""
    for module in model.modules():
        if not isinstance(module, nn.Sequential) and (isinstance(module, nn.Flatten) or _inputs(module) is not None):
            return module
    return model


def _refuse(reason: str):
    raise UnboundedError(reason)
