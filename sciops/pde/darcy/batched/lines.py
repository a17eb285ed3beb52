"""Every second line of a grid solved at once, for a batch of samples, by cyclic reduction.

The points of a line that stand at an even place are eliminated, which leaves a line of half the length: log₂ n steps,
each on whole arrays, where elimination from one end to the other would take n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class _Step(NamedTuple):
    """The points at places 0, 2, 4, … of lines (batch, n, lines): their inverse diagonal, and over the neighbours' own
    diagonals the couplings of the points at 1, 3, 5, … to the one before and the one after."""

    inverse: Tensor
    before: Tensor
    after: Tensor


@dataclass
class Zebra:
    """The factors of the lines 0, 2, 4, … and 1, 3, 5, … of a level."""

    steps: tuple[list[_Step], list[_Step]]

    @classmethod
    def of(cls, d: Tensor, c: Tensor) -> Zebra:
        """d (batch, lines, n) the diagonal, c the coupling of each point to the next on its line."""
        return cls(tuple(_factors(_apart(d, parity), _apart(c, parity)[:, :-1]) for parity in (0, 1)))

    def select(self, keep: Tensor) -> Zebra:
        return Zebra(tuple([_Step(*(array[keep] for array in step)) for step in steps] for steps in self.steps))

    def add(self, parity: int, r: Tensor, u: Tensor) -> None:
        """u += the lines' own inverse times r, on the lines of one parity; r, u (batch, lines, n)."""
        if r.shape[1] > parity:
            u[:, parity::2] += _solved(self.steps[parity], _apart(r, parity)).mT


def _apart(array: Tensor, parity: int) -> Tensor:
    """(batch, n, lines of one parity): beside each other, so that every second point is a run of memory."""
    return array[:, parity::2].mT.contiguous()


def _factors(d: Tensor, c: Tensor) -> list[_Step]:
    """d (batch, n, lines), c (batch, n − 1, lines): the matrix has d on its diagonal and −c beside it."""
    steps = []
    while True:
        inverse = 1.0 / d[:, ::2]
        # places 1, 3, …: the one before is at 0, 2, …; the one after at 2, 4, …, and is missing behind an even end
        left, right = c[:, ::2], c[:, 1::2]
        before, after = left * inverse[:, : left.shape[1]], right * inverse[:, 1 : right.shape[1] + 1]
        steps.append(_Step(inverse, before, after))
        if d.shape[1] == 1:
            return steps
        kept = d[:, 1::2] - left * before
        kept[:, : right.shape[1]] -= right * after
        d, c = kept, after[:, : kept.shape[1] - 1] * left[:, 1:]


def _solved(steps: list[_Step], r: Tensor) -> Tensor:
    even = []
    for step in steps[:-1]:
        here, ends = r[:, ::2], step.after.shape[1]
        r = torch.addcmul(r[:, 1::2], step.before, here[:, : step.before.shape[1]])
        r[:, :ends].addcmul_(step.after, here[:, 1 : ends + 1])
        even.append(here)
    x = steps[-1].inverse * r
    for step, here in zip(reversed(steps[:-1]), reversed(even)):
        whole, ends = x.new_empty(x.shape[0], here.shape[1] + x.shape[1], x.shape[2]), step.after.shape[1]
        whole[:, 1::2] = x
        y = whole[:, ::2]
        torch.mul(step.inverse, here, out=y)
        y[:, : x.shape[1]].addcmul_(step.before, x)
        y[:, 1 : ends + 1].addcmul_(step.after, x[:, :ends])
        x = whole
    return x
