"""One process against several: the same loss curve to rounding, checkpoints that any number of processes resumes from.

python -m studies.distributed_training --preset quick

Every row is `studies.train` started as a user would, alone or under torchrun, on two grids with batches that divide
neither by the processes nor by the micro-batches, with gradient clipping and weight decay. A curve that differs from
the first by more than rounding ends the run with an error. The last table is what torch.compile gains in a step.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sciops.files.json_files import read_jsonl
from sciops.plotting import figure, series
from studies.distributed_training.compiled_steps import CASES
from studies.kit.answers import extent, sentence
from studies.kit.choices import require_known
from studies.kit.fields.smooth import write_fields
from studies.kit.launch import launch
from studies.kit.study import finished, opened, picked
from studies.kit.tables import print_table


@dataclass(frozen=True)
class Config:
    points: tuple[int, ...] = (33, 17)  # nodes per axis of the training grids
    train: int = 51  # training fields of each grid
    validation: int = 7
    test: int = 5
    batch_size: int = 8  # fields per step, over all processes
    epochs: int = 4
    width: int = 8
    depth: int = 2
    modes: int = 4
    processes: int = 2  # of the rows that have several
    arms: tuple[str, ...] = ("one", "several", "accumulate", "fsdp", "several-one", "one-several")
    """rows, names in ARMS; "one" comes first"""
    compiled: tuple[str, ...] = ("fno 85×85", "fno 256 (1-D)")
    """steps timed with and without torch.compile, names in compiled_steps.CASES; none: leave it out"""
    compiled_steps: int = 4  # steps of each kind, in turn
    seed: int = 0
    output: Path = Path("runs/distributed_training")  # folder for the data, the runs, results.json and the figure


PRESETS = {
    "quick": Config(),
    "full": Config(
        points=(65, 33),
        train=401,
        validation=51,
        test=50,
        batch_size=16,
        epochs=10,
        width=16,
        depth=4,
        modes=8,
        arms=(
            "one",
            "several",
            "accumulate",
            "several accumulate",
            "fsdp",
            "fsdp accumulate",
            "several-one",
            "one-several",
            "fsdp-one",
            "several-fsdp",
            "one float32",
            "several float32",
            "fsdp float32",
        ),
        compiled_steps=10,
    ),
}


@dataclass(frozen=True)
class Row:
    """`legs` of (several processes?, flags), which share the epochs, and the row that the outcome is compared with."""

    legs: tuple[tuple[bool, tuple[str, ...]], ...]
    reference: str = "one"
    precision: str = "float64"
    tolerance: float = 1e-10  # what rounding may do to a curve of losses, relative


_FSDP, _PIECES = ("--strategy", "fsdp"), ("--accumulate", "3")
ARMS = {
    "one": Row(((False, ()),)),
    "several": Row(((True, ()),)),
    "accumulate": Row(((False, _PIECES),)),
    "several accumulate": Row(((True, _PIECES),)),
    "fsdp": Row(((True, _FSDP),)),
    "fsdp accumulate": Row(((True, _FSDP + _PIECES),)),
    "several-one": Row(((True, ()), (False, ()))),
    "one-several": Row(((False, ()), (True, ()))),
    "fsdp-one": Row(((True, _FSDP), (False, ()))),
    "several-fsdp": Row(((True, ()), (True, _FSDP))),
    "one float32": Row(((False, ()),), "one float32", "float32", 1e-5),
    "several float32": Row(((True, ()),), "one float32", "float32", 1e-5),
    "fsdp float32": Row(((True, _FSDP),), "one float32", "float32", 1e-5),
}


def run(config: Config) -> dict[str, Any]:
    """Measures, checks, prints, and writes results.json and figures/distributed_training.png; returns the results.

    Raises RuntimeError for a curve that differs by more than rounding, and for a run that fails, with what it says.
    """
    require_known("--arms", config.arms, ARMS, some=True)
    folder = opened(config, seeds=[config.seed], methods=["fno", "adamw"])
    sizes = picked(config, "train validation test seed")
    data = write_fields(folder.path / "fields.h5", config.points, **sizes)
    rows: dict[str, dict[str, Any]] = {}
    for name in config.arms:
        rows[name] = _train(config, name, data, folder.path / "runs" / name.replace(" ", "_"))
        _compare(name, rows)
    results = {"rows": rows, "compiled": [_compiled(config, name) for name in config.compiled]}
    return finished(folder, results, _draw, _print, answer=answer, picture="distributed_training.png")


def answer(results: dict[str, Any]) -> str:
    """How far the loss curves of all ways of training lie from those they are compared with."""
    apart = max(row["loss_difference"] for row in results["rows"].values())
    ways = f"the losses of {len(results['rows'])} ways of one training"
    said = [f"{ways} differ by at most {apart:.1e} from their reference"]
    if results["compiled"]:
        said.append(f"compiled steps are {extent(row['ratio'] for row in results['compiled'])} times as fast")
    return sentence(*said)


def _train(config: Config, name: str, data: Path, folder: Path) -> dict[str, Any]:
    """One row: its legs, one after the other, in one folder that is emptied first."""
    for old in folder.glob("*.safetensors"):
        old.unlink()
    arm, half = ARMS[name], max(1, config.epochs // 2)
    options = {
        "preset": "quick",
        "data": data,
        "folder": folder,
        "model": "fno",
        "batch-size": config.batch_size,
        "weight-decay": 0.01,
        "clip": 0.5,
        "precision": arm.precision,
        "device": "cpu",
        **picked(config, "width depth modes epochs seed"),
    }
    flags = [text for key, value in options.items() for text in (f"--{key}", str(value))]
    flags += ["--resolution", *map(str, config.points), "--options", "basis=cosine", "--no-progress"]
    start = time.perf_counter()
    for number, (several, more) in enumerate(arm.legs, 1):
        stop = ["--stop-after", str(half)] if number < len(arm.legs) else []
        launch("studies.train", [*flags, *more, *stop], processes=config.processes if several else 1)
    wall = time.perf_counter() - start
    history = read_jsonl(folder / "log.jsonl")
    test = json.loads((folder / "results.json").read_text())["test"]
    return {
        "processes": [config.processes if several else 1 for several, _ in arm.legs],
        "wall": wall,
        "seconds_per_epoch": history[-1]["seconds"] / len(history),
        "loss": [record["loss"] for record in history],
        "validation": [record["validation"] for record in history],
        "gradient_norm": [record["gradient_norm"] for record in history],
        "test": {grid: kinds["model"]["relative_l2"] for grid, kinds in test.items()},
    }


def _compare(name: str, rows: dict[str, dict[str, Any]]) -> None:
    """Adds the largest relative difference from the reference row; RuntimeError where it is more than rounding."""
    arm = ARMS[name]
    if arm.reference not in rows:
        raise ValueError(f"arms: {name!r} is compared with {arm.reference!r}, which has to come before it")
    mine, reference = rows[name], rows[arm.reference]
    for key in ("loss", "validation", "gradient_norm"):
        if len(mine[key]) != len(reference[key]):
            raise RuntimeError(f"{name}: {len(mine[key])} epochs, {arm.reference} has {len(reference[key])}")
        mine[f"{key}_difference"] = max(abs(p - q) / abs(q) for p, q in zip(mine[key], reference[key]))
        if not mine[f"{key}_difference"] <= arm.tolerance:
            raise RuntimeError(
                f"{name}: {key} differs from {arm.reference} by {mine[f'{key}_difference']:.1e}, more than rounding"
            )


def _compiled(config: Config, name: str) -> dict[str, Any]:
    require_known("--compiled", [name], CASES)
    said = launch("studies.distributed_training.compiled_steps", [name, str(config.compiled_steps)])
    return json.loads(said.splitlines()[-1])


def _print(results: dict[str, Any]) -> None:
    print_table(
        results["rows"],
        "=name",
        ("processes", lambda row: " → ".join(map(str, row["processes"]))),
        "wall s=wall:.1f; s/epoch=seconds_per_epoch:.3f",
        ("reference", lambda row: ARMS[row["name"]].reference),
        "loss=loss_difference:.1e; validation=validation_difference:.1e; gradient=gradient_norm_difference:.1e",
    )
    print("largest relative difference of any epoch; one thread a process")
    if results["compiled"]:
        columns = "torch.compile=case; eager s/step=eager:.4f; compiled:.4f; ratio:.2f; first s=first:.1f"
        print_table(results["compiled"], columns, "breaks=graph_breaks", title="")


def _draw(results: dict[str, Any], path: Path) -> None:
    caption = (
        "Training loss by epoch, in one process, in several and resumed, and its relative difference from the run that "
        "each is compared with."
    )
    with figure(path, 1, 2, width=3.8, height=3.0, caption=caption) as (_, axes):
        curves, differences = axes[0]
        for (name, row), style in zip(results["rows"].items(), series()):
            epochs = range(1, len(row["loss"]) + 1)
            curves.semilogy(epochs, row["loss"], label=name, **style)
            reference = results["rows"][ARMS[name].reference]
            if row is not reference:
                apart = [max(abs(p - q) / abs(q), 1e-17) for p, q in zip(row["loss"], reference["loss"])]
                differences.semilogy(epochs, apart, label=name, **style)
        curves.set(xlabel="epoch", ylabel="training loss")
        differences.set(xlabel="epoch", ylabel="relative difference of the loss (0 at 1e-17)", ylim=(5e-18, 1e-3))
        for axis in axes[0]:
            axis.xaxis.get_major_locator().set_params(integer=True)
        curves.legend(fontsize="x-small")
