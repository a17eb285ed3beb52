"""What the rules of a model's bound share: the norms that are measured in, parts and chains of parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.lipschitz.as_written import exactly
from sciops.lipschitz.bounds.attention import attention_bound
from sciops.lipschitz.norms.block_map import largest
from sciops.lipschitz.norms.convolution import convolution_norm


class UnboundedError(Exception):
    """There is no finite bound, or no rule; the message says why."""


def refuse(reason: str) -> Any:
    raise UnboundedError(reason)


def expect(module: Any, *kinds: type, place: str) -> None:
    """Raises UnboundedError unless calling the module runs the code of one of the classes."""
    if not exactly(module, *kinds):
        expected = " or ".join(kind.__name__ for kind in kinds)
        refuse(f"no rule with {type(module).__name__} as {place}: expected {expected}")


def shown(value: float | Tensor) -> float:
    """Three digits of it."""
    return float(f"{float(value.detach() if isinstance(value, Tensor) else value):.3g}")


@dataclass(frozen=True)
class Setting:
    """Where a part of a model works, how it is measured, and what rules compute bounds from.

    grid : of the field at hand
    weighted : in the quadrature norm; otherwise every point counts alike
    dtype : of the computation
    radius : ball that tokens are assumed to stay in, None for no assumption
    vacuous : count norms with their largest slope, 1/√ε
    rules : by class of module, what `register` knows
    shape : of one input with a batch of 1, where that is known
    reused : the caller uses the input again, so that no layer may write to it
    """

    grid: Grid
    weighted: bool
    dtype: torch.dtype
    radius: float | Tensor | None
    vacuous: bool
    rules: Mapping[type, Declared] = field(default_factory=dict, repr=False)
    shape: tuple[int, ...] | None = None
    reused: bool = False

    expect = staticmethod(expect)
    refuse = staticmethod(refuse)
    shown = staticmethod(shown)
    attention = staticmethod(attention_bound)

    def on(self, grid: Grid) -> Setting:
        return replace(self, grid=grid)

    def plain(self, shape: tuple[int, ...] | None = None) -> Setting:
        """In a norm that counts every point alike."""
        return replace(self, weighted=False, shape=shape)

    def in_ball(self, ball: float | Tensor | None) -> Setting:
        """With tokens that are known to lie in a ball, besides the radius assumed."""
        if ball is None:
            return self
        known = [ball] if self.radius is None else [self.radius, ball]
        return replace(self, radius=min(known, key=shown))

    @property
    def ends(self) -> float:
        """√(max w / min w): by how much a norm can differ from one that counts every point alike."""
        return ends_of(self.grid) if self.weighted else 1.0

    def of(self, part: nn.Module, *, reused: bool = True) -> Tensor:
        """The bound of a part of the module that is called on the module's own input, or on one of its shape.

        reused : that input is used again besides, as by a residual, so that no layer of the part may write to it

        Raises UnboundedError where it has none.
        """
        from sciops.lipschitz.bounds.walk import walk

        result = walk(part, replace(self, reused=reused))
        if result.value is None:
            refuse("; ".join(f"{row.name}: {row.reason}" for row in result.rows if row.value is None))
        return result.value

    def cast(self, weight: Tensor) -> Tensor:
        """The weight in this precision; raises UnboundedError for a complex one, whose activations have no bound."""
        return refuse("complex weights: no rule") if weight.is_complex() else weight.to(self.dtype)

    def sigma(self, matrix: Tensor) -> Tensor:
        """‖matrix‖₂ from above."""
        return largest(self.cast(matrix)[None]).upper

    def convolution(self, weight: Tensor, **options: Any) -> Tensor:
        """The norm of a convolution on the grid from above, counting every point alike; see `convolution_norm`."""
        return convolution_norm(self.cast(weight), grid=self.grid.shape, lower_iterations=0, **options).upper

    def slope(self, activation: Any) -> float | Tensor:
        """The largest slope of an activation: a function of torch with its default options, or a module."""
        from sciops.lipschitz.bounds.pointwise import of_activation

        return of_activation(activation, self)

    def norm(self, norm: nn.Module) -> tuple[float | Tensor, Tensor | None]:
        """(largest slope, radius of the ball that its values lie in or None) of a norm over the channels.

        Raises UnboundedError where norms do not count (`vacuous`).
        """
        from sciops.lipschitz.bounds.pointwise import of_norm

        return of_norm(norm, self)


Rule = Callable[[Any, Setting], Any]


@dataclass(frozen=True)
class Declared:
    """How modules of one class are bounded.

    rule : (module, setting) → a number, or (number, reason); for role "model" a `Part`
    role : "model", called with a grid; "layer", called without one, whose rule needs the setting's shape; "other"
    quadrature : the rule looks at `setting.weighted`; otherwise its bound counts every point alike
    forward : of the class when the rule was declared
    with_skip : (module, S, setting) → (number, reason) of x ↦ S x + module(x), S (out, in) at every point, or None
        where the two are only known apart
    """

    rule: Rule
    role: Literal["model", "layer", "other"]
    quadrature: bool
    forward: Any
    with_skip: Callable[[Any, Tensor, Setting], Any] | None = None


@dataclass(frozen=True)
class Row:
    name: str
    value: Tensor | None
    reason: str


@dataclass(frozen=True)
class Part:
    """The bound of a part of a model, None where there is none, and the rows that explain it.

    flat : the output is no field on a grid any more
    """

    value: Tensor | None
    rows: list[Row] = field(default_factory=list)
    flat: bool = False


def ends_of(grid: Grid) -> float:
    return 2 ** (grid.ndim / 2) * (1 + 1e-15) if grid.centering == "node" else 1.0


def number(value: float | Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else torch.tensor(float(value), dtype=torch.float64)


def one(name: str, rule: Callable[[], tuple[float | Tensor, str]]) -> Part:
    """The part of one row; the rule returns the bound and its reason, or raises UnboundedError."""
    try:
        value, reason = rule()
    except UnboundedError as error:
        return no_bound(name, str(error))
    value = number(value)
    if not math.isfinite(float(value.detach())):
        return no_bound(name, f"larger than floating point holds; {reason}")
    return Part(value, [Row(name, value, reason)])


def chain(parts: Iterable[Part]) -> Part:
    """One after the other."""
    parts = list(parts)
    rows = [row for part in parts for row in part.rows]
    value: Tensor | None = torch.ones((), dtype=torch.float64)
    for part in parts:
        value = None if value is None or part.value is None else value * part.value.to(value.device)
    return Part(value, rows, any(part.flat for part in parts))


def no_bound(name: str, reason: str) -> Part:
    return Part(None, [Row(name, None, reason)])


def inside(name: str, part: Part) -> list[Row]:
    """The rows of a part within another."""
    return [Row(f"{name} · {row.name}", row.value, row.reason) for row in part.rows]
