"""What the study of the polynomial mixer found: summaries, claims held against targets, table and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sciops.evaluation import spread
from sciops.plotting import figure, series
from studies.kit.answers import extent, listed, met, sentence
from studies.kit.figures import round_ticks
from studies.kit.tables import grouped, print_table
from studies.kit.timing import print_targets, target
from studies.polynomial_mixer.cost import LAYERS, LINEAR, break_even, crossover, slopes

POLYNOMIAL = ("V1", "V2")
SAVED = 0.5  # of the memory of attention, at the longest common length
CLOSED = 0.5  # of the gap from no mixer to attention: "most of it"
LEARNT = 0.9  # accuracy from which a baseline counts as trained


def summaries(results: Mapping[str, Any]) -> dict[str, Any]:
    """Slopes, crossovers and savings by direction; mean and standard deviation over seeds by arm."""
    cost = []
    for causal in dict.fromkeys(row["causal"] for row in (*results["times"], *results["memory"])):
        rows = [row for row in results["times"] if row["causal"] == causal]
        peaks = [row for row in results["memory"] if row["causal"] == causal]
        cost.append(
            {
                "causal": causal,
                "slopes": {way: slopes(rows, way) for way in ("forward", "both")},
                "memory_slopes": slopes(peaks, "bytes"),
                "crossover": {
                    name: {way: crossover(rows, name, way) for way in ("forward", "both")} for name in POLYNOMIAL
                },
                "break_even": {name: break_even(name, results["width"], causal) for name in POLYNOMIAL},
                "saved": {name: {other: _saved(peaks, name, other) for other in LAYERS[2:]} for name in POLYNOMIAL},
            }
        )
    fields = {arm: _spread(rows, ("error", "error_fine")) for arm, rows in grouped(results["fields"], "arm").items()}
    recall = {arm: _spread(rows, ("accuracy",)) for arm, rows in grouped(results["recall"], "arm").items()}
    return {"cost": cost, "fields": fields, "recall": recall, "closed": _closed(results["fields"])}


def claims(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of `target`."""
    found, rows = results["summary"], []
    for one in found["cost"]:
        which = ", causal" if one["causal"] else ""
        for name in POLYNOMIAL:
            for way, slopes_of in one["slopes"].items():
                if name in slopes_of:
                    what = f"{name}{which}: exponent of time in length, {_WAYS[way]}"
                    rows.append(target(what, slopes_of[name], least=LINEAR[0], most=LINEAR[1]))
            for other, (n, share) in one["saved"][name].items():
                if n:
                    rows.append(
                        target(f"{name}{which}: share of {other}'s training memory saved, n = {n}", share, least=SAVED)
                    )
    for arm, values in found["closed"].items():
        rows.append(
            target(f"{arm}: share of the gap from none to attention closed", float(np.mean(values)), least=CLOSED)
        )
    recall = {arm: row["accuracy"]["mean"] for arm, row in found["recall"].items()}
    if "attention" in recall:
        what = "recall by attention, the baseline"
        short = "" if recall["attention"] >= LEARNT else "too short a training to tell mixers apart"
        rows.append(target(what, recall["attention"], least=LEARNT, note=short))
        for arm in recall:
            if arm.startswith("polynomial"):
                behind = recall["attention"] - recall[arm]
                rows.append(target(f"recall: attention ahead of {arm}, accuracy", behind, least=0.05))
        if {"hybrid", "polynomial V1"} <= recall.keys():
            ahead = recall["hybrid"] - recall["polynomial V1"]
            rows.append(target("recall: hybrid ahead of polynomial V1, accuracy", ahead, least=0.05))
    return rows


def answer(results: Mapping[str, Any]) -> str:
    """Powers of the length, the share of the gap to attention that is closed, and recall beside attention."""
    found = results["summary"]
    times = [one["slopes"]["both"] for one in found["cost"]]
    powers = [slopes[name] for slopes in times for name in POLYNOMIAL if name in slopes]
    said = [f"the time of polynomial mixing grows as (tokens)^p with p of {extent(powers)}"] if powers else []
    closed = listed(f"{arm} {np.mean(values):.0%}" for arm, values in found["closed"].items())
    said += [f"of the gap from no mixer to attention on Burgers is closed: {closed}"] if closed else []
    recall = listed(f"{arm} {row['accuracy']['mean']:.3f}" for arm, row in found["recall"].items())
    said += [f"accuracy of recall: {recall}"] if recall else []
    return sentence(*said, met(results["claims"]))


_WAYS = {"forward": "forward", "both": "there and back"}


def _saved(peaks: Sequence[Mapping[str, Any]], name: str, other: str) -> tuple[int, float]:
    """(longest common length, 1 − bytes of name / bytes of other)."""
    size = {(row["layer"], row["n"]): row["bytes"] for row in peaks}
    common = [n for layer, n in size if layer == name and (other, n) in size]
    if not common:
        return 0, math.nan
    return max(common), 1 - size[name, max(common)] / size[other, max(common)]


def _spread(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "parameters": rows[0]["parameters"],
        "seconds": float(np.mean([r["seconds"] for r in rows])),
    }
    for key in keys:
        values = [row[key] for row in rows]
        found = spread(values)
        summary[key] = {"mean": found.mean, "deviation": found.deviation, "values": values}
    return summary


def _closed(records: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """(e_none − e_arm)/(e_none − e_attention) by arm, seed by seed; nothing where attention is not ahead with all."""
    errors = {(row["arm"], row["seed"]): row["error"] for row in records}
    arms, seeds = (list(dict.fromkeys(key[i] for key in errors)) for i in (0, 1))
    if not {"none", "attention"} <= set(arms):
        return {}
    gap = {seed: errors["none", seed] - errors["attention", seed] for seed in seeds}
    if min(gap.values()) <= 0:
        return {}
    others = [arm for arm in arms if arm not in ("none", "attention")]
    return {arm: [(errors["none", seed] - errors[arm, seed]) / gap[seed] for seed in seeds] for arm in others}


def print_report(results: Mapping[str, Any]) -> None:
    found = results["summary"]
    for one in found["cost"]:
        causal = one["causal"]
        which = ", causal" if causal else ""
        print(f"\none layer, {results['width']} channels, one thread{which}: ms forward / there and back, MB")
        rows = [row for row in results["times"] if row["causal"] == causal]
        peaks = {(r["layer"], r["n"]): r["bytes"] for r in results["memory"] if r["causal"] == causal}
        lengths = sorted({row["n"] for row in rows} | {n for _, n in peaks})
        seconds = {(row["layer"], row["n"]): row for row in rows}
        print(f"{'n':>7}" + "".join(f"{name:>29}" for name in LAYERS))
        for n in lengths:
            print(f"{n:>7}" + "".join(_cell(seconds.get((name, n)), peaks.get((name, n))) for name in LAYERS))
        for what, by_layer in (
            *((f"time, {_WAYS[way]}", exponents) for way, exponents in one["slopes"].items()),
            ("memory", one["memory_slopes"]),
        ):
            if by_layer:
                print(f"exponent of {what:<21}" + ", ".join(f"{name} {p:.2f}" for name, p in by_layer.items()))
        for name, ways in one["crossover"].items():
            if math.isnan(ways["forward"]):
                continue
            from_where = f"n = {_length(ways['forward'])} forward, {_length(ways['both'])} there and back"
            print(f"{name} faster than attention from {from_where}; fewer products from {one['break_even'][name]:.0f}")
    if found["fields"]:
        some = results["fields"][0]
        if {"none", "attention"} <= found["fields"].keys() and not found["closed"]:
            print("\nBurgers: attention is not ahead of no mixer with every seed, there is no gap to close")
        print(
            f"\nBurgers, relative L² of y = x {some['input_error']:.3f}, of the mean {some['mean_error']:.3f}; "
            f"{some['steps']} steps, {some['spec']['data']['points']} points"
        )
        closed = found["closed"]
        shares = {arm: f"{np.mean(c):.0%} ({min(c):.0%} … {max(c):.0%})" for arm, c in closed.items()}
        print_table(
            found["fields"],
            "=name; parameters; s=seconds:.0f",
            ("error", lambda row: f"{spread(row['error']['values']):.4f}"),
            ("twice the points", lambda row: f"{spread(row['error_fine']['values']):.4f}"),
            ("gap closed", lambda row: shares.get(row["name"])),
        )
    if found["recall"]:
        task = results["recall"][0]["spec"]["task"]
        title = f"recall, {task['pairs']} pairs in {task['length']} tokens, {results['recall'][0]['steps']} steps"
        accuracy = ("accuracy", lambda row: f"{spread(row['accuracy']['values']):.3f}")
        print_table(found["recall"], "=name; parameters; s=seconds:.0f", accuracy, title=title)
    print_targets(results["claims"])
    for row in results["claims"]:
        if row.get("note"):
            print(f"{row['what']}: {row['note']}")


def _cell(row: Mapping[str, Any] | None, size: int | None) -> str:
    times = "–" if row is None else f"{1e3 * row['forward']:.1f} / {1e3 * row['both']:.1f}"
    return f"{times:>19}{'' if size is None else f'{size / 1e6:.1f}':>10}"


def _length(n: float) -> str:
    return "the shortest" if n == 0 else "beyond the longest" if math.isinf(n) else f"{n:.0f}"


def draw(results: Mapping[str, Any], folder: Path) -> None:
    styles = dict(zip(LAYERS, series()))
    found = results["summary"]
    for one in found["cost"]:
        rows = [row for row in results["times"] if row["causal"] == one["causal"]]
        peaks = [row for row in results["memory"] if row["causal"] == one["causal"]]
        picture = f"cost{'_causal' if one['causal'] else ''}.png"
        caption = "Time and peak memory of one layer there and back against the number of tokens, with their powers."
        with figure(folder / picture, 1, 2, width=3.8, height=3.1, caption=caption) as (_, axes):
            for axis, values, key, unit, powers in (
                (axes[0, 0], rows, "both", 1e-3, one["slopes"]["both"]),
                (axes[0, 1], peaks, "bytes", 1e6, one["memory_slopes"]),
            ):
                for name in LAYERS:
                    own = sorted((row["n"], row[key] / unit) for row in values if row["layer"] == name)
                    if own:
                        power = powers[name]
                        label = name if math.isnan(power) else f"{name}: exponent {power:.2f}"
                        axis.loglog(*zip(*own), label=label, base=2, **styles[name])
                axis.set_yscale("log", base=10)
                axis.set_xlabel("tokens")
                if axis.lines:
                    axis.legend()
            axes[0, 0].set(ylabel="time there and back (ms), one thread")
            axes[0, 1].set(ylabel="peak memory of a training pass (MB)")
    if found["fields"] or found["recall"]:
        caption = (
            "Error of Burgers on the grid of the training and on twice its points, and accuracy of recall, a seed each."
        )
        with figure(folder / "quality.png", 1, 2, width=3.8, height=2.9, caption=caption) as (_, axes):
            kinds = [("error", "relative L² on the grid of training"), ("error_fine", "on twice the points")]
            _dots(axes[0, 0], found["fields"], kinds, "Burgers: relative L² error", log=True)
            _dots(axes[0, 1], found["recall"], [("accuracy", "a seed each")], "recall: accuracy", log=False)


def _dots(axis: Any, by_arm: Mapping[str, Any], kinds: Sequence[tuple[str, str]], label: str, *, log: bool) -> None:
    """The value of every seed, a row an arm."""
    if not by_arm:
        axis.set_visible(False)
        return
    for shift, (key, name), style in zip((-0.12, 0.12), kinds, series()):
        points = [(v, i + shift) for i, row in enumerate(by_arm.values()) for v in row[key]["values"]]
        x, y = zip(*points)
        axis.plot(x, y, label=name, **(style | {"linestyle": "none"}))
    axis.set_yticks(range(len(by_arm)), list(by_arm))
    axis.set_ylim(len(by_arm) - 0.4, -0.6)
    axis.set_xlabel(label)
    if log:
        axis.set_xscale("log")
        low, high = (
            f(v for row in by_arm.values() for key, _ in kinds for v in row[key]["values"]) for f in (min, max)
        )
        axis.set_xlim(0.8 * low, 1.25 * high)
        round_ticks(axis.xaxis, 0.8 * low, 1.25 * high)
    else:
        axis.set_xlim(-0.02, 1.02)
    if len(kinds) > 1:
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, 1.22))
