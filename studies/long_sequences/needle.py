"""A needle found at lengths that training never saw."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from sciops.datasets.text.sequence_tasks import needle
from studies.kit.cells import kept
from studies.kit.sequence_training import TokenModel, evaluate, train_tokens
from studies.kit.study import picked
from studies.kit.timing import threads

if TYPE_CHECKING:
    from studies.long_sequences import Config

ARMS = ("state space", "attention, sinusoidal", "attention, rope", "attention, no positions")
CLASSES = 8
_SEED = 10_000  # of the test sequences, away from those of trainings


class Sinusoidal(nn.Module):
    """x_i + (sin iω_c, cos iω_c) with ω_c = 10⁴^{−2c/d} (arXiv:1706.03762) before the stack it wraps."""

    def __init__(self, stack: nn.Module, width: int) -> None:
        super().__init__()
        self.stack = stack
        self.register_buffer("rates", 1e4 ** (-torch.arange(0, width, 2) / width), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        angles = torch.arange(x.shape[1], device=x.device)[:, None] * self.rates
        return self.stack(x + torch.cat([angles.sin(), angles.cos()], -1).to(x.dtype))


def model(arm: str, symbols: int, config: Config, seed: int) -> TokenModel:
    """Bidirectional; the question stands at the end."""
    torch.manual_seed(seed)
    if arm == "state space":
        options = dict(mixer="state_space", mixer_options=dict(state=config.needle_state))
    else:
        positions = "rope" if arm == "attention, rope" else "none"
        options = dict(mixer="self_attention", mixer_options=dict(positions=positions))
    net = TokenModel(symbols, width=config.needle_width, depth=config.needle_depth, causal=False, **options)
    if arm == "attention, sinusoidal":
        net.stack = Sinusoidal(net.stack, config.needle_width)
    return net


def trainings(config: Config, folder: Any) -> list[dict[str, Any]]:
    """One record an arm and seed: {"arm", "seed", "lengths": {length: {"accuracy", "near", "far"}}, …}."""
    rows = []
    with threads(1):
        for seed in range(config.seeds):
            for arm in config.needle_arms:
                spec = {"arm": arm, "seed": seed, "classes": CLASSES}
                spec |= {"train_length": config.needle_train, "test_lengths": config.needle_tests}
                spec |= picked(config, "steps batch rate samples width depth state noise", "needle_")
                rows.append(kept(folder, f"needle-{arm}-{seed}", spec, lambda: _trained(config, arm, seed)))  # noqa: B023
    return rows


def _trained(config: Config, arm: str, seed: int) -> dict[str, Any]:
    makers: dict[int, Callable[..., Any]] = {
        n: partial(needle, length=n, classes=CLASSES, noise=config.needle_noise)
        for n in (config.needle_train, *config.needle_tests)
    }
    tests = {n: make(config.needle_samples, seed=_SEED + n) for n, make in makers.items()}
    net = model(arm, tests[config.needle_train].symbols, config, seed)
    how = {**picked(config, "steps batch rate", "needle_"), "progress": f"needle, {arm}, seed {seed}"}
    record = train_tokens(net, makers[config.needle_train], tests[config.needle_train], seed=seed, **how)
    record.pop("groups")
    found = {n: evaluate(net, task, batch=8) for n, task in tests.items()}
    return {
        **record,
        "arm": arm,
        "chance": 1 / CLASSES,
        "lengths": {str(n): by_distance(result, config.needle_train) for n, result in found.items()},
    }


def by_distance(result: dict[str, Any], seen: int) -> dict[str, float | None]:
    """Accuracy of all questions, of those whose needle is no farther than training had it, and of the others."""
    group = result["groups"]["distance"]
    value, accuracy, count = (np.asarray(group[key]) for key in ("value", "accuracy", "count"))

    def mean(which: np.ndarray) -> float | None:
        return float(np.average(accuracy[which], weights=count[which])) if which.any() else None

    return {"accuracy": result["accuracy"], "near": mean(value < seen), "far": mean(value >= seen)}
