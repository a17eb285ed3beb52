"""Time per step of every arm, and one arm trained for the same time as all others and tested, also on finer grids."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from sciops.mixers import MultipoleAttention
from sciops.resampling import resample
from sciops.training import TrainConfig, evaluate, fit, predict
from sciops.training.objectives import error_rate
from studies.kit.cells import data_digest, kept
from studies.kit.timing import interleaved
from studies.multipole_levels.arms import ARMS
from studies.multipole_levels.cases import WAYS, Case, built, described, load_case, tested_on, training

REFERENCE = "spectral"  # whose steps set the time that all arms of a case get


def step_times(case: Case, names: Sequence[str], rounds: int, folder: Path) -> dict[str, float]:
    """Milliseconds of the processor for a training step of every arm: medians of turns, on one thread."""
    made_by = {"case": case.name, "arms": {name: _network(case, name) for name in names}, "rounds": rounds}
    record = kept(folder / "cells", f"times-{case.name}", made_by, lambda: _timed(case, names, rounds))
    return {name: 1e3 * float(np.median(record["seconds"][name])) for name in names}


def _timed(case: Case, names: Sequence[str], rounds: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    calls = {name: _step(case, name) for name in names}
    return {"seconds": interleaved(calls, rounds=rounds, warmup=2, clock=time.process_time)}


def _step(case: Case, name: str) -> Callable[[], Any]:
    """A step of training: forward, backward, clipping and AdamW."""
    torch.manual_seed(0)
    data = case.splits.train
    model = built(case.name, ARMS[name], data.grid, case.wall)
    how = training(case.name, ARMS[name], len(data), 1, 0)
    batch = data.batch(np.arange(how["batch_size"]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def call() -> None:
        optimizer.zero_grad()
        if case.name == "digits":
            loss = nn.functional.cross_entropy(model(batch["x"]), batch["y"])
        else:
            loss = (model(batch["x"], data.grid) - batch["y"]).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return call


def steps_of(times: Mapping[str, float], steps: int) -> dict[str, int]:
    """Steps of every arm in the time that the reference takes for `steps`."""
    return {name: max(2, round(steps * times[REFERENCE] / spent)) for name, spent in times.items()}


def cell(
    name: str, case_name: str, seed: int, factor: float, steps: int, shown: int, folder: str, given: Mapping[str, Any]
) -> dict[str, Any]:
    """The record of one training, read back where it is there.

    factor : of the case's learning rate
    shown : number of test samples, the first ones, on which finer grids are tried
    given : arguments of `load_case` besides name and folder
    """
    case = load_case(case_name, Path(folder), **given)
    arm = ARMS[name]
    how = training(case_name, arm, len(case.splits.train), steps, seed, factor)
    parts = (case.splits.train, case.splits.validation, case.splits.test, *case.finer.values())
    made_by = {"network": _network(case, name), "training": how, "shown": shown, "data": data_digest(*parts)}
    record = kept(
        Path(folder) / "cells",
        f"{case_name}-{name}-{seed}-{factor:g}",
        made_by,
        lambda: trained_and_tested(case, name, how, shown),
    )
    return {
        "case": case_name,
        "arm": name,
        "seed": seed,
        "factor": factor,
        **{k: v for k, v in record.items() if k != "spec"},
    }


def _network(case: Case, name: str) -> Any:
    model, options = described(case.name, ARMS[name], case.splits.train.grid, case.wall)
    return {"name": model, "options": options}


def trained_and_tested(case: Case, name: str, how: Mapping[str, Any], shown: int) -> dict[str, Any]:
    """Errors on the test data of the grid of training and of finer ones, steps and time."""
    torch.set_num_threads(1)
    torch.manual_seed(how["seed"])
    model = built(case.name, ARMS[name], case.splits.train.grid, case.wall)
    start = time.process_time()
    options = {"normalize": False} if case.name == "digits" else {}
    settings = TrainConfig(**how, **options, device="cpu", progress=False, on_nonfinite="stop")
    run = fit(model, case.splits, settings)
    spent = time.process_time() - start
    best = run.model.eval()
    found: dict[str, Any] = {
        "validation": run.best,
        "best_epoch": run.best_epoch,
        "stopped": run.stopped,
        "steps": run.steps,
        "epochs": run.epochs,
        "cpu": spent,
        "parameters": run.parameters,
    }
    if case.name == "digits":
        errors = evaluate(best, case.splits.test, {"error": error_rate}, batch_size=120)["error"]
        return found | {"errors": errors, "error": float(errors.mean()), "shift": {}}
    errors = evaluate(best, case.splits.test, ("relative_l2", "relative_mse"))
    found |= {"errors": _grouped(errors["relative_l2"], case.group), "error": float(errors["relative_l2"].mean())}
    found["relative_mse"] = float(errors["relative_mse"].mean())
    return found | {"shift": {str(points): shifted(best, case, points, shown) for points in case.finer}}


@torch.no_grad()
def shifted(model: nn.Module, case: Case, points: int, shown: int) -> dict[str, Any]:
    """Errors on a finer grid: run there, with the pyramid tied to the grid of training and with levels that count
    cells; and run on the grid of training and upsampled."""
    low, fine = (part.subset(range(min(shown, len(part)))) for part in (case.splits.test, tested_on(case, points)))
    found = {}
    layers = [part for part in model.modules() if isinstance(part, MultipoleAttention)]
    ways = {"direct, tied": low.grid, "direct, counted": None} if layers else {"direct": None}
    for way, grid in ways.items():
        own = [layer.reference for layer in layers]
        for layer in layers:
            layer.reference = grid
        found[way] = _errors(predict(model, fine), fine)
        for layer, reference in zip(layers, own):
            layer.reference = reference
    carried = predict(model, low)
    for way, options in WAYS[case.name].items():
        found[way] = _errors(resample(carried, low.grid, fine.grid, **options), fine)
    return {way: _grouped(errors, case.group) for way, errors in found.items()}


def _errors(prediction: torch.Tensor, data: Any) -> np.ndarray:
    difference = (prediction.double() - data.y.double()).flatten(1).norm(dim=1)
    return (difference / data.y.double().flatten(1).norm(dim=1)).numpy()


def _grouped(errors: np.ndarray, group: int) -> np.ndarray:
    """Means of consecutive errors that depend on each other."""
    return np.asarray(errors, dtype=np.float64).reshape(-1, group).mean(1)
