"""Tables, targets and the figure of the study of entity tracking."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sciops.evaluation import spread
from sciops.plotting import series
from studies.kit.answers import extent, listed, met, sentence
from studies.kit.figures import band, panels, ticks
from studies.kit.tables import grouped, print_table
from studies.kit.timing import print_targets, target

EQUAL = 0.005  # of accuracy, below the dense operator's, that still counts as the same
_UNTIL = 0.01  # gain over the last eighth of a training that says that it was stopped too early


def targets(results: dict[str, Any]) -> list[dict[str, Any]]:
    """What the papers claim beside what was measured, for the parts that ran."""
    rows = []
    if "layers" in results:
        layers = results["layers"]
        worst = min(layers[0]["worst"])
        rows.append(target("one layer of the resolvent: worst accuracy of any hop and seed", worst, least=0.99))
        for row in layers[1:]:
            what = f"{row['name']}: links followed by every seed (accuracy ≥ 0.95), bound {row['bound']}"
            deepest = max(row["judged"])
            rows.append(target(what, min(row["reach"]), least=min(row["bound"], deepest), note=_stopped(row)))
            if deepest > row["bound"]:
                first = row["by_value"][row["value"].index(row["bound"] + 1)]
                rows.append(target(f"{row['name']}: accuracy one link past the bound", first, most=0.95))
    if "blocks" in results:
        for kind, block_rows in results["blocks"].items():
            dense = block_rows[0]["accuracy"]
            rows += [
                target(f"{row['name']}, {kind} links: accuracy below dense", dense - row["accuracy"], most=EQUAL)
                for row in block_rows[1:]
            ]
    if "times" in results:
        timed = results["times"]
        for name in _accurate(results):
            for what in ("forward", "both"):
                own = [r for r in timed["rows"] if r["name"] == name and r["pass"] == what and r["saved"]]
                saved = {r["n"]: r["saved"]["median"] for r in own if r["n"] >= timed["fit_from"]}
                if saved:
                    words = f"{name}: least saved of dense, {_PASSES[what]}, n = {min(saved)} … {max(saved)}"
                    rows.append(target(words, min(saved.values()), least=0.29))
        for name, exponents in timed["exponents"].items():
            if name.startswith("level 1"):
                words = f"{name}: exponent of time, {_PASSES['both']}, from n = {timed['fit_from']}"
                rows.append(target(words, exponents.get("both", np.nan), most=1.4))
    if "properties" in results:
        most = min(row["heads"] for row in results["properties"])
        for name in dict.fromkeys(row["name"] for row in results["properties"] if row["heads"] == most):
            of = {row["properties"]: row["accuracy"] for row in results["properties"] if row["name"] == name}
            within, past = [a for p, a in of.items() if p <= most], [a for p, a in of.items() if p > most]
            if within and past:
                rows.append(target(f"{name}: worst accuracy of up to {most} systems", min(within), least=0.95))
                rows.append(target(f"{name}: best accuracy beyond", max(past), most=0.95))
    return rows


def _stopped(row: dict[str, Any]) -> str:
    gain = row["late_gain"]
    return f"still gaining {gain:.3f} over the last eighth of {row['steps']} steps" if gain > _UNTIL else ""


def _accurate(results: dict[str, Any]) -> list[str]:
    """Timed forms with the dense operator's accuracy on chains of near links: level 0, whose numbers are its, and those
    whose structure was as accurate in the part "blocks"."""
    names = ["level 0"]
    for row in results.get("blocks", {}).get("near", [])[1:]:
        if results["blocks"]["near"][0]["accuracy"] - row["accuracy"] <= EQUAL and list(row["form"]) == [1, True]:
            names.append("level 1 with overlap, m = 64")
    return list(dict.fromkeys(names))


_PASSES = {"forward": "forward", "both": "forward and backward"}


def answer(results: dict[str, Any]) -> str:
    """How deep one layer of the resolvent follows links, and attention of several layers beside it."""
    said = []
    if "layers" in results:
        first, *others = results["layers"]
        deepest = max(first["judged"])
        said.append(
            f"one layer of the resolvent follows up to {deepest} links with an accuracy of at least "
            f"{min(first['worst']):.3f}"
        )
        reach = listed(f"{row['name']} {min(row['reach'])} (bound {row['bound']})" for row in others)
        said.append(f"links that others follow with every seed: {reach}" if reach else "")
    if "blocks" in results:
        near = results["blocks"]["near"]
        lost = extent(near[0]["accuracy"] - row["accuracy"] for row in near[1:])
        said.append(f"block forms lose {lost} of accuracy on near links")
    return sentence(*said, met(results["targets"]))


def print_all(results: dict[str, Any]) -> None:
    for part, title in (("layers", "accuracy by links to the root"), ("gammas", "accuracy by links, other γ")):
        if part in results:
            print(f"\n{title}")
            _print_hops(results[part])
    for kind, rows in results.get("blocks", {}).items():
        words = "parents near" if kind == "near" else "a share of parents far"
        print(f"\nblock forms, {words}: accuracy by links")
        _print_hops(rows)
        for m, (inside, around) in (rows[0]["mass"] or {}).items():
            print(
                f"  dense: {inside:.2f} of the attention lies in blocks of {m}, {around:.2f} in them and those before"
            )
    if "times" in results:
        _print_times(results["times"])
    for row in results.get("tiles", []):
        solve, powers = (1e3 * row[way] for way in ("solve", "powers"))
        print(f"tiles of {row['m']:>4}: triangular solve {solve:8.2f} ms, product of powers {powers:8.2f} ms")
    if "properties" in results:
        rows = results["properties"]
        systems = sorted({row["properties"] for row in rows})
        found: dict[str, dict[str, Any]] = {row["name"]: {} for row in rows}
        for row in rows:
            found[row["name"]][f"{row['properties']}"] = spread(row["accuracies"])
        columns = (f"{p}:.3f" for p in systems)
        print_table(found, "=name", *columns, title="accuracy by pointer systems in the same tokens")
    if "tasks" in results:
        print("\noverwritten variables: accuracy by links")
        _print_hops(results["tasks"]["overwrite"])
        print("\nboxes: accuracy of words, exact match of boxes by operations that touched them (first seed)")
        for row in results["tasks"]["boxes"]:
            by = row["exact_by_operations"]
            parts = "  ".join(f"{v}: {rate:.2f}" for v, rate in zip(by["value"], by["rate"]))
            exact = np.mean(row["exact"])
            print(f"{row['name']:26} {row['steps']:>6} steps  words {row['accuracy']:.3f}  exact {exact:.3f}   {parts}")
    print_targets(results["targets"])
    for row in results["targets"]:
        if not row["met"] and row.get("note"):
            print(f"  {row['what']}: {row['note']}")


def _print_hops(rows: list[dict[str, Any]], shown: int = 13) -> None:
    hops = sorted({hop for row in rows for hop in row["value"]})[:shown]
    print_table(
        [row | {"by hop": dict(zip(map(str, row["value"]), row["by_value"]))} for row in rows],
        "=name",
        ("seeds", lambda row: len(row["accuracies"])),
        "steps; rate:.0e",
        ("all ± over seeds", lambda row: f"{spread(row['accuracies']):.3f}"),
        ("reach", lambda row: "/".join(map(str, row["reach"]))),
        *(f"{hop}=by hop.{hop}:.2f" for hop in hops),
    )


def _print_times(timed: dict[str, Any]) -> None:
    lengths = sorted({row["n"] for row in timed["rows"]})
    for what, words in _PASSES.items():
        rows = {
            name: {"exponent": found.get(what), "counted": found["counted"]}
            for name, found in timed["exponents"].items()
        }
        for row in timed["rows"]:
            if row["pass"] == what:
                saved = f" ({row['saved']['median']:.0%})" if row["saved"] and row["name"] != "dense" else ""
                rows[row["name"]][f"{row['n']}"] = f"{1e3 * row['seconds']:.1f}{saved}"
        title = f"ms of {words}, {timed['width']} channels, {timed['heads']} heads (saved of dense)"
        print_table(rows, "=name", *map(str, lengths), "exponent:.2f; counted:.2f", title=title)


def draw(results: dict[str, Any], path: Path) -> None:
    drawers = {
        "layers": _draw_layers,
        "gammas": _draw_gammas,
        "blocks": _draw_blocks,
        "times": _draw_times,
        "properties": _draw_properties,
    }
    shown = [part for part in drawers if part in results]
    if not shown:
        return
    caption = (
        "Accuracy against the number of links to the root, mean and range of the seeds, of each part that ran: layers, "
        "γ, block forms, time against length, several systems of pointers."
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


def _draw_blocks(axis: Any, results: dict[str, list[dict[str, Any]]]) -> None:
    names = [row["name"] for row in results["near"]]
    for i, ((kind, rows), style) in enumerate(zip(results.items(), series())):
        at = np.arange(len(rows)) + 0.38 * (i - 0.5)
        label = {"near": "near links", "far": "a tenth far"}[kind]
        bars = [row["spread"] or 0.0 for row in rows]
        axis.barh(at, [row["accuracy"] for row in rows], xerr=bars, height=0.36, color=style["color"], label=label)
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.set(xlabel="accuracy, all links", title="block forms", xlim=(0, 1.05))
    _legend_below(axis)


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
