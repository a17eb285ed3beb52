"""Errors of the values themselves; every point weighs alike."""

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


def nrmse(prediction: Tensor, target: Tensor, grid: Grid | None = None) -> Tensor:
    """‖p − u‖ / ‖u‖ over points of each channel, mean over channels, per sample (PDEBench's, arXiv:2210.07182).

    Variables of any scale weigh alike, where `relative_l2` sees the largest alone; so do the frames of an unrolled
    step. Where a channel of u vanishes, its error is in units of the whole of u.
    """
    error, size = (root(v.square().flatten(2).sum(2)) for v in (prediction - target, target))
    whole = root(squared_sum(target))[:, None]
    return (error / nonzero(torch.where(size > 0, size, whole))).mean(1)


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
