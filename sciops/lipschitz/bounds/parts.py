"""What the rules of a model's bound share: the setting of a part, parts and chains of parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.lipschitz.as_written import exactly
from sciops.lipschitz.bounds.attention import attention_bound, cosine_attention_bound
from sciops.lipschitz.norms.block_map import largest
from sciops.lipschitz.norms.convolution import convolution_norm


class UnboundedError(Exception):
    """A module has no finite Lipschitz bound, or no rule; the message says why."""


def refuse(reason: str) -> NoReturn:
    """Raises UnboundedError."""
    raise UnboundedError(reason)


def expect(module: Any, *kinds: type, place: str) -> None:
    """Raises UnboundedError unless calling the module runs the code of one of the classes."""
    if not exactly(module, *kinds):
        expected = " or ".join(kind.__name__ for kind in kinds)
        refuse(f"no rule with {type(module).__name__} as {place}: expected {expected}")


def shown(value: float | Tensor) -> float:
    """The value rounded to three digits."""
    return float(f"{float(value.detach() if isinstance(value, Tensor) else value):.3g}")


def missing(*_: Any) -> NoReturn:
    """In place of a function of `Methods` that was not given."""
    raise TypeError("this setting was made by hand: rules that look into other modules work in `lipschitz_bound` alone")


@dataclass(frozen=True)
class Methods:
    """The functions by which a rule reaches other modules; they call rules again, and are handed down from above.

    walk : (module, setting) → `Part`
    slope : (activation, setting) → its largest slope
    norm : (norm, setting) → (largest slope, radius of the ball that its values lie in, or None)
    """

    walk: Callable[[nn.Module, Setting], Part]
    slope: Callable[[Any, Setting], float | Tensor]
    norm: Callable[[nn.Module, Setting], tuple[float | Tensor, Tensor | None]]


@dataclass(frozen=True)
class Setting:
    """The grid and norm in which a part of a model is bounded, and the functions that its rule can call.

    grid : of the field that the part sees
    weighted : norms are those of the grid's quadrature; otherwise every point has the same weight
    dtype : of the computation
    radius : ball in which tokens are assumed to lie, None for no assumption
    vacuous : include norms with their largest slope, 1/√ε
    rules : by class of module, those of `register`
    shape : of one input with a batch of 1, where it is known
    reused : the caller uses the input again, so that no layer may write to it
    methods : what the methods below call
    """

    grid: Grid
    weighted: bool
    dtype: torch.dtype
    radius: float | Tensor | None
    vacuous: bool
    rules: Mapping[type, Declared] = field(default_factory=dict, repr=False)
    shape: tuple[int, ...] | None = None
    reused: bool = False
    methods: Methods = field(default_factory=lambda: Methods(*3 * [missing]), repr=False)

    expect = staticmethod(expect)
    refuse = staticmethod(refuse)
    shown = staticmethod(shown)
    attention = staticmethod(attention_bound)
    cosine_attention = staticmethod(cosine_attention_bound)

    def on(self, grid: Grid) -> Setting:
        return replace(self, grid=grid)

    def plain(self, shape: tuple[int, ...] | None = None) -> Setting:
        """The same setting in a norm that gives every point the same weight."""
        return replace(self, weighted=False, shape=shape)

    def in_ball(self, ball: float | Tensor | None) -> Setting:
        """The same setting with tokens that are known to lie in a ball, besides the radius assumed."""
        if ball is None:
            return self
        known = [ball] if self.radius is None else [self.radius, ball]
        return replace(self, radius=min(known, key=shown))

    @property
    def ends(self) -> float:
        """√(max w / min w): the most by which a norm can differ from one that gives every point the same weight."""
        return ends_of(self.grid) if self.weighted else 1.0

    def of(self, part: nn.Module, *, reused: bool = True) -> Tensor:
        """The bound of a part of the module that is called on the module's own input, or on one of its shape.

        reused : that input is also used elsewhere, as in a residual, so that no layer of the part may write to it

        Raises UnboundedError where the part has none.
        """
        result = replace(self, reused=reused).walk(part)
        if result.value is None:
            refuse("; ".join(f"{row.name}: {row.reason}" for row in result.rows if row.value is None))
        return result.value

    def walk(self, model: nn.Module) -> Part:
        """The bound of a model inside a model, with its rows."""
        return self.methods.walk(model, self)

    def points(self, axes: int) -> tuple[int, ...]:
        """The last `axes` sizes of the layer's input; raises UnboundedError where they are not known."""
        if self.shape is None or len(self.shape) <= axes:
            refuse(f"the input's {axes} grid axes are not known here")
        return self.shape[-axes:]

    def cast(self, weight: Tensor) -> Tensor:
        """The weight in this precision; raises UnboundedError for a complex one, whose activations have no bound."""
        if weight.is_complex():
            refuse("complex weights: no rule")
        return weight.to(self.dtype)

    def sigma(self, matrix: Tensor) -> Tensor:
        """An upper bound of ‖matrix‖₂."""
        return largest(self.cast(matrix)[None]).upper

    def convolution(self, weight: Tensor, *, grid: tuple[int, ...] | None = None, **options: Any) -> Tensor:
        """An upper bound of a convolution's norm, with the same weight for every point; see `convolution_norm`.

        grid : points per axis of the input; those of the setting's grid unless given
        """
        grid = self.grid.shape if grid is None else grid
        return convolution_norm(self.cast(weight), grid=grid, lower_iterations=0, **options).upper

    def spectral(self, layer: nn.Module, skip: Tensor | None = None) -> Tensor | None:
        """The norm of a spectral layer, or of x ↦ S x + layer(x), from above; None where that is not known by modes."""
        from sciops.lipschitz.norms.fourier import spectral_map_norm, spectral_map_norm_with_skip

        on = (self.grid, self.grid)
        if skip is None:
            return spectral_map_norm(layer, *on, weighted=self.weighted, dtype=self.dtype).upper
        skip = self.cast(skip)
        bracket = spectral_map_norm_with_skip(layer, skip, *on, weighted=self.weighted, dtype=self.dtype)
        return None if bracket is None else bracket.upper

    def slope(self, activation: Any) -> float | Tensor:
        """The largest slope of an activation: a function of torch with its default options, or a module."""
        return self.methods.slope(activation, self)

    def norm(self, norm: nn.Module) -> tuple[float | Tensor, Tensor | None]:
        """(largest slope, radius of the ball that its values lie in or None) of a norm over the channels.

        Raises UnboundedError where norms do not count (`vacuous`).
        """
        return self.methods.norm(norm, self)


Rule = Callable[[Any, Setting], Any]


@dataclass(frozen=True)
class Declared:
    """The rule of the modules of one class.

    rule : (module, setting) → a number, or (number, reason); for role "model" a `Part`
    role : "model", called with a grid; "layer", called without one, whose rule needs the setting's shape; "other"
    quadrature : the rule uses `setting.weighted`; otherwise its bound gives every point the same weight
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
    """One line of the explanation of a bound: a part, its bound or None, and why."""

    name: str
    value: Tensor | None
    reason: str


@dataclass(frozen=True)
class Part:
    """The bound of a part of a model, None where there is none, and the rows that explain it.

    flat : the output is not a field on a grid
    """

    value: Tensor | None
    rows: list[Row] = field(default_factory=list)
    flat: bool = False


def ends_of(grid: Grid) -> float:
    """√2 for each axis of nodes, whose ends have half the weight of the others, rounded up; 1 on other grids."""
    return 2 ** (grid.ndim / 2) * (1 + 1e-15) if grid.centering == "node" else 1.0


def matrix_norm(matrix: np.ndarray) -> float:
    """The largest singular value of a real matrix in float64, rounded up."""
    return float(np.linalg.norm(matrix, 2)) * (1 + 8 * math.prod(matrix.shape) ** 0.5 * 2.3e-16)


def number(value: float | Tensor) -> Tensor:
    """A number as a tensor in float64; a tensor as it is."""
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
    """The part that runs several parts one after the other."""
    parts = list(parts)
    rows = [row for part in parts for row in part.rows]
    value: Tensor | None = torch.ones((), dtype=torch.float64)
    for part in parts:
        value = None if value is None or part.value is None else value * part.value.to(value.device)
    return Part(value, rows, any(part.flat for part in parts))


def with_ends(part: Part, setting: Setting) -> Part:
    """The part in the setting's norm, for a part whose bound gives every point the same weight."""
    if not setting.weighted or part.value is None or part.flat:
        return part
    return chain(
        [part, one("norm", lambda: (setting.ends, "√(max w / min w): every point has the same weight inside"))]
    )


def no_bound(name: str, reason: str) -> Part:
    """The part that has no bound, with the reason."""
    return Part(None, [Row(name, None, reason)])


def inside(name: str, part: Part) -> list[Row]:
    """The rows of a part within another."""
    return [Row(f"{name} · {row.name}", row.value, row.reason) for row in part.rows]
