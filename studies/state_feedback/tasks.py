"""The two tasks of the state-feedback study: the next character of a text, and the next readings of four sensors."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sciops.datasets.text import CORPORA, characters, read_corpus
from sciops.grids import Grid
from sciops.models import Recurrent
from sciops.pde import kuramoto_sivashinsky
from studies.kit.through_time.tasks import Task, recurrent

SENSORS, POINTS, LENGTH = 4, 64, 22.0
_SETTLE = 100.0  # time until a run from noise has forgotten it


def text_task(corpus: str, *, length: int, batch: int, width: int, depth: int, cell: str, held_out: int) -> Task:
    """One-hot characters in, logits of the next out; loss in nats a character, shown as perplexity.

    held_out : sequences in validation and in test
    """
    found = characters(read_corpus(corpus))
    count = len(found.symbols)

    def windows(codes: np.ndarray, starts: Tensor) -> tuple[Tensor, Tensor]:
        rows = torch.from_numpy(codes.astype(np.int64))[starts[:, None] + torch.arange(length + 1)]
        return F.one_hot(rows[:, :-1], count).float(), rows[:, 1:]

    def draw(generator: torch.Generator) -> tuple[Tensor, Tensor]:
        starts = torch.randint(len(found.train) - length, (batch,), generator=generator)
        return windows(found.train, starts)

    def even(codes: np.ndarray) -> list[tuple[Tensor, Tensor]]:
        starts = torch.linspace(0, len(codes) - length - 1, held_out).long()
        return [windows(codes, part) for part in starts.split(batch)]

    def loss(model: Recurrent, batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())

    shares = np.bincount(found.train, minlength=count) / len(found.train)
    entropy = -sum(p * np.log(p) for p in shares if p > 0)
    return Task(
        name=f"text, T = {length}",
        about=f"next character of {CORPORA[corpus].split(' (')[0].split(',')[0]}, {count} symbols",
        steps=length,
        unit="perplexity a character",
        model=lambda seed: recurrent(seed, count, count, width, depth, cell, residual=False),
        draw=draw,
        loss=loss,
        validation=even(found.validation),
        test=even(found.test),
        shown=lambda nats: float(np.exp(min(nats, 50.0))),
        trivial=float(np.exp(entropy)),
    )


def snapshots(sequences: int, times: int, *, every: float = 0.5, seed: int) -> np.ndarray:
    """(sequences, times, points) of Kuramoto–Sivashinsky on an interval of 22, 64 points, `every` 0.5; float32."""
    grid = Grid((POINTS,), LENGTH, "periodic")
    start = 0.1 * np.random.default_rng(seed).standard_normal((sequences, POINTS))
    start -= start.mean(1, keepdims=True)
    when = _SETTLE + every * np.arange(times)
    return kuramoto_sivashinsky.solve(start, grid, times=when, dt=0.1).u.astype(np.float32)


def readings(sequences: int, times: int, *, seed: int) -> np.ndarray:
    """(sequences, times, sensors): every 16th point of `snapshots`."""
    return snapshots(sequences, times, seed=seed)[..., :: POINTS // SENSORS]


def sensor_task(length: int, *, batch: int, width: int, depth: int, cell: str, sequences: int, seed: int) -> Task:
    """Readings of four sensors in, the next ones out, as increments; mean square error of readings of unit variance.

    sequences : for training; a quarter as many each for validation and test, from other initial values
    """
    held_out = max(4, sequences // 4)
    values = readings(sequences + 2 * held_out, length + 1, seed=seed)
    values = torch.from_numpy((values - values[:sequences].mean()) / values[:sequences].std())
    parts = values.split([sequences, held_out, held_out])
    cut = lambda rows: (rows[:, :-1], rows[:, 1:])  # noqa: E731

    def draw(generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return cut(parts[0][torch.randint(sequences, (batch,), generator=generator)])

    def loss(model: Recurrent, batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.mse_loss(model(batch[0]), batch[1])

    return Task(
        name=f"sensors, T = {length}",
        about=f"{SENSORS} sensors on Kuramoto–Sivashinsky, next readings",
        steps=length,
        unit="MSE, readings of unit variance",
        model=lambda seed: recurrent(seed, SENSORS, SENSORS, width, depth, cell, residual=True),
        draw=draw,
        loss=loss,
        validation=[cut(rows) for rows in parts[1].split(batch)],
        test=[cut(rows) for rows in parts[2].split(batch)],
        shown=float,
        trivial=float(F.mse_loss(*cut(parts[2]))),
    )
