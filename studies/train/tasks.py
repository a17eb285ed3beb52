"""What a model of the training study is given and asked for: one entry a task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from sciops.datasets import SpaceTimeDataset, load_splits
from sciops.values import check_whole
from studies.kit.study import picked

if TYPE_CHECKING:
    from studies.train import TrainStudyConfig

CHOICES = ("auto", "steady", "step", "trajectory", "space-time", "final")
# Options of tasks, with the value that changes nothing.
_OF_STEPS = {"unroll": 1, "through": "full", "noise": 0.0, "time_step": False, "residual": True}
_OF_TIME = {"history": 1, "stride": 1, "start": 0, "stop": None, "state": (), "parameters": (), "forcings": ()}


@dataclass(frozen=True)
class Parts:
    """Train, validation and test data of one grid; None where there is no such part."""

    train: Any = None
    validation: Any = None
    test: Any = None


def resolved(config: TrainStudyConfig) -> str:
    """The task; "auto" is "step" where the data evolves and "steady" where it does not or where there is both."""
    from sciops.datasets.fields.split_sources import only_evolving

    if config.task not in CHOICES:
        raise ValueError(f"task={config.task!r}: expected one of {', '.join(CHOICES)}")
    task = config.task
    if task == "auto":
        task = "step" if only_evolving(Path(config.data), config.equation) else "steady"
    check_whole(unroll=config.unroll)
    name = None if task == "step" else _changed(config, _OF_STEPS)
    if name is not None:
        raise ValueError(f"{name}={getattr(config, name)!r} is for --task step; this is {task}")
    name = _changed(config, _OF_TIME) if task == "steady" else None
    if name is not None:
        raise ValueError(f"{name}={getattr(config, name)!r}: a steady problem has no time")
    strides = strides_of(config)
    if len(set(strides)) != len(strides) or not strides:
        raise ValueError(f"stride={strides}: expected one or several different numbers")
    if len(strides) > 1 and not (task == "step" and config.time_step):
        raise ValueError(
            f"stride={strides}: one model of several steps of time has to be told which: --task step --time-step"
        )
    return task


def _changed(config: TrainStudyConfig, unused: dict[str, Any]) -> str | None:
    """The first option that is not at the value which changes nothing."""
    return next((name for name, value in unused.items() if getattr(config, name) not in (value, (value,))), None)


def strides_of(config: TrainStudyConfig) -> tuple[int, ...]:
    """Stored frames in a step of time, one or several."""
    return tuple(config.stride) if isinstance(config.stride, (tuple, list)) else (config.stride,)


def load_parts(config: TrainStudyConfig, task: str, points: Any, stride: int = 1, **asked: Any) -> Parts:
    """The data of `task` with `points` per axis; asked : samples of each part, as `load_splits` takes them."""
    options: dict[str, Any] = {"equation": config.equation, "memory_limit": config.memory_limit}
    options["dtype"] = torch.float64 if config.precision == "float64" else torch.float32
    options["kinds"] = _kinds(config.kinds)
    if task == "steady":
        options["inputs"] = config.inputs or None
    else:
        options["windows"] = _windows(config, task, stride)
    found = load_splits(config.data, points, **asked, **options)
    parts = Parts(found.train, found.validation, found.test)
    if task == "space-time":
        wrap = lambda part: None if part is None else SpaceTimeDataset(part)  # noqa: E731
        parts = Parts(wrap(parts.train), wrap(parts.validation), wrap(parts.test))
    return parts


def _kinds(declared: tuple[str, ...]) -> dict[str, str] | None:
    """{"vx": "velocity:x"} of ("vx=velocity:x",), None of none."""
    pairs = [text.partition("=") for text in declared]
    wrong = [text for text, (name, equals, kind) in zip(declared, pairs) if not (name and equals and kind)]
    if wrong:
        raise ValueError(f"kinds has {wrong[0]!r}: expected variable=kind, such as u=scalar or vx=velocity:x")
    return {name: kind for name, _, kind in pairs} or None


def _windows(config: TrainStudyConfig, task: str, stride: int) -> dict[str, Any]:
    extent = {"step": (0, config.unroll), "trajectory": (0, None), "space-time": (0, None), "final": (None, 1)}
    lead, horizon = extent[task]
    if config.through == "pushforward":
        lead, horizon = config.unroll - 1, 1
    given = picked(config, "history start stop inputs parameters forcings time_step")
    return given | {"lead": lead, "horizon": horizon, "stride": stride, "state": config.state or None}


def notes_on(config: TrainStudyConfig, task: str, train: list[Any], model: nn.Module | None = None) -> list[str]:
    """Lines for the user on what is not wrong, but may not be meant, of trajectories and the model of them."""
    notes = []
    force = getattr(train[0], "attrs", {}).get("forcing", "none") if task != "steady" else "none"
    options = getattr(model, "config", {}).get("options", {})
    given = config.inputs or config.forcings or config.history > 1
    if isinstance(force, str) and force != "none" and options.get("coordinates") == "none" and not given:
        notes.append(
            f"the flow has a force that stays in its place ({force}), and the model is not told where it is: "
            "--options coordinates=periodic tells it"
        )
    if task == "step" and not config.time_step:
        took = np.concatenate([np.diff(one.clocks, axis=1).reshape(-1) for one in train])
        if np.ptp(took) > 1e-2 * np.abs(took).max():
            notes.append(
                f"times lie from {took.min():.4g} to {took.max():.4g} apart, and the model is not told how long a step "
                "is: --time-step tells it"
            )
    return notes


def check_symmetrize(config: TrainStudyConfig, tests: list[Any]) -> None:
    """Raises ValueError, before the training, where a test problem lacks the exchange of axes to be averaged over."""
    from sciops.symmetry import elements_of

    for dataset in tests if config.symmetrize else ():
        for exchange in elements_of("transpose", dataset.grid.ndim):
            reason = dataset.symmetry.reason(exchange, dataset.grid)
            if reason is not None:
                raise ValueError(f"--symmetrize: {exchange} is not a symmetry here, {reason}; leave --symmetrize out")


def channels_of(task: str, train: Any) -> dict[str, int]:
    """in_channels and out_channels of the model that is built: for "step" that of one step, without its unrolling."""
    if task == "step":
        return {"in_channels": train.step_channels, "out_channels": train.channels}
    sample = train.batch([0])
    return {"in_channels": sample["x"].shape[1], "out_channels": sample["y"].shape[1]}


def wrapped(model: nn.Module, config: TrainStudyConfig, task: str, train: list[Any]) -> nn.Module:
    """The model as it is trained: for "step" inside its `Stepper`."""
    from sciops.models import Stepper

    if task != "step":
        return model
    options = {"residual": config.residual, "steps": config.unroll, "gradient": config.through, "noise": config.noise}
    if config.normalize:
        return Stepper.normalized(model, train, **options)
    first = train[0]
    options |= {"forcings": first.forcing_channels, "time_step": first.time_step}
    return Stepper(model, channels=first.channels, history=first.history, **options)
