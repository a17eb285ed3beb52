"""`lipschitz_bound`: how far a whole model can stretch a change of its input, part by part with the reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from sciops.grids import Grid
from sciops.lipschitz.bounds.parts import Part, Setting, ends_of, shown
from sciops.lipschitz.bounds.registry import RULES
from sciops.lipschitz.bounds.walk import walk

_UP = 1 + 1e-12  # products of some hundred factors; every factor is rounded up already


class Block(NamedTuple):
    """A part of a model: its bound, None where there is none, and why."""

    name: str
    value: float | None
    reason: str


@dataclass(frozen=True)
class Bound:
    """‖G(a + δ) − G(a)‖ ≤ value · ‖δ‖; `str()` prints the table.

    value : None where a part has no finite bound; the rows say which and why
    blocks : (name, value, reason), in the order of the model; parts that lie in another are named "outer · inner"
    norm : what both sides are measured in
    """

    value: float | None
    blocks: tuple[Block, ...]
    norm: str

    def __str__(self) -> str:
        width = max([len(block.name) for block in self.blocks] + [5])
        rows = [f"{'bound':<{width}}  {_show(self.value):>10}  {self.norm}"]
        rows += [f"{block.name:<{width}}  {_show(block.value):>10}  {block.reason}" for block in self.blocks]
        return "\n".join(row.rstrip() for row in rows)


def lipschitz_bound(model: nn.Module, grid: Grid, *, radius: float | None = None, vacuous: bool = False) -> Bound:
    """L with ‖G(a + δ) − G(a)‖_h ≤ L ‖δ‖_h for all a and δ, as a product over the parts of the model.

    ‖u‖_h² = Σ_j w_j |u_j|² over points and channels, w the quadrature weights of the grid. Where the output is no field
    (a classifier), Euclidean norms on both sides.

    model : any model of `sciops.build_model`, its wrappers, mixers, and nn.Sequential of torch's layers
    grid : that the inputs lie on
    radius : what attention and gated maps see is assumed to lie in a ball, every token ‖x_i‖ ≤ radius; the bound is
        local then, and holds for a pair of inputs for which that is so
    vacuous : count RMSNorm, LayerNorm, GroupNorm and InstanceNorm with their largest slope max|w|/√ε: a true bound of
        no use, which shows what else there is; tokens that leave a norm are in a ball and need no radius

    No finite bound: softmax attention and gated maps without a ball, cosine attention, norms (unless vacuous), solvers
    inside the model, whose coefficient may be close to zero, and modules without a rule. Their rows say so.

    Parts are bounded by ‖W‖₂ in float64, rounded up; spectral layers mode by mode, together with the linear map beside
    them; GELU by 1.1289; residuals by 1 + L. On nodes both the quadrature norm and one that counts every point alike
    are carried through, and the smaller result counts; they differ by √(max w / min w) at most.

    For float32 models the bound is that of the map with these weights in exact arithmetic.

    Raises ValueError where the model does not fit the grid, and for a radius that is none.
    """
    if radius is not None and not 0 < radius < float("inf"):
        raise ValueError(f"radius={radius!r}: expected a positive finite number, or None")
    with torch.no_grad():
        part, row = best(model, grid, torch.float64, radius, vacuous)
    value = None if part.value is None else float(part.value) * _UP
    blocks = [Block(r.name, None if r.value is None else float(r.value), r.reason) for r in part.rows]
    norm = "Euclidean norms of input and output" if part.flat else "quadrature L² norms of input and output"
    return Bound(value, tuple(blocks + row), norm)


def best(
    model: nn.Module, grid: Grid, dtype: torch.dtype, radius: float | None, vacuous: bool
) -> tuple[Part, list[Block]]:
    """The smaller of the bounds that the two norms give, and a row for the change between them."""
    plain = walk(model, Setting(grid, False, dtype, radius, vacuous, RULES))
    ends = ends_of(grid)
    if plain.flat or ends == 1:
        return plain, []
    weighted = walk(model, Setting(grid, True, dtype, radius, vacuous, RULES))
    converted = None if plain.value is None else plain.value * ends
    if converted is None or (weighted.value is not None and bool(weighted.value <= converted)):
        return weighted, []
    row = Block("norm", ends, "√(max w / min w), from a norm that counts every point alike")
    return Part(converted, plain.rows), [row]


def _show(value: float | None) -> str:
    return "none" if value is None else f"{shown(value):g}"
