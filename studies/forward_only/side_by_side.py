"""Training of networks side by side, each with its own seed and rates, by one rule and one optimiser."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from studies.forward_only.hard_tasks import HardTask
from studies.forward_only.rules import ENDS, FREE, HEAD, PROJECTED, Gradients, Learner
from studies.kit.stepping import shuffled

SHOWN = 400  # samples that are evaluated at a time


class Optimizer:
    """Plain SGD, or Adam with torch's defaults, with a peak rate for each network and a cosine decay.

    rates : (networks,) of the last layer; shares : of the other layers, times that
    """

    def __init__(self, name: str, parameters: Gradients, rates: Tensor, shares: Tensor, steps: int) -> None:
        self.name, self.steps, self.done = name, steps, 0
        self.moving = []
        for g, group in enumerate(parameters):
            own = rates if g == len(parameters) - 1 else rates * shares
            for j, p in enumerate(group):
                rate = own.to(p).view(1, -1, *[1] * (p.ndim - 2))
                self.moving.append((g, j, p, rate, torch.zeros_like(p), torch.zeros_like(p)))

    def step(self, gradients: Gradients) -> None:
        decay = 0.5 * (1 + math.cos(math.pi * self.done / self.steps))
        self.done += 1
        unbiased = math.sqrt(1 - 0.999**self.done) / (1 - 0.9**self.done)
        for g, j, p, rate, mean, square in self.moving:
            if self.name == "adam":
                mean.lerp_(gradients[g][j], 0.1)
                square.mul_(0.999).addcmul_(gradients[g][j], gradients[g][j], value=0.001)
                p -= rate * decay * unbiased * mean / (square.sqrt() + 1e-8 * math.sqrt(1 - 0.999**self.done))
            else:
                p -= rate * decay * gradients[g][j]


@torch.no_grad()
def train(
    task: HardTask,
    arm: str,
    depth: int,
    optimizer: str,
    seeds: Sequence[int],
    rates: Sequence[float],
    shares: Sequence[float],
    *,
    looks: int = 0,
) -> dict[str, np.ndarray]:
    """Trains one network for each entry of seeds, rates and shares; networks of one seed see the same batches.

    Returns
    -------
    dict
        "train", "validation", "test": errors (networks, samples), infinite where a network diverged; "steps" (looks,)
        and "cosines" (looks, hidden layers, networks) to the true gradient of a layer's weights.
    """
    torch.set_num_threads(1)
    kind = torch.empty(0)
    count = len(seeds)
    net = task.networks(depth, seeds, kind)
    sizes = (task.inputs * task.points, task.width * task.points, task.outputs * task.points)
    learner, true = (
        Learner(name, net, lambda others: task.networks(depth, others, kind), seeds, sizes, kind)
        for name in (arm, FREE)
    )
    parameters = [group.parameters for group in net.groups]
    still = {HEAD: slice(0, -1), ENDS: slice(1, -1)}.get(arm)
    moving = Optimizer(optimizer, parameters, torch.tensor(rates), torch.tensor(shares), task.steps)
    if still is not None:
        fixed = [*range(len(parameters))][still]
        moving.moving = [one for one in moving.moving if one[0] not in fixed]
    x, y = task.parts[0]
    own = sorted(set(seeds))
    rows = {seed: shuffled(len(x), task.batch, np.random.default_rng(seed).permutation) for seed in own}
    places = [own.index(seed) for seed in seeds]
    seen = {round(t) for t in np.linspace(0, task.steps - 1, looks)}
    cosines = []
    for step in range(task.steps):
        chosen = np.stack([next(rows[seed]) for seed in own])[places]
        targets = y[chosen]
        given = (x[chosen].reshape(count, -1, task.inputs), lambda out, t=targets: task.error(out, t), task.batch)
        found = learner.gradients(*given)
        if step in seen:
            cosines.append(_cosines(found, true.gradients(*given), net.lift))
        moving.step(found)
        if arm in PROJECTED:
            net.project()
    result = {
        part: _errors(task, net, *given, count) for part, given in zip(("train", "validation", "test"), task.parts)
    }
    if looks:
        result |= {"steps": np.array(sorted(seen)), "cosines": torch.stack(cosines).numpy()}
    return result


def _errors(task: HardTask, net: Any, x: Tensor, y: Tensor, count: int) -> np.ndarray:
    found = []
    for a in range(0, len(x), SHOWN):
        part = x[a : a + SHOWN].reshape(-1, task.inputs)
        found.append(task.errors(net.run(part.expand(count, *part.shape))[1], y[a : a + SHOWN]))
    errors = torch.cat(found, 1)
    return torch.where(errors.isfinite(), errors, math.inf).numpy()


def _cosines(found: Gradients, true: Gradients, lift: bool) -> Tensor:
    """(hidden layers, networks)."""
    pairs = [(a[0].flatten(2), b[0].flatten(2)) for a, b in zip(found[lift:-1], true[lift:-1])]
    return torch.cat([torch.nn.functional.cosine_similarity(a, b, dim=2) for a, b in pairs])
