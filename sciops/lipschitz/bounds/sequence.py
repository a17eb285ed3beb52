"""Rule for `nn.Sequential`: layer by layer as its forward runs them, with repeats, shapes from a run on zeros."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.lipschitz.as_written import changed, exactly
from sciops.lipschitz.bounds.lookup import look_up, measure
from sciops.lipschitz.bounds.parts import Part, Setting, UnboundedError, chain, no_bound, one, with_ends
from sciops.lipschitz.bounds.torch_layers import channels_of
from sciops.lipschitz.layers.rescaled import RescaledLinear, RescaledResidual
from sciops.mixers import MIXERS
from sciops.models.apply import evaluating, placed_for

_CHANNELS_LAST = (nn.Linear, RescaledLinear, RescaledResidual)


def of_sequence(model: nn.Sequential, setting: Setting) -> Part:
    """The bound of a sequence on (batch, channels, *grid), or on (batch, *grid, channels) for layers that expect it.

    `flat` where the output is not on the grid. Every point has the same weight inside: the change to the quadrature
    norm is a factor at the two ends.
    """
    return with_ends(_plain(model, setting), setting)


def _plain(model: nn.Sequential, setting: Setting) -> Part:
    first, flattened = _first(model)
    channels = None if first is None else channels_of(first)
    if channels is None and setting.shape is not None:
        x = placed_for(model, torch.zeros(setting.shape))
        return _run(model, x, x.shape[1:-1] == setting.grid.shape, setting)[0]
    if channels is None:
        try:
            for _, layer in _layers(model):
                look_up(layer, setting.rules)
        except UnboundedError as error:
            return no_bound("layers", str(error))
        return no_bound("layers", "the number of channels is not known: no layer says how many it takes")
    last = isinstance(first, (*_CHANNELS_LAST, *MIXERS.values())) and not flattened
    sizes = setting.grid.shape
    shapes: list[tuple[int, ...]] = [(1, *sizes, channels) if last else (1, channels, *sizes)]
    if flattened and channels % math.prod(sizes) == 0:
        shapes.insert(0, (1, channels // math.prod(sizes), *sizes))
    if setting.shape is not None:
        shapes.insert(0, setting.shape)
    for number, shape in enumerate(shapes, start=1):
        part, y = _run(model, placed_for(model, torch.zeros(shape)), last, setting)
        if y is not None or number == len(shapes):
            break
    if y is None:
        return part
    grid = tuple(y.shape[1:-1] if last else y.shape[2:])
    return Part(part.value, part.rows, flat=grid != tuple(setting.grid.shape))


def _run(model: nn.Sequential, x: Tensor, last: bool, setting: Setting) -> tuple[Part, Tensor | None]:
    """(part, output for x); no output where a layer does not run on x."""
    parts: list[Part] = []
    reused = setting.reused
    for name, layer in _layers(model):
        label = f"{name} {type(layer).__name__}"
        if reused and getattr(layer, "inplace", False):
            parts.append(no_bound(label, "in place on an input that is used again outside: pass inplace=False"))
        else:
            parts.append(one(label, partial(measure, layer, _at(layer, tuple(x.shape), last, setting))))
        try:
            with torch.no_grad(), evaluating(layer):
                y = layer(x)
            if not isinstance(y, Tensor):
                raise TypeError(f"it returns a {type(y).__name__}")
        except Exception as error:  # whatever the layer, or a hook on it, raises
            reason = f"it does not run on zeros of shape {tuple(x.shape)}: {str(error).partition(chr(10))[0]}"
            return chain([*parts, no_bound(label, reason)]), None
        reused, x = reused and y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr(), y
    return chain(parts), x


def _layers(model: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """(name, layer) in the order in which they are run."""
    modules: Any = model._modules  # not `named_children`, which leaves out repeats
    for name, layer in modules.items():
        if exactly(layer, nn.Sequential) and changed(layer) is None:
            yield from _layers(layer, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", layer


def _at(layer: nn.Module, shape: tuple[int, ...], last: bool, setting: Setting) -> Setting:
    """The setting of a layer with an input of this shape; sequences call their layers without a grid."""
    mixer = exactly(layer, *MIXERS.values())
    sizes = shape[1:-1] if last or mixer else shape[2:]
    if sizes and (mixer or sizes != setting.grid.shape):
        setting = setting.on(Grid(sizes, centering="cell"))
    return setting.plain(shape)


def _first(model: nn.Sequential) -> tuple[nn.Module | None, bool]:
    """The first layer, or part of one, with a known number of channels; whether the field is flattened before it."""
    flattened = False
    for _, layer in _layers(model):
        for part in layer.modules():
            if channels_of(part) is not None:
                return part, flattened
        flattened |= isinstance(layer, nn.Flatten)
    return None, flattened
