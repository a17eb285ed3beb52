"""The samples of every step, as a function of (seed, epoch) alone, so that a resumed run sees the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from sciops.grids import Grid
from sciops.training.config import TrainConfig
from sciops.training.tasks.tasks import task_of


@dataclass(frozen=True)
class Batch:
    """Fields of one step, all on one grid.

    x, y : (batch, channel, *grid) in physical units, on the device of the model; y of labels: (batch, classes)
    grid : where they are sampled
    weight : factor of a sum over this process's samples, such that the mean of the results over the processes is the
        mean over the whole batch
    """

    x: Tensor
    y: Tensor
    grid: Grid
    weight: float


@dataclass(frozen=True)
class Step:
    """One step of an epoch: `indices` of the samples in training set number `dataset`, and what the task
    drew for each (symmetries, crops, partners)."""

    dataset: int
    indices: np.ndarray
    codes: np.ndarray


def batches_per_epoch(sizes: Sequence[int], config: TrainConfig, epoch: int, *, done: float | None = None) -> list[int]:
    """How many batches of each training set epoch number `epoch` (from 0) holds.

    mixed : each set's own number, or, with `grid_shares`, their total divided in those shares (at least one batch
        wherever the share is positive)
    sequential : the sets follow one another through the training, each for its share of the epochs; of the time, where
        `done` says how much of a time budget is spent
    """
    own = [-(-n // config.batch_size) for n in sizes]
    if len(sizes) == 1:
        return own
    shares = config.grid_shares or (1.0,) * len(sizes)
    if len(shares) != len(sizes):
        raise ValueError(f"grid_shares={shares!r}: expected one share for each of the {len(sizes)} training sets")
    if config.grid_order == "sequential":
        ends = np.cumsum(shares) / sum(shares)
        # the middle of the epoch decides, so that shares of the epochs round to the nearest
        share = (epoch + 0.5) / config.epochs if done is None else done
        current = int(np.searchsorted(ends, share, side="right"))
        current = min(current, len(sizes) - 1)
        return [n if i == current else 0 for i, n in enumerate(own)]
    if config.grid_shares is None:
        return own
    total = sum(own)
    return [max(1, round(total * s / sum(shares))) if s > 0 else 0 for s in shares]


def epoch_steps(sizes: Sequence[int], config: TrainConfig, epoch: int, *, done: float | None = None) -> list[Step]:
    """The steps of epoch number `epoch` (from 0): every sample of a set once before any is seen again.

    The order, the mixing of the sets and the augmentation codes come from a generator seeded by (seed, epoch).
    """
    random, task = np.random.default_rng((config.seed, epoch)), task_of(config)
    steps = []
    for dataset, (n, count) in enumerate(zip(sizes, batches_per_epoch(sizes, config, epoch, done=done))):
        passes = -(-count * config.batch_size // n) if n else 0
        for _ in range(passes):
            order = random.permutation(n)
            for start in range(0, n, config.batch_size):
                if count == 0:
                    break
                count -= 1
                indices = order[start : start + config.batch_size]
                steps.append(Step(dataset, indices, task.draw(random, indices)))
    if len(sizes) > 1:
        steps = [steps[i] for i in random.permutation(len(steps))]
    return steps


def micro_batches(step: Step, rank: int, processes: int, accumulate: int = 1) -> list[tuple[Step, float]]:
    """This process's share of a step in at most `accumulate` pieces that differ by one sample, each with the weight of
    `Batch`.

    Every process gets the same number of pieces, as every forward pass may be an exchange between them; a piece that
    would be empty is one sample with weight 0. Since the weights are those of the whole step, the sum over the pieces
    is what one batch gives, also where the last piece is smaller.
    """
    count = len(step.indices)
    mine = np.arange(rank, count, processes)
    pieces = np.array_split(mine, min(accumulate, -(-count // processes)))
    stand_in = mine[:1] if len(mine) else np.arange(1)
    parts = [(piece, processes / count) if len(piece) else (stand_in, 0.0) for piece in pieces]
    return [(Step(step.dataset, step.indices[part], step.codes[part]), weight) for part, weight in parts]
