"""One point of the precision-recall curve as a loss."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sciops.training.objectives.precision_recall.likelihoods import Scores
from sciops.training.objectives.precision_recall.tailr import CLOSED, log_proxy
from sciops.training.objectives.precision_recall.weighting import Weighting
from sciops.values import POSITIVE

__all__ = ["LambdaPR"]


@dataclass(frozen=True)
class LambdaPR(Weighting):
    """The point α_λ = Σ min(λp, q) of the precision-recall curve, w = (q/p̃)·1[q ≤ λp̃].

    ∇α_λ = E_p[(q/p)·1[q ≤ λp]·∇log q] (arXiv:2305.18910), with p̃ in place of the density p of the data: `reference`,
    the likelihood by a fixed model, or else TaiLr's γ + (1 − γ) q. λ < 1 is for recall: what is covered well enough
    is not reinforced further. With TaiLr's p̃ and λ ≥ 1 the loss is "tailr" itself. The form of the loss in
    arXiv:2508.09654 could not be read; this is the divergence with the stand-ins of TaiLr and GOLD.

    Parameters
    ----------
    lam : float
        λ > 0.
    gamma : float
        γ in [0, 1] of TaiLr's p̃; not used with a reference.
    """

    lam: float = 0.5
    gamma: float = 0.1

    takes_reference = True

    def __post_init__(self) -> None:
        POSITIVE("lam", self.lam)
        CLOSED("gamma", self.gamma)

    def weights(self, scores: Scores) -> Tensor:
        log_q = scores.log_share
        if scores.reference is not None:
            if self.gamma != LambdaPR.gamma:
                raise ValueError(
                    f"gamma={self.gamma!r} does nothing with a reference, which stands for it; leave one out"
                )
            log_q, log_p = scores.log_q, scores.reference
        else:
            log_p = log_q if self.gamma == 0 else log_proxy(log_q, self.gamma)
        ratio = torch.where(log_q == log_p, 1, (log_q - log_p).exp())  # also where both are −∞
        if scores.reference is None and self.lam >= 1:  # q ≤ p̃ always, but for round-off
            return ratio.clamp(max=1)
        return ratio * (log_q <= math.log(self.lam) + log_p)
