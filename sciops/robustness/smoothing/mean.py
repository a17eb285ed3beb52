"""The mean of an operator over Gaussian noise: bounds on its change under perturbations and on its sampling error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from sciops.grids import Grid
from sciops.robustness.checks import check_positive, check_size
from sciops.robustness.field_norm import field_norm, per_sample
from sciops.robustness.smoothing.noise import Noise
from sciops.robustness.smoothing.noisy_fields import batch_of_fields, check_smoothing, noisy_outputs

__all__ = ["MeanSmoothed", "mean_lipschitz", "mean_sampling_error", "mean_shift", "mean_smoothing"]


@dataclass(frozen=True)
class MeanSmoothed:
    """The result of `mean_smoothing`.

    mean : (batch, channels, *grid), sample mean of the clipped outputs
    shift : bound on ‖E G(a + δ + ξ) − E G(a + ξ)‖_h in the ball
    sampling_error : ‖mean − E G(a + ξ)‖_h is at most this with probability 1 − α, per field
    clipped : (batch,) share of the outputs that were longer than the bound
    """

    mean: Any
    shift: float
    sampling_error: float
    clipped: Any


def mean_lipschitz(bound: float, lipschitz: float | None = None) -> float:
    """Lipschitz constant of a ↦ E G(a + ξ) for ‖G‖ ≤ B, per unit of the noise's norm.

    It is B√(2/π), and L·erf(B/(L√2)) where G itself is L-Lipschitz in that norm (smaller, and at most L). For noise of
    standard deviation σ divide by σ, and use L·σ for L. L in ‖·‖_h becomes ``L * noise.reach(grid)``.
    """
    _check(bound, lipschitz)
    if lipschitz is None:
        return bound * math.sqrt(2 / math.pi)
    return lipschitz * math.erf(bound / (lipschitz * math.sqrt(2))) if lipschitz > 0 else 0.0


def mean_shift(bound: float, radius: float, *, lipschitz: float | None = None) -> float:
    """Bound on the change of the smoothed output of an operator with ‖G‖ ≤ B in a ball of radius r.

    sup ‖E G(a + δ + ξ) − E G(a + ξ)‖ over norm(δ) ≤ r is at most min(2B·erf(r/(2√2)), r·`mean_lipschitz`). The first is
    2B times the total variation between N(0, 1) and N(r, 1), and at most 2B.
    """
    _check(bound, lipschitz)
    if not radius >= 0:
        raise ValueError(f"radius={radius}: expected a size in the noise's norm, 0 or more")
    return min(2 * bound * math.erf(radius / (2 * math.sqrt(2))), radius * mean_lipschitz(bound, lipschitz))


def mean_sampling_error(bound: float, samples: int, alpha: float) -> float:
    """Bound on ‖mean of N samples − expectation‖ that is exceeded with probability at most α, for ‖G‖ ≤ B.

    (B/√N)(1 + √(2 ln(1/α))): the expected distance is at most B/√N; McDiarmid's inequality with differences 2B/N bounds
    the rest.
    """
    _check(bound, None)
    check_smoothing(samples=samples, alpha=alpha)
    return bound / math.sqrt(samples) * (1 + math.sqrt(2 * math.log(1 / alpha)))


def mean_smoothing(
    operator: Callable[[Tensor], Tensor],
    a: Any,
    grid: Grid,
    *,
    noise: Noise,
    radius: float,
    bound: float,
    lipschitz: float | None = None,
    samples: int = 1000,
    alpha: float = 0.005,
    target: Grid | None = None,
    seed: int,
    batch_size: int = 256,
) -> MeanSmoothed:
    """The mean of an operator over Gaussian noise, with bounds on its change in a ball and on its sampling error.

    E[clip_B G(a + ξ)] by N samples, with the bounds of `mean_shift` and `mean_sampling_error`.

    Parameters
    ----------
    operator : callable
        (batch, channels, *grid) → (batch, channels, *target).
    a, grid, noise, radius, samples, seed, batch_size
        As in `median_smoothing`.
    bound : float
        B; outputs longer than B in ‖·‖_h are scaled to it, which keeps a Lipschitz constant.
    lipschitz : float, optional
        Of G, from the noise's norm to ‖·‖_h.
    alpha : float
        Level of the sampling error.
    target : Grid, optional
        Of the outputs; default `grid`.

    Returns
    -------
    MeanSmoothed
        Two smoothed fields differ by at most shift + 2·sampling_error with probability 1 − 2α.
    """
    check_smoothing(radius=radius, samples=samples, alpha=alpha)
    _check(bound, lipschitz)
    fields, restore = batch_of_fields(a, grid)
    target = grid if target is None else target
    draw = partial(noisy_outputs, operator, grid=grid, noise=noise, seed=seed, batch_size=batch_size)
    means, shares = [], []
    for i, field in enumerate(fields):
        total: Any = 0.0
        clipped = 0
        for y in draw(field, samples, first=i * samples):
            size = field_norm(y.double(), target)
            if not bool(size.isfinite().all()):
                raise ValueError("the operator returned inf on a noisy field: no bound clips it; check it there")
            total = total + (y.double() * per_sample(bound / size.clamp_min(bound), y)).sum(0)
            clipped += int((size > bound).sum())
        means.append(total / samples)
        shares.append(clipped / samples)
    return MeanSmoothed(
        restore(torch.stack(means).to(fields.dtype)),
        mean_shift(bound, radius, lipschitz=lipschitz),
        mean_sampling_error(bound, samples, alpha),
        restore(torch.tensor(shares, dtype=fields.dtype, device=fields.device)),
    )


def _check(bound: float, lipschitz: float | None) -> None:
    check_positive(bound=bound)
    if lipschitz is not None:
        check_size(lipschitz=lipschitz)
