"""Loss truncation: the samples with the largest losses, or with the smallest, are left out of a step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sciops.training.objectives.precision_recall.likelihoods import Scores
from sciops.training.objectives.precision_recall.weighting import Weighting
from sciops.values import SHARE, WHOLE

__all__ = ["LossQuantile", "Truncation", "TruncationRecall"]


@dataclass(frozen=True)
class _Truncated(Weighting):
    drop: float | None = None
    threshold: float | None = None

    usual: ClassVar[float]
    hardest: ClassVar[bool]

    def __post_init__(self) -> None:
        if self.drop is not None:
            SHARE("drop", self.drop)
            if self.threshold is not None:
                raise ValueError(
                    f"drop={self.drop!r}, threshold={self.threshold!r}: set one of them; LossQuantile turns a share "
                    "into a threshold"
                )
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise ValueError(f"threshold={self.threshold!r}: expected a finite loss")

    @property
    def compares(self) -> bool:
        return self.threshold is None

    def weights(self, scores: Scores) -> Tensor:
        sign = 1 if self.hardest else -1
        losses = sign * scores.mean(-scores.log_q)
        if self.threshold is None:
            share = self.usual if self.drop is None else self.drop
            dropped = losses > _largest_kept(losses[scores.asked.any(1)], share)
        else:
            dropped = losses > sign * self.threshold
        return (~dropped)[:, None].to(scores.log_q.dtype)  # a loss that is NaN is kept, and seen


@dataclass(frozen=True)
class Truncation(_Truncated):
    """Loss truncation, w = 1[mean of −log q over the sample is no larger than the (1 − drop)-quantile]: precision.

    The ⌊drop·batch⌋ samples of the largest losses are left out; one whose loss ties with one that is kept is kept. It
    bounds the total variation to the data (arXiv:2004.14589). The mean over the batch still divides by all samples.

    Parameters
    ----------
    drop : float, optional
        Share of the batch, 0.4 where neither option is given; 0 is the likelihood. Of few samples a share is noise:
        take 32 or more, or a threshold.
    threshold : float, optional
        The largest loss that is kept, in place of a share; `LossQuantile` follows it through a training.
    """

    usual = 0.4
    hardest = True


@dataclass(frozen=True)
class TruncationRecall(_Truncated):
    """Truncation of the other end, w = 1[mean of −log q is no smaller than the drop-quantile]: recall.

    The ⌊drop·batch⌋ samples of the smallest losses, which the model has learned best, are left out; options as of
    `Truncation`, with `threshold` the smallest loss that is kept and a share of 0.2 where neither is given.
    """

    usual = 0.2
    hardest = False


class LossQuantile:
    """A quantile of the latest losses, for the option `threshold` of a loss of one's own.

    ``update(losses)`` takes the mean of −log q of each sample; `threshold` is None, which means that nothing is
    dropped, until `size` losses are there, and then is computed again after every `every` further ones (10 000 and
    10 000 in the authors' code of arXiv:2004.14589).

    drop : share that lies beyond the threshold
    easiest : whether that share is the smallest losses, as for "truncation_recall"
    """

    def __init__(self, drop: float = 0.4, *, size: int = 10_000, every: int = 10_000, easiest: bool = False) -> None:
        SHARE("drop", drop)
        WHOLE("size", size)
        WHOLE("every", every)
        self.drop, self.size, self.every, self.easiest = drop, size, every, easiest
        self.threshold: float | None = None
        self._losses = torch.empty(0, dtype=torch.float64)
        self._waiting = every

    def update(self, losses: Tensor) -> float | None:
        """Takes the losses (batch,) of a step; returns the threshold."""
        self._losses = torch.cat([self._losses, losses.detach().double().cpu().flatten()])[-self.size :]
        self._waiting += losses.numel()
        if len(self._losses) == self.size and self._waiting >= self.every:
            sign = -1 if self.easiest else 1
            self.threshold = sign * float(_largest_kept(sign * self._losses, self.drop))
            self._waiting = 0
        return self.threshold


def _largest_kept(losses: Tensor, drop: float) -> Tensor:
    """The largest of the losses that is left when ⌊drop·number⌋ are dropped from the top; +∞ of none."""
    if not len(losses):
        return losses.new_tensor(torch.inf)
    dropped = math.floor(drop * len(losses) + 1e-9)
    return losses.sort().values[len(losses) - 1 - dropped]
