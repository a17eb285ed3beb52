"""The best last layer on hidden layers as they are drawn: what no training of it alone can beat by more than luck."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from studies.forward_only.hard_tasks import HardTask

RIDGE = 1e-6


def solved_head(task: HardTask, depth: int, seeds: Sequence[int]) -> dict[str, Tensor]:
    """The last layer that minimises the training loss, by least squares for fields and L-BFGS for labels, in float64.

    Returns
    -------
    dict
        "validation" and "test": errors (networks, samples).
    """
    net = task.networks(depth, seeds, torch.empty(0, dtype=torch.float64))

    def features(x: Tensor) -> Tensor:
        rows = x.double().reshape(-1, task.inputs)
        states, _ = net.run(rows.expand(len(seeds), *rows.shape))
        return F.pad(states[-1], (0, 1), value=1.0)

    x, y = task.parts[0]
    h = features(x)
    if task.points > 1:
        target = y.double().reshape(1, -1, task.outputs)
        eye = torch.eye(h.shape[-1], dtype=h.dtype)
        weights = torch.linalg.solve(h.mT @ h + RIDGE * eye, h.mT @ target)
    else:
        weights = _logistic(h, y, task.outputs)
    found = {}
    for part, (inputs, targets) in zip(("validation", "test"), task.parts[1:]):
        found[part] = task.errors(features(inputs) @ weights, targets)
    return found


def _logistic(h: Tensor, y: Tensor, classes: int) -> Tensor:
    weights = torch.zeros(len(h), h.shape[-1], classes, dtype=h.dtype, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=300, history_size=20, line_search_fn="strong_wolfe")
    targets = y.repeat(len(h))

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy((h @ weights).flatten(0, 1), targets) + RIDGE * weights.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return weights.detach()
