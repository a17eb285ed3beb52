"""The base class of weighted likelihoods, Σ w·(−log q), and the likelihood itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from sciops.training.objectives.precision_recall.likelihoods import Scores

__all__ = ["NegativeLogLikelihood", "Weighting", "with_gradient"]


class Weighting:
    """Base class: a loss whose gradient is that of Σ w·(−log q) with weights w that are held fixed.

    A subclass is a frozen dataclass of its options with `weights`, and `values` where the loss is not w·(−log q).
    """

    takes_reference: ClassVar[bool] = False

    @property
    def compares(self) -> bool:
        """Whether the weight of a sample depends on the rest of the batch, which then may not be divided."""
        return False

    def weights(self, scores: Scores) -> Tensor:
        """w, (batch, n) or (batch, 1), of scores without gradients."""
        raise NotImplementedError

    def values(self, scores: Scores, weights: Tensor) -> Tensor:
        """What is reported, (batch, n); by default w·(−log q), 0 where w = 0 even for q = 0."""
        return torch.where(weights == 0, 0, -weights * scores.log_q)

    def losses(self, scores: Scores) -> Tensor:
        """The mean over the asked targets of each sample, (batch,): Σ over them by their number, not by Σ w."""
        weights = self.weights(replace(scores, log_q=scores.log_q.detach())).detach()
        return scores.mean(self.values(scores, weights))


@dataclass(frozen=True)
class NegativeLogLikelihood(Weighting):
    """−log q, with w = 1: the likelihood itself, which the other losses are compared with."""

    def weights(self, scores: Scores) -> Tensor:
        return torch.ones_like(scores.log_q)


def with_gradient(value: Tensor, weights: Tensor, log_q: Tensor) -> Tensor:
    """`value` with the gradient −weights·∇log q."""
    return value.detach() - torch.where(weights == 0, 0, weights * (log_q - log_q.detach()))
