"""GOLD: off-policy learning from demonstrations, with the model's own probability as importance weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sciops.training.objectives.precision_recall.likelihoods import Scores
from sciops.training.objectives.precision_recall.weighting import Weighting
from sciops.values import COUNT, NONNEGATIVE, POSITIVE, SHARE

__all__ = ["Gold"]


@dataclass(frozen=True)
class Gold(Weighting):
    """GOLD, w_t = clamp(q_t, least, 1) · R_t with the rewards R_t of a fixed model: precision (arXiv:2009.07839).

    R_t = 1 for reward "none"; Σ_{k=0…suffix} discount^k · max(p_{t+k}, reward_floor) for "sum", and with
    log p_{t+k} − baseline in place of p_{t+k} for "log" (GOLD-s and GOLD-p). p is `reference`, the likelihood of the
    token by a fixed model, or the model's own where none is given; behind the last token it is 1, as in the authors'
    code. q is that of the model now, of which theirs keeps a slightly older copy.

    Parameters
    ----------
    least : float
        Smallest importance weight; 0 starves what the model does not know yet.
    reward : {"none", "sum", "log"}
        Only "none" for fields, whose points have no order.
    suffix : int
        Number of further tokens in the reward.
    discount : float
        Weight of a token relative to the one before it.
    baseline : float
        For "log", about the least log p that still counts.
    reward_floor : float
        Smallest reward of a token.
    """

    least: float = 0.2
    reward: Literal["none", "sum", "log"] = "none"
    suffix: int = 5
    discount: float = 1.0
    baseline: float = -10.0
    reward_floor: float = 0.1

    takes_reference = True

    def __post_init__(self) -> None:
        SHARE("least", self.least)
        COUNT("suffix", self.suffix)
        POSITIVE("discount", self.discount)
        NONNEGATIVE("reward_floor", self.reward_floor)
        unused = {"none": ("suffix", "discount", "baseline", "reward_floor"), "sum": ("baseline",), "log": ()}
        for name in unused[self.reward]:
            if getattr(self, name) != getattr(Gold, name):
                raise ValueError(
                    f"{name}={getattr(self, name)!r} does nothing with reward={self.reward!r}; leave it out"
                )

    def weights(self, scores: Scores) -> Tensor:
        weights = scores.log_share.exp().clamp(self.least, 1)
        if self.reward == "none":
            if scores.reference is not None:
                raise ValueError("reward='none' uses no reference: pass reward='sum' or 'log', or leave it out")
            return weights
        if not scores.ordered:
            raise ValueError(f"reward={self.reward!r} follows the order of tokens; for fields expected reward='none'")
        log_p = scores.log_q if scores.reference is None else scores.reference
        log_p = log_p.masked_fill(~scores.asked, 0)  # p = 1 behind the last token
        each = log_p.exp() if self.reward == "sum" else log_p - self.baseline
        ahead = 1.0 if self.reward == "sum" else -self.baseline
        each = torch.nn.functional.pad(each, (0, self.suffix), value=ahead).clamp(min=self.reward_floor)
        n = weights.shape[1]
        rewards = sum(
            (self.discount**k * each[:, k : k + n] for k in range(self.suffix + 1)), torch.zeros_like(weights)
        )
        return weights * rewards
