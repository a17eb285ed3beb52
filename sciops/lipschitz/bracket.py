"""`Bracket`: two numbers with the true one between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

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
        """upper/lower − 1: by how much `upper` can exceed the true value; 0 where both are 0."""
        gap = (self.upper - self.lower) / (self.lower + (self.lower == 0))
        return gap + (self.lower == 0) * (self.upper != 0) * 1e300

    def contains(self, value: Any) -> Any:
        return (self.lower <= value) & (value <= self.upper)

    def scaled(self, factor: float) -> Bracket:
        """Of |factor| times the map. The product of the bounds is rounded outwards."""
        factor = abs(factor)
        return Bracket(self.lower * (factor * (1 - 2e-16)), self.upper * (factor * (1 + 2e-16))).widened()

    def widened(self, ulps: int = 1) -> Bracket:
        """Both ends moved outwards by units in the last place."""
        if not isinstance(self.upper, Tensor):
            slack = ulps * 2.3e-16
            return Bracket(self.lower * (1 - slack), self.upper * (1 + slack))
        slack = ulps * torch.finfo(self.upper.dtype).eps
        return Bracket(self.lower * (1 - slack), self.upper * (1 + slack))

    def largest(self) -> Bracket:
        """Of the largest of a batch: (max lower, max upper)."""
        return Bracket(self.lower.max(), self.upper.max())

    def floats(self) -> Bracket:
        """As two floats, without a graph."""
        return Bracket(float(self.lower), float(self.upper))


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
    low, high = lower.detach().to(dtype), upper.to(dtype)
    low = torch.where(low.double() > lower, torch.nextafter(low, torch.zeros_like(low)), low)
    above = torch.nextafter(high.detach(), torch.full_like(high, torch.inf))
    step = torch.where(high.detach().double() < upper.detach(), above - high.detach(), torch.zeros_like(high))
    return Bracket(low, high + step)
