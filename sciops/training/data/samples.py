"""Training on data sets: which samples a step sees, the loss of the config's objective, validation, normalisers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
from torch import nn
from torch.amp import GradScaler

from sciops.training.config import TrainConfig
from sciops.training.data.batches import Batch, Step, batches_per_epoch, epoch_steps, micro_batches
from sciops.training.data.checks import check_validation, examine, fingerprints, training_sets
from sciops.training.data.loader import Loader
from sciops.training.data.source import Rule, Source
from sciops.training.data.steps import Unrolling, check_own_losses, loss_function, own_losses, to_batch
from sciops.training.data.validation import validate
from sciops.training.gradients import GRADIENTS, options_at
from sciops.training.parallel import Processes
from sciops.training.setup import OnGrid, compiled, own_preparation, prepared, wants_normalizers
from sciops.training.tasks.tasks import task_of
from sciops.uncertainty import has_own_losses

Pieces = Iterator[tuple[Batch, int]]  # the micro-batches of a step, numbered so that the last one has number 0


class Samples(Source):
    """The data sets of ``data.train`` and ``data.validation``, as `fit` describes them; a context manager."""

    def __init__(self, data: Any, config: TrainConfig, processes: Processes) -> None:
        self.train, self.validation = training_sets(data)
        self.config, self.processes, self.task = config, processes, task_of(config)
        if self.task.compares and processes.count > 1:
            raise ValueError(
                f"objective={config.objective!r} compares the samples of a batch, which {processes.count} processes "
                "share; train in one process, or take its option threshold"
            )
        self.own = False  # whether the model has its own losses
        self.sizes = [len(dataset) for dataset in [*self.train, *self.validation]]
        self.loader = Loader(
            [*self.train, *self.validation], workers=config.loader_workers, start_method=config.start_method
        )
        self.epochs, self.total = config.epochs, 0  # by the clock: no number of steps is known
        if not config.seconds:
            counts = [sum(batches_per_epoch(self._trained, config, epoch)) for epoch in range(config.epochs)]
            done = list(accumulate(counts))
            self.total = min(done[-1], config.steps or done[-1])
            self.epochs = 1 + bisect_left(done, self.total)

    def __exit__(self, *error: Any) -> None:
        self.loader.__exit__(*error)

    @property
    def _trained(self) -> Sequence[int]:
        """Numbers of samples of the data sets that are trained on."""
        return self.sizes[: len(self.train)]

    def prepare(self, model: nn.Module) -> nn.Module:
        """Checks all fields; the model in the config's precision, wrapped in its normalisers."""
        train, config, first = self.train, self.config, self.processes.first
        self.task.check_model(model)
        self.own = has_own_losses(model)
        if self.own:
            check_own_losses(model, config)
        self.moves = first(lambda: [self.task.moves(dataset) for dataset in train])
        normalize = wants_normalizers(model, config)
        fingerprint, normalizers = first(lambda: examine(train, config, self.loader, normalize=normalize))
        first(lambda: check_validation(self.validation, config, self.loader, first=len(train)))
        self.identity = {
            "data": fingerprint,
            "validation": fingerprints(self.validation),
            "moves": [None if one is None else one.describe() for one in self.moves],
        }
        self.train, self.validation = own_preparation(model, train, self.validation, config)
        self.loader.datasets[:] = [*self.train, *self.validation]
        self.moves = first(lambda: [self.task.moves(dataset) for dataset in self.train])
        if normalizers is not None:
            normalizers = (normalizers[0], self.task.output_normalizer(normalizers[1]))
        return prepared(model, normalizers, config)

    def front(self, model: nn.Module) -> nn.Module:
        """What is called in training: with the grid, compiled where the config says so."""
        return compiled(OnGrid(model), self.config)

    def rule(self, done: float, scaler: GradScaler, name: str | None = None) -> Rule:
        if self.own:
            return own_losses(self.config, scaler, done)
        options = {} if name else options_at(self.config.gradient_options, done)
        fill = partial(GRADIENTS[name or self.config.gradients], **options)
        loss = loss_function(self.config, scaler)
        return lambda front, batch: fill(front, loss, batch)

    def steps(self, front: nn.Module, epoch: int, first: int, done: float | None) -> tuple[int, Generator[Pieces]]:
        config, rank, count = self.config, self.processes.rank, self.processes.count
        steps = self._fresh(epoch_steps(self._trained, config, epoch, done=done), epoch)
        if config.steps is not None:
            steps = steps[: config.steps - first]
        parts = [micro_batches(step, rank, count, config.accumulate) for step in steps]
        return len(parts), self._read(parts, Unrolling(front, config, epoch), first)

    def _fresh(self, steps: list[Step], epoch: int) -> list[Step]:
        """The steps, with numbers that follow on those of the epochs before wherever a data set makes its samples: one
        after the other, which is quicker to make than a random order, and as random."""
        taken = [0] * len(self.train)
        for i, step in enumerate(steps):
            dataset, count = self.train[step.dataset], len(step.indices)
            if getattr(dataset, "fresh", False):
                place = np.arange(taken[step.dataset], taken[step.dataset] + count) % len(dataset)
                steps[i] = replace(step, indices=epoch * len(dataset) + place)
                taken[step.dataset] += count
        return steps

    def _read(self, parts: list[Any], unrolling: Unrolling, first: int) -> Generator[Pieces]:
        reads = self.task.reads
        plan = [(piece.dataset, reads(piece.indices, piece.codes)) for pieces in parts for piece, _ in pieces]
        with closing(self.loader.batches(plan)) as batches:

            def batch(piece: Any, weight: float) -> Batch:
                grid, moves = self.train[piece.dataset].grid, self.moves[piece.dataset]
                how = (self.config, self.processes.device, unrolling, moves)
                return to_batch(next(batches), piece, weight, grid, *how)

            for number, pieces in enumerate(parts, first):
                unrolling.draw(number)
                yield ((batch(*piece), i) for i, piece in enumerate(pieces, 1 - len(pieces)))

    def validate(self, model: nn.Module) -> dict[str, Any]:
        if not self.validation:
            return {}
        return validate(model, self.validation, len(self.train), self.loader, self.config, self.processes)
