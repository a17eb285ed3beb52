"""`Bracket`: two numbers with the true one between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Bracket:
    """lower ≤ σ₁ ≤ upper, rounding included.

    lower, upper : tensors of one shape (a batch has one bracket an item), or numpy arrays or floats where those were
        given. `upper` carries the graph of what it was computed from; `lower` never does.
    """

    lower: Any
    upper: Any

    @property
    def gap(self) -> Any:
        """upper/lower − 1, the most by which `upper` can exceed the true value; 0 where both are 0."""
        if isinstance(self.upper, Tensor):
            upper = self.upper.detach()
            return torch.where(upper == 0, 0, upper / self.lower - 1)
        lower, upper = np.asarray(self.lower, float), np.asarray(self.upper, float)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(upper == 0, 0, upper / lower - 1)[()]

    def contains(self, value: Any) -> Any:
        """Whether lower ≤ value ≤ upper, compared in float64."""
        if isinstance(self.upper, Tensor):
            return (self.lower.double() <= value) & (value <= self.upper.detach().double())
        return (self.lower <= value) & (value <= self.upper)

    def largest(self) -> Bracket:
        """Of the largest of a batch: (max lower, max upper)."""
        return Bracket(self.lower.max(), self.upper.max())

    def floats(self) -> Bracket:
        """As two floats, without a graph."""
        ends = (end.detach() if isinstance(end, Tensor) else end for end in (self.lower, self.upper))
        return Bracket(*map(float, ends))


def largest_of(brackets: Iterable[Bracket]) -> Bracket:
    """Of max σ₁ over several maps, (max lower, max upper), as the norm of a block-diagonal map."""
    brackets = list(brackets)
    if not brackets:
        raise ValueError("largest_of: got no bracket; expected at least one")
    lower, upper = brackets[0].lower, brackets[0].upper
    for bracket in brackets[1:]:
        if isinstance(upper, Tensor):
            lower, upper = torch.maximum(lower, bracket.lower), torch.maximum(upper, bracket.upper)
        else:
            lower, upper = max(lower, bracket.lower), max(upper, bracket.upper)
    return Bracket(lower, upper)


def outward(lower: Tensor, upper: Tensor, dtype: torch.dtype) -> Bracket:
    """float64 bounds in another dtype, rounded away from each other; `upper` keeps its graph."""
    if dtype == torch.float64:
        return Bracket(lower.detach(), upper)
    low, high = lower.detach().to(dtype), upper.to(dtype)
    low = torch.where(low.double() > lower, torch.nextafter(low, torch.zeros_like(low)), low)
    above = torch.nextafter(high.detach(), torch.full_like(high, torch.inf))
    step = torch.where(high.detach().double() < upper.detach(), above - high.detach(), torch.zeros_like(high))
    return Bracket(low, high + step)
