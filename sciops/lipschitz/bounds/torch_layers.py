"""Rules for torch's own layers, in Euclidean norms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from sciops.lipschitz.bounds.parts import Setting, refuse
from sciops.lipschitz.bounds.pointwise import of_norm_alone
from sciops.lipschitz.norms.layers import convolution_options
from sciops.lipschitz.norms.padding import pad_map_norm
from sciops.models.spine.norms import InstanceNorm, RMSNorm

Answer = tuple[Tensor | float, str]

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_NORMS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
_REARRANGE = (nn.Flatten, nn.Unflatten, nn.PixelShuffle, nn.PixelUnshuffle, nn.ChannelShuffle)
_NEVER_LARGER = (nn.ZeroPad1d, nn.ZeroPad2d, nn.ZeroPad3d, nn.ConstantPad1d, nn.ConstantPad2d, nn.ConstantPad3d)


def _convolution(axes: int, layer: Any, setting: Setting) -> Answer:
    grid = setting.points(axes)
    try:
        norm = setting.convolution(layer.weight, grid=grid, method="svdvals", **convolution_options(layer))
    except ValueError as error:  # unsupported options, or a grid that leaves no output
        refuse(str(error))
    return norm, f"convolution, {layer.padding_mode} padding"


def _batch_norm(layer: Any, setting: Setting) -> Answer:
    """max |w|/√(var + ε) with the statistics of the training."""
    if layer.training or layer.running_var is None:
        refuse("batch norm in training mixes the samples: call model.eval()")
    slope = (setting.cast(layer.running_var) + layer.eps).rsqrt()
    slope = slope if layer.weight is None else setting.cast(layer.weight).abs() * slope
    return slope.max() * (1 + 1e-12), "max |w|/√(var + ε)"


def _dropout(layer: Any, setting: Setting) -> Answer:
    if layer.training and layer.p > 0:
        refuse("dropout in training draws a mask at every call: call model.eval()")
    return 1.0, "nothing is dropped"


def _window(layer: Any, axes: int) -> tuple[tuple[int, ...], tuple[int, ...], float]:
    """(kernel, stride, windows that hold one point)."""
    size = _each(layer.kernel_size, axes)
    stride = _each(layer.kernel_size if layer.stride in (None, ()) else layer.stride, axes)
    spread = _each(getattr(layer, "dilation", 1), axes)
    held = math.prod(min(k, -(-(d * (k - 1) + 1) // s)) for k, s, d in zip(size, stride, spread))
    return size, stride, float(held)


def _largest_of(axes: int, layer: Any, setting: Setting) -> Answer:
    sizes = setting.points(axes)
    if layer.return_indices:
        refuse("max pooling that returns indices: no rule")
    windows = _window(layer, axes)[2]
    try:
        pooled = layer(torch.zeros(1, 1, *sizes))
    except RuntimeError as error:
        refuse(f"max pooling has no output on a grid of shape {sizes}: {str(error).splitlines()[0]}")
    if not pooled.isfinite().all():
        refuse(f"max pooling of windows that lie in the padding alone, at {sizes}, gives −∞")
    return math.sqrt(windows) * (1 + 1e-15), "√(most windows that contain a point)"


def _average(axes: int, layer: Any, setting: Setting) -> Answer:
    """√(row sum · column sum) of k/D and held/D, D the divisor."""
    setting.points(axes)
    size, _, held = _window(layer, axes)
    if any(_each(layer.padding, axes)) and not layer.count_include_pad or layer.ceil_mode:
        refuse("average pooling that counts other than its kernel: no rule")
    divisor = getattr(layer, "divisor_override", None) or math.prod(size)
    value = math.sqrt(math.prod(size) * held) / abs(divisor)
    return value * (1 + 1e-15), "means over windows"


def _global_average(axes: int, layer: Any, setting: Setting) -> Answer:
    if set(_each(layer.output_size, axes)) != {1}:
        refuse(f"{type(layer).__name__} to {layer.output_size}: only a mean over everything has a rule")
    return 1 / math.sqrt(math.prod(setting.points(axes))) * (1 + 1e-15), "mean over the grid"


def _pad(mode: str, axes: int, layer: Any, setting: Setting) -> Answer:
    amounts = _each(layer.padding, 2 * axes)
    pads = tuple((amounts[i], amounts[i + 1]) for i in range(2 * axes - 2, -1, -2))
    if min(amounts) < 0:
        refuse(f"{type(layer).__name__} that crops: no rule")
    return pad_map_norm(setting.points(axes), pads, mode), "√(most copies of a point)"


def _each(value: Any, count: int) -> tuple[int, ...]:
    """One number for each, as torch takes a number, or a tuple of one, for all; UnboundedError for another count."""
    values = tuple(value) if isinstance(value, Sequence) else (value,)
    if len(values) not in (1, count):
        refuse(f"an option {value!r} of another length than {count}: no rule")
    return values * (count // len(values))


def _by_axes(rule: Callable[[int, Any, Setting], Answer], *kinds: type) -> dict[type, Any]:
    """The rule of layers that come for 1, 2 and 3 axes."""
    return {kind: partial(rule, axes) for axes, kind in enumerate(kinds, start=1)}


RULES: dict[type[nn.Module], Callable[[Any, Setting], Any]] = {
    nn.Linear: lambda layer, setting: (setting.sigma(layer.weight), "largest singular value"),
    **_by_axes(_convolution, nn.Conv1d, nn.Conv2d, nn.Conv3d),
    **_by_axes(_convolution, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
    **_by_axes(_largest_of, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d),
    **_by_axes(_average, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
    **_by_axes(_global_average, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d),
    **_by_axes(partial(_pad, "reflect"), nn.ReflectionPad1d, nn.ReflectionPad2d, nn.ReflectionPad3d),
    **_by_axes(partial(_pad, "replicate"), nn.ReplicationPad1d, nn.ReplicationPad2d, nn.ReplicationPad3d),
    **_by_axes(partial(_pad, "circular"), nn.CircularPad1d, nn.CircularPad2d, nn.CircularPad3d),
    **dict.fromkeys(_BATCH_NORMS, _batch_norm),
    **dict.fromkeys((*_NORMS, RMSNorm, InstanceNorm), of_norm_alone),
    **dict.fromkeys(_DROPOUTS, _dropout),
    # ‖diag(p) − ppᵀ‖₂ ≤ ½ for probabilities p
    **dict.fromkeys((nn.Softmax, nn.Softmin, nn.Softmax2d), lambda layer, setting: (0.5, "largest slope")),
    **dict.fromkeys(_REARRANGE, lambda layer, setting: (1.0, "the same numbers")),
    **dict.fromkeys(_NEVER_LARGER, lambda layer, setting: (1.0, "constants around, or fewer points")),
}
"""Layers of torch that are called without a grid, by class."""


def channels_of(module: nn.Module) -> int | None:
    """Channels that a layer takes, None where it does not say."""
    for name in ("in_channels", "in_features", "channels", "num_features"):
        count = getattr(module, name, None)
        if isinstance(count, int):
            return count
    raw = getattr(module, "raw", None)
    return raw.shape[1] if isinstance(raw, Tensor) else None
