"""Errors of first derivatives, by one-sided differences on the grid."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from sciops.arrays.scale import power_of_two, widened
from sciops.grids import Grid
from sciops.training.objectives.norms import difference, ratio, root


def difference_energy(u: Tensor, grid: Grid) -> Tensor:
    """Mean square of the one-sided differences of a field, summed over the axes, per sample.

    Σ_axes ⟨(D u)²⟩ with D u = (u_{j+1} − u_j)/h and ⟨·⟩ the mean over channels and differences.

    u : (batch, channel, *grid)
    returns : (batch,)

    A periodic axis of n points has n differences, the last across the seam; any other has n − 1. On a plane wave
    sin(kx + φ) of a periodic grid the value is k²/2 · [sin(kh/2)/(kh/2)]²: the exact ⟨(u′)²⟩ = k²/2 times the squared
    symbol of the difference.
    """
    u = widened(u)
    return sum((part.square().mean(1) for part in _differences(u, grid)), u.new_zeros(u.shape[0]))


def relative_gradient(prediction: Tensor, target: Tensor, grid: Grid) -> Tensor:
    """Relative error of the gradient, ‖∇(p − u)‖ / ‖∇u‖, per sample; immense where only p varies.

    Derivatives as in `difference_energy`.
    """
    return ratio(*(_norm(v, grid, values=False) for v in (difference(prediction, target), target)))


def h1(prediction: Tensor, target: Tensor, grid: Grid) -> Tensor:
    """Relative error in the H¹ norm, per sample, with derivatives as in `difference_energy`.

    √(⟨e²⟩ + ⟨|∇e|²⟩) / √(⟨u²⟩ + ⟨|∇u|²⟩) with e = p − u.

    Lengths are those of the grid: on the unit box the derivative of a field that varies over the box weighs about π²
    times its value.
    """
    return ratio(*(_norm(v, grid, values=True) for v in (difference(prediction, target), target)))


def _differences(u: Tensor, grid: Grid) -> list[Tensor]:
    """D u along each axis that has differences, (batch, differences)."""
    parts = []
    for axis, h in enumerate(grid.spacing, start=u.ndim - grid.ndim):
        step = u.roll(-1, axis) - u if grid.centering == "periodic" else u.diff(dim=axis)
        if step.shape[axis]:
            parts.append((step / h).flatten(1))
    return parts


def _norm(u: Tensor, grid: Grid, *, values: bool) -> Tensor:
    """√Σ⟨(D u)²⟩, with ⟨u²⟩ in the sum where asked for, of u in any unit."""
    unit = power_of_two(u, tuple(range(1, u.ndim)))
    u = u / unit
    return _root_of_means([u.flatten(1)] * values + _differences(u, grid), u) * unit.flatten()


def _root_of_means(parts: Sequence[Tensor], like: Tensor) -> Tensor:
    if not parts:
        return like.new_zeros(len(like))
    # differences may be far smaller than the values that they are of
    unit = reduce(torch.maximum, [power_of_two(part, 1) for part in parts])
    squares = [(part / unit).square().mean(1) for part in parts]
    return root(sum(squares[1:], squares[0])) * unit.flatten()
