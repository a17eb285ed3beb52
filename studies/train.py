"""Trains one operator on one dataset and says how well it does on test fields, on its own grid and on others.

python -m studies.train --preset real16 --data FOLDER
python -m studies.train --preset quick --data darcy.h5 --model mano --epochs 20
torchrun --nproc-per-node 2 -m studies.train --preset darcy --data darcy.h5 --resolution 85

The run's folder holds the config, the environment, the log, checkpoints, the model with its normalisers (for
sciops.load_model), results.json and a learning curve. The same command goes on where it stopped.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from torch import nn

from sciops._command import command
from sciops.grids import Grid
from sciops.training import TrainConfig


@dataclass(frozen=True)
class TrainStudyConfig(TrainConfig):
    """What is trained on which fields, and how: the fields of `TrainConfig` besides its own."""

    data: Path | None = None  # a file or folder of any layout that `sciops info` knows
    resolution: tuple[int, ...] = ()  # points per axis of the training fields; several train together; none: the file's
    test_resolutions: tuple[int, ...] = ()  # further grids to test on
    train_samples: int | None = None  # first so many training fields; None: all
    validation_samples: int | None = None  # held out to choose the epoch, where the file has no validation fields
    test_samples: int | None = None  # held out to test, where there are no test fields
    model: str = "fno"  # a name in sciops.models.MODELS, such as fno, mano, hybrid or neuralop:FNO
    width: int = 32  # channels inside
    depth: int = 4  # blocks
    modes: int = 12  # per axis, lowered to what the coarsest training grid holds; for models that have modes
    options: tuple[str, ...] = ()  # further options of the model, as name=value: basis=sine local=true window=4
    symmetrize: bool = False  # also test the average over a field and its transpose
    seed: int = 0  # of the model's initial parameters, the order of the fields, augmentation and dropout
    folder: Annotated[Path, tyro.conf.arg(aliases=("--output",))] = Path("runs/train")  # where everything goes
    resume: bool = True  # go on with the run in the folder


PRESETS = {
    "quick": TrainStudyConfig(epochs=10, batch_size=8, learning_rate=5e-3, width=24, depth=3),
    # neuraloperator's 16-grid Darcy files
    "real16": TrainStudyConfig(
        resolution=(16,),
        test_resolutions=(32,),
        validation_samples=100,
        epochs=40,
        batch_size=16,
        learning_rate=7e-3,
        augment="transpose",
        modes=8,
        options=("weights=diagonal", "local=true", "coordinates=linear"),
        symmetrize=True,
        folder=Path("runs/train_real16"),
    ),
    # two-phase fields with u = 0 on walls that are nodes of the grid
    "darcy": TrainStudyConfig(
        epochs=30,
        batch_size=4,
        learning_rate=4e-3,
        gradient_weight=0.3,
        augment="square",
        modes=16,
        options=("basis=sine-cosine", "wall=zero"),
        folder=Path("runs/train_darcy"),
    ),
}


def run(config: TrainStudyConfig) -> dict[str, Any]:
    """Trains, tests, writes the run's folder, prints the table; returns what results.json holds."""
    from sciops.models import save_model
    from sciops.runs import RunFolder
    from sciops.training import fit

    if config.data is None:
        raise ValueError("data: which fields? pass --data FILE; `sciops generate darcy --preset quick` makes some")
    parts = [_load(config, n) for n in config.resolution or (None,)]
    tests = _tests(config, parts)
    data = _Data([p.train for p in parts], [p.validation for p in parts if p.validation is not None])
    if any(part is None for part in data.train):
        raise ValueError(f"{config.data}: no training fields at the resolution asked for; see sciops info")
    model = _build(config, data.train)
    folder, first = RunFolder(config.folder), os.environ.get("RANK", "0") == "0"
    used = model.config["options"].get("modes")
    if first and used and min(used) < config.modes and not any(o.startswith("modes=") for o in config.options):
        print(f"modes: {'×'.join(map(str, used))}, all that the coarsest training grid holds, for {config.modes}")
    methods = [name for name in (config.model, "adamw", config.schedule) if name in _cited()]

    def describe() -> None:
        folder.describe(config, data=config.data, seeds=[config.seed], methods=methods)

    # a folder that holds another run must not be described anew before fit has had the chance to refuse it
    if first and not (folder.path / "last.safetensors").exists():
        describe()
    trained = fit(model, data, _train_config(config))
    results = _results(config, trained, tests)
    if first:
        describe()
        save_model(
            trained.model, folder.path / "model", extra={"validation": trained.best, "epoch": trained.best_epoch}
        )
        folder.write_results(results)
        _draw(trained.history, folder.figures / "learning_curve.png")
        print(_table(config, results))
    return results


@dataclass(frozen=True)
class _Data:
    train: list[Any]
    validation: list[Any]


def _load(config: TrainStudyConfig, points: int | None) -> Any:
    from sciops.datasets import load_splits

    asked = {"train": config.train_samples, "validation": config.validation_samples, "test": config.test_samples}
    dtype = torch.float64 if config.precision == "float64" else torch.float32
    return load_splits(config.data, points, dtype=dtype, **{k: v for k, v in asked.items() if v is not None})


def _tests(config: TrainStudyConfig, parts: list[Any]) -> list[Any]:
    """Test fields of every training grid, then of the further ones; each grid once."""
    from sciops.datasets import load_splits

    found = [part.test for part in parts]
    for points in config.test_resolutions:
        found.append(load_splits(config.data, points).test if points not in config.resolution else None)
    return [dataset for dataset in found if dataset is not None]


def _build(config: TrainStudyConfig, train: list[Any]) -> nn.Module:
    """The model with the first training grid as its reference, its initial parameters drawn from the seed."""
    from sciops.models import build_model

    options: dict[str, Any] = {"width": config.width, "depth": config.depth}
    options |= dict(_option(text) for text in config.options)
    grid: Grid = train[0].grid
    if config.model in ("fno", "hybrid") or config.model.startswith("neuralop:"):
        periodic = options.get("basis", "fourier") == "fourier"
        coarsest = map(min, zip(*(dataset.grid.shape for dataset in train)))
        most = [n // 2 if periodic else n - 2 for n in coarsest]
        options.setdefault("modes", tuple(min(config.modes, k) for k in most))
    if not config.model.startswith("neuralop:"):
        options["grid"] = grid
    sample = train[0].batch(np.arange(1))
    channels = {"in_channels": sample["x"].shape[1], "out_channels": sample["y"].shape[1]}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return build_model(config.model, **channels, **options)


def _option(text: str) -> tuple[str, Any]:
    """("local", True) from "local=true": the value is JSON where it can be read as such, text otherwise."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"options has {text!r}: expected name=value, such as basis=sine or local=true")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def _train_config(config: TrainStudyConfig) -> TrainConfig:
    return TrainConfig(**{f.name: getattr(config, f.name) for f in fields(TrainConfig)})


def _cited() -> dict[str, str]:
    from sciops.runs import CITATIONS

    return CITATIONS


def _results(config: TrainStudyConfig, trained: Any, tests: list[Any]) -> dict[str, Any]:
    """Errors per test grid; means over samples, with the samples' own beside them for paired comparisons."""
    from sciops.models import SymmetryAveraged
    from sciops.training import evaluate

    models = {"model": trained.model}
    if config.symmetrize:
        models["symmetrized"] = SymmetryAveraged(trained.model, group="transpose")
    results: dict[str, Any] = {
        "model": config.model,
        "parameters": trained.parameters,
        "epochs": trained.epochs,
        "complete": trained.complete,
        "stopped": trained.stopped,
        "best_epoch": trained.best_epoch,
        "validation": trained.best,
        "seconds": trained.seconds,
        "test": {},
    }
    for dataset in tests:
        name = "×".join(map(str, dataset.grid.shape))
        for kind, model in models.items():
            errors = evaluate(model, dataset)
            results["test"].setdefault(name, {})[kind] = {
                "samples": len(dataset),
                **{metric: float(values.mean()) for metric, values in errors.items()},
                "standard_error": _standard_error(errors["relative_l2"]),
                "relative_l2_of_samples": errors["relative_l2"],
            }
    return results


def _standard_error(values: np.ndarray) -> float | None:
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else None


def _table(config: TrainStudyConfig, results: dict[str, Any]) -> str:
    head = f"{config.model}: {results['parameters']:,} parameters, "
    head += f"{results['epochs']} epochs in {results['seconds']:.1f} s"
    if results["validation"] is not None:
        head += f", best epoch {results['best_epoch']} with validation {results['validation']:.4f}"
    lines = [head, f"{'test grid':>10} {'':>12} {'fields':>7} {'relative L2':>18} {'relative MSE':>13}"]
    for grid, kinds in results["test"].items():
        for kind, row in kinds.items():
            error = f"{row['relative_l2']:.4f}"
            if row["standard_error"] is not None:
                error += f" ± {row['standard_error']:.4f}"
            lines.append(f"{grid:>10} {kind:>12} {row['samples']:>7} {error:>18} {row['relative_mse']:>13.5f}")
    if not results["test"]:
        lines.append("no test fields: pass --test-samples to hold some out")
    if results["stopped"]:
        lines.append(f"stopped early: {results['stopped']}")
    return "\n".join([*lines, f"everything lies in {config.folder}"])


def _draw(history: list[dict[str, Any]], path: Path) -> None:
    from sciops.plotting import figure, series

    with figure(path) as (_, axes):
        axis, styles = axes[0, 0], series()
        for key, label in (("loss", "training loss"), ("validation", "validation, relative L2")):
            points = [(record["epoch"], record[key]) for record in history if key in record]
            if points:
                axis.semilogy(
                    *zip(*points), label=label, **(next(styles) | {"marker": "." if len(points) < 40 else ""})
                )
        axis.set_xlabel("epoch")
        axis.legend()


if __name__ == "__main__":
    command(run, PRESETS)
