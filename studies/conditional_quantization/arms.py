"""The models that the study compares: one kind of distribution each, at equal parameters and equal training time."""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn

from sciops.models import build_model
from studies.conditional_quantization.cases import Case
from studies.kit.timing import interleaved

OURS = "quantized"


@dataclass(frozen=True)
class Arm:
    """kind : before the colon of the model's name
    options : of the kind; "points" may be "modes", the number of modes that the case has
    """

    kind: str
    options: dict[str, Any] = field(default_factory=dict)


ARMS = {
    OURS: Arm("quantized", {"points": "modes"}),
    "quantized, 2n points": Arm("quantized", {"points": "2 modes"}),
    "ensemble": Arm("ensemble", {"members": 4}),
    "dropout": Arm("dropout", {"rate": 0.1}),
    "quantiles": Arm("quantiles", {"levels": 8}),
    "flow": Arm("flow", {"steps": 4, "mean_samples": 8}),
    # what is taken from "quantized" in turn
    "one point": Arm("quantized", {"points": 1}),
    "not annealed": Arm("quantized", {"points": "modes", "schedule": "hard"}),
    "relaxed": Arm("quantized", {"points": "modes", "schedule": "relaxed"}),
}
FIRST = (OURS, "ensemble", "dropout", "quantiles", "flow", "one point")  # of the quick preset
MODES = {"mirror": 2, "sensors": 4, "digits": 4, "vorticity": 8}
_ROUNDS = 6


def has_weights(arm: str) -> bool:
    """Whether an arm has several points with weights, which are fitted once more after the training."""
    return ARMS[arm].kind == "quantized" and ARMS[arm].options["points"] != 1


def options_of(arm: str, case: str) -> dict[str, Any]:
    """The options of the kind, with the number of points of the case."""
    named = {"modes": MODES[case], "2 modes": 2 * MODES[case]}
    return {name: named.get(value, value) if name == "points" else value for name, value in ARMS[arm].options.items()}


def build(case: Case, arm: str, seed: int, width: int, **given: Any) -> nn.Module:
    """The model of an arm around an FNO of this width, its initial parameters drawn from the seed."""
    one = case.splits.test.batch([0])
    channels = {"in_channels": one["x"].shape[1], "out_channels": one["y"].shape[1]}
    options = case.network | options_of(arm, case.name) | given
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_model(
            f"{ARMS[arm].kind}:fno", width=width, grid=case.grid, coordinates="linear", **channels, **options
        )


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def width_of(case: Case, arm: str, reference: int) -> int:
    """The width at which an arm has as many parameters as "quantized" has with the width `reference`."""
    with torch.device("meta"):
        wanted = count(build(case, OURS, 0, reference))
        size = lambda width: count(build(case, arm, 0, width))  # noqa: E731
        least = 2 + bisect_left(range(2, 4 * reference), wanted, key=size)
        return min((least, max(2, least - 1)), key=lambda width: abs(size(width) - wanted))


def step_seconds(case: Case, arms: dict[str, int]) -> dict[str, float]:
    """Processor seconds of a training step of each arm with its width: the least of a few, in turns.

    The least, since another process on the same core only adds to it.
    """
    from sciops.uncertainty import training_losses

    rows = case.splits.train.batch(range(min(case.batch, len(case.splits.train))))
    models = {arm: build(case, arm, 0, width) for arm, width in arms.items()}
    optimizers = {arm: torch.optim.AdamW(model.parameters()) for arm, model in models.items()}

    def step(arm: str) -> None:
        optimizers[arm].zero_grad()
        training_losses(models[arm], rows["x"], rows["y"], case.grid, done=0.5).mean().backward()
        optimizers[arm].step()

    calls = {arm: partial(step, arm) for arm in arms}
    seconds = interleaved(calls, rounds=_ROUNDS, warmup=0, clock=time.process_time)
    return {arm: min(found) for arm, found in seconds.items()}
