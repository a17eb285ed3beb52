"""A GRU that copies symbols over distractors: Highway-BP over time against backpropagation through time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from sciops.models import Recurrent
from studies.highway_depth.training import Arm
from studies.kit.stepping import train_by_step
from studies.kit.through_time.gradients import closeness, evaluate
from studies.kit.through_time.memory import SYMBOLS, memory_task
from studies.kit.through_time.tasks import Task

if TYPE_CHECKING:
    from studies.highway_depth import Config

GUESSING = math.log(SYMBOLS)
"""Nats an answer without memory."""


def way_back(arm: Arm) -> tuple[str, dict[str, Any]]:
    """How gradients go back through time, for `Recurrent.going_back`; γ = 1 and k = 0 is full truncation.

    Raises ValueError for an estimated γ, which there is none of over time.
    """
    if arm.iterations is None:
        return "exact", {}
    if isinstance(arm.gamma, str):
        raise ValueError(f"γ {arm.gamma!r} over time: expected a number")
    return "highway", {"iterations": arm.iterations, "gamma": arm.gamma}


def trained_over_time(arm: Arm, config: Config) -> dict[str, Any]:
    """The record of one arm, as of `studies.highway_depth.training.trained`; errors in nats an answer."""
    torch.set_num_threads(1)
    shape = {"length": config.time_length, "batch": config.time_batch, "width": config.time_width}
    task = memory_task("copy", depth=1, cell="gru", held_out=config.time_scored, **shape)
    choice = [_one(task, arm, seed, rate, config)["row"] for seed in config.time_choosing for rate in config.time_rates]
    scores = {
        rate: float(np.mean([r["validation"] for r in choice if r["rate"] == rate])) for rate in config.time_rates
    }
    rate = min(config.time_rates, key=lambda rate: scores[rate])
    ones = [_one(task, arm, seed, rate, config, looks=config.looks) for seed in config.time_seeds]
    return {
        "rate": rate,
        "choice": choice,
        "members": [one["row"] for one in ones],
        "looks": _side_by_side([one["looks"] for one in ones]),
        "probes": _side_by_side([one["probes"] for one in ones]),
        "parameters": sum(p.numel() for p in task.model(0).parameters()),
    }


def _one(task: Task, arm: Arm, seed: int, rate: float, config: Config, looks: int = 0) -> dict[str, Any]:
    """One training: AdamW with one cycle of the rate; all arms of a seed share the start and the batches."""
    steps, way = config.time_steps, way_back(arm)
    model, generator = task.model(seed), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    due = {round(t) for t in np.linspace(0, steps - 1, looks)} if looks else set()
    seen: list[dict[str, Any]] = []
    probes: list[dict[str, Any]] = []

    def draw(step: int) -> Any:
        batch = task.draw(generator)
        share = step / max(1, steps - 1)
        if step in due and arm.iterations is not None:
            seen.append({"share": share, **closeness(model, task, batch, way)})
        elif step in due and step in (0, steps - 1):
            for k in config.probed:
                probes.append({"share": share, "k": k, **closeness(model, task, batch, way_back(Arm(k)))})
        return batch

    def loss(model: Recurrent, batch: Any) -> Tensor:
        with model.going_back(way[0], **way[1]):
            return task.loss(model, batch)

    run = train_by_step(model, draw, loss, optimizer, steps=steps, warmup=0.2, on_nonfinite="stop")
    errors = {
        part: evaluate(model, task, getattr(task, part)) if run.complete else math.inf
        for part in ("validation", "test")
    }
    return {"row": {"seed": seed, "rate": rate, **errors}, "looks": seen, "probes": probes}


def _side_by_side(rows: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Looks of one seed after another as looks with a number a seed."""
    return [
        {key: [one[key] for one in each] if key in ("cosine", "norm_ratio") else each[0][key] for key in each[0]}
        for each in zip(*rows)
    ]
