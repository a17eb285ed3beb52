"""Builds a model from an untrusted description, if it fits the tensors of a file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sciops.files.budget import OverBudget, Spending

_PER_BYTE = 8  # bytes of all tensors created while building, per byte of the tensors in the file
# Operations per object of the budget, and per tensor of the file: our models take two to eight per tensor.
_PER_OBJECT, _PER_TENSOR = 0.05, 100
# On the meta device these change neither shape nor dtype, but torch imports its compiler to find out: 1.5 s.
_IN_PLACE = {
    getattr(Tensor, f"{name}_")
    for name in ("add", "clamp", "copy", "div", "erfinv", "fill", "mul", "normal", "sub", "uniform", "zero")
}
_WITH_NUMBER = {Tensor.mul, Tensor.div, Tensor.add, Tensor.sub}
_DRAWN = {torch.randn, torch.rand}
_DESCRIBED = "the model in its description"
_MADE_OF_A_SHAPE = (torch.empty, torch.zeros, torch.ones, torch.full, torch.randn, torch.rand)


@dataclass(frozen=True)
class Stored:
    """Shape and dtype of a tensor in a file."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def size(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def build_to_fit(build: Callable[[], nn.Module], stored: Mapping[str, Stored], source: Any) -> nn.Module:
    """The result of ``build()``, if it has the names, shapes and kinds of dtype of the `stored` tensors.

    A first call on the meta device, where tensors take no memory, compares them; it stops as soon as it creates more
    than these tensors can need. A model that cannot be built there is built once, within the same bounds.

    The bounds follow from the budget in force; the file's own size counts eightfold, since building a model takes more
    memory than its weights.

    Raises ValueError naming `source` and the first tensor that differs, OverBudget, and what `build` raises.
    """
    try:
        try:
            with _Bounds(stored, source), torch.device("meta"):
                _check_fit(build(), stored)
        except (OverBudget, Misfit):
            raise
        except Exception:  # caused by the description, and then this call raises it too, or by the meta device
            with _Bounds(stored, source):
                _check_fit(model := build(), stored)
            return model
    except Misfit as error:
        raise ValueError(f"{source} {error}") from None
    return build()


class Misfit(Exception):
    """The described model does not fit the tensors of the file."""


class _Bounds(TorchFunctionMode):
    """Stops a construction that exceeds the budget, or creates far larger or far more tensors than the stored ones."""

    def __init__(self, stored: Mapping[str, Stored], source: Any) -> None:
        super().__init__()
        self.spent = Spending(source, size=_PER_BYTE * sum(one.size for one in stored.values()))
        self.left = _PER_OBJECT * self.spent.budget.objects + _PER_TENSOR * len(stored)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.left -= 1
        if self.left < 0:
            raise Misfit("is another model's: the one in its description has far more tensors")
        size = 0
        if func in _MADE_OF_A_SHAPE and args:
            sizes = args[0] if isinstance(args[0], (tuple, list)) else args
            size = math.prod(n for n in sizes if isinstance(n, int))
            self.spent.take(bytes=size, what=_DESCRIBED)
        made = _without_compiler(func, args, kwargs)
        made = func(*args, **kwargs) if made is None else made
        if isinstance(made, Tensor) and made.layout == torch.strided and not _is_among(made, args):
            self.spent.take(bytes=max(0, made.numel() * made.element_size() - size), what=_DESCRIBED)
        return made


def _is_among(made: Tensor, args: Sequence[Any]) -> bool:
    """Whether the tensor has no memory of its own: it is one of the arguments, or a view."""
    return made._is_view() or any(made is one for one in args)


def _without_compiler(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor | None:
    """The result of a call on the meta device that torch computes slowly; None for all other calls."""
    if func in _DRAWN and torch.device(kwargs.get("device") or "cpu").type == "meta":
        return torch.empty(*args, **{name: value for name, value in kwargs.items() if name != "generator"})
    if not args or not isinstance(args[0], Tensor) or not args[0].is_meta:
        return None
    if func in _IN_PLACE:
        return args[0]
    if func in _WITH_NUMBER and args[0].is_floating_point() and len(args) == 2 and type(args[1]) in (int, float):
        return torch.empty_like(args[0])
    return None


def _check_fit(model: nn.Module, stored: Mapping[str, Stored]) -> None:
    wanted = {name: one for name, one in model.state_dict().items() if isinstance(one, Tensor)}
    for problem, names in (
        ("lacks", wanted.keys() - stored.keys()),
        ("has an unknown", stored.keys() - wanted.keys()),
    ):
        if names:
            raise Misfit(f"{problem} {sorted(names)[0]!r} ({len(names)} such); it is another model's")
    for name, one in wanted.items():
        found = stored[name]
        if one.shape != found.shape:
            raise Misfit(
                f"is another model's: {name} has shape {found.shape}; the one in its description needs "
                f"{tuple(one.shape)}"
            )
        if _kind(one.dtype) != _kind(found.dtype):
            raise Misfit(f"is another model's: {name} has dtype {found.dtype}, not one such as {one.dtype}")


def _kind(dtype: torch.dtype) -> tuple[bool, bool, bool]:
    return dtype.is_complex, dtype.is_floating_point, dtype == torch.bool
