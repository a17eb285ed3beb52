"""What a training step of a classifier costs: time side by side, peak memory in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from tqdm.auto import tqdm

from studies.image_classification.runs import built
from studies.kit.timing import device_peak, interleaved, peak_memory

if TYPE_CHECKING:
    from studies.image_classification import Config


def step_costs(specs: Mapping[str, Any], train: Any, config: Config) -> dict[str, dict[str, float]]:
    """name → seconds and bytes of a step of the study's batch: forward, backward, AdamW."""
    return _costs(specs, train.grid.shape, config.batch_size, config.rounds, train, config)


def cost_curve(specs: Mapping[str, Any], train: Any, config: Config) -> dict[int, dict[str, dict[str, float]]]:
    """Pixels per side → name → seconds and bytes of a step of `config.curve_batch` images, for `config.curve_arms`."""
    chosen = {name: spec for name, spec in specs.items() if name in config.curve_arms}
    found = {}
    for size in tqdm(config.curve if chosen else (), unit="size", desc="cost", disable=None, leave=False):
        found[size] = _costs(chosen, (size, size), config.curve_batch, config.curve_rounds, train, config)
    return found


def _costs(
    specs: Mapping[str, Any], shape: tuple[int, int], batch: int, rounds: int, train: Any, config: Config
) -> dict[str, dict[str, float]]:
    inputs = (batch, train.channels, *shape)
    device = torch.device(config.device)
    steps = {name: step(built(spec, 0).to(device), inputs, len(train.classes)) for name, spec in specs.items()}
    wait = torch.cuda.synchronize if device.type == "cuda" else None
    seconds = interleaved(steps, rounds=rounds, synchronize=wait)
    found = {}
    for name, spec in specs.items():
        if device.type == "cuda":
            memory = device_peak(steps[name])
        else:
            arguments = (spec, inputs, len(train.classes), config.threads)
            memory = peak_memory("studies.image_classification.costs:prepared", *arguments)
        found[name] = {"seconds": float(np.median(seconds[name])), "bytes": int(memory)}
    return found


def step(model: nn.Module, shape: tuple[int, ...], classes: int) -> Callable[[], None]:
    """A call that makes one training step on random images of `shape` (batch, channels, H, W)."""
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator).to(device)
    y = torch.randint(0, classes, shape[:1], generator=generator).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    model.train()

    def call() -> None:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return call


def prepared(spec: Mapping[str, Any], shape: list[int], classes: int, threads: int) -> Callable[[], None]:
    """For `peak_memory`: a step whose libraries, weights and optimiser state are set up, by one on a small image."""
    torch.set_num_threads(threads)
    model = built(spec, 0)
    small = [1, shape[1], *(min(n, 32) for n in shape[2:])]
    large = step(model, tuple(shape), classes)
    step(model, tuple(small), classes)()
    return large
