"""The gradient by a way back through time beside the true one, and the mean loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sciops.models import Recurrent
from sciops.training.gradients import compared
from studies.kit.through_time.tasks import Task


def gradient(
    model: Recurrent, task: Task, batch: Any, way: tuple[str, dict[str, Any]]
) -> tuple[float, dict[str, Tensor]]:
    """(loss, gradient by parameter), the model's memory of Λ left as it was."""
    buffers = [(b, b.clone()) for b in model.buffers()]
    parameters = dict(model.named_parameters())
    with model.going_back(way[0], **way[1]):
        loss = task.loss(model, batch)
        found = torch.autograd.grad(loss, list(parameters.values()))
    for buffer, before in buffers:
        buffer.copy_(before)
    return loss.item(), dict(zip(parameters, found))


def closeness(model: Recurrent, task: Task, batch: Any, way: tuple[str, dict[str, Any]]) -> dict[str, float]:
    """Cosine and ratio of norms of the gradient by `way` and the true one, all parameters together."""
    truth = gradient(model, task, batch, ("exact", {}))[1]
    found = compared(gradient(model, task, batch, way)[1], truth, {})
    return {name: values["all"] for name, values in found.items()}


def evaluate(model: Recurrent, task: Task, batches: list[Any]) -> float:
    """Mean loss over the sequences of the batches."""
    with torch.no_grad():
        losses = [(task.loss(model, batch).item(), len(batch[0])) for batch in batches]
    return sum(loss * count for loss, count in losses) / sum(count for _, count in losses)
