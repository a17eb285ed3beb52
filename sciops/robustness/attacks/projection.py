"""Projections onto the intersection of a ball and a box."""

from __future__ import annotations

import torch
from torch import Tensor

from sciops.arrays.scale import norm_of
from sciops.robustness.field_norm import per_sample

_BISECTIONS = 80


def project_l2(
    y: Tensor, epsilon: Tensor, weights: Tensor | None = None, lower: Tensor | None = None, upper: Tensor | None = None
) -> Tensor:
    """The nearest point of a weighted ball intersected with a box, per sample.

    argmin ‖δ − y‖_w over ‖δ‖_w ≤ ε and lower ≤ δ ≤ upper.

    The multiplier μ of the ball gives δ = clip(y/(1 + μ), lower, upper): one number s = 1/(1 + μ) per sample, in which
    the norm is monotone, found by bisection from the feasible side. Without an active bound s = ε/‖y‖.

    y (batch, ...), epsilon (batch,), weights broadcast against a sample; lower ≤ 0 ≤ upper
    """
    root = 1.0 if weights is None else weights.sqrt()

    def norm(v: Tensor) -> Tensor:
        return norm_of((v * root).flatten(1), 1)

    size = norm(y)
    low = torch.where(size > epsilon, epsilon / size.clamp_min(torch.finfo(y.dtype).tiny), torch.ones_like(size))
    if lower is None and upper is None:
        return y * per_sample(low, y)

    def clipped(s: Tensor) -> Tensor:
        return torch.clamp(y * per_sample(s, y), lower, upper)

    radial = y * per_sample(low, y)
    boxed = clipped(low)
    if torch.equal(radial, boxed):
        return radial
    # s = low is feasible, for clipping towards an interval that holds 0 never lengthens
    high = torch.ones_like(low)
    low = torch.where(norm(clipped(high)) <= epsilon, high, low)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        inside = norm(clipped(middle)) <= epsilon
        low, high = torch.where(inside, middle, low), torch.where(inside, high, middle)
    return clipped(low)


def project_linf(y: Tensor, epsilon: Tensor, lower: Tensor | None = None, upper: Tensor | None = None) -> Tensor:
    """The nearest δ with |δ_j| ≤ ε and lower ≤ δ ≤ upper, in every norm at once: both sets are boxes around 0."""
    bound = per_sample(epsilon, y)
    y = torch.minimum(torch.maximum(y, -bound), bound)
    return y if lower is None and upper is None else y.clamp(lower, upper)
