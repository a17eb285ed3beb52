"""A sequence task, and the recurrent network that is trained on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sciops.models import Recurrent


@dataclass(frozen=True)
class Task:
    """A sequence task: model(seed), draw(generator) → one batch, loss(model, batch), and held-out batches."""

    name: str
    about: str
    steps: int
    unit: str  # of the loss shown, after `shown`
    model: Callable[[int], Recurrent]
    draw: Callable[[torch.Generator], tuple[Tensor, Tensor]]
    loss: Callable[[Recurrent, tuple[Tensor, Tensor]], Tensor]
    validation: list[tuple[Tensor, Tensor]]
    test: list[tuple[Tensor, Tensor]]
    shown: Callable[[float], float]
    trivial: float  # what no memory at all gives, in the unit shown


def recurrent(seed: int, given: int, wanted: int, width: int, depth: int, cell: str, *, residual: bool) -> Recurrent:
    """The model of both tasks, its weights drawn from `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Recurrent(given, wanted, width=width, depth=depth, cell=cell, residual=residual, layout="sequence")
