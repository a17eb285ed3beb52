"""Precision-recall curves and divergence curves of two histograms, exact."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sciops.arrays.kinds import as_tensor, like, refuse_complex
from sciops.arrays.short import fields_text
from sciops.values import check_whole


@dataclass(frozen=True)
class PRCurve:
    """α_λ and β_λ of a reference P and generated samples Q, from λ = 0 (recall) to λ = ∞ (precision).

    slope : (points,) λ, rising, the first 0 and the last inf
    precision : (points,) α_λ = Σ min(λp, q)
    recall : (points,) β_λ = Σ min(p, q/λ)
    """

    slope: Any
    precision: Any
    recall: Any

    __repr__ = fields_text

    @property
    def support_precision(self) -> float:
        """Q(supp P), the share of generated mass where the reference has any."""
        return float(self.precision[-1])

    @property
    def support_recall(self) -> float:
        """P(supp Q), the share of reference mass where the generated samples have any."""
        return float(self.recall[0])

    @property
    def divergence(self) -> Any:
        """(points,) D_λ(P‖Q) = Σ q f_λ(p/q) = min(1, λ) − α_λ with f_λ(u) = max(λu, 1) − max(λ, 1).

        Every f-divergence is a mixture of these: KL(P‖Q) = ∫ λ⁻² D_λ dλ, KL(Q‖P) = ∫ λ⁻¹ D_λ dλ.
        """
        slope, _ = as_tensor(self.slope)
        return like(self.slope, slope.clamp(max=1.0) - as_tensor(self.precision)[0])

    def f_score(self, b: float) -> float:
        """max over the curve of F_b = (1 + b²) α β / (b² α + β); large b weighs recall, small b precision.

        arXiv:1806.00035 reports b = 8 as recall and b = 1/8 as precision.
        """
        if not 0 < b < math.inf:
            raise ValueError(f"b={b!r}: expected a finite number above 0, such as 8")
        a, r = as_tensor(self.precision)[0], as_tensor(self.recall)[0]
        below = b * b * a + r
        return float(torch.where(below > 0, (1 + b * b) * a * r / below.where(below > 0, 1.0), 0.0).max())


@dataclass(frozen=True)
class DivergenceCurve:
    """Divergences of a reference P and generated samples Q from their mixtures R_w = wP + (1 − w)Q, as in MAUVE.

    quality : (points,) exp(−c·KL(Q‖R_w)), from 1 to 0
    diversity : (points,) exp(−c·KL(P‖R_w)), from 0 to 1
    scale : c
    """

    quality: Any
    diversity: Any
    scale: float

    __repr__ = fields_text

    @property
    def area(self) -> float:
        """Area under the curve by trapezoids, in (0, 1]; 1 where P = Q. It does not say which of both differs."""
        x, y = as_tensor(self.quality)[0], as_tensor(self.diversity)[0]
        return float(torch.trapezoid(y.flip(0), x.flip(0)))


def pr_curve(reference: Any, generated: Any, *, angles: int = 1000) -> PRCurve:
    """Precision-recall curve of two histograms over the same bins.

        α_λ = Σ_x min(λ p(x), q(x)),    β_λ = Σ_x min(p(x), q(x)/λ) = α_λ/λ,    λ = tan θ

    Exact at every λ: bins are sorted by q/p once, and both sums are partial sums of p and q.

    Parameters
    ----------
    reference, generated : array (bins,)
        p and q, counts or probabilities, numpy or torch; each is divided by its sum.
    angles : int
        θ = i·π/(2·angles), i = 0 … angles: the ends are λ = 0, where β = P(supp Q), and λ = ∞, where α = Q(supp P).

    Returns
    -------
    PRCurve
        float64, in the kind of the reference.

    Raises
    ------
    ValueError
        The shapes differ; a number is negative or not finite; a histogram is empty.

    Notes
    -----
    α_1 = β_1 = 1 − TV(P, Q). α is concave and nondecreasing in λ, α_λ(P, Q) = β_{1/λ}(Q, P). Histograms of samples are
    biased: two draws of one law over n/10 bins have α_1 near 0.82 for any n; see the ceilings of `cluster_curves`.

    References
    ----------
    Sajjadi et al., arXiv:1806.00035; Simon et al., arXiv:1905.05441.

    Examples
    --------
    >>> curve = pr_curve([1.0, 0.0], [0.5, 0.5])
    >>> curve.support_precision, curve.support_recall
    (0.5, 1.0)
    """
    check_whole(2, angles=angles)
    p, q = _probabilities(reference, generated)
    theta = torch.arange(1, angles, dtype=torch.float64, device=p.device) * (math.pi / (2 * angles))
    slope = torch.tan(theta)
    held = (p > 0) | (q > 0)
    p, q = p[held], q[held]
    ratio, order = (q / p).sort()  # infinite where p = 0: there λp is the least for every finite λ
    zero = p.new_zeros(1)
    below = torch.cat([zero, q[order].cumsum(0)])  # q of the bins with q/p < λ …
    above = torch.cat([p[order].flip(0).cumsum(0).flip(0), zero])  # … and p of the others
    cut = torch.searchsorted(ratio, slope)
    alpha, beta = slope * above[cut] + below[cut], above[cut] + below[cut] / slope
    ends = {"precision": q[p > 0].sum(), "recall": p[q > 0].sum()}
    slope = torch.cat([zero, slope, torch.full_like(zero, torch.inf)])
    alpha = torch.cat([zero, alpha, ends["precision"].reshape(1)]).clamp(max=1.0)
    beta = torch.cat([ends["recall"].reshape(1), beta, zero]).clamp(max=1.0)
    return PRCurve(*(like(reference, v) for v in (slope, alpha, beta)))


def divergence_curve(reference: Any, generated: Any, *, scale: float = 5.0, weights: int = 25) -> DivergenceCurve:
    """Divergence curve of two histograms over the same bins, as in MAUVE (arXiv:2102.01454).

        x_w = exp(−c·KL(Q‖R_w)),   y_w = exp(−c·KL(P‖R_w)),   R_w = wP + (1 − w)Q

    The points (1, 0) and (0, 1) are added, between which w runs from 1e-6 to 1 − 1e-6.

    Parameters
    ----------
    reference, generated : array (bins,)
        p and q, as in `pr_curve`.
    scale : float
        c.
    weights : int
        Number of mixtures. Few make the area larger: of disjoint histograms it is Γ(c + 1)²/Γ(2c + 1) = 0.00397 with
        c = 5, and 0.00407 by 25 trapezoids.

    Returns
    -------
    DivergenceCurve
        float64, in the kind of the reference.

    Raises
    ------
    ValueError
        As `pr_curve`, and for a scale that is not above 0 and fewer than 2 weights.
    """
    if not 0 < scale < math.inf:
        raise ValueError(f"scale={scale!r}: expected a finite number above 0, such as 5")
    check_whole(2, weights=weights)
    p, q = _probabilities(reference, generated)
    w = torch.linspace(1e-6, 1 - 1e-6, weights, dtype=torch.float64, device=p.device)[:, None]
    mixture = w * p + (1 - w) * q
    x, y = (torch.exp(-scale * _divergence(v, mixture)) for v in (q, p))
    zero, one = p.new_zeros(1), p.new_ones(1)
    return DivergenceCurve(
        like(reference, torch.cat([one, x, zero])), like(reference, torch.cat([zero, y, one])), float(scale)
    )


def _divergence(p: Tensor, r: Tensor) -> Tensor:
    """KL(p‖r) over the last axis, for r > 0 wherever p > 0."""
    return torch.where(p > 0, torch.xlogy(p, p / r.where(p > 0, 1.0)), 0.0).sum(-1).clamp_min(0)


def _probabilities(reference: Any, generated: Any) -> tuple[Tensor, Tensor]:
    found = []
    for name, value in (("reference", reference), ("generated", generated)):
        refuse_complex(value, name)
        h = as_tensor(value, name)[0].detach().double()
        if h.ndim != 1 or not h.numel():
            raise ValueError(
                f"{name} has shape {tuple(h.shape)}: expected a histogram (bins,); histograms() makes them of samples"
            )
        if not bool((torch.isfinite(h) & (h >= 0)).all()):
            raise ValueError(f"{name} holds a negative number, NaN or infinity: expected counts or probabilities")
        if not h.max() > 0:
            raise ValueError(f"{name} is empty: all of its {len(h)} bins are 0")
        h = h / h.max()  # sums of huge counts leave the range
        found.append(h / h.sum())
    p, q = found
    if p.shape != q.shape:
        raise ValueError(f"reference has {len(p)} bins, generated {len(q)}: expected the same bins")
    return p, q.to(p.device)
