"""What ends a run at once: a loss, or a gradient, that is not finite."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sciops.training.config import TrainConfig
from sciops.training.parallel.processes import Processes


class NonFiniteLoss(RuntimeError):
    """Loss or gradient that is not finite; the message says where, at which rate, where the last good state is."""


def check_finite(
    losses: Tensor,
    norms: Tensor,
    run: Any,
    rate: float,
    config: TrainConfig,
    processes: Processes,
) -> None:
    """Raises NonFiniteLoss for the first of the latest steps whose loss or gradient is not finite.

    Gradients in fp16 may overflow: the scaler skips such steps. Several processes see the same averaged gradient but
    each its own loss, so they decide by the gradient, together.
    """
    watched = {}
    if processes.count == 1:
        watched["loss"] = losses
    if config.precision != "fp16":
        watched["gradient norm"] = norms
    for name, values in watched.items():
        wrong = (~torch.isfinite(values)).nonzero()
        if len(wrong):
            first = int(wrong[0])
            raise NonFiniteLoss(
                f"{name} is {float(values[first])} in epoch {run.epochs + 1}, "
                f"step {run.steps - len(values) + first + 1}, learning rate {rate:.3g}"
            )
