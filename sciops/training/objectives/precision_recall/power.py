"""The power loss between likelihood and mean absolute error, with exponents of either sign."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sciops.training.objectives.precision_recall.likelihoods import Scores
from sciops.training.objectives.precision_recall.weighting import Weighting, with_gradient
from sciops.values import Check

__all__ = ["Power"]


@dataclass(frozen=True)
class Power(Weighting):
    """The power loss (1 − q^c)/c, whose weight is w = q^c: c > 0 for precision, c < 0 for recall, c = 0 the likelihood.

    Generalised cross-entropy (arXiv:1805.07836) for 0 < c ≤ 1. Stationary points are q ∝ p^{1/(1−c)} for c < 1, the
    data at the temperature 1 − c.

    Parameters
    ----------
    exponent : float
        c, at most 1.
    largest : float
        Largest weight, which c < 0 reaches where q is small; the loss is continued from there as a straight line in
        log q. At least 1.
    """

    exponent: float = -0.3
    largest: float = 10.0

    def __post_init__(self) -> None:
        Check("a finite number of at most 1", lambda c: math.isfinite(c) and c <= 1)("exponent", self.exponent)
        Check("a finite number of at least 1", lambda w: math.isfinite(w) and w >= 1)("largest", self.largest)
        if self.exponent >= 0 and self.largest != Power.largest:
            raise ValueError(f"largest={self.largest!r} does nothing with exponent={self.exponent!r}: it is for c < 0")

    def weights(self, scores: Scores) -> Tensor:
        return (self.exponent * scores.log_share).clamp(max=math.log(self.largest)).exp()

    def values(self, scores: Scores, weights: Tensor) -> Tensor:
        c, log_q = self.exponent, scores.log_share
        if abs(c) < 1e-12:  # c·log q would underflow
            return -scores.log_q
        inner = log_q.clamp(min=math.log(self.largest) / c) if c < 0 else log_q
        beyond = torch.where(inner > log_q, self.largest * (inner - log_q), 0)
        return with_gradient(-torch.expm1(c * inner) / c + beyond, weights, scores.log_q)
