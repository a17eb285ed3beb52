"""What the rules of a model's bound share: the norms that are measured in, parts and chains of parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from sciops.grids import Grid
from sciops.lipschitz._block_map import largest


class UnboundedError(Exception):
    """There is no finite bound, or no rule; the message says why."""


@dataclass(frozen=True)
class Setting:
    """Where a part of a model works and how it is measured.

    grid : of the field at hand
    weighted : in the quadrature norm; otherwise every point counts alike
    dtype : of the computation
    radius : ball that tokens are assumed to stay in, None for no assumption
    vacuous : count norms with their largest slope, 1/√ε
    """

    grid: Grid
    weighted: bool
    dtype: torch.dtype
    radius: float | None
    vacuous: bool

    def on(self, grid: Grid) -> Setting:
        return replace(self, grid=grid)

    @property
    def ends(self) -> float:
        """√(max w / min w): by how much a norm can differ from one that counts every point alike."""
        return ends_of(self.grid) if self.weighted else 1.0

    def cast(self, weight: Tensor) -> Tensor:
        return weight.to(self.dtype)

    def sigma(self, matrix: Tensor) -> Tensor:
        """‖matrix‖₂ from above."""
        return largest(self.cast(matrix)[None]).upper


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


def shown(value: float | Tensor) -> float:
    """Three digits of it."""
    return float(f"{float(value.detach() if isinstance(value, Tensor) else value):.3g}")


def number(value: float | Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else torch.tensor(float(value), dtype=torch.float64)


def one(name: str, rule: Callable[[], tuple[float | Tensor, str]]) -> Part:
    """The part of one row; the rule returns the bound and its reason, or raises UnboundedError."""
    try:
        value, reason = rule()
    except UnboundedError as error:
        return Part(None, [Row(name, None, str(error))])
    value = number(value)
    if not math.isfinite(float(value.detach())):
        return Part(None, [Row(name, None, f"larger than floating point holds; {reason}")])
    return Part(value, [Row(name, value, reason)])


def chain(parts: Iterable[Part]) -> Part:
    """One after the other."""
    parts = list(parts)
    rows = [row for part in parts for row in part.rows]
    value: Tensor | None = torch.ones((), dtype=torch.float64)
    for part in parts:
        value = None if value is None or part.value is None else value * part.value.to(value.device)
    return Part(value, rows, any(part.flat for part in parts))


def inside(name: str, part: Part) -> list[Row]:
    """The rows of a part within another."""
    return [Row(f"{name} · {row.name}", row.value, row.reason) for row in part.rows]
