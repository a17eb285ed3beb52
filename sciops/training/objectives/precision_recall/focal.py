"""The focal loss, which turns from what the model knows well to what it does not."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sciops.training.objectives.precision_recall.likelihoods import Scores
from sciops.training.objectives.precision_recall.weighting import Weighting, with_gradient
from sciops.values import NONNEGATIVE

__all__ = ["Focal"]


@dataclass(frozen=True)
class Focal(Weighting):
    """The focal loss −(1 − q)^g log q (arXiv:1708.02002): recall.

    Its weight is w = (1 − q)^g − g q (1 − q)^{g−1} log q, which falls from 1 at q = 0 to 0 at q = 1.

    Parameters
    ----------
    exponent : float
        g ≥ 0; 0 is the likelihood.
    """

    exponent: float = 2.0

    def __post_init__(self) -> None:
        NONNEGATIVE("exponent", self.exponent)

    def weights(self, scores: Scores) -> Tensor:
        log_q = scores.log_share
        left = -torch.expm1(log_q)  # 1 − q
        ratio = torch.where(left > 0, -log_q / left, 1)  # −log q/(1 − q), 1 at q = 1
        q_ratio = torch.where(log_q.isinf(), 0, log_q.exp() * ratio)  # 0 at q = 0
        return left**self.exponent * (1 + self.exponent * q_ratio)

    def values(self, scores: Scores, weights: Tensor) -> Tensor:
        if self.exponent == 0:
            return -scores.log_q
        left = -torch.expm1(scores.log_share)
        return with_gradient(-(left**self.exponent) * scores.log_share, weights, scores.log_q)
