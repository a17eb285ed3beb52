"""One training of the study, on so many fields or on a stream of them."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from data_gen.darcy import DarcyConfig
from data_gen.kit.fresh import FIRST, fresh_fields
from sciops.datasets import FreshFields, Splits, TensorFields
from sciops.grids import Grid
from sciops.models import build_model
from sciops.training import TrainConfig, evaluate, fit
from studies.kit.cells import kept
from studies.kit.study import picked

if TYPE_CHECKING:
    from studies.fresh_samples import Config

_EPOCH = 500  # fields of an epoch of the stream, between two validations
_TIMED = 64  # fields by which the making of one is timed


def trained(config: Config, count: int | None, seed: int, cells: Path) -> dict[str, Any]:
    """The record of a training on `count` fields, on a stream where that is None; read back where it is there."""
    names = "size modes steps batch_size learning_rate network_modes width depth fields data_seed"
    made_by = {"count": count, "seed": seed, **picked(config, names)}
    return kept(cells, f"{count or 'stream'}-{seed}", made_by, lambda: _trained(config, count, seed))


@cache
def held(size: int, modes: int, data_seed: int, fields: tuple[int, int]) -> tuple[TensorFields, TensorFields]:
    """Validation and test fields: the first of the law, which neither data sets nor streams have."""
    made = stream(size, modes, data_seed, first=0)
    return made.subset(range(fields[0])), made.subset(range(fields[0], sum(fields)))


def stream(size: int, modes: int, data_seed: int, *, first: int = FIRST) -> FreshFields:
    """Darcy fields of the law of li2020 (a = 3 or 12), solved on the nodes where they are seen."""
    law = DarcyConfig(resolutions=(size,), modes=modes, seed=data_seed, threads=1)
    return fresh_fields(law, Grid((size, size)), length=_EPOCH, first=first)


def _trained(config: Config, count: int | None, seed: int) -> dict[str, Any]:
    law = (config.size, config.modes, config.data_seed)
    validation, test = held(*law, config.fields)
    endless = stream(*law)
    data = endless if count is None else endless.subset(range(count))
    torch.manual_seed(seed)
    model = build_model(
        "fno",
        in_channels=1,
        out_channels=1,
        grid=test.grid,
        width=config.width,
        depth=config.depth,
        modes=config.network_modes,
        basis="sine-cosine",
        coordinates="wall",
        wall="zero",
    )
    an_epoch = -(-len(data) // config.batch_size)
    epochs = -(-config.steps // an_epoch)
    settings = TrainConfig(
        epochs=epochs,
        validate_every=max(1, epochs // 8),
        gradient_weight=0.3,
        seed=seed,
        device="cpu",
        progress=False,
        **picked(config, "steps batch_size learning_rate"),
    )
    began = time.process_time()
    run = fit(model, Splits(train=data, validation=validation), settings)
    seconds = time.process_time() - began
    seen = (
        endless.subset(range(config.fields[1])) if count is None else data.subset(range(min(count, config.fields[1])))
    )
    errors = evaluate(run.model, test, ("relative_l2",))["relative_l2"]
    fitted = evaluate(run.model, seen, ("relative_l2",))["relative_l2"]
    making = _seconds_per_field(endless, config.batch_size)
    return {
        "count": count,
        "seed": seed,
        "error": float(errors.mean()),
        "training_error": float(fitted.mean()),
        "seen": run.steps * config.batch_size,
        "steps": run.steps,
        "parameters": run.parameters,
        "seconds": seconds,
        "milliseconds_per_field": 1e3 * making,
    }


def _seconds_per_field(endless: FreshFields, batch_size: int) -> float:
    """Processor seconds of making a field, in batches as a training takes them."""
    began, batches = time.process_time(), -(-_TIMED // batch_size)
    for first in range(10**6, 10**6 + batches * batch_size, batch_size):
        endless.batch(range(first, first + batch_size))
    return (time.process_time() - began) / (batches * batch_size)
