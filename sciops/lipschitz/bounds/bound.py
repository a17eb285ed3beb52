"""Lipschitz bounds of whole models, part by part with the reasons."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import nn

from sciops.grids import Grid
from sciops.lipschitz.bounds.parts import Methods, Part, Setting, ends_of, shown
from sciops.lipschitz.bounds.pointwise import of_activation, of_norm
from sciops.lipschitz.bounds.registry import RULES
from sciops.lipschitz.bounds.walk import walk

_UP = 1 + 1e-12  # products of some hundred factors; every factor is rounded up already


class Block(NamedTuple):
    """A part of a model: its name, its bound (None where there is none), and the reason."""

    name: str
    value: float | None
    reason: str


@dataclass(frozen=True)
class Bound:
    """A Lipschitz bound of a model, ‖G(a + δ) − G(a)‖ ≤ value · ‖δ‖; `str()` prints it as a table.

    value : None where a part has no finite bound; the rows say which and why
    blocks : (name, value, reason), in the order of the model; parts that lie in another are named "outer · inner"
    norm : in which both sides are measured
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
    """An upper bound of a model's Lipschitz constant on a grid, as a product over its parts.

    ‖G(a + δ) − G(a)‖_h ≤ L ‖δ‖_h for all a and δ, with ‖u‖_h² = Σ_j w_j |u_j|² over points and channels, w the
    quadrature weights of the grid. Where the output is not a field (a classifier), both norms are Euclidean.

    Parameters
    ----------
    model : nn.Module
        A model of `sciops.build_model`, its wrappers, mixers, nn.Sequential of torch's layers, and any module whose
        class has a rule (`register`).
    grid : Grid
        Of the inputs.
    radius : float, optional
        Assumes that every token which attention and gated maps see lies in a ball, ‖x_i‖ ≤ radius. The bound is then
        local: it holds for a pair of inputs for which this is true.
    vacuous : bool
        Include RMSNorm, LayerNorm, GroupNorm and InstanceNorm with their largest slope max|w|/√ε. The bound is valid
        but too large to be useful; it shows the size of the other parts. Tokens after a norm are in a ball and need no
        radius.

    Returns
    -------
    Bound

    Raises
    ------
    ValueError
        Where the model does not fit the grid, and for a radius that is not positive and finite.

    Notes
    -----
    There is no finite bound for softmax attention and gated maps without a ball, cosines without a floor, norms (unless
    vacuous), solvers inside the model, whose coefficient may be close to zero, and modules without a rule. Their rows
    say so.

    Parts are bounded by ‖W‖₂ in float64, rounded up; spectral layers mode by mode, together with the linear map beside
    them; GELU by 1.1289; residuals by 1 + L. On nodes the product is computed both in the quadrature norm and in one
    that gives every point the same weight, and the smaller result is taken; they differ by at most √(max w / min w).

    For float32 models the bound is that of the map with these weights in exact arithmetic.
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
    methods = Methods(walk, of_activation, of_norm)
    setting = Setting(grid, False, dtype, radius, vacuous, RULES, methods=methods)
    plain = walk(model, setting)
    ends = ends_of(grid)
    if plain.flat or ends == 1:
        return plain, []
    weighted = walk(model, replace(setting, weighted=True))
    converted = None if plain.value is None else plain.value * ends
    if converted is None or (weighted.value is not None and bool(weighted.value <= converted)):
        return weighted, []
    row = Block("norm", ends, "√(max w / min w), from a norm that gives every point the same weight")
    return Part(converted, plain.rows), [row]


def _show(value: float | None) -> str:
    return "none" if value is None else f"{shown(value):g}"
