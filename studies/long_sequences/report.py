"""What the study of long sequences found: slopes and ratios, means over seeds, tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sciops.evaluation import Spread, spread
from sciops.plotting import figure, series
from studies.kit.answers import extent, listed, met, sentence
from studies.kit.tables import print_table
from studies.kit.timing import exponent, print_targets, target
from studies.long_sequences import stacks
from studies.long_sequences.burgers import ARMS as BURGERS_ARMS
from studies.long_sequences.burgers import BLIND
from studies.long_sequences.layers import FUSED, MIXERS, SSM, WRITTEN, crossover
from studies.long_sequences.needle import ARMS as NEEDLE_ARMS


def summary(results: dict[str, Any]) -> dict[str, Any]:
    """Exponents, crossover, memory ratios, means and deviations over seeds, and the targets."""
    found: dict[str, Any] = {"slopes": [], "crossover": {}, "ratios": [], "targets": []}
    for kind, rows, key in (("time", results["times"], "seconds"), ("memory", results["memory"], "bytes")):
        for mode in dict.fromkeys(row["mode"] for row in rows):
            for name in MIXERS:
                pairs = [(r["length"], r[key][name]) for r in rows if r["mode"] == mode and name in r[key]]
                pairs = [pair for pair in pairs if pair[1] > 0]
                if len(pairs) < 2:
                    continue
                # the upper half of the lengths: a layer's fixed cost has faded there
                late = [p for p in pairs if p[0] ** 2 >= pairs[0][0] * pairs[-1][0]]
                late = late if len(late) > 1 else pairs[-2:]
                found["slopes"].append(
                    {
                        "what": kind,
                        "mode": mode,
                        "mixer": name,
                        "from": pairs[0][0],
                        "to": pairs[-1][0],
                        "slope": exponent(*zip(*pairs)),
                        "late": exponent(*zip(*late)),
                    }
                )
    for mode in dict.fromkeys(row["mode"] for row in results["times"]):
        found["crossover"][mode] = crossover(results["times"], mode)
    for mode in dict.fromkeys(row["mode"] for row in results["memory"]):
        for other in (WRITTEN, FUSED):
            common = [r for r in results["memory"] if r["mode"] == mode and other in r["bytes"]]
            if common:
                last = max(common, key=lambda r: r["length"])
                ratio = last["bytes"][SSM] / last["bytes"][other]
                found["ratios"].append({"mode": mode, "against": other, "length": last["length"], "ratio": ratio})
    for row in found["slopes"]:
        if row["mixer"] == SSM:
            name = f"exponent of {row['what']}, {row['mode']}, {row['from']}…{row['to']}"
            found["targets"].append(target(name, row["slope"], least=0.85, most=1.15))
    for row in found["ratios"]:
        if row["mode"] == "training":
            name = f"training memory over {row['against']}, {row['length']} tokens"
            found["targets"].append(target(name, row["ratio"], most=1.0 if row["against"] == FUSED else 0.5))
    found["stacks"] = stacks.table(results.get("stacks", []))
    found["stack_ratios"] = stacks.ratios(found["stacks"])
    for row in found["stack_ratios"]:
        if row["against"] == stacks.FUSED and row["length"] == 32_768:
            name = f"{row['mode']}: memory of a stack over {row['against']}, {row['length']} tokens"
            found["targets"].append(target(name, row["ratio"], most=1.0))
    found["needle"] = _needle(results["needle"])
    found["burgers"] = _burgers(results["burgers"])
    return found


def _needle(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows {"arm", "lengths": {length: {"accuracy", "near", "far": [mean, deviation]}}, "learnt", "seeds", …}.

    learnt : trainings that are right in 90 % of the cases at the length of training; others tell nothing of lengths
    """
    means = []
    for arm in [arm for arm in NEEDLE_ARMS if any(row["arm"] == arm for row in rows)]:
        own = [row for row in rows if row["arm"] == arm]
        lengths = {
            n: {
                key: _pair([row["lengths"][n][key] for row in own if row["lengths"][n][key] is not None])
                for key in ("accuracy", "near", "far")
            }
            for n in own[0]["lengths"]
        }
        first = next(iter(lengths))
        learnt = sum(row["lengths"][first]["accuracy"] >= 0.9 for row in own)
        means.append(
            {
                "arm": arm,
                "lengths": lengths,
                "learnt": learnt,
                "seeds": len(own),
                "steps": own[0]["steps"],
                "parameters": own[0]["parameters"],
                "chance": own[0]["chance"],
            }
        )
    return means


def _burgers(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows {"arm", "errors": {points: [mean, deviation]}, "parameters"}; an arm whose Δ stayed has a row of its own."""
    means = []
    for arm in [arm for arm in BURGERS_ARMS if any(row["arm"] == arm for row in rows)]:
        own = [row for row in rows if row["arm"] == arm]
        for key, name in (("errors", arm), ("blind", arm + BLIND)):
            if key in own[0]:
                errors = {n: _pair([row[key][n] for row in own]) for n in own[0][key]}
                means.append({"arm": name, "errors": errors, "parameters": own[0]["parameters"]})
    return means


def _pair(values: Sequence[float]) -> list[float | None] | None:
    """[mean, standard deviation over seeds, None with one]; None of nothing."""
    if not values:
        return None
    found = spread(values)
    return [found.mean, found.deviation]


def answer(results: dict[str, Any]) -> str:
    """From which length the state space is faster than attention, its powers of the length, what learns the needle."""
    found, said = results["summary"], []
    slopes = [row["slope"] for row in found["slopes"] if row["mixer"] == SSM and row["what"] == "time"]
    if slopes:
        said.append(f"the time of a state-space layer grows as (tokens)^p with p of {extent(slopes)}")
    for mode, length in found["crossover"].items():
        where = "at no measured length" if length is None else f"from about {length:.0f} tokens on"
        said.append(f"it is faster than fused attention {where} ({mode})")
    near = [row for row in found.get("stack_ratios", []) if row["mode"] == stacks.TRAINING and row["length"] <= 32_768]
    for row in (
        max((r for r in near if r["against"] == name), key=lambda r: r["length"], default=None) for name in stacks.ARMS
    ):
        if row and row["against"] != stacks.FEW:
            said.append(
                f"memory of training at {row['length']} tokens is {row['ratio']:.2f} of that of {row['against']}"
            )
    said += [f"{row['arm']} learns the needle with {row['learnt']} of {row['seeds']} seeds" for row in found["needle"]]
    if found["burgers"]:
        finest = list(found["burgers"][0]["errors"])[-1]
        errors = listed(f"{row['arm']} {row['errors'][finest][0]:.4f}" for row in found["burgers"])
        said.append(f"errors on {finest} points of Burgers: {errors}")
    return sentence(*said, met(found["targets"]))


def print_tables(results: dict[str, Any]) -> None:
    found = results["summary"]
    for title, rows, key, unit in (
        ("milliseconds of one layer, one sequence, one thread", results["times"], "seconds", 1e3),
        ("peak memory in MB beyond weights and input", results["memory"], "bytes", 1e-6),
    ):
        if rows:
            measured = [name for name in MIXERS if any(name in row[key] for row in rows)]
            columns = (f"{name}={unit}*{key}.{name}:.4g" for name in measured)
            print_table(rows, "tokens=length; =mode", *columns, title=title)
    if found["slopes"]:
        title = "exponents in tokens (L log L is a little above 1), over all lengths and over the upper half"
        print_table(found["slopes"], "=what; =mode; =mixer; all=slope:.2f; upper=late:.2f", title=title)
    for mode, length in found["crossover"].items():
        where = "at no measured length" if length is None else f"from about {length:.0f} tokens on"
        print(f"state space faster than fused attention, {mode}: {where}")
    for row in found["ratios"]:
        print(f"memory, {row['mode']}, over {row['against']} at {row['length']} tokens: {row['ratio']:.3g}")
    if found["ratios"]:
        print("\nthe paper (whole models): up to 50 % less memory in training, up to 87 % less at inference")
    if found.get("stacks"):
        _print_stacks(found)
    if found["needle"]:
        chance = found["needle"][0]["chance"]
        lengths = list(found["needle"][0]["lengths"])
        title = f"needle, accuracy by tokens (chance {chance:.3f}), and where the needle is farther than in training"
        cell = lambda n, key: lambda row: _shown(row["lengths"][n][key])  # noqa: E731
        columns = [(head, cell(n, key)) for n in lengths for head, key in ((n, "accuracy"), ("far", "far"))]
        print_table(found["needle"], "=arm", *columns, "parameters", title=title)
        for row in found["needle"]:
            if row["learnt"] < row["seeds"]:
                print(
                    f"{row['arm']}: in {row['seeds'] - row['learnt']} of {row['seeds']} trainings not learnt within "
                    f"{row['steps']} steps (below 0.9 at the first length): these say nothing about lengths"
                )
    if found["burgers"]:
        points = list(found["burgers"][0]["errors"])
        columns = [(n, lambda row, n=n: _shown(row["errors"][n], ".4f")) for n in points]
        title = "Burgers, relative L² by points of the grid; trained on the first"
        print_table(found["burgers"], "=arm", *columns, "parameters", title=title)
    if found["targets"]:
        print_targets(found["targets"])


def _print_stacks(found: dict[str, Any]) -> None:
    def cell(name: str) -> Any:
        return lambda row: (
            f"{'~' if name in row['extrapolated'] else ''}{row['bytes'][name] / row['length']:.0f}"
            if name in row["bytes"]
            else "–"
        )

    measured = [name for name in stacks.ARMS if any(name in row["bytes"] for row in found["stacks"])]
    title = "most bytes of tensors at once in a stack, a token, beyond weights and input (~: continued by its law)"
    print_table(found["stacks"], "tokens=length; =mode", *((name, cell(name)) for name in measured), title=title)
    print_table(
        found["stack_ratios"],
        "tokens=length; =mode; =against; ratio=ratio:.2f",
        ("saved", lambda row: f"{1 - row['ratio']:+.0%}"),
        ("", lambda row: "extrapolated" if row["extrapolated"] else ""),
        title="memory of the state space over that of others (the paper: 50 % saved in training, 87 % at inference)",
    )


def _shown(pair: Sequence[float | None] | None, digits: str = ".3f") -> str:
    if pair is None:
        return "–"
    mean, deviation = pair
    return format(Spread(mean, deviation, mean, mean, 1 if deviation is None else 2), digits)


def draw(results: dict[str, Any], folder: Path) -> None:
    """figures/cost.png: time and memory over the length; figures/generalisation.png: needle and Burgers."""
    found = results["summary"]
    if results["times"]:
        _draw_cost(results, folder / "cost.png")
    if found.get("stacks"):
        _draw_stacks(found["stacks"], folder / "memory.png")
    panels = [name for name in ("needle", "burgers") if found[name]]
    if panels:
        _draw_generalisation(found, panels, folder / "generalisation.png")


def _draw_cost(results: dict[str, Any], path: Path) -> None:
    caption = "Time and peak memory of one layer against the number of tokens; solid: training, dotted: forward alone."
    with figure(path, 1, 2, width=3.6, height=3.0, caption=caption) as (drawn, axes):
        panels = (("times", "seconds", 1.0, "time (s)"), ("memory", "bytes", 1e-6, "peak memory (MB)"))
        for axis, (part, key, unit, label) in zip(axes.flat, panels):
            for name, style in zip(MIXERS, series()):
                for mode in ("training", "forward"):
                    pairs = [
                        (r["length"], unit * r[key][name])
                        for r in results[part]
                        if r["mode"] == mode and name in r[key]
                    ]
                    if not pairs:
                        continue
                    look = style | {"linestyle": "-" if mode == "training" else ":"}
                    axis.loglog(*zip(*pairs), label=f"{name}, {mode}", **look, base=2)
                    axis.set_yscale("log", base=10)
            axis.set(xlabel="tokens", ylabel=label, title="one encoder layer, one sequence")
        drawn.legend(*axes[0, 0].get_legend_handles_labels(), fontsize=6.5, ncols=3, loc="outside lower center")


def _draw_stacks(rows: list[dict[str, Any]], path: Path) -> None:
    caption = (
        "Most bytes of tensors at once, a token, in a stack of encoder layers against the number of tokens, by mixer: "
        "forward, training, and training in which every layer keeps its input alone; hollow: continued by their law."
    )
    lengths = sorted({row["length"] for row in rows})
    with figure(path, 1, len(stacks.MODES), width=2.7, height=3.2, sharey=True, caption=caption) as (drawn, axes):
        for axis, mode in zip(axes.flat, stacks.MODES):
            for name, style in zip(stacks.ARMS, series()):
                lines = [row for row in rows if row["mode"] == mode and name in row["bytes"]]
                if not lines:
                    continue
                at, values = zip(*((row["length"], 1e-3 * row["bytes"][name] / row["length"]) for row in lines))
                axis.loglog(at, values, label=name, **style, base=2)
                far = [i for i, row in enumerate(lines) if name in row["extrapolated"]]
                hollow = style | {"linestyle": "", "markerfacecolor": "white", "zorder": 3}
                axis.plot([at[i] for i in far], [values[i] for i in far], **hollow)
            axis.set_yscale("log", base=10)
            axis.set_xticks(lengths, [f"{n // 1024}k" for n in lengths])
            axis.set(xlabel="tokens", title=mode)
        axes[0, 0].set(ylabel="bytes of tensors at once (kB a token)")
        drawn.legend(*axes[0, 0].get_legend_handles_labels(), fontsize=6.5, ncols=3, loc="outside lower center")


def _draw_generalisation(found: dict[str, Any], panels: list[str], path: Path) -> None:
    caption = (
        "Accuracy of finding the needle and error of Burgers on lengths and grids beyond those of the training; bars: "
        "standard deviation over seeds."
    )
    with figure(path, 1, len(panels), width=3.9, height=3.9, caption=caption) as (_, axes):
        for axis, name in zip(axes.flat, panels):
            key, label = {"needle": ("lengths", "accuracy"), "burgers": ("errors", "relative L²")}[name]
            for row, style in zip(found[name], series()):
                at = [int(n) for n in row[key]]
                values = [row[key][str(n)] for n in at]
                values = [v["accuracy"] if name == "needle" else v for v in values]
                mean, deviation = zip(*values)
                if BLIND in row["arm"]:
                    style = style | {"linestyle": ":", "alpha": 0.7}
                axis.errorbar(at, mean, [d or 0.0 for d in deviation], label=row["arm"], capsize=2, **style)
            axis.set_xscale("log", base=2)
            axis.set_xticks(at, [str(n) for n in at])
            axis.set(ylabel=label)
            axis.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.2))
        if "needle" in panels:
            axis = axes[0, panels.index("needle")]
            axis.axhline(found["needle"][0]["chance"], color="0.5", linewidth=0.8)
            axis.set(xlabel="tokens (trained on the first)", title="needle; grey line: chance", ylim=(0, 1.05))
        if "burgers" in panels:
            axis = axes[0, panels.index("burgers")]
            axis.set(xlabel="points (trained on the first)", title="Burgers, zero-shot", yscale="log")
