"""`Bracket`: a lower and an upper bound of a spectral norm."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Bracket:
    """Two numbers that enclose a spectral norm: lower ≤ σ₁ ≤ upper, rounding included.

    lower, upper : tensors of one shape (one bracket per item of a batch), or numpy arrays or floats where those were
        given. `upper` has the graph of what it was computed from; `lower` has none.
    """

    lower: Any
    upper: Any

    @property
    def gap(self) -> Any:
        """upper/lower − 1, the most by which `upper` can exceed the true value; 0 where both are 0."""
        if isinstance(self.upper, Tensor):
            return torch.where(self.upper.detach() == 0, 0, self.upper.detach() / self.lower - 1)
        lower, upper = np.asarray(self.lower, float), np.asarray(self.upper, float)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(upper == 0, 0, upper / lower - 1)[()]

    def contains(self, value: Any) -> Any:
        """Whether lower ≤ value ≤ upper, compared in float64."""
        if isinstance(self.upper, Tensor):
            return (self.lower.double() <= value) & (value <= self.upper.detach().double())
        return (self.lower <= value) & (value <= self.upper)

    def largest(self) -> Bracket:
        """The bracket of the largest norm of a batch: (max lower, max upper)."""
        return Bracket(self.lower.max(), self.upper.max())

    def floats(self) -> Bracket:
        """The same bracket with two floats, without a graph."""
        ends = (end.detach() if isinstance(end, Tensor) else end for end in (self.lower, self.upper))
        return Bracket(*map(float, ends))


def largest_of(brackets: Iterable[Bracket]) -> Bracket:
    """The bracket of the largest norm of several maps, that of their block-diagonal map: (max lower, max upper)."""
    brackets = list(brackets)
    if not brackets:
        raise ValueError("largest_of: got no bracket; expected at least one")
    larger = torch.maximum if isinstance(brackets[0].upper, Tensor) else max
    return Bracket(reduce(larger, (b.lower for b in brackets)), reduce(larger, (b.upper for b in brackets)))


def outward(lower: Tensor, upper: Tensor, dtype: torch.dtype) -> Bracket:
    """float64 bounds in another dtype, rounded away from each other; `upper` keeps its graph."""
    if dtype == torch.float64:
        return Bracket(lower.detach(), upper)
    low, high = lower.detach().to(dtype), upper.to(dtype)
    low = torch.where(low.double() > lower, torch.nextafter(low, torch.zeros_like(low)), low)
    above = torch.nextafter(high.detach(), torch.full_like(high, torch.inf))
    step = torch.where(high.detach().double() < upper.detach(), above - high.detach(), torch.zeros_like(high))
    return Bracket(low, high + step)
