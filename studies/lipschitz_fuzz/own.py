"""Random compositions with classes of a user's own: with code of their own, with a declared rule, with a wrong rule."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from sciops.lipschitz import RULES, Setting, register
from studies.lipschitz_fuzz.changes import Build, Narrow, composed, in_double
from studies.lipschitz_fuzz.layers import activation, first_layer, grid_of, output
from studies.lipschitz_fuzz.truth import Case


class Residual(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)


class Standardised(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, 10 * self.weight / self.weight.norm(), self.bias)


class Called(nn.Linear):
    def __call__(self, x: Tensor) -> Tensor:
        return 10 * super().__call__(x)


class Convolved(nn.Conv1d):
    def _conv_forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return super()._conv_forward(x, 10 * weight, bias)


class Doubled(nn.Linear):
    @property
    def weight(self) -> Tensor:
        return 10 * self._parameters["weight"]

    @weight.setter
    def weight(self, value: Tensor) -> None:
        self._parameters["weight"] = value


class Switched(nn.ReLU):
    def __getattribute__(self, name: str) -> Any:
        return (lambda x: 10 * x) if name == "forward" else super().__getattribute__(name)


class Loud(Tensor):
    """A weight that does more than its numbers say."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(function, types, args, kwargs or {})
        loud = function in (nn.functional.linear, nn.functional.batch_norm)
        return (10 * result if loud else result).as_subclass(Tensor) if isinstance(result, Tensor) else result


def _with_loud_weight(channels: int) -> nn.Module:
    layer = nn.Linear(channels, channels, bias=False).double()
    weight = layer.weight.data
    del layer.weight
    layer.weight = weight.as_subclass(Loud)
    return layer


def own_code(draw: random.Random) -> Case:
    """Subclasses with code of their own, and weights that are more than numbers."""
    found, options = composed(draw, first="linear")
    channels = int(output(nn.Sequential(*found), torch.zeros(options["shape"])).shape[-1])
    act = activation(draw, options["shape"])
    kept = nn.Linear(channels, channels)
    makers = (
        lambda: Residual(kept),
        lambda: Residual(act, kept),
        lambda: Standardised(channels, 2),
        lambda: Called(channels, 2),
        lambda: Switched(),
        lambda: _reclassed(channels),
        lambda: _with_loud_weight(channels),
        lambda: type("Linear", (Standardised, nn.Linear), {})(channels, channels),
    )
    if len(options["grid"].shape) == 1 and draw.random() < 0.2:
        grid = options["grid"]
        model = nn.Sequential(draw.choice((Convolved, Narrow))(1, 2, 3, padding=1), activation(draw, (1, 2, 4)))
        return in_double(model, options, shape=(1, 1, *grid.shape), last=False)
    model = nn.Sequential(*found, draw.choice(makers)()).double()
    return Case(model, **options)


def _reclassed(channels: int) -> nn.Module:
    layer = nn.Linear(channels, channels)
    layer.__class__ = Doubled
    return layer


class Waves(nn.Module):
    def __init__(self, size: float, pitch: float) -> None:
        super().__init__()
        self.size, self.pitch = size, pitch

    def forward(self, x: Tensor) -> Tensor:
        return self.size * (self.pitch * x).sin()


class Joined(nn.Module):
    """Two branches of the same input, added."""

    def __init__(self, left: nn.Module, right: nn.Module) -> None:
        super().__init__()
        self.left, self.right = left, right

    def forward(self, x: Tensor) -> Tensor:
        return self.left(x) + 0.5 * self.right(x)


OWN_RULES: dict[type, Callable[[Any, Setting], Any]] = {
    Waves: lambda layer, setting: abs(layer.size * layer.pitch),
    Residual: lambda layer, setting: 1 + setting.of(nn.Sequential(*layer)),
    Joined: lambda layer, setting: setting.of(layer.left) + 0.5 * setting.of(layer.right),
    Standardised: lambda layer, setting: setting.sigma(10 * layer.weight / layer.weight.norm()),
}


@contextmanager
def declared(rules: dict[type, Callable[[Any, Setting], Any]]) -> Iterator[None]:
    """Rules that `register` knows within, and the former ones afterwards."""
    before = {kind: RULES[kind] for kind in rules if kind in RULES}
    try:
        for kind, rule in rules.items():
            register(kind, rule)
        yield
    finally:
        for kind in rules:
            RULES.pop(kind, None)
        RULES.update(before)


def registered(draw: random.Random) -> Case:
    """Layers of a user's own with right rules, nested."""
    grid = grid_of(draw)
    while True:
        head, shape = first_layer(draw, grid, draw.choice(("linear", "convolution")))
        if output(head, torch.zeros(shape)).shape == shape:
            break
    act = lambda: draw.choice((Waves(draw.uniform(-2, 2), draw.uniform(-3, 3)), activation(draw, shape)))  # noqa: E731
    pieces = [
        lambda: Residual(act(), head),
        lambda: Residual(head, act()),
        lambda: Joined(nn.Sequential(head, act()), act()),
        lambda: Joined(act(), nn.Sequential(head)),
        lambda: Residual(Residual(act(), head), act()),
        act,
    ]
    if isinstance(head, nn.Linear):
        pieces.append(lambda: Residual(Standardised(shape[-1], shape[-1])))
    found = [draw.choice(pieces)() for _ in range(draw.randint(1, 3))]
    options = dict(grid=grid, shape=shape, last=isinstance(head, nn.Linear))
    return in_double(nn.Sequential(head, *found), options, inside=lambda: declared(OWN_RULES))


class Planted(nn.Module):
    """x ↦ s·x, whose rule says 1."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def forward(self, x: Tensor) -> Tensor:
        return self.slope * x


def planted(slope: float) -> Build:
    """Compositions with a layer whose rule is wrong by the factor `slope`."""

    def build(draw: random.Random) -> Case:
        grid = grid_of(draw)
        head, shape = first_layer(draw, grid, draw.choice(("linear", "convolution")))
        found = [head, *([activation(draw, shape)] if draw.random() < 0.5 else [])]
        found.insert(draw.randint(0, len(found)), Planted(slope))
        options = dict(grid=grid, shape=shape, last=isinstance(head, nn.Linear))
        rule = {Planted: lambda layer, setting: 1.0}
        return in_double(nn.Sequential(*found), options, inside=lambda: declared(rule))

    return build
