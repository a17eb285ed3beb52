"""Training by one way back through time, with its clock, and with its gradient held against the true one."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from sciops.models import Recurrent
from studies.kit.stepping import train_by_step
from studies.kit.through_time.gradients import closeness, evaluate
from studies.kit.through_time.tasks import Task

# arm → (way back, options); K of truncation is filled in by the study
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "BPTT": ("exact", {}),
    "TBPTT": ("truncated", {}),
    "FT-BPTT": ("state_feedback", {"feedback": "zero"}),
    "DSF linspace": ("state_feedback", {"feedback": "linspace"}),
    "DSF 0.9 linspace": ("state_feedback", {"feedback": "linspace", "level": 0.9}),
    "DSF gate": ("state_feedback", {"feedback": "gate"}),
    "DSF least squares": ("state_feedback", {"feedback": "least_squares", "every": 50}),
    "DSF Hutchinson": ("state_feedback", {"feedback": "hutchinson", "every": 10}),
    "Highway k = 0": ("highway", {"iterations": 0}),
    "Highway k = 1": ("highway", {"iterations": 1}),
}
OURS = ("DSF gate", "DSF least squares", "DSF Hutchinson")


def way_back(arm: str, truncation: int) -> tuple[str, dict[str, Any]]:
    name, options = ARMS[arm]
    return name, options | ({"steps": truncation} if name == "truncated" else {})


def train(
    task: Task, arm: str, *, seed: int, steps: int, rate: float, truncation: int, looks: int, comparisons: int
) -> dict[str, Any]:
    """One model, AdamW with a one-cycle rate, clipped at 1; all arms of a seed share the start and the batches.

    looks, comparisons : how often in training it is validated, and its gradient compared; neither counts as time

    returns : {"history": [{"step", "seconds", "validation"}], "closeness": [{"step", "cosine", "norm_ratio"}], "test",
        "seconds", "step_seconds" (median), "diverged"}
    """
    model, generator, way = task.model(seed), torch.Generator().manual_seed(seed), way_back(arm, truncation)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    look_at, compare_at = ({round(i * steps / n) for i in range(n + 1)} for n in (looks, comparisons))
    history, close, each = [], [], []

    def ahead(number: int) -> Any:
        """The batch of a step, before which the model is validated and its gradient compared, outside the clock."""
        batch = task.draw(generator)
        if number in look_at:
            value = evaluate(model, task, task.validation)
            history.append({"step": number, "seconds": sum(each), "validation": task.shown(value)})
        if number in compare_at:
            close.append({"step": number, **closeness(model, task, batch, way)})
        return batch

    waiting = ahead(0)

    def after(run: Any, record: dict[str, Any]) -> None:
        nonlocal waiting
        each.append(run.seconds - sum(each))
        waiting = ahead(record["step"])

    def loss(model: Recurrent, batch: Any) -> Tensor:
        with model.going_back(way[0], **way[1]):
            return task.loss(model, batch)

    options = {"warmup": 0.2, "on_nonfinite": "stop"}
    run = train_by_step(model, lambda _: waiting, loss, optimizer, steps=steps, after=after, **options)
    seconds, diverged = sum(each), not run.complete
    return {
        "task": task.name,
        "arm": arm,
        "seed": seed,
        "rate": rate,
        "history": history,
        "closeness": close,
        "validation": history[-1]["validation"] if not diverged else math.inf,
        "test": task.shown(evaluate(model, task, task.test)) if not diverged else math.inf,
        "seconds": seconds,
        "step_seconds": sorted(each)[len(each) // 2] if each else math.nan,
        "diverged": diverged,
    }
