"""The parts of one optimiser step: the batch on its device, the loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.models import Stepper
from sciops.models.apply import unwrapped
from sciops.training.config import TrainConfig
from sciops.training.data.batches import Batch, Step
from sciops.training.tasks.symmetry import Moves
from sciops.training.tasks.tasks import task_of

_OUT_CHANNELS = "set out_channels to the number of target fields or classes"


def to_batch(
    fields: Mapping[str, Tensor],
    step: Step,
    weight: float,
    grid: Grid,
    config: TrainConfig,
    device: torch.device,
    unrolling: Unrolling | None = None,
    moves: Moves | None = None,
) -> Batch:
    """The samples of a step on the device, each augmented as it was drawn."""
    task = task_of(config)
    x, y = task.placed(fields["x"], fields["y"], device)
    x, y = task.moved(x, y, step.codes, moves)
    return Batch(x, y if unrolling is None else unrolling.target(y), grid, weight)


class Unrolling:
    """How many steps of time a step of training takes, where the model is a `Stepper` that has them drawn.

    By (seed, epoch, step) alone: alike in all processes, whose exchanges must meet, and in all micro-batches, and the
    same in a resumed run. In epoch e, from 1, at most e.
    """

    def __init__(self, model: nn.Module, config: TrainConfig, epoch: int) -> None:
        drawing = (m for m in model.modules() if isinstance(m, Stepper) and m.gradient == "random")
        self.stepper, self.seed, self.epoch = next(drawing, None), config.seed, epoch

    def draw(self, step: int) -> None:
        """Draws for the step of training number `step`, in epoch number `epoch`, both from 0."""
        if self.stepper is not None:
            self.stepper.draw(np.random.default_rng((self.seed, self.epoch, step)), most=self.epoch + 1)

    def target(self, y: Tensor) -> Tensor:
        """The true frames among y that the model will return."""
        return y if self.stepper is None else self.stepper.target(y)


def loss_function(config: TrainConfig, scaler: torch.amp.GradScaler) -> Callable[[Tensor, Batch], Tensor]:
    """The one place where samples are reduced: Σ over this micro-batch's samples times the batch's weight."""
    task, dtype = task_of(config), config.dtype

    def loss_fn(prediction: Tensor, batch: Batch) -> Tensor:
        expected = task.expected(batch.y)
        if len(expected) != prediction.ndim or any(n not in (None, m) for n, m in zip(expected, prediction.shape)):
            raise ValueError(
                f"the model returned {tuple(prediction.shape)} for targets of shape {tuple(batch.y.shape)}; "
                + _advice(expected, batch.y)
            )
        with torch.autocast(batch.y.device.type, enabled=False):
            losses = task.losses(prediction.to(dtype), batch.y, batch.grid)
            return scaler.scale(losses.sum() * batch.weight)

    return loss_fn


def _advice(expected: tuple[int | None, ...], target: Tensor) -> str:
    if None in expected:
        return "expected logits (batch, n, symbols)"
    own = expected == tuple(target.shape)
    return _OUT_CHANNELS if own else f"the likelihood needs {expected}: set out_channels={expected[1]}"


def own_losses(config: TrainConfig, scaler: torch.amp.GradScaler, done: float) -> Callable[[nn.Module, Batch], Tensor]:
    """The rule of a model that has its own losses, when the share `done` of the training is over: backpropagation."""

    def rule(front: nn.Module, batch: Batch) -> Tensor:
        losses = front(batch.x, batch.grid, batch.y, done)
        loss = scaler.scale(losses.to(config.dtype).sum() * batch.weight)
        loss.backward()
        return loss.detach()

    return rule


def check_own_losses(model: nn.Module, config: TrainConfig) -> None:
    """Raises ValueError for options that do nothing to a model of a distribution, which has its own losses."""
    plain = TrainConfig()
    for name in ("objective", "gradient_weight", "gradients", "diagnose_every"):
        if getattr(config, name) != getattr(plain, name):
            raise ValueError(
                f"{name}={getattr(config, name)!r}: {type(unwrapped(model)).__name__} is a model of a distribution, "
                "which has its own losses and is trained by backprop; leave it out"
            )
    if config.strategy == "fsdp":
        raise ValueError(
            "strategy='fsdp': a model of a distribution is looked after on whole tensors; pass strategy='ddp'"
        )
