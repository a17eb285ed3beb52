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
    """What decides the trainings of one mixture.

    data : digest of the examples. mixture : tasks. share : examples of each over those of a training alone
    steps, batch : of a training alone; a mixture of m tasks takes share · m times the steps, with batch/m of each task
    told : whether constant channels name the task of a field; else they are 0
    """

    data: str
    mixture: tuple[str, ...]
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
        return f"{'+'.join(self.mixture)}-{self.share:g}-w{self.width}{'' if self.told else '-untold'}"


def train_once(spec: Spec, tasks: TaskSet, folder: Path) -> dict[str, Any]:
    """The record of a training, read back where there is one: losses {task: one a seed}, and its cost."""
    torch.set_num_threads(1)
    made_by = {**asdict(spec), "task set": tasks.name}
    return kept(folder, f"{tasks.name}-{spec.label}", made_by, lambda: trained(spec, tasks))


def trained(spec: Spec, tasks: TaskSet) -> dict[str, Any]:
    """Trains the networks of all seeds on a mixture; see `train_once`.

    Every seed has its own initial weights and its own order of the examples of every task, which are the same in every
    mixture: mixtures are paired by seed.
    """
    started = time.process_time()
    examples = read_examples(tasks.file, len(tasks.names))
    members = [tasks.names.index(name) for name in spec.mixture]
    if spec.batch % len(members):
        raise ValueError(
            f"batch={spec.batch} cannot be shared by {len(members)} tasks: pass a multiple of {len(members)}"
        )
    each, steps = spec.batch // len(members), round(spec.steps * spec.share * len(members))
    rows = {k: _rows(spec.seeds, k, len(examples[k][0]), steps * each) for k in members}
    text = tasks.kind == "text"
    points = examples[0][0].shape[-1]
    make = (
        partial(CharacterNet, tasks.symbols, spec.width)
        if text
        else partial(
            field_net, len(tasks.names), points, width=spec.width, depth=spec.depth, modes=min(MODES, points // 2)
        )
    )
    net = SideBySide(make, spec.seeds)
    inputs = _text_inputs if text else partial(_field_inputs, tasks=len(tasks.names), told=spec.told)
    loss = _text_loss if text else _squared_error

    def draw(step: int) -> tuple[Tensor, Tensor]:
        chosen = {k: rows[k][:, step * each : (step + 1) * each] for k in members}
        x = torch.cat([inputs(examples[k][0][chosen[k]], k) for k in members], 1)
        y = np.concatenate([examples[k][1][chosen[k]] for k in members], 1)
        return x, torch.from_numpy(y.astype(np.int64) if text else y)

    def loss_of(net: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return loss(net(batch[0]), batch[1]).mean(1).sum()

    optimizer = torch.optim.AdamW(net.parameters(), lr=spec.rate, weight_decay=0.0)
    train_by_step(net, draw, loss_of, optimizer, steps=steps, clip=None)
    return {
        "losses": {tasks.names[k]: _tested(net, k, examples[k][2:], inputs, loss, len(spec.seeds)) for k in members},
        "parameters": net.each,
        "steps": steps,
        "cpu seconds": time.process_time() - started,
    }


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


@torch.no_grad()
def _tested(net: nn.Module, task: int, test: Any, inputs: Any, loss: Any, seeds: int) -> list[float]:
    """The held-out loss of each seed: nats a character, or the mean relative L2 error."""
    net.eval()
    x, y = (np.broadcast_to(part, (seeds, *part.shape)) for part in test)
    target = torch.from_numpy(y.astype(np.int64) if y.dtype.kind == "u" else y.copy())
    found = loss(net(inputs(x.copy(), task)), target)
    found = found.sqrt() if loss is _squared_error else found
    return [float(value) for value in found.double().mean(1)]
