"""What the study of images found: means and spread by arm, the target, tables, figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import paired_verdict, spread
from sciops.plotting import figure, series
from studies.kit.answers import listed, sentence
from studies.kit.figures import round_ticks, ticks
from studies.kit.tables import print_table
from studies.kit.timing import exponent, print_targets, target

if TYPE_CHECKING:
    from studies.image_classification import Config

PEERS = ("ViT", "SwinV2", "attention")
POINTS = 0.5  # by which the multipole classifier may be below the best peer


def summary(records: Mapping[str, list[dict[str, Any]]], costs: Mapping[str, Any], tested: int) -> list[dict[str, Any]]:
    """A row an arm: accuracy in per cent as mean, standard deviation over seeds and range; cost of a step; size.

    sampling : standard error of one run's accuracy that the number of test images leaves, in points
    """
    rows = []
    for name, runs in records.items():
        found = spread(run["accuracy"] for run in runs)
        mean = found.mean
        rows.append(
            {
                "name": name,
                "accuracy": mean,
                "deviation": found.deviation,
                "low": found.low,
                "high": found.high,
                "sampling": 100 * math.sqrt(mean / 100 * (1 - mean / 100) / tested),
                "validation": float(np.mean([run["validation"] for run in runs])),
                "seeds": len(runs),
                "parameters": runs[0]["parameters"],
                "rate": runs[0]["rate"],
                "training seconds": float(np.mean([run["seconds"] for run in runs])),
                "seconds": costs[name]["seconds"],
                "bytes": costs[name]["bytes"],
            }
        )
    return rows


def targets(results: Mapping[str, Any], config: Config) -> list[dict[str, Any]]:
    """Rows of `studies.kit.timing.target`: multipole against the best peer, and its cost over the size of the image."""
    rows = {row["name"]: row for row in results["summary"]}
    found = []
    peers = [rows[name] for name in PEERS if name in rows]
    if "multipole" in rows and peers:
        best = max(peers, key=lambda row: row["accuracy"])
        found_by = difference(results["runs"]["multipole"], results["runs"][best["name"]], results["images"]["test"])
        note = f"{found_by['text']}; {results['images']['train']} images, {config.epochs} epochs"
        what = f"accuracy: multipole − best peer ({best['name']}), points"
        found.append(target(what, rows["multipole"]["accuracy"] - best["accuracy"], least=-POINTS) | {"spread": note})
    curve = results["curve"]
    if len(curve) > 1:
        first, last = sorted(curve)[-2:]  # small images cost what calling the layers costs
        for name, bounds in (("multipole", {"most": 1.15}), ("attention", {})):
            if name in curve[last]:
                slope = exponent([first**2, last**2], [curve[n][name]["seconds"] for n in (first, last)])
                found.append(target(f"time of a step ~ pixels^p, {name}, {first}²–{last}²: p", slope, **bounds))
        if {"multipole", "attention"} <= curve[last].keys():
            for key, what in (("seconds", "time"), ("bytes", "peak memory")):
                value = curve[last]["attention"][key] / curve[last]["multipole"][key]
                found.append(target(f"{what} of a step at {last}²: attention ÷ multipole", value))
    return found


def answer(results: Mapping[str, Any]) -> str:
    """Accuracies, the highest first, and the difference of multipole attention from the best peer."""
    rows = sorted(results["summary"], key=lambda row: -row["accuracy"])
    accuracies = listed(f"{row['name']} {row['accuracy']:.1f} %" for row in rows)
    apart = [f"multipole against the best peer {row['spread']}" for row in results["targets"] if "spread" in row]
    return sentence(f"test images recognised: {accuracies}", *apart)


def difference(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], tested: int) -> dict[str, Any]:
    """Accuracy of ours − theirs in points, by seed, and the verdict over seeds and test images, as numbers and text.

    tested : number of test images, of which a run's "wrong" lists those that it took for others
    """
    gaps = [a["accuracy"] - b["accuracy"] for a, b in zip(ours, theirs)]
    verdict = paired_verdict(*(_wrong(runs, tested) for runs in (theirs, ours)))
    side = {"first": "the peer is better", "second": "multipole is better"}.get(verdict.winner, verdict.winner)
    text = f"by seed {', '.join(f'{gap:+.2f}' for gap in gaps)}; mean {verdict.difference:+.2f} "
    text += f"[{verdict.low:+.2f}, {verdict.high:+.2f}] over seeds and images: {side}"
    return {"by_seed": gaps, "mean": verdict.difference, "low": verdict.low, "high": verdict.high, "text": text}


def _wrong(runs: list[dict[str, Any]], tested: int) -> np.ndarray:
    """(seeds, images): 100 where a run is wrong, 0 elsewhere, so that means are in points."""
    errors = np.zeros((len(runs), tested))
    for row, run in zip(errors, runs):
        row[np.asarray(run["wrong"], dtype=int)] = 100.0
    return errors


def print_report(results: Mapping[str, Any], config: Config) -> None:
    images, (high, wide) = results["images"], results["grid"]
    print(
        f"\n{config.data}, {high}×{wide} pixels: {images['train']} training, {images['validation']} validation, "
        f"{images['test']} test images; {config.epochs} epochs, {len(config.seeds)} seed(s), batches of "
        f"{config.batch_size}, {config.threads} threads ({config.device})"
    )
    print_table(
        sorted(results["summary"], key=lambda row: -row["accuracy"]),
        "=name",
        ("accuracy %", lambda row: f"{spread(run['accuracy'] for run in results['runs'][row['name']]):.2f}"),
        f"low:.2f; high:.2f; validation:.2f; ms/step=1e3*seconds:.1f; MB/step={2**-20}*bytes:.1f",
        "s/run=training seconds:.1f; parameters; rate:.2g",
    )
    for name, runs in results["runs"].items():
        for number, run in enumerate(runs):
            if run["stopped"]:
                print(f"{name}, run {number}: {run['stopped']}")
    print(
        f"standard error that {images['test']} test images leave of one accuracy: "
        f"{max(row['sampling'] for row in results['summary']):.2f} points"
    )
    if results["curve"]:
        both = lambda cost: f"{1e3 * cost['seconds']:.1f}, {cost['bytes'] / 2**20:.1f}"  # noqa: E731
        names = list(next(iter(results["curve"].values())))
        columns = [(name, lambda row, name=name: both(row[name])) for name in names]
        title = f"a training step of {config.curve_batch} images, by pixels per side: ms, MB"
        print_table(results["curve"], "=name", *columns, title=title)
    print_targets(results["targets"])
    for row in results["targets"]:
        if "spread" in row:
            verdict = "met" if row["met"] else "missed"
            print(f"within {POINTS} points of the best of {', '.join(PEERS)}: {verdict}; {row['spread']}")


def draw(results: Mapping[str, Any], config: Config, folder: Path) -> None:
    """accuracy.png: accuracy against time and memory of a step; cost.png: both over the size of the image."""
    rows = results["summary"]
    caption = "Test accuracy against time and peak memory of a training step; bars: range over the seeds."
    size = {"width": 3.6, "height": 3.1, "sharey": True}
    with figure(folder / "accuracy.png", 1, 2, caption=caption, **size) as (fig, axes):
        quantities = (("seconds", 1e3, "time of a training step (ms)"), ("bytes", 2**-20, "peak memory of a step (MB)"))
        for axis, (key, scale, label) in zip(axes[0], quantities):
            for row, style in zip(rows, series()):
                bars = [[row["accuracy"] - row["low"]], [row["high"] - row["accuracy"]]]
                point = style | {"linestyle": "none", "capsize": 2.5}
                axis.errorbar([scale * row[key]], [row["accuracy"]], yerr=bars, label=row["name"], **point)
            axis.set(xscale="log", xlabel=label)
            _round_ticks(axis.xaxis, [scale * row[key] for row in rows])
        axes[0, 0].set_ylabel("test accuracy (%)")
        high, wide = results["grid"]
        fig.suptitle(
            f"{config.data}, {high}×{wide}, about {rows[0]['parameters'] / 1000:.0f}k parameters, {config.epochs} "
            f"epochs; bars: range over {len(config.seeds)} seed(s)",
            fontsize=9,
        )
        fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=min(6, len(rows)))
    curve = results["curve"]
    if not curve:
        return
    caption = "Time and peak memory of a training step against the size of the images."
    with figure(folder / "cost.png", 1, 2, width=3.4, height=3.0, caption=caption) as (_, axes):
        quantities = (("seconds", 1e3, "time of a training step (ms)"), ("bytes", 2**-20, "peak memory of a step (MB)"))
        names, sizes = list(next(iter(curve.values()))), sorted(curve)
        styles = {row["name"]: style for row, style in zip(rows, series())}
        for axis, (key, scale, label) in zip(axes[0], quantities):
            for name in names:
                axis.loglog(sizes, [scale * curve[n][name][key] for n in sizes], label=name, **styles[name])
            ticks(axis.xaxis, sizes, "{}²".format)
            axis.set(xlabel=f"pixels, {config.curve_batch} images a step", ylabel=label)
            _round_ticks(axis.yaxis, [scale * curve[n][name][key] for n in sizes for name in names])
        axes[0, 0].legend()


def _round_ticks(axis: Any, values: list[float]) -> None:
    """Ticks of a log axis at 1, 2, 5 times powers of ten around the values (at powers alone where many), plainly."""
    low, high = max(min(values), 1e-3) / 1.3, max(*values, 1e-3) * 1.3
    steps = (1,) if high > 500 * low else (1, 2, 5)
    axis.axes.set(**{f"{axis.axis_name}lim": (low, high)})
    round_ticks(axis, low, high, steps)
