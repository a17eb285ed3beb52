"""One training of a mixture of tasks, all seeds side by side: the held-out loss of every task of it."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from studies.interference.networks import CharacterNet, SideBySide, field_net
from studies.interference.tasks import TaskSet, read_examples
from studies.kit.cells import kept
from studies.kit.stepping import train_by_step

MODES = 12
"""Fourier modes of the field models, where the grid has them."""


@dataclass(frozen=True)
class Spec:
    """What decides the trainings of a few mixtures of equally many tasks, which run side by side.

    data : digest of the examples. share : examples of each task over those of a training alone
    steps, batch : of a training alone; a mixture of m tasks takes share · m times the steps, with batch/m of each task
    told : whether constant channels name the task of a field; else they are 0
    """

    data: str
    mixtures: tuple[tuple[str, ...], ...]
    share: float
    seeds: tuple[int, ...]
    steps: int
    batch: int
    rate: float
    width: int
    depth: int
    told: bool

    @property
    def label(self) -> str:
        first = "+".join(self.mixtures[0])
        return f"{first}-and-{len(self.mixtures) - 1}-{self.share:g}-w{self.width}{'' if self.told else '-untold'}"


def train_once(spec: Spec, tasks: TaskSet, folder: Path) -> dict[str, Any]:
    """The record of the trainings, read back where there is one.

    losses [{task: one a seed}] in the order of the mixtures, parameters (of a network), steps, CPU seconds
    """
    torch.set_num_threads(1)
    made_by = {**asdict(spec), "task set": tasks.name}
    return kept(folder, f"{tasks.name}-{spec.label}", made_by, lambda: trained(spec, tasks))


def trained(spec: Spec, tasks: TaskSet) -> dict[str, Any]:
    """Trains the networks of all seeds and mixtures; see `train_once`.

    Every seed has its own initial weights and its own order of the examples of every task, which are the same in every
    mixture: mixtures are paired by seed.
    """
    started = time.process_time()
    examples = read_examples(tasks.file, len(tasks.names))
    members = [[tasks.names.index(name) for name in mixture] for mixture in spec.mixtures]
    size = len(members[0])
    if spec.batch % size or any(len(one) != size for one in members):
        raise ValueError(
            f"batch={spec.batch}, mixtures {spec.mixtures}: expected equally many tasks that divide the batch"
        )
    each, steps = spec.batch // size, round(spec.steps * spec.share * size)
    rows = {k: _rows(spec.seeds, k, len(examples[k][0]), steps * each) for k in {k for one in members for k in one}}
    text = tasks.kind == "text"
    points = examples[0][0].shape[-1]
    make = (
        partial(CharacterNet, tasks.symbols, spec.width)
        if text
        else partial(
            field_net, len(tasks.names), points, width=spec.width, depth=spec.depth, modes=min(MODES, points // 2)
        )
    )
    net = SideBySide(make, spec.seeds, copies=len(members))
    inputs = _text_inputs if text else partial(_field_inputs, tasks=len(tasks.names), told=spec.told)
    loss = _text_loss if text else _squared_error

    def stacked(first: int, chosen: list[list[Any]], parts: list[list[int]] = members) -> tuple[Tensor, Tensor]:
        """Examples (mixtures · seeds, batch, …), from arrays `first` and `first` + 1 of the tasks of each mixture."""
        pairs = [list(zip(one, at)) for one, at in zip(parts, chosen)]
        x = torch.cat([torch.cat([inputs(examples[k][first][at], k) for k, at in one], 1) for one in pairs])
        y = np.concatenate([np.concatenate([examples[k][first + 1][at] for k, at in one], 1) for one in pairs])
        return x, torch.from_numpy(y.astype(np.int64) if text else y)

    def draw(step: int) -> tuple[Tensor, Tensor]:
        now = slice(step * each, (step + 1) * each)
        return stacked(0, [[rows[k][:, now] for k in one] for one in members])

    def loss_of(net: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        result: Tensor = loss(net(batch[0]), batch[1]).mean(1).sum()
        return result

    optimizer = torch.optim.AdamW(net.parameters(), lr=spec.rate, weight_decay=0.0)
    train_by_step(net, draw, loss_of, optimizer, steps=steps, clip=None)
    found: list[dict[str, list[float]]] = [{} for _ in members]
    everything = np.tile(np.arange(len(examples[0][2])), (len(spec.seeds), 1))
    net.eval()
    for place in range(size):
        parts = [[one[place]] for one in members]
        with torch.no_grad():
            x, y = stacked(2, [[everything]] * len(parts), parts)
            errors = loss(net(x), y)
        errors = (errors if text else errors.sqrt()).double().mean(1).reshape(len(members), -1)
        for losses, (k,), values in zip(found, parts, errors.tolist()):
            losses[tasks.names[k]] = values
    return {"losses": found, "parameters": net.each, "steps": steps, "cpu seconds": time.process_time() - started}


def _rows(seeds: tuple[int, ...], task: int, count: int, length: int) -> np.ndarray:
    """(seeds, length) examples of a task in the order in which they come; a shorter training sees the first of them."""
    return np.stack([np.random.default_rng([seed, task]).integers(count, size=length) for seed in seeds])


def _text_inputs(x: np.ndarray, task: int) -> Tensor:
    return torch.from_numpy(x.astype(np.int64))


def _field_inputs(x: np.ndarray, task: int, *, tasks: int, told: bool) -> Tensor:
    """(seeds, batch, points) → (seeds, batch, 1 + tasks, points)."""
    field = torch.from_numpy(x).unsqueeze(2)
    channels = field.new_zeros(*field.shape[:2], tasks, field.shape[-1])
    channels[:, :, task] = float(told)
    return torch.cat([field, channels], 2)


def _text_loss(logits: Tensor, target: Tensor) -> Tensor:
    """(seeds, batch) nats a character."""
    return F.cross_entropy(logits.transpose(1, 2), target, reduction="none")


def _squared_error(output: Tensor, target: Tensor) -> Tensor:
    """(seeds, batch) ‖p − u‖² / ‖u‖²: of two answers to one question, its least mean is at their mean."""
    return (output.squeeze(2) - target).square().sum(-1) / target.square().sum(-1)
