"""The trainings of the study in three rounds: rates, models of all seeds, and further training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sciops.evaluation.fairness import regime_errors
from studies.kit.cells import kept, kept_arrays
from studies.kit.pool import run_all
from studies.kit.study import picked
from studies.operator_fairness.networks import (
    built,
    errors_of,
    features,
    predicted,
    trained,
    weights_of,
    with_weights,
)
from studies.operator_fairness.problems import Problems, grids, labels, problem_set

if TYPE_CHECKING:
    from studies.operator_fairness import Config

_MODEL = "boundaries contrasts roughness points train steps batch width depth modes"
_CHOICE_SEED = 1000
"""Of the trainings that choose a rate: none of them is judged."""
MORE: dict[str, tuple[str, bool]] = {"worst": ("worst", False), "some worst": ("worst", True), "all": ("all", False)}
"""Further training: which samples are added, of the worst regime or of all regimes alike; and whether to all training
samples, or to as many of them as are added."""


@dataclass(frozen=True)
class Found:
    """All that was trained and measured of one arm.

    choice : rate → mean error on validation fields. rate : the chosen one
    models : one for each seed: arrays "errors", "errors, fine", "predictions" (test), some "of validation", features
    worst : index of the regime with the largest error on validation fields
    more : name in `MORE` → (seeds, rows) errors on test fields after further training
    seconds, parameters : of a training, mean over seeds
    """

    choice: dict[str, float]
    rate: float
    models: list[dict[str, np.ndarray]]
    worst: int
    more: dict[str, np.ndarray]
    seconds: float
    parameters: int


def run_all_arms(config: Config, folder: Path) -> dict[str, Any]:
    """{"arms": arm → Found, "test", "validation", "train"}."""
    sets = {name: problem_set(config, folder / "data", name) for name in ("train", "validation", "test", "all")}
    jobs = [(arm, rate, config, folder) for arm in config.arms for rate in config.rates]
    rows = run_all(rate_cell, jobs, workers=config.workers, unit="rate", threads=1)
    choice: dict[str, dict[str, float]] = {arm: {} for arm in config.arms}
    for (arm, rate, *_), row in zip(jobs, rows):
        choice[arm][str(rate)] = row["error"]
    rates = {arm: float(min(errors, key=errors.__getitem__)) for arm, errors in choice.items()}
    trainings = [(arm, rates[arm], seed, config, folder) for arm in config.arms for seed in config.seeds]
    models = run_all(model_cell, trainings, workers=config.workers, unit="training", threads=1)
    of_arm = {arm: [m for (a, *_), m in zip(trainings, models) if a == arm] for arm in config.arms}
    worst = {arm: worst_regime(config, found, sets["validation"]) for arm, found in of_arm.items()}
    for index in sorted({*worst.values()}):  # made once, before several processes ask for it
        problem_set(config, folder / "data", "worst", index)
    further = [(arm, rates[arm], seed, worst[arm], config, folder) for arm in config.arms for seed in config.seeds]
    tuned = run_all(further_cell, further, workers=config.workers, unit="further training", threads=1)
    arms = {}
    for arm, found in of_arm.items():
        mine = [t for (a, *_), t in zip(further, tuned) if a == arm]
        arms[arm] = Found(
            choice=choice[arm],
            rate=rates[arm],
            models=found,
            worst=worst[arm],
            more={kind: np.stack([one[kind] for one in mine]) for kind in MORE},
            seconds=float(np.mean([one["seconds"] for one in found])),
            # real numbers: a complex weight is two
            parameters=sum(p.numel() * (1 + p.is_complex()) for p in built(arm, config, 0).parameters()),
        )
    return {"arms": arms, **sets}


def worst_regime(config: Config, models: list[dict[str, np.ndarray]], validation: Problems) -> int:
    """The regime with the largest shrunken error on validation fields."""
    errors = np.stack([one["errors of validation"] for one in models])
    table = labels(config)
    found = regime_errors(errors, factors_of(config, validation.regime), cluster=validation.field, fewest_clusters=2)
    return [tuple(one.values()) for one in table].index(found.worst.levels)


def factors_of(config: Config, regime: np.ndarray) -> dict[str, np.ndarray]:
    """Factor → (rows,) levels."""
    table = labels(config)
    return {name: np.array([table[k][name] for k in regime], dtype=object) for name in table[0]}


def rate_cell(arm: str, rate: float, config: Config, folder: Path) -> dict[str, Any]:
    """{"error"}: mean error on validation fields of one training with this rate; infinite where it diverges."""
    asked = {**_asked(arm, rate, _CHOICE_SEED, config), "validation": config.validation}
    return kept(folder / "cells", f"rate-{arm}", asked, lambda: _rate(arm, rate, config, folder))


def _rate(arm: str, rate: float, config: Config, folder: Path) -> dict[str, Any]:
    coarse, _ = grids(config)
    data, validation = (problem_set(config, folder / "data", name) for name in ("train", "validation"))
    unit = data.y.std()
    how = picked(config, "steps batch")
    net = built(arm, config, _CHOICE_SEED)
    net, _ = trained(net, data.x, data.y / unit, coarse, seed=_CHOICE_SEED, rate=rate, **how)
    return {"error": float(errors_of(net, validation.x, validation.y / unit, coarse).mean())}


def model_cell(arm: str, rate: float, seed: int, config: Config, folder: Path) -> dict[str, np.ndarray]:
    """Weights, errors, predictions and features of one training."""
    asked = {**_asked(arm, rate, seed, config), "validation": config.validation, "test": config.test}
    return kept_arrays(folder / "cells", f"model-{arm}-{seed}", asked, lambda: _model(arm, rate, seed, config, folder))


def _model(arm: str, rate: float, seed: int, config: Config, folder: Path) -> dict[str, np.ndarray]:
    coarse, fine = grids(config)
    data, validation, test = (problem_set(config, folder / "data", name) for name in ("train", "validation", "test"))
    unit = data.y.std()
    net = built(arm, config, seed)
    found: dict[str, np.ndarray] = {}
    for problems, of in ((test, ""), (validation, " of validation")):
        for name, values in features(arm, net, problems.x, coarse).items():
            if name.startswith("pooled") and "input" not in name:
                found[f"untrained, {name}{of}"] = values
    how = picked(config, "steps batch")
    net, seconds = trained(net, data.x, data.y / unit, coarse, seed=seed, rate=rate, **how)
    for problems, of in ((test, ""), (validation, " of validation")):
        found |= {f"{name}{of}": values for name, values in features(arm, net, problems.x, coarse).items()}
        predictions = predicted(net, problems.x, coarse) * unit
        found[f"predictions{of}"] = predictions.numpy()
        found[f"errors{of}"] = errors_of(net, problems.x, problems.y / unit, coarse)
    found["errors, fine"] = errors_of(net, test.x_fine, test.y_fine / unit, fine)
    return found | weights_of(net) | {"seconds": np.array(seconds)}


def further_cell(arm: str, rate: float, seed: int, worst: int, config: Config, folder: Path) -> dict[str, np.ndarray]:
    """ "worst" and "all" → (rows,) errors on test fields after further training with these samples added."""
    asked = {**_asked(arm, rate, seed, config), "test": config.test, "worst": worst}
    asked |= picked(config, "extra extra_steps") | {"more": MORE}
    name = f"further-{arm}-{seed}"
    return kept_arrays(folder / "cells", name, asked, lambda: _further(arm, rate, seed, worst, config, folder))


def _further(arm: str, rate: float, seed: int, worst: int, config: Config, folder: Path) -> dict[str, np.ndarray]:
    coarse, _ = grids(config)
    data, test = (problem_set(config, folder / "data", name) for name in ("train", "test"))
    unit = data.y.std()
    weights = model_cell(arm, rate, seed, config, folder)
    found = {}
    # the same old samples for all, so that the other regimes are not forgotten
    old = torch.randperm(len(data.x), generator=torch.Generator().manual_seed(seed))
    for kind, (which, whole) in MORE.items():
        more = problem_set(config, folder / "data", which, worst if which == "worst" else None)
        kept_old = old if whole else old[: len(more.x)]
        x, y = torch.cat([more.x, data.x[kept_old]]), torch.cat([more.y, data.y[kept_old]]) / unit
        net = with_weights(built(arm, config, seed), weights)
        how = {"seed": seed, "steps": config.extra_steps, "batch": config.batch, "rate": rate / 5}
        net, _ = trained(net, x, y, coarse, **how)
        found[kind] = errors_of(net, test.x, test.y / unit, coarse)
    return found


def _asked(arm: str, rate: float, seed: int, config: Config) -> dict[str, Any]:
    return {"arm": arm, "rate": rate, "seed": seed, **picked(config, _MODEL)}
