"""Errors of the values themselves; every point and channel weighs alike."""

from __future__ import annotations

import torch
from torch import Tensor

from sciops.grids import Grid


def relative_l2(prediction: Tensor, target: Tensor, grid: Grid | None = None) -> Tensor:
    """‖p − u‖ / ‖u‖ over channels and points, per sample; 0 where both vanish, immense where only u does."""
    return root(squared_sum(prediction - target)) / nonzero(root(squared_sum(target)))


def relative_mse(prediction: Tensor, target: Tensor, grid: Grid | None = None) -> Tensor:
    """‖p − u‖² / ‖u‖² over channels and points, per sample: the square of `relative_l2`."""
    return squared_sum(prediction - target) / nonzero(squared_sum(target))


def mse(prediction: Tensor, target: Tensor, grid: Grid | None = None) -> Tensor:
    """Mean of (p − u)² over channels and points, per sample."""
    return (prediction - target).square().flatten(1).mean(1)


def squared_sum(u: Tensor) -> Tensor:
    """Σ u² over all axes but the first."""
    return u.square().flatten(1).sum(1)


def root(square: Tensor) -> Tensor:
    """√ with derivative 0 where the argument is 0, where the true derivative is infinite and would meet 0·∞ = NaN."""
    positive = square > 0
    return torch.where(positive, square, 1.0).sqrt() * positive


def nonzero(norm: Tensor) -> Tensor:
    """A denominator: the norm, or the smallest normal number where it is 0, so that 0/0 counts as 0."""
    return norm.clamp_min(torch.finfo(norm.dtype).tiny)
