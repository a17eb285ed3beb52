"""Tasks whose answer lies many steps back: copying over distractors and the adding problem."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.models import Recurrent
from studies.kit.through_time.tasks import Task, recurrent

MEMORY = ("copy", "adding")
SYMBOLS, COPIED = 8, 2
_HELD_OUT = {"validation": 10**6, "test": 10**6 + 1}  # seeds of their sequences


def memory_task(name: str, *, length: int, batch: int, width: int, depth: int, cell: str, held_out: int) -> Task:
    """ "copy" or "adding" on sequences of `length` steps, fresh ones at every step of a training.

    copy : the first two of `length` inputs are marked symbols of eight; distractors follow, symbols without the mark;
        at the last two, marked otherwise and without a symbol, the first two are asked for, in their order.
        Cross-entropy in nats an answer; without memory ln 8.
    adding : inputs (value, mark), values uniform in 0 … 1, one mark in the first half and one in the second; asked at
        the end: the sum of both values (Hochreiter & Schmidhuber 1997). Square error; without memory 1/6, the variance.
    held_out : sequences in validation and in test

    Update gates of a GRU start at time constants drawn from 1 … length (Tallec & Ollivier, arXiv:1804.11188), in all
    arms, so that the true gradient does not fade over so many steps either.
    Raises ValueError for another name, and for a length that holds no delay.
    """
    if name not in MEMORY:
        raise ValueError(f"--memory-tasks {name}: expected some of {', '.join(MEMORY)}")
    if length < 2 * COPIED + 1:
        raise ValueError(f"--memory-length {length}: expected at least {2 * COPIED + 1}")
    make = {"copy": copying, "adding": adding}[name]
    given, wanted = (SYMBOLS + 2, SYMBOLS) if name == "copy" else (2, 1)

    def model(seed: int) -> Recurrent:
        net = recurrent(seed, given, wanted, width, depth, cell, residual=False)
        if cell == "gru":
            slow_gates(net, length, torch.Generator().manual_seed(seed))
        return net

    def loss(model: Recurrent, batch: tuple[Tensor, Tensor]) -> Tensor:
        said = model(batch[0])
        if name == "copy":
            return F.cross_entropy(said[:, -COPIED:].flatten(0, 1), batch[1].flatten())
        return F.mse_loss(said[:, -1, 0], batch[1])

    def fixed(part: str) -> list[tuple[Tensor, Tensor]]:
        x, y = make(held_out, length, torch.Generator().manual_seed(_HELD_OUT[part]))
        return list(zip(x.split(100), y.split(100)))

    about = {
        "copy": f"{COPIED} of {SYMBOLS} symbols over {length - 2 * COPIED} distractors",
        "adding": "the sum of two marked numbers",
    }
    return Task(
        name=f"{name}, T = {length}",
        about=about[name],
        steps=length,
        unit="nats an answer" if name == "copy" else "MSE",
        model=model,
        draw=lambda generator: make(batch, length, generator),
        loss=loss,
        validation=fixed("validation"),
        test=fixed("test"),
        shown=float,
        trivial=float(np.log(SYMBOLS)) if name == "copy" else 1 / 6,
    )


def copying(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """(inputs (count, length, 10): symbol, mark, question; answers (count, 2))."""
    symbols = torch.randint(SYMBOLS, (count, length), generator=generator)
    x = torch.cat([F.one_hot(symbols, SYMBOLS).float(), torch.zeros(count, length, 2)], -1)
    x[:, :COPIED, SYMBOLS] = 1
    x[:, -COPIED:] = 0
    x[:, -COPIED:, SYMBOLS + 1] = 1
    return x, symbols[:, :COPIED]


def adding(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """(inputs (count, length, 2): value, mark; sums of the two marked values (count,))."""
    values = torch.rand(count, length, generator=generator)
    half = length // 2
    first = torch.randint(half, (count, 1), generator=generator)
    second = half + torch.randint(length - half, (count, 1), generator=generator)
    marks = torch.zeros(count, length).scatter_(1, torch.cat([first, second], 1), 1.0)
    return torch.stack([values, marks], -1), (values * marks).sum(1)


@torch.no_grad()
def slow_gates(net: Recurrent, longest: int, generator: torch.Generator) -> None:
    """Biases of the update gates z = σ(ln τ), τ uniform in 1 … longest − 1: units keep what they hold for τ steps."""
    for cell in net.cells:
        assert isinstance(cell, nn.GRU)
        d = cell.hidden_size
        cell.bias_ih_l0[d : 2 * d] = (1 + (longest - 2) * torch.rand(d, generator=generator)).log()
        cell.bias_hh_l0[d : 2 * d] = 0.0
