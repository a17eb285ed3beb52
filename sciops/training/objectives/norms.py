"""Errors of the values themselves; every point weighs alike."""

from __future__ import annotations

import torch
from torch import Tensor

from sciops.arrays.scale import norm_of, widened
from sciops.grids import Grid


def relative_l2(prediction: Tensor, target: Tensor, grid: Grid | None = None) -> Tensor:
    """Relative L² error ‖p − u‖ / ‖u‖ over channels and points, per sample.

    0 where both vanish, immense where only u does.
    """
    return ratio(*(norm_of(v.flatten(1), 1) for v in (difference(prediction, target), target)))


def relative_mse(prediction: Tensor, target: Tensor, grid: Grid | None = None) -> Tensor:
    """Relative squared error ‖p − u‖² / ‖u‖² over channels and points, per sample: `relative_l2` squared."""
    return relative_l2(prediction, target).square()


def nrmse(prediction: Tensor, target: Tensor, grid: Grid | None = None) -> Tensor:
    """Mean over channels of the relative error ‖p − u‖ / ‖u‖, per sample (PDEBench's, arXiv:2210.07182).

    Variables of any scale weigh alike, whereas the largest dominates `relative_l2`; so do the frames of an unrolled
    step. Where a channel of u vanishes, its error is in units of the whole of u.
    """
    error, size = (norm_of(v.flatten(2), 2) for v in (difference(prediction, target), target))
    whole = norm_of(target.flatten(1), 1)[:, None]
    return ratio(error, torch.where(size > 0, size, whole)).mean(1)


def mse(prediction: Tensor, target: Tensor, grid: Grid | None = None) -> Tensor:
    """Mean squared error of channels and points, per sample, in the units of u².

    It leaves the range of float32 for fields of about 1e-20 or 1e20, as do its gradients: use `relative_mse` for them.
    """
    return difference(prediction, target).square().flatten(1).mean(1)


def difference(prediction: Tensor, target: Tensor) -> Tensor:
    """The difference p − u, in float32 at least, since half precision ends at 65504."""
    return widened(prediction) - widened(target)


def root(square: Tensor) -> Tensor:
    """Square root with derivative 0 at 0, where the true derivative is infinite and would give 0·∞ = NaN."""
    met = square == 0  # of NaN false, so that a prediction that is NaN does not count as met
    return torch.where(met, 1.0, square).sqrt() * ~met


def ratio(error: Tensor, size: Tensor) -> Tensor:
    """Ratio of two norms; a size of 0 is replaced by the smallest normal number, so that 0/0 is 0."""
    return error / torch.where(size > 0, size, torch.finfo(size.dtype).tiny)
