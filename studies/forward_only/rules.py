"""The rules of learning for networks side by side: what each takes for the derivative of the loss in every layer.

The formulas of `sciops.training.gradients.forward_only` and `feedback_alignment`; a test compares both in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from sciops.models.orthogonal.matrices import polar
from studies.forward_only.networks import Networks

FREE = "backprop, free"
ORTHOGONAL = "backprop, orthogonal"
HEAD = "last layer alone"
ENDS = "first and last layer"
DIRECT = "direct feedback alignment"
FEEDBACK = "feedback alignment"
LEARNERS = ("FOTON", ORTHOGONAL, FREE, "PEPITA", FEEDBACK, DIRECT, HEAD, ENDS)
TAKEN = ("FOTON, F random", "FOTON, no projection")  # what is taken from FOTON
PROJECTED = ("FOTON", ORTHOGONAL, TAKEN[0])
SCALE = 0.05  # deviation of a random F, as in `forward_only`
_OTHER = 10**6  # seeds of random matrices, apart from those of weights

Gradients = list[list[Tensor]]
"""By group of layers, of each of its parameters."""


class Learner:
    """A rule for given networks, with what it holds fixed: random matrices, one set a seed.

    draw : networks of seeds; sizes : numbers of a sample at x, in a hidden layer and at y
    """

    def __init__(
        self,
        arm: str,
        net: Networks,
        draw: Callable[[list[int]], Networks],
        seeds: Sequence[int],
        sizes: tuple[int, int, int],
        kind: Tensor,
    ) -> None:
        self.arm, self.net, self.back = arm, net, net
        inputs, width, outputs = sizes
        others = [_OTHER + seed for seed in seeds]
        generators = [torch.Generator().manual_seed(seed) for seed in others]
        if arm == FEEDBACK:
            self.back = draw(others)
        if arm == DIRECT:
            self.matrices = [_orthonormal(width, outputs, generators, kind) for _ in net.order[:-1]]
        if arm in ("PEPITA", TAKEN[0]):
            entry = width if arm != "PEPITA" and net.lift else inputs
            self.random = SCALE * _gaussian(entry, outputs, generators).to(kind)

    def gradients(self, x: Tensor, error: Callable[[Tensor], Tensor], samples: int) -> Gradients:
        """Of the mean loss over `samples` samples; `error` gives e = ∂loss/∂y by sample."""
        states, y = self.net.run(x)
        inputs, cotangents = self.signals(x, states, error(y))
        found, start = [], 0
        for group in self.net.groups:
            part = slice(start, start + group.count)
            found.append(group.gradients(torch.stack(inputs[part]), torch.stack(cotangents[part]) / samples))
            start += group.count
        return found

    def signals(self, x: Tensor, states: list[Tensor], e: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """(inputs, cotangents) by layer, a lift included: the gradient of W_l is Σ cotangent_l input_lᵀ over rows."""
        net, lifted = self.net, [x] * self.net.lift
        if self.arm == "PEPITA":
            moved = x - _through(self.random, e, x)
            again, _ = net.run(moved)
            first = [states[0] - again[0]] * net.lift
            return [moved] * net.lift + again, [*first, *_differences(states, again), e]
        if self.arm.startswith("FOTON"):
            u = _through(self.random, e, states[0]) if self.arm == TAKEN[0] else injected(net, e)
            again, _ = net.behind(states[0] - u)
            return lifted + states, [*([u] * net.lift), *_differences(states, again), e]
        if self.arm == DIRECT:
            found = [_through(b, e, states[-1]) for b in self.matrices]
            return lifted + states, [*_weighed(found, states, net), e]
        found = [e]
        for (group, i), h in zip(reversed(self.back.order[net.lift + 1 :]), reversed(states[1:])):
            found.append((1 - h * h) * group.transposed(i, found[-1]))
        if net.lift:
            group, i = self.back.order[1]
            found.append(group.transposed(i, found[-1]))
        return lifted + states, found[::-1]


def injected(net: Networks, e: Tensor) -> Tensor:
    """W_1ᵀ … W_Lᵀ e, activations left out: F e of FOTON, and the error that a lift is trained by."""
    for group, i in reversed(net.order[net.lift :]):
        e = group.transposed(i, e)
    return e


def _differences(states: list[Tensor], again: list[Tensor]) -> list[Tensor]:
    return [h - other for h, other in zip(states[1:], again[1:])]


def _weighed(found: list[Tensor], states: list[Tensor], net: Networks) -> list[Tensor]:
    """Times φ′ behind every layer but a lift, which has none."""
    return [
        u if net.lift and i == 0 else (1 - h * h) * u for i, (u, h) in enumerate(zip(found, states[1 - net.lift :]))
    ]


def _through(matrix: Tensor, e: Tensor, like: Tensor) -> Tensor:
    """matrix · e, sample by sample; the rows of a sample are its points. → the shape of `like`."""
    return (e.reshape(len(e), -1, matrix.shape[-1]) @ matrix.mT).reshape(like.shape)


def _gaussian(rows: int, columns: int, generators: Sequence[torch.Generator]) -> Tensor:
    return torch.stack([torch.randn(rows, columns, generator=g, dtype=torch.float64) for g in generators])


def _orthonormal(rows: int, columns: int, generators: Sequence[torch.Generator], kind: Any) -> Tensor:
    """Orthonormal columns or rows: the law of the product of the initial layers that it stands for."""
    return polar(_gaussian(rows, columns, generators)).to(kind)
