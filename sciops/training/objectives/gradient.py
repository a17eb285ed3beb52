"""Errors of first derivatives, by one-sided differences on the grid."""

from __future__ import annotations

import math

from torch import Tensor

from sciops.grids import Grid
from sciops.training.objectives.norms import nonzero, root, squared_sum


def difference_energy(u: Tensor, grid: Grid) -> Tensor:
    """Σ_axes ⟨(D u)²⟩ per sample, with D u = (u_{j+1} − u_j)/h and ⟨·⟩ the mean over channels and differences.

    u : (batch, channel, *grid)
    returns : (batch,)

    A periodic axis of n points has n differences, the last across the seam; any other has n − 1. On a plane wave
    sin(kx + φ) of a periodic grid the value is k²/2 · [sin(kh/2)/(kh/2)]²: the exact ⟨(u′)²⟩ = k²/2 times the squared
    symbol of the difference.
    """
    first = u.ndim - grid.ndim
    total = u.new_zeros(u.shape[0])
    for axis, h in enumerate(grid.spacing, start=first):
        if grid.centering == "periodic":
            step = u.roll(-1, axis) - u
        else:
            step = u.diff(dim=axis)
        if step.shape[axis]:
            total = total + (step / h).square().flatten(1).mean(1)
    return total


def relative_gradient(prediction: Tensor, target: Tensor, grid: Grid) -> Tensor:
    """‖∇(p − u)‖ / ‖∇u‖ per sample, derivatives as in `difference_energy`; immense where only p varies."""
    return root(difference_energy(prediction - target, grid)) / nonzero(root(difference_energy(target, grid)))


def h1(prediction: Tensor, target: Tensor, grid: Grid) -> Tensor:
    """√(⟨e²⟩ + ⟨|∇e|²⟩) / √(⟨u²⟩ + ⟨|∇u|²⟩) with e = p − u, per sample, derivatives as in `difference_energy`.

    Lengths are those of the grid: on the unit box the derivative of a field that varies over the box weighs about π²
    times its value.
    """
    error = prediction - target
    points = math.prod(target.shape[1:])
    above = squared_sum(error) / points + difference_energy(error, grid)
    below = squared_sum(target) / points + difference_energy(target, grid)
    return root(above) / nonzero(root(below))
