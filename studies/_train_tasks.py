"""What a model of the training study is given and asked for: one entry a task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sciops.datasets import SpaceTimeDataset, load_splits
from sciops.grids import Grid

CHOICES = ("auto", "steady", "step", "trajectory", "space-time", "final")


@dataclass(frozen=True)
class Parts:
    """Train, validation and test data of one grid; None where there is no such part."""

    train: Any = None
    validation: Any = None
    test: Any = None


def resolved(config: Any) -> str:
    """The task; "auto" is "step" where the data evolves and "steady" where it does not or where there is both."""
    from sciops.datasets._split_sources import only_evolving

    if config.task not in CHOICES:
        raise ValueError(f"task={config.task!r}: expected one of {', '.join(CHOICES)}")
    task = config.task
    if task == "auto":
        task = "step" if only_evolving(Path(config.data), config.equation) else "steady"
    alone = {"unroll": 1, "through": "full", "noise": 0.0}
    changed = [name for name, value in alone.items() if getattr(config, name) != value]
    if task != "step" and changed:
        raise ValueError(f"{changed[0]}={getattr(config, changed[0])!r} is for --task step; this is {task}")
    if task == "steady" and (config.history, config.stride) != (1, 1):
        raise ValueError(f"history={config.history}, stride={config.stride}: a steady problem has no time")
    return task


def load_parts(config: Any, task: str, points: Any, **asked: Any) -> Parts:
    """The data of `task` with `points` per axis; asked : samples of each part, as `load_splits` takes them."""
    options: dict[str, Any] = {"equation": config.equation, "memory_limit": config.memory_limit}
    options["dtype"] = torch.float64 if config.precision == "float64" else torch.float32
    if task == "steady":
        options["inputs"] = config.inputs or None
    else:
        options["windows"] = _windows(config, task)
    found = load_splits(config.data, points, **asked, **options)
    parts = Parts(found.train, found.validation, found.test)
    if task == "space-time":
        wrap = lambda part: None if part is None else SpaceTimeDataset(part)  # noqa: E731
        parts = Parts(wrap(parts.train), wrap(parts.validation), wrap(parts.test))
    return parts


def _windows(config: Any, task: str) -> dict[str, Any]:
    extent = {"step": (0, config.unroll), "trajectory": (0, None), "space-time": (0, None), "final": (None, 1)}
    lead, horizon = extent[task]
    if config.through == "pushforward":
        lead, horizon = config.unroll - 1, 1
    return {
        "history": config.history,
        "lead": lead,
        "horizon": horizon,
        "stride": config.stride,
        "start": config.start,
        "stop": config.stop,
        "state": config.state or None,
        "inputs": config.inputs,
        "parameters": config.parameters,
    }


def channels_of(task: str, train: Any) -> dict[str, int]:
    """in_channels and out_channels of the model that is built: for "step" that of one step, without its unrolling."""
    sample = train.batch([0])
    outputs = train.channels if task == "step" else sample["y"].shape[1]
    return {"in_channels": sample["x"].shape[1], "out_channels": outputs}


def wrapped(model: nn.Module, config: Any, task: str, train: list[Any]) -> nn.Module:
    """The model as it is trained: for "step" inside its `Stepper`."""
    from sciops.models import Stepper

    if task != "step":
        return model
    options = {"residual": config.residual, "steps": config.unroll, "gradient": config.through, "noise": config.noise}
    if config.normalize:
        return Stepper.normalized(model, train, **options)
    return Stepper(model, channels=train[0].channels, history=train[0].history, **options)


def frames_of(model: nn.Module, task: str, test: Any) -> tuple[Callable[[Tensor, Grid, int], Tensor], Any]:
    """(how to get frames against time, the trajectories to compare them with); for every task that gives frames."""
    from sciops.evaluation import rollout
    from sciops.models import apply_model

    first = next(model.parameters())

    def direct(x0: Tensor, grid: Grid, steps: int) -> Tensor:
        with torch.no_grad():
            x0 = x0.to(first.device, torch.float64 if first.dtype == torch.float64 else torch.float32)
            if task == "space-time":
                return apply_model(model, test.inputs(x0), test.grid).transpose(1, 2)
            return apply_model(model, x0, grid).unflatten(1, (steps, -1))

    if task == "step":
        return lambda x0, grid, steps: rollout(model, x0, grid, steps=steps), test
    return direct, test.source if task == "space-time" else test
