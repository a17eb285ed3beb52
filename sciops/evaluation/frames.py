"""Frames against time from any model of trajectories: step by step, as channels, or on a grid of time and space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from sciops.evaluation.rollout import rollout
from sciops.grids import Grid
from sciops.models.apply import apply_model, evaluating, placed_for


def frames_of(model: nn.Module, task: str, test: Any) -> tuple[Callable[[Tensor, Grid, int], Tensor], Any]:
    """How to get frames against time, as `errors_against_time` takes it, and the trajectories to compare them with.

    model : of one step for the task "step", else of all frames at once
    task : "step", "trajectory" or "space-time"
    test : the data of the task, `TrajectoryDataset` or for "space-time" `SpaceTimeDataset`
    """

    def direct(x0: Tensor, grid: Grid, steps: int) -> Tensor:
        with torch.no_grad(), evaluating(model):
            x0 = placed_for(model, x0)
            if task == "space-time":
                return apply_model(model, test.inputs(x0), test.grid).transpose(1, 2)
            return apply_model(model, x0, grid).unflatten(1, (steps, -1))

    if task == "step":
        return lambda x0, grid, steps: rollout(model, x0, grid, steps=steps), test
    return direct, test.source if task == "space-time" else test
