"""Checks of arguments that certificates and attacks share."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sciops.values import check_whole


def check_level(**levels: float) -> None:
    """Raises ValueError for a probability outside (0, 1)."""
    for name, level in levels.items():
        if not 0 < level < 1:
            raise ValueError(f"{name}={level}: expected a probability between 0 and 1, such as 0.005")


def check_positive(**values: float) -> None:
    """Raises ValueError, naming the argument, for a value that is not positive and finite."""
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name}={value}: expected a positive finite number")


def check_size(**sizes: float) -> None:
    """Raises ValueError, naming the argument, for a value that is negative or not finite."""
    for name, size in sizes.items():
        if not 0 <= size < math.inf:
            raise ValueError(f"{name}={size}: expected a finite size of at least 0")


def check_choice(choices: Sequence[Any], **arguments: Any) -> None:
    """Raises ValueError, naming the argument, for a value that is not among the choices."""
    for name, value in arguments.items():
        if value not in choices:
            *others, last = map(repr, choices)
            raise ValueError(f"{name}={value!r}: expected {', '.join(others)} or {last}")


def check_certified(
    x: Tensor, sigma: float, samples: int, alpha: float, batch_size: int | None, name: str = "x"
) -> None:
    """Raises ValueError for inputs, noise, sample size or level with which a classifier cannot be certified."""
    _check_batch(x, name, "a floating tensor (inputs, ...) with at least one input")
    check_positive(sigma=sigma)
    check_level(alpha=alpha)
    check_whole(2, samples=samples)
    if batch_size is not None:
        check_whole(batch_size=batch_size)


def check_evaluation_mode(function: Callable, name: str) -> None:
    """Raises ValueError where a module that the function calls, or a part of it, is in training mode.

    There dropout is random and batch norm depends on the other rows of the batch, so that outputs are not a function
    of the input. Bound methods and `functools.partial` are followed; modules that a function calls by name are not.
    """
    for module in _modules(function):
        for path, part in module.named_modules():
            if part.training:
                where = f"{name} is" if not path else f"{path!r} of {name} ({type(part).__name__}) is"
                raise ValueError(
                    f"{where} in training mode, where outputs are not a function of the input: call .eval()"
                )


def check_images(x: Tensor, y: Tensor, epsilon: float, norm: str, bounds: tuple[float, float]) -> None:
    """Raises ValueError for images, labels, a size or bounds with which an attack would find too little."""
    check_choice(("l2", "linf"), norm=norm)
    check_size(epsilon=epsilon)
    low, high = bounds
    if not low < high:
        raise ValueError(f"bounds={bounds}: expected (lower, upper) with lower < upper")
    _check_batch(x, "x", "floating images (batch, channels, height, width)")
    for value, wrong, word in (
        (low, float(x.min()) < low, "below lower"),
        (high, float(x.max()) > high, "above upper"),
    ):
        if wrong:
            raise ValueError(f"x has values {word}={value:g}: pass bounds that hold the unperturbed images")
    if not (isinstance(y, Tensor) and y.shape == x.shape[:1] and y.dtype in _LABELS):
        raise ValueError(f"y is {_described(y)}: expected integer labels ({len(x)},)")


def _check_batch(x: Any, name: str, expected: str) -> None:
    if not (isinstance(x, Tensor) and x.is_floating_point() and x.ndim >= 2 and x.numel()):
        raise ValueError(f"{name} is {_described(x)}: expected {expected}")
    if not bool(x.isfinite().all()):
        raise ValueError(f"{name} holds nan or inf: expected finite values")


def _described(value: Any) -> str:
    return f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


def check_labels(logits: Tensor, y: Tensor) -> None:
    """Raises ValueError unless logits are (rows, classes) and labels are below the number of classes."""
    if logits.ndim != 2 or logits.shape[1] < 2:
        raise ValueError(
            f"the classifier returned shape {tuple(logits.shape)}: expected (batch, classes) with at least two classes"
        )
    if int(y.min()) < 0 or int(y.max()) >= logits.shape[1]:
        raise ValueError(f"y from {int(y.min())} to {int(y.max())}: expected labels from 0 to {logits.shape[1] - 1}")


_LABELS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def _modules(function: Any) -> Iterator[nn.Module]:
    if isinstance(function, nn.Module):
        yield function
    elif isinstance(function, functools.partial):
        for part in (function.func, *function.args, *function.keywords.values()):
            yield from _modules(part)
    elif isinstance(getattr(function, "__self__", None), nn.Module):
        yield function.__self__
