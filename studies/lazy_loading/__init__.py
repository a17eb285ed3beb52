"""Training from a file that is larger than the memory it may take: the same losses, at which speed, in how much memory.

python -m studies.lazy_loading --preset quick

Writes a native file of random smooth fields, and trains the same fno on it held in memory, read ahead by a thread, and
read by worker processes that fork or spawn. Each training is a process of its own, on one thread; the ways take turns.
Losses that differ in one bit end the run with an error.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sciops.plotting import figure, series
from studies.kit.answers import extent, listed, sentence
from studies.kit.fields.smooth import write_fields
from studies.kit.launch import launch
from studies.kit.study import finished, opened, picked
from studies.kit.tables import grouped, print_table

TARGET = 0.8  # of the speed in memory
WAYS = ("memory", "thread", "fork", "spawn")
_MB = 1e6


@dataclass(frozen=True)
class Config:
    points: int = 64  # nodes per axis
    train: int = 2048  # training fields
    validation: int = 32
    memory_limit: int = 10 * 10**6  # bytes above which a file is read on demand; the file is several times as large
    models: tuple[tuple[int, int], ...] = ((8, 1),)
    """(width, depth) of each fno; the less work a step is, the less reading it hides"""
    modes: int = 8
    batch_size: int = 16
    epochs: int = 3
    repeats: int = 1  # rounds in which every way takes its turn
    ways: tuple[str, ...] = WAYS
    workers: int = 1  # processes of the ways that have them
    seed: int = 0
    output: Path = Path("runs/lazy_loading")  # folder for the file, results.json and the figure


PRESETS = {
    "quick": Config(),
    "full": Config(
        points=85, train=8000, validation=200, memory_limit=50 * 10**6, models=((32, 4), (8, 1)), modes=12, repeats=3
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Measures, checks, prints, and writes results.json and figures/lazy_loading.png; returns the results.

    Raises RuntimeError for losses that differ between the ways, ValueError for a file that would fit.
    """
    unknown = [way for way in config.ways if way not in WAYS]
    if unknown or config.ways[:1] != ("memory",):
        raise ValueError(f"ways={config.ways!r}: expected memory, then some of {', '.join(WAYS[1:])}")
    held = 2 * 4 * config.train * config.points**2
    if held < 2 * config.memory_limit:
        raise ValueError(
            f"the training fields take {held / _MB:.0f} MB, less than twice memory_limit={config.memory_limit}: "
            "pass a lower memory_limit or more training fields"
        )
    folder = opened(config, seeds=[config.seed], methods=["fno", "adamw"])
    sizes = picked(config, "train validation seed")
    path = write_fields(folder.path / "fields.h5", (config.points,), test=0, **sizes)
    rows = []
    for width, depth in config.models:
        runs: dict[str, list[dict[str, Any]]] = {way: [] for way in config.ways}
        for _ in range(config.repeats):
            for way in config.ways:
                runs[way].append(_train(config, path, way, width, depth))
                _check(runs["memory"][0], runs[way][-1])
        rows += _rows(runs, width, depth)
    results = {"file_bytes": path.stat().st_size, "memory_limit": config.memory_limit, "rows": rows}
    draw = lambda _, path: _draw(config, results, path)  # noqa: E731
    return finished(folder, results, draw, _print, answer=answer, picture="lazy_loading.png")


def answer(results: dict[str, Any]) -> str:
    """The speed of every way of reading over that of fields in memory."""
    ways = grouped((row for row in results["rows"] if row["way"] != "memory"), "way")
    said = [f"{way} {extent(row['ratio'] for row in rows)}" for way, rows in ways.items()]
    return sentence(f"speed of training on a file that is read as it goes, in memory 1: {listed(said)}; equal losses")


def _train(config: Config, path: Path, way: str, width: int, depth: int) -> dict[str, Any]:
    shared = picked(config, "memory_limit modes batch_size epochs seed workers")
    options = {"data": str(path), "way": way, "width": width, "depth": depth, **shared}
    return json.loads(launch("studies.lazy_loading.arm", [json.dumps(options)]).splitlines()[-1])


def _check(reference: dict[str, Any], other: dict[str, Any]) -> None:
    """RuntimeError unless both have the same losses, bit for bit."""
    for key in ("loss", "validation"):
        if other[key] != reference[key]:
            raise RuntimeError(f"{other['way']}: {key} {other[key]} is not {reference[key]}, that of memory")


def _rows(runs: dict[str, list[dict[str, Any]]], width: int, depth: int) -> list[dict[str, Any]]:
    """A row a way: medians over rounds and epochs; ratios of speed within rounds, which share the machine's state."""
    rows = []
    for way, done in runs.items():
        seconds = [float(np.median(one["epoch_seconds"])) for one in done]
        ratios = [float(np.median(m["epoch_seconds"])) / s for m, s in zip(runs["memory"], seconds)]
        rows.append(
            {
                "model": f"width {width}, depth {depth}",
                "way": way,
                "seconds_per_epoch": float(np.median(seconds)),
                "ratio": float(np.median(ratios)),
                "least": min(ratios),
                "most": max(ratios),
                "wall": float(np.median([one["wall"] for one in done])),
                "opening": float(np.median([one["opening"] for one in done])),
                "peak": max(one["peak"] for one in done),
                "fields": max(one["peak"] - one["before"] for one in done),
                "worker_peak": max(one["worker_peak"] for one in done),
                "loss": done[0]["loss"],
                "all_epoch_seconds": [one["epoch_seconds"] for one in done],
                "met": way == "memory" or float(np.median(ratios)) >= TARGET,
            }
        )
    return rows


def _print(results: dict[str, Any]) -> None:
    size, limit = results["file_bytes"] / _MB, results["memory_limit"] / _MB
    print(f"file of {size:.0f} MB, read on demand above {limit:.0f} MB; the losses of all ways are equal to the bit")
    print_table(
        results["rows"],
        "fno=model; way; s/epoch=seconds_per_epoch:.3f; speed=ratio:.2f; least:.2f; most:.2f; open s=opening:.2f",
        f"fit s=wall:.2f; peak MB={1 / _MB}*peak:.0f",
        ("a worker", lambda row: f"{row['worker_peak'] / _MB:.0f}" if row["worker_peak"] else None),
    )
    for row in results["rows"]:
        if row["way"] != "memory":
            word = "met   " if row["met"] else "MISSED"
            print(f"{word} {row['model']}, {row['way']}: {row['ratio']:.2f} of the speed in memory, target ≥ {TARGET}")


def _draw(config: Config, results: dict[str, Any], path: Path) -> None:
    caption = "Speed of training and peak memory of its process, by how the fields are read."
    with figure(path, 1, 2, width=3.6, height=2.8, caption=caption) as (_, axes):
        speed, memory = axes[0]
        models = grouped(results["rows"], "model")
        for i, ((model, rows), style) in enumerate(zip(models.items(), series())):
            at = np.arange(len(rows)) + 0.4 * i - 0.2 * (len(models) - 1)
            speed.bar(at, [row["ratio"] for row in rows], 0.38, color=style["color"], label=model)
            memory.bar(at, [row["peak"] / _MB for row in rows], 0.38, color=style["color"], label=model)
        speed.axhline(TARGET, color="black", linewidth=0.8, linestyle="--")
        speed.set(ylabel="speed, in memory = 1", title=f"{results['file_bytes'] / _MB:.0f} MB file")
        memory.set(ylabel="peak of the training process (MB)", title=f"limit {results['memory_limit'] / _MB:.0f} MB")
        for axis in axes[0]:
            axis.set_xticks(range(len(config.ways)), config.ways)
        memory.set_ylim(top=1.3 * memory.get_ylim()[1])
        memory.legend(loc="upper right", fontsize="x-small")
