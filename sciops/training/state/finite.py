"""The loss and the gradient norm of every step of an epoch; one that is not finite ends the run."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sciops.training.config import TrainConfig
from sciops.training.parallel import Processes
from sciops.training.state.run import Run


class NonFiniteLoss(RuntimeError):
    """Loss or gradient that is not finite; the message says where, at which rate, where the last good state is."""


class StepNumbers:
    """Losses and gradient norms of the steps of one epoch, at most `count`.

    Gradients in fp16 may overflow: the scaler skips such steps. Several processes see the same averaged gradient but
    each its own loss, so they decide by the gradient, together.
    """

    def __init__(self, count: int, run: Run, config: TrainConfig, processes: Processes) -> None:
        # arrays of the whole epoch: a tensor kept for every step leaves holes in the heap, which then grows
        self._losses, self._norms = torch.zeros(2, count, dtype=processes.wide, device=processes.device)
        self._watched = {"loss": self._losses} if processes.count == 1 else {}
        if config.precision != "fp16":
            self._watched["gradient norm"] = self._norms
        # a CPU is asked after every step, before the parameters change; a GPU once in a while, since asking stalls it
        self._ask_every = 1 if processes.device.type == "cpu" else 32
        self._run, self._processes = run, processes
        self._taken, self._checked, self._rate = 0, 0, math.nan

    def add(self, loss: Tensor, norm: Tensor, rate: float) -> Tensor:
        """Takes in a step; returns its loss as it is kept. Raises NonFiniteLoss."""
        self._losses[self._taken], self._norms[self._taken], self._rate = loss, norm, rate
        self._taken += 1
        if self._run.steps % self._ask_every == 0:
            self._check()
        return self._losses[self._taken - 1]

    def means(self) -> tuple[float, float]:
        """(mean loss over steps and processes, mean gradient norm); raises NonFiniteLoss."""
        self._check()
        losses, norms = self._losses[: self._taken], self._norms[: self._taken]
        loss = (self._processes.sum(losses.mean()) / self._processes.count).item()
        if not math.isfinite(loss):
            raise self._error("loss", loss, "")
        return loss, norms.mean().item()

    def _check(self) -> None:
        """Raises NonFiniteLoss for the first step since the last check whose loss or gradient is not finite."""
        since, self._checked = self._checked, self._taken
        for name, values in self._watched.items():
            wrong = (~torch.isfinite(values[since : self._taken])).nonzero()
            if len(wrong):
                first = since + int(wrong[0])
                step = self._run.steps - self._taken + first + 1
                raise self._error(name, float(values[first]), f"step {step}, ")

    def _error(self, name: str, value: float, step: str) -> NonFiniteLoss:
        return NonFiniteLoss(f"{name} is {value} in epoch {self._run.epochs + 1}, {step}learning rate {self._rate:.3g}")
