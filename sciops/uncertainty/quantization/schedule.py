"""How a target is shared between the points while they are trained: annealed, relaxed, hard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor


def shares(d: Tensor, *, temperature: float | Tensor = 0.0, relaxation: float = 0.0) -> Tensor:
    """The share of each point in a target, q (batch, n), from squared distances d (batch, n); no gradient passes.

    * temperature T > 0: q_i ∝ exp(−d_i/T)
    * relaxation ε > 0: 1 − ε for the nearest point, ε/(n − 1) for each of the others
    * both 0: 1 for the nearest point, the first of several at one distance

    Raises ValueError for negative values and where both are given.
    """
    d = d.detach()
    if relaxation and float(temperature):
        raise ValueError(f"temperature={float(temperature):g} and relaxation={relaxation:g}: give one of them")
    if float(temperature) < 0 or not 0 <= relaxation < 1:
        raise ValueError(
            f"temperature={float(temperature):g}, relaxation={relaxation:g}: expected at least 0, relaxation below 1"
        )
    if float(temperature) > 0:
        return torch.softmax(-(d - d.min(1, keepdim=True).values) / temperature, 1)
    hard = F.one_hot(d.argmin(1), d.shape[1]).to(d.dtype)
    if not relaxation or d.shape[1] == 1:
        return hard
    return (1 - relaxation) * hard + relaxation / (d.shape[1] - 1) * (1 - hard)


@dataclass(frozen=True)
class Schedule:
    """The shares of a training as a function of the share of it that is over, s.

    kind : "annealed", "relaxed" or "hard"
    hard_share : last share of the training with the nearest point alone, h; of all kinds
    relaxation : ε₀ of "relaxed", ε(s) = ε₀ (1 − s/(1 − h))
    coldest : last temperature of "annealed" over the distortion

    The temperature of "annealed" falls geometrically, T(s) = T₀^{1 − r} (coldest·Δ)^r with r = s/(1 − h) and Δ the
    present distortion. T₀ has to exceed the squared distance to the farthest point: with less, a point at distance d
    has the share e^{−d/T₀} and is never moved.
    """

    kind: Literal["annealed", "relaxed", "hard"] = "annealed"
    hard_share: float = 0.25
    relaxation: float = 0.1
    coldest: float = 1e-3

    def is_hard(self, done: float) -> bool:
        """Whether the nearest point alone is moved when the share `done` of the training is over."""
        return self.kind == "hard" or done >= 1 - self.hard_share

    def temperature(self, done: float, start: Tensor, distortion: Tensor) -> Tensor:
        """T(s) of "annealed", for T₀ = `start` and Δ = `distortion`; 0 in the hard share."""
        if self.is_hard(done):
            return torch.zeros_like(start)
        ratio = done / (1 - self.hard_share)
        tiny = torch.finfo(start.dtype).tiny
        cold = (self.coldest * distortion).clamp(min=tiny)
        return torch.exp(
            (1 - ratio) * start.clamp(min=tiny).log() + ratio * torch.minimum(cold, start).clamp(min=tiny).log()
        )

    def shares(self, d: Tensor, done: float, start: Tensor, distortion: Tensor) -> Tensor:
        """The shares q (batch, n) of squared distances d, see `shares`."""
        if self.is_hard(done):
            return shares(d)
        if self.kind == "relaxed":
            return shares(d, relaxation=self.relaxation * (1 - done / (1 - self.hard_share)))
        return shares(d, temperature=self.temperature(done, start, distortion))
