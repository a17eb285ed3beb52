"""Every mixer of sequences on every kind of task, at equal parameters, and what each costs: one table, one figure.

    python -m studies.mixer_zoo
    python -m studies.mixer_zoo --preset medium --output runs/mixer_zoo_medium
    python -m studies.mixer_zoo --arms attention ChaCAL polynomial --tasks burgers mqar
    python -m studies.mixer_zoo --arms attention my_module:MyMixer --tasks burgers

Operators: Burgers' equation on a ring and Darcy flow on a square, relative L² error. Symbols: copying, recall of
several values by keys (MQAR), chains of pointers (tracking), accuracy. Text: perplexity of held-out text. The mixers
share the blocks around them, the data, the steps and one rate; hidden widths of the blocks give all the parameters of
attention. "no mixer" is what the blocks do alone, with their short convolutions.

Costs are of stacks of two causal blocks on one thread: time and peak memory of a training step, time and cache of a
token that is decoded. Trainings run in `workers` processes of one thread; finished ones are read back.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sciops.files.json_files import plain
from studies.kit.cells import kept
from studies.kit.choices import require_known
from studies.kit.mixers.arms import chosen_arms
from studies.kit.pool import run_all
from studies.kit.study import finished, opened, picked
from studies.kit.text_training import text_data
from studies.mixer_zoo.cells import FIELDS, TASKS, cell, described
from studies.mixer_zoo.cost import costs
from studies.mixer_zoo.report import answer, draw, print_report, summary


@dataclass(frozen=True)
class Config:
    arms: tuple[str, ...] = ()
    """mixers, by their names in the table or in MIXERS, or as module:Class; none: all of the table"""
    tasks: tuple[str, ...] = TASKS  # which of the tasks
    seeds: int = 1  # trainings of every cell, of other initial parameters and batches
    field_points: tuple[int, int] = (128, 17)  # points of the ring, and nodes per axis of the square
    field_samples: int = 128  # functions trained on; a fourth as many are tested on
    field_size: tuple[int, int] = (32, 3)  # width and depth of the networks of fields
    field_steps: tuple[int, int] = (40, 40)  # steps of Burgers and of Darcy
    symbol_size: tuple[int, int] = (64, 2)  # width and depth of the networks of symbols
    symbol_steps: tuple[int, int, int] = (80, 80, 80)  # steps of copying, recall and tracking
    symbol_lengths: tuple[int, int, int] = (12, 32, 24)
    """symbols to copy, tokens of a recall with an eighth as many pairs, tokens of tracking with four chains"""
    symbol_batch: int = 32  # sequences a step
    text_size: tuple[int, int] = (64, 2)  # width and depth of the language models
    text_steps: int = 40  # steps of language models
    text_context: int = 128  # tokens of a window
    corpus: str = "auto"
    """text, by name in sciops.datasets.text.CORPORA, or a file or folder; auto: the first that is there"""
    vocabulary: int = 1024  # byte pairs
    rate: float = 3e-3  # largest rate of all trainings
    costs: bool = True  # whether time, memory and cache are measured too, on a machine that does nothing else
    cost_length: int = 256  # tokens of a sequence of the training step that is timed; there are four
    contexts: tuple[int, ...] = (128, 1024)  # tokens before the ones whose decoding is timed
    rounds: int = 3  # calls of each, in turns; the median counts
    workers: int = 2  # processes that train at a time
    output: Path = Path("runs/mixer_zoo")  # folder for the cells, results.json and the figure


_MEDIUM = dict(
    seeds=2,
    field_points=(256, 25),
    field_samples=256,
    field_steps=(300, 150),
    symbol_steps=(800, 800, 800),
    text_steps=300,
    cost_length=1024,
    rounds=7,
    contexts=(128, 512, 2048),
)
PRESETS = {
    "quick": Config(),
    "medium": Config(**_MEDIUM, output=Path("runs/mixer_zoo_medium")),
    "full": Config(
        seeds=5,
        field_points=(256, 33),
        field_samples=512,
        field_size=(48, 4),
        field_steps=(4000, 3000),
        symbol_steps=(8000, 8000, 8000),
        symbol_lengths=(24, 64, 48),
        symbol_batch=64,
        text_size=(128, 4),
        text_steps=6000,
        text_context=256,
        vocabulary=4096,
        cost_length=2048,
        rounds=9,
        contexts=(128, 512, 2048, 8192),
        output=Path("runs/mixer_zoo_full"),
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Trains, measures, prints, writes results.json and figures/mixer_zoo.png, and returns the results.

    Raises ValueError for an unknown arm or task; RuntimeError, after writing, where a score is not a number.
    """
    arms = list(chosen_arms(config.arms))
    require_known("--tasks", config.tasks, TASKS)
    if not config.tasks or config.seeds < 1:
        raise ValueError(f"--tasks {config.tasks} --seeds {config.seeds}: expected at least one of each")
    folder = opened(config, seeds=range(config.seeds))
    specs = {task: specification(config, task) for task in config.tasks}
    _prepare(specs, folder.path)
    named = [(task, arm, seed) for task in config.tasks for arm in arms for seed in range(config.seeds)]
    jobs = ((task, arm, seed, specs[task], str(folder.path)) for task, arm, seed in named)
    cells = run_all(cell, jobs, workers=config.workers, threads=1, unit="training")
    measured = _measured(config, arms, folder.path) if config.costs else []
    results = {"rows": summary(cells, measured, arms), "cells": plain(cells), "costs": measured}
    broken = [f"{r['arm']} on {r['task']}" for r in cells if not 0 <= r["score"] < float("inf")]
    wrong = f"no score: {', '.join(broken)}" if broken else ""
    how = {"answer": answer, "picture": "mixer_zoo.png", "wrong": wrong}
    return finished(folder, results, draw, print_report, config, **how)


def specification(config: Config, task: str) -> dict[str, Any]:
    """What decides a cell of `task` besides arm and seed: options of the task, the network's size, the training."""
    if task in FIELDS:
        i = list(FIELDS).index(task)
        points = config.field_points[i]
        options = {"points": points, "train": config.field_samples, "test": max(8, config.field_samples // 4)}
        if task == "burgers":
            options["kernel"] = max(3, 2 * round(4 * points / 256) + 1)  # of the same reach on every grid
        training = {"steps": config.field_steps[i], "batch": 16 if task == "burgers" else 8, "rate": config.rate}
        width, depth = config.field_size
        return {"task": options, "model": {"width": width, "depth": depth}, "training": training}
    if task == "text":
        width, depth = config.text_size
        return {
            "task": {"corpus": config.corpus, "kind": "bpe", "size": config.vocabulary},
            "model": {"width": width, "depth": depth},
            "training": {"batch": 8, "rate": config.rate, "scored": 64 * config.text_context}
            | picked(config, "steps context", "text_"),
        }
    i = ("copy", "mqar", "tracking").index(task)
    length, steps = config.symbol_lengths[i], config.symbol_steps[i]
    options = {
        "copy": {"length": length, "alphabet": 16},
        "mqar": {"length": length, "pairs": max(1, length // 8), "symbols": 2 * length},
        "tracking": {"length": length, "chains": 4, "values": 8},
    }[task]
    width, depth = config.symbol_size
    training = {"steps": steps, "batch": config.symbol_batch, "rate": config.rate, "tested": 8 * config.symbol_batch}
    return {"task": options, "model": {"width": width, "depth": depth}, "training": training}


def _prepare(specs: dict[str, Any], folder: Path) -> None:
    """Data that several processes read, made by one."""
    for task, spec in specs.items():
        if task in FIELDS:
            FIELDS[task][1](folder=folder / "data", **spec["task"])
        elif task == "text":
            text_data(**spec["task"], folder=folder / "data")


def _measured(config: Config, arms: list[str], folder: Path) -> list[dict[str, Any]]:
    width, depth = config.symbol_size
    spec = dict(
        width=width, depth=depth, length=config.cost_length, batch=4, contexts=config.contexts, rounds=config.rounds
    )
    make = lambda: {"rows": costs(arms, **spec, workers=config.workers)}  # noqa: E731
    made_by = {**spec, "arms": {name: described(name) for name in arms}, "workers": config.workers}
    return kept(folder / "cells", "costs", made_by, make)["rows"]
