"""Bounds on a scalar quantity of an operator's output under perturbations, by quantiles of its noisy values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from sciops.grids import Grid
from sciops.robustness.smoothing.noise import Noise
from sciops.robustness.smoothing.noisy_fields import batch_of_fields, check_smoothing, noisy_outputs
from sciops.robustness.statistics.order_statistics import lower_index, shifted, upper_index

__all__ = ["MedianBounds", "median_smoothing"]


@dataclass(frozen=True)
class MedianBounds:
    """The result of `median_smoothing`; value, lower and upper are (batch,) or (batch, quantities).

    value : sample quantile of q(a + ξ), an estimate of the smoothed quantity
    lower, upper : bounds on the smoothed quantity at every a + δ in the ball; −inf, inf where samples do not suffice
    lower_index, upper_index : the order statistics taken, counted from 1; 0 and samples + 1 for no bound
    """

    value: Any
    lower: Any
    upper: Any
    lower_index: int
    upper_index: int


def median_smoothing(
    quantity: Callable[[Tensor], Tensor],
    a: Any,
    grid: Grid,
    *,
    noise: Noise,
    radius: float,
    samples: int = 10_000,
    alpha: float = 0.001,
    quantile: float = 0.5,
    seed: int,
    batch_size: int = 256,
) -> MedianBounds:
    """Bounds on the smoothed value of a scalar quantity for all perturbations in a ball.

    Q_{Φ(z−r)}(q(a + ξ)) ≤ Q_p(q(a + δ + ξ)) ≤ Q_{Φ(z+r)}(q(a + ξ)) for all δ of norm at most r, z = Φ^{−1}(p).

    Parameters
    ----------
    quantity : callable
        q: (batch, channels, *grid) → (batch,), or (batch, m) for m numbers bounded at once, such as a field's values at
        m points.
    a : array (batch, channels, *grid)
        numpy or torch.
    grid : Grid
        Of a.
    noise : Noise
        Law of ξ.
    radius : float
        r, in the norm of the noise: ε/σ for WhiteNoise(σ) and Euclidean ε.
    samples : int
        n, noisy copies of each field.
    alpha : float
        Both bounds of all m quantities hold with probability 1 − α per field: each has the share α/(2m).
    quantile : float
        p; the median is the smoothed quantity of Chiang et al.
    seed : int
        Of the noise.
    batch_size : int
        Noisy fields evaluated at a time.

    Returns
    -------
    MedianBounds

    Raises
    ------
    ValueError
        For a negative radius and probabilities outside (0, 1).

    Notes
    -----
    The bounds are of the smoothed quantity a ↦ Q_p(q(a + ξ)), not of q. They are order statistics: the largest k with
    P(Bin(n, p_low) ≤ k − 1) and the smallest with P(Bin(n, p_high) ≥ k) at most the share of α.

    References
    ----------
    Chiang et al. (arXiv:2007.03730).
    """
    check_smoothing(radius=radius, samples=samples, alpha=alpha, quantile=quantile)
    fields, restore = batch_of_fields(a, grid)
    draw = partial(noisy_outputs, quantity, grid=grid, noise=noise, seed=seed, batch_size=batch_size)
    outputs = (draw(field, samples, first=i * samples) for i, field in enumerate(fields))
    values = torch.stack([torch.cat(list(parts)).sort(0).values for parts in outputs])  # (batch, samples[, m])
    if values.ndim not in (2, 3):
        raise ValueError(
            f"quantity returned {tuple(values.shape[2:])} per sample; expected one number, or (m,) numbers"
        )
    share = alpha / (2 * (values.shape[2] if values.ndim == 3 else 1))
    low = lower_index(samples, shifted(quantile, -radius), share)
    high = upper_index(samples, shifted(quantile, radius), share)
    middle = min(max(-(-samples * quantile // 1), 1), samples)
    nothing = torch.full_like(values[:, 0], torch.inf)
    return MedianBounds(
        restore(values[:, int(middle) - 1]),
        restore(values[:, low - 1] if low > 0 else -nothing),
        restore(values[:, high - 1] if high <= samples else nothing),
        low,
        high,
    )
