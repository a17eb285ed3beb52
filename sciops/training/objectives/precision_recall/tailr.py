"""TaiLr, the tailored total variation, and its counterpart for recall."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sciops.training.objectives.precision_recall.likelihoods import Scores
from sciops.training.objectives.precision_recall.weighting import Weighting
from sciops.values import SHARE, Check

__all__ = ["TaiLr", "TaiLrRecall", "log_proxy"]

CLOSED = Check("a number in [0, 1]", lambda value: 0 <= value <= 1)


@dataclass(frozen=True)
class TaiLr(Weighting):
    """TaiLr, w = q/(γ + (1 − γ) q), at least `least`: precision (OpenReview VELL0PlWfc).

    The total variation to the data, with γ·[the target] + (1 − γ)·q in place of their unknown density. Its stationary
    points are q_i = max(0, (p_i/S − γ)/(1 − γ)): what is rarer than γ·S disappears.

    Parameters
    ----------
    gamma : float
        γ in [0, 1]: 0 is the likelihood, 1 has w = q and ends at the mode.
    least : float
        Smallest weight; 0.2 and 0.3 in the paper's tasks. Without it a token with q near 0 is never learned.
    """

    gamma: float = 0.1
    least: float = 0.0

    def __post_init__(self) -> None:
        CLOSED("gamma", self.gamma)
        SHARE("least", self.least)

    def weights(self, scores: Scores) -> Tensor:
        log_q = scores.log_share
        if self.gamma == 0:
            return torch.ones_like(log_q)
        return (log_q - log_proxy(log_q, self.gamma)).exp().clamp(self.least, 1)


@dataclass(frozen=True)
class TaiLrRecall(Weighting):
    """The decreasing counterpart of TaiLr, w = γ/(γ + (1 − γ) q), at least `least`: recall.

    Not from a paper. γ → 0 has w ∝ 1/q, whose stationary points are q ∝ √p.

    Parameters
    ----------
    gamma : float
        γ in (0, 1]; 1 is the likelihood.
    least : float
        Smallest weight.
    """

    gamma: float = 0.3
    least: float = 0.0

    def __post_init__(self) -> None:
        Check("a number in (0, 1]", lambda value: 0 < value <= 1)("gamma", self.gamma)
        SHARE("least", self.least)

    def weights(self, scores: Scores) -> Tensor:
        return (math.log(self.gamma) - log_proxy(scores.log_share, self.gamma)).exp().clamp(self.least, 1)


def log_proxy(log_q: Tensor, gamma: float) -> Tensor:
    """log(γ + (1 − γ) q) for γ > 0, the logarithm of TaiLr's stand-in for the density of the data."""
    if gamma == 1:
        return torch.zeros_like(log_q)
    return torch.logaddexp(log_q + math.log1p(-gamma), log_q.new_tensor(math.log(gamma)))
