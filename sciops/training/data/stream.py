"""Training on batches that are a function of the step, by a loss of the caller's own."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from torch import Tensor, nn

from sciops.training.config import TrainConfig
from sciops.training.data.source import Loss, Rule, Source
from sciops.training.parallel import Processes


class Stream(Source):
    """Batches step ↦ `batches(step)`, any objects, with the loss ``loss(model, batch)``, as `fit` describes them."""

    def __init__(self, batches: Any, loss: Loss, config: TrainConfig, processes: Processes) -> None:
        if not callable(batches):
            raise TypeError(f"data is {type(batches).__name__}; with a loss expected a function: step → batch")
        if config.steps is None:
            raise ValueError("steps=None: with a loss of your own set the number of steps")
        if processes.count > 1 or config.precision not in ("float32", "bf16"):
            raise ValueError(
                f"precision={config.precision!r} on {processes.count} processes: a loss of your own is for one process "
                "and for float32 (the model's own precision) or bf16"
            )
        config.check_used("batches", "a loss of your own")
        self.batches, self.loss, self.total = batches, loss, config.steps
        self.epochs = min(config.epochs, config.steps)
        self.sizes = ()
        about = getattr(batches, "about", {})
        self.identity = {"data": "", "validation": [], "moves": [], "about": about}

    def rule(self, *_: Any) -> Rule:
        def filled(model: nn.Module, batch: Any) -> Tensor:
            loss = self.loss(model, batch)
            if loss.requires_grad:  # else the loss is of a rule that filled .grad itself
                loss.backward()
            return loss.detach()

        return filled

    def steps(self, _: nn.Module, epoch: int, first: int, done: float | None) -> tuple[int, Generator[Any]]:
        end = self.total * (epoch + 1) // self.epochs
        return end - first, ([(self.batches(step), 0)] for step in range(first, end))
