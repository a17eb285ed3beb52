"""Center smoothing: a certificate in any metric for operators whose outputs are fields."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from sciops.arrays.scale import widened
from sciops.grids import Grid
from sciops.robustness.checks import check_choice
from sciops.robustness.field_norm import field_norm
from sciops.robustness.smoothing.noise import Noise
from sciops.robustness.smoothing.noisy_fields import batch_of_fields, check_smoothing, noisy_outputs
from sciops.robustness.statistics.order_statistics import shifted, upper_index
from sciops.values import check_whole

__all__ = ["CenterCertificate", "Centers", "certify_centers", "smooth_centers"]

Metric = Callable[[Tensor, Tensor], Tensor]

_BETA = 2  # a candidate inside the smallest ball reaches all of it with twice the radius
_STREAM = 1 << 40  # certification draws noise that smoothing never drew


@dataclass(frozen=True)
class Centers:
    """The result of `smooth_centers`: smoothed outputs ḡ(a).

    center : (batch, channels, *target)
    radius : (batch,) holds half of the first noisy outputs around the center
    enclosed : (batch,) share of fresh noisy outputs within that radius
    abstained : (batch,) bool, the ball may hold less than ½ − slack of the outputs, so that this field has no
    certificate
    """

    center: Any
    radius: Any
    enclosed: Any
    abstained: Any


@dataclass(frozen=True)
class CenterCertificate:
    """The result of `certify_centers`.

    epsilon : (batch,) bound on d(ḡ(a), ḡ(a + δ)); inf where the smoothing abstained or samples do not suffice
    quantile : q = Φ(Φ^{−1}(½ + slack) + radius)
    index : the order statistic of the distances that was taken, counted from 1; samples + 1 for none
    """

    epsilon: Any
    quantile: float
    index: int


def smooth_centers(
    operator: Callable[[Tensor], Tensor],
    a: Any,
    grid: Grid,
    *,
    noise: Noise,
    samples: int = 10_000,
    candidates: int = 30,
    slack: float = 0.05,
    alpha: float = 0.005,
    target: Grid | None = None,
    metric: Metric | None = None,
    seed: int,
    batch_size: int = 256,
) -> Centers:
    """The smoothed output ḡ(a): among some noisy outputs, the one with the smallest median distance to n others.

    Then n fresh outputs are counted in the ball around it.

    Parameters
    ----------
    operator : callable
        (batch, channels, *grid) → (batch, channels, *target).
    a, grid, noise, seed, batch_size
        As in `median_smoothing`.
    samples : int
        n.
    candidates : int
        Noisy outputs among which the center is chosen.
    slack, alpha : float
        A field abstains unless max(Δ₁, ½ − (enclosed − Δ₁)) < slack, Δ₁ = √(ln(2/α)/(2n)).
    target : Grid, optional
        Of the outputs; default `grid`.
    metric : callable, optional
        d(outputs (n, ...), center (...)) → (n,), any metric; default ‖· − ·‖_h on the grid of the outputs.

    Returns
    -------
    Centers

    Raises
    ------
    ValueError
        When n is so small that every field abstains: Δ₁ ≥ slack.

    References
    ----------
    arXiv:2102.09701.
    """
    check_smoothing(samples=samples, alpha=alpha)
    check_whole(candidates=candidates)
    _check_slack(slack)
    doubt = math.sqrt(math.log(2 / alpha) / (2 * samples))
    if doubt >= slack:
        least = math.floor(math.log(2 / alpha) / (2 * slack**2)) + 1
        raise ValueError(f"samples={samples} always abstain at slack={slack}, alpha={alpha}: pass at least {least}")
    fields, restore = batch_of_fields(a, grid)
    distance = metric or _l2(grid if target is None else target)
    total = candidates + 2 * samples
    draw = partial(noisy_outputs, operator, grid=grid, noise=noise, seed=seed, batch_size=batch_size)
    centers, radii, shares = [], [], []
    for i, field in enumerate(fields):
        start = i * total + candidates
        proposals = torch.cat(list(draw(field, candidates, first=i * total)))
        columns = [torch.stack([distance(y, c) for c in proposals]) for y in draw(field, samples, first=start)]
        distances = torch.cat(columns, 1).sort(1).values[:, (samples + 1) // 2 - 1]
        best = int(distances.argmin())
        fresh = draw(field, samples, first=start + samples)
        inside = sum(int((distance(y, proposals[best]) <= distances[best]).sum()) for y in fresh)
        centers.append(proposals[best])
        radii.append(distances[best])
        shares.append(inside / samples)
    enclosed = torch.tensor(shares, dtype=torch.float64, device=fields.device)
    return Centers(
        restore(torch.stack(centers)),
        restore(torch.stack(radii)),
        restore(enclosed),
        restore(0.5 - (enclosed - doubt) >= slack),
    )


def certify_centers(
    operator: Callable[[Tensor], Tensor],
    a: Any,
    centers: Centers,
    grid: Grid,
    *,
    noise: Noise,
    radius: float,
    samples: int = 10_000,
    slack: float = 0.05,
    alpha: float = 0.005,
    interval: Literal["exact", "hoeffding"] = "exact",
    target: Grid | None = None,
    metric: Metric | None = None,
    seed: int,
    batch_size: int = 256,
) -> CenterCertificate:
    """Bounds on how far smoothed outputs move under perturbations, in any metric.

    ε_out = 3 R_q, R_q a bound on the q-quantile of d(ḡ(a), G(a + ξ)), q = Φ(Φ^{−1}(½ + slack) + r). For every δ of norm
    at most r, d(ḡ(a), ḡ(a + δ)) ≤ ε_out, or the smoothing at a + δ abstains, with probability at least 1 − α − α' − (½
    − slack)^candidates, α' the alpha of `smooth_centers` with the same slack and metric. ḡ(a + δ) must be computed with
    another seed than ḡ(a): its noise must be independent of the ball.

    Parameters
    ----------
    operator, a, grid, noise, seed, batch_size, target, metric, slack
        As in `smooth_centers`.
    centers : Centers
        Of the same fields.
    radius : float
        r, in the norm of the noise.
    samples : int
        n, noisy outputs of each field.
    alpha : float
        α.
    interval : str
        The order statistic of the distances: "exact", the smallest k with P(Bin(n, q) ≥ k) ≤ α, or "hoeffding",
        ⌈(q + √(ln(1/α)/(2n)))·n⌉ as in the paper, which is never smaller.

    Returns
    -------
    CenterCertificate

    Notes
    -----
    The ball of radius R_q around ḡ(a) keeps the mass ½ + slack when a moves by δ; so it holds half of what is sampled
    there, some candidate lies in it and reaches all of it with 2R_q, and the ball of the chosen candidate, which holds
    more than ½ − slack, meets it.
    """
    check_smoothing(radius=radius, samples=samples, alpha=alpha)
    _check_slack(slack)
    check_choice(("exact", "hoeffding"), interval=interval)
    fields, restore = batch_of_fields(a, grid)
    distance = metric or _l2(grid if target is None else target)
    q = shifted(0.5 + slack, radius)
    if interval == "exact":
        index = upper_index(samples, q, alpha)
    else:
        index = min(math.ceil((q + math.sqrt(math.log(1 / alpha) / (2 * samples))) * samples), samples + 1)
    if len(centers.center) != len(fields):
        raise ValueError(f"{len(centers.center)} centers for {len(fields)} fields: expected those of the same fields")
    draw = partial(noisy_outputs, operator, grid=grid, noise=noise, seed=seed, batch_size=batch_size)
    epsilon = torch.full((len(fields),), torch.inf, dtype=fields.dtype, device=fields.device)
    abstained = torch.as_tensor(centers.abstained)
    middle = torch.as_tensor(centers.center, dtype=fields.dtype, device=fields.device)
    for i, field in enumerate(fields):
        if bool(abstained[i]) or index > samples:
            continue
        outputs = draw(field, samples, first=_STREAM + i * samples)
        distances = torch.cat([distance(y, middle[i]) for y in outputs])
        epsilon[i] = (1 + _BETA) * distances.kthvalue(index).values
    return CenterCertificate(restore(epsilon), q, index)


def _l2(target: Grid) -> Metric:
    return lambda outputs, center: field_norm(widened(outputs) - center, target)


def _check_slack(slack: float) -> None:
    if not 0 < slack < 0.5:
        raise ValueError(f"slack={slack}: expected a number between 0 and 0.5, such as 0.05")
