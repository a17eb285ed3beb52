"""neuraloperator's change of resolution between layers, replaced where the installed one is measured to be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.resampling import resample


def correct_resizing(model: nn.Module, order: int) -> None:
    """Replaces neuraloperator's ``resample``, in place, in the parts of a model on `order` axes that call it.

    That of 2.0.0 is spectral from three axes on and puts a negative frequency into the place of a positive one where a
    size is odd. A correct installed version is left alone.
    """
    if keeps_fields(order):
        return
    for module in model.modules():
        kind: Any = type(module)
        if _users(kind):
            module.__class__ = _resizing(kind)


def fourier_resample(
    x: Tensor, res_scale: float | Sequence[float], axis: Any, output_shape: Sequence[int] | None = None
) -> Tensor:
    """The periodic field x at `res_scale` times the points, or at `output_shape`, over the last axes: exact below the
    Nyquist frequencies of both. Arguments as neuraloperator has them."""
    axes = list(range(2, x.ndim)) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    old = tuple(x.shape[-len(axes) :])
    factors = res_scale if isinstance(res_scale, Sequence) else [res_scale] * len(axes)
    new = [round(n * factor) for n, factor in zip(old, factors)] if output_shape is None else output_shape
    source, target = (Grid(tuple(sizes), centering="periodic") for sizes in (old, new))
    return resample(x, source, target, "fourier")


@cache
def keeps_fields(order: int) -> bool:
    """Whether the installed ``resample`` returns smooth periodic fields at other sizes; measured on small grids.

    On one and two axes it interpolates by lines and cubics between the first and the last point, which is meant.
    """
    if order < 3:
        return True
    from neuralop.layers.resample import resample as theirs

    generator = torch.Generator().manual_seed(0)
    with torch.device("cpu"), torch.autocast("cpu", enabled=False):
        field = torch.randn(1, 1, *(5,) * order, generator=generator)
        for old, new in ((9, 5), (5, 9), (8, 5), (5, 8), (7, 9), (8, 6), (6, 8)):
            u, expected = (fourier_resample(field, 1.0, None, (n,) * order) for n in (old, new))
            found = theirs(u, 1.0, list(range(2, order + 2)), output_shape=(new,) * order)
            if (found - expected).abs().max() > 1e-4 * expected.abs().max():
                return False
    return True


def _users(kind: type) -> list[str]:
    """The methods of a class of neuraloperator that call its ``resample``."""
    methods = ((name, getattr(kind, name, None)) for name in ("forward", "transform"))
    return [
        name
        for name, method in methods
        if isinstance(method, FunctionType)
        and method.__module__.startswith("neuralop.")
        and "resample" in method.__code__.co_names
    ]


@cache
def _resizing(kind: type) -> type:
    """A subclass of `kind` whose methods find `fourier_resample` under the name ``resample``."""
    methods: dict[str, FunctionType] = {}
    for name in _users(kind):
        method = getattr(kind, name)
        names = {**method.__globals__, "resample": fourier_resample}
        methods[name] = FunctionType(method.__code__, names, name, method.__defaults__, method.__closure__)
        methods[name].__kwdefaults__ = method.__kwdefaults__
    return type(kind.__name__, (kind,), {**methods, "__module__": kind.__module__})
