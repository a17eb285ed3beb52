"""The fields of the study of accuracy for time, and one arm trained and tested on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from sciops.datasets import Normalizer, Splits
from sciops.models import Corrector, EffectiveCoefficient, Normalized, SymmetryAveraged, build_model
from sciops.training import TrainConfig, evaluate, fit
from studies.accuracy_for_time.arms import Arm
from studies.accuracy_for_time.latency import latency
from studies.kit.fields.darcy import endless_darcy
from studies.kit.study import picked

if TYPE_CHECKING:
    from studies.accuracy_for_time import Config

_ALWAYS = 10**6  # epochs: the clock ends a run


def trained_and_tested(arm: Arm, size: int, seed: int, splits: dict[int, Splits], config: Config) -> dict[str, Any]:
    """The record of one run: errors on the test fields with and without averaging over symmetries, times, sizes."""
    torch.manual_seed(seed)
    here = splits[size]
    sets = [splits[(size + 1) // 2].train, here.train] if arm.coarse_share else [here.train]
    if arm.endless:
        how = {"finest": config.finest, "seed": config.data_seed, "passes": arm.endless}
        sets = [endless_darcy(known.grid.shape[0], len(known), **how) for known in sets]
    model, training = _prepared(arm, here, sets)
    settings = TrainConfig(
        epochs=_ALWAYS,
        batch_size=4,
        betas=(0.9, 0.98),
        warmup=0.1,
        augment="square",
        grid_order="sequential",
        grid_shares=(arm.coarse_share, 1 - arm.coarse_share) if arm.coarse_share else None,
        seed=seed,
        progress=False,
        **picked(arm, "learning_rate weight_decay gradient_weight optimizer precision"),
        **picked(config, "seconds validate_every device"),
    )
    run = fit(model, Splits(training if len(training) > 1 else training[0], here.validation, None), settings)
    best = run.model.eval()
    errors = evaluate(best, here.test, ("relative_l2",))["relative_l2"]
    averaged = SymmetryAveraged(best, "square", symmetry=here.test.symmetry)
    averaged = evaluate(averaged, here.test, ("relative_l2",))["relative_l2"]
    return {
        "error": float(errors.mean()),
        "averaged": float(averaged.mean()),
        "errors": errors,
        "validation": run.best,
        "seconds": run.seconds,
        "steps": run.steps,
        "epochs": run.epochs,
        "milliseconds per step": 1e3 * run.seconds / run.steps,
        "parameters": run.parameters,
        "milliseconds": latency(best, here.test),
    }


def _prepared(arm: Arm, here: Splits, training: list[Any]) -> tuple[nn.Module, list[Any]]:
    """The model with its statistics, fitted on the training fields, and the sets it trains on."""
    options = dict(arm.options)
    if not arm.model.startswith("neuralop:"):
        options["grid"] = here.train.grid
    model = build_model(arm.model, **options)
    if isinstance(model, (Corrector, EffectiveCoefficient)):  # these have their own statistics
        return model, training
    return Normalized(model, Normalizer.fit(here.train.x), Normalizer.fit(here.train.y)), training
