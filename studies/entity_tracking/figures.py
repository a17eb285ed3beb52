"""The figures of the study of entity tracking."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sciops.plotting import series
from studies.entity_tracking.arms import OFTEN
from studies.entity_tracking.report import outside
from studies.kit.figures import band, panels, ticks
from studies.kit.tables import grouped


def draw(results: dict[str, Any], path: Path) -> None:
    drawers = {
        "layers": _draw_layers,
        "gammas": _draw_gammas,
        "blocks": _draw_blocks,
        "crossing": _draw_crossing,
        "entries": _draw_entries,
        "boxes": _draw_boxes,
        "language": _draw_language,
        "times": _draw_times,
        "properties": _draw_properties,
    }
    results = results | ({"entries": results["crossing"]} if "crossing" in results else {})
    shown = [part for part in drawers if part in results]
    if not shown:
        return
    caption = (
        "Accuracy against the number of links to the root, mean and range of the seeds, of each part that ran: layers, "
        "γ, block forms with and without the reduced system, links from block to block, exact match of boxes, "
        "perplexity of language models, time against length, several systems of pointers."
    )
    with panels(path, len(shown), 3, width=3.7, height=3.0, caption=caption) as axes:
        for axis, part in zip(axes, shown):
            drawers[part](axis, results[part])


def _draw_hops(axis: Any, rows: list[dict[str, Any]]) -> None:
    """Mean accuracy by hop with a band from the lowest to the highest seed, of hops that occur often enough to tell."""
    for row, style in zip(rows, series()):
        keep = [i for i, hop in enumerate(row["value"]) if hop in row["judged"]]
        hops, seeds = np.array(row["value"])[keep], np.array(row["by_seed"])[:, keep]
        band(axis, hops, seeds, label=row["name"], style=style)
    axis.set(xlabel="links to the root", ylabel="accuracy", ylim=(0, 1.05))
    axis.xaxis.get_major_locator().set_params(integer=True)
    _legend_below(axis)


def _legend_below(axis: Any) -> None:
    """Where no curve is: accuracies of those that fail lie along the lower end, of the others along the upper."""
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)


def _draw_layers(axis: Any, rows: list[dict[str, Any]]) -> None:
    _draw_hops(axis, rows)
    for row, style in zip(rows, series()):
        if row["bound"] is not None and row["bound"] <= max(row["value"]):
            axis.axvline(row["bound"] + 0.5, color=style["color"], linewidth=0.8, linestyle=":")
    axis.set_title("pointer chain; dotted: bound $2^L − 1$ of L layers")


def _draw_gammas(axis: Any, rows: list[dict[str, Any]]) -> None:
    _draw_hops(axis, rows)
    axis.set_title("one layer of the resolvent")


def _draw_blocks(axis: Any, results: dict[str, Any]) -> None:
    names = [row["name"] for row in results["near"]]
    for i, ((kind, label), style) in enumerate(zip((("near", "near links"), ("far", "a tenth far")), series())):
        at = np.array([names.index(row["name"]) for row in results[kind]]) + 0.38 * (i - 0.5)
        bars = [row["spread"] or 0.0 for row in results[kind]]
        means = [row["accuracy"] for row in results[kind]]
        axis.barh(at, means, xerr=bars, height=0.36, color=style["color"], label=label)
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.set(xlabel="accuracy, all links", title="block forms, reduced system on and off", xlim=(0, 1.05))
    _legend_below(axis)


def _draw_crossing(axis: Any, results: dict[str, Any]) -> None:
    for row, style in zip(results["rows"], series()):
        band(axis, row["crossings"]["value"], row["crossings"]["by_seed"], label=row["name"], style=style)
    axis.set(xlabel="links to other blocks", ylabel="accuracy", title="links from block to block", ylim=(0, 1.05))
    axis.xaxis.get_major_locator().set_params(integer=True)
    _legend_below(axis)


def _draw_entries(axis: Any, results: dict[str, Any]) -> None:
    """Accuracy of the tokens whose root lies in another block against the tokens of a block that are pointed at."""
    rows = grouped([*results["rows"], *results["entries"]], "form")
    for form, style in zip(("dense", "level 1", "level 2"), series()):
        seeds = np.array([outside(row) for row in rows[form]]).T
        band(axis, [row["entries"] for row in rows[form]], seeds, label=form, style=style)
    bound = results["bound"]
    axis.plot([int(r) for r in bound], [one["crossing"] for one in bound.values()], "k:", label="one answer a block")
    axis.set(xlabel="tokens of a block that are pointed at", ylabel="accuracy, roots in other blocks")
    axis.set(title="one summary, several tokens", ylim=(0, 1.05))
    axis.xaxis.get_major_locator().set_params(integer=True)
    _legend_below(axis)


def _draw_boxes(axis: Any, rows: list[dict[str, Any]]) -> None:
    for row, style in zip(rows, series()):
        found = [exact["links"] for exact in row["exact"]]
        often = [i for i, count in enumerate(found[0]["count"]) if count >= OFTEN]
        values = [found[0]["value"][i] for i in often]
        band(axis, values, [[one["rate"][i] for i in often] for one in found], label=row["name"], style=style)
    axis.set(xlabel="most links an item of the box takes", ylabel="exact match", title="boxes", ylim=(0, 1.05))
    axis.xaxis.get_major_locator().set_params(integer=True)
    _legend_below(axis)


def _draw_language(axis: Any, results: dict[str, Any]) -> None:
    for i, (row, style) in enumerate(zip(results["rows"], series())):
        axis.plot(row["perplexities"], [i] * len(row["perplexities"]), **(style | {"linestyle": ""}))
    axis.set_yticks(range(len(results["rows"])), [row["name"].replace(" alone", "\nalone") for row in results["rows"]])
    axis.set(xlabel="perplexity of the test text", title="language models, a point a seed")
    axis.margins(y=0.3)
    axis.invert_yaxis()


def _draw_times(axis: Any, timed: dict[str, Any]) -> None:
    for (name, exponents), style in zip(timed["exponents"].items(), series()):
        rows = [row for row in timed["rows"] if row["name"] == name and row["pass"] == "both"]
        label = f"{name}: {exponents['both']:.2f}" if "both" in exponents else name
        axis.loglog([row["n"] for row in rows], [row["seconds"] for row in rows], label=label, **style)
    axis.set(xlabel="tokens", ylabel="seconds, forward and backward", title="time, and exponent in the length")
    lengths = sorted({row["n"] for row in timed["rows"]})
    ticks(axis.xaxis, lengths)
    low, high = axis.get_ylim()
    axis.set_ylim(low, high * (high / low) ** 0.6)
    axis.legend(loc="upper left")


def _draw_properties(axis: Any, rows: list[dict[str, Any]]) -> None:
    for (name, own), style in zip(grouped(rows, "name").items(), series()):
        seeds = np.array([row["accuracies"] for row in own]).T
        band(axis, [row["properties"] for row in own], seeds, label=name, style=style)
    axis.axvline(min(row["heads"] for row in rows) + 0.5, color="0.4", linewidth=0.8, linestyle=":")
    axis.set(xlabel="pointer systems in the same tokens", ylabel="accuracy", title="more systems than heads")
    axis.set_ylim(0, 1.05)
    axis.xaxis.get_major_locator().set_params(integer=True)
    _legend_below(axis)
