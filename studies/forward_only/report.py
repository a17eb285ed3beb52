"""Tables, claims and figures of the study of forward-only learning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import FEWEST
from sciops.plotting import figure, series
from studies.forward_only import hard_report
from studies.kit.answers import sentence
from studies.kit.figures import band, ticks
from studies.kit.tables import grouped, print_table

if TYPE_CHECKING:
    from studies.forward_only import Config

GROUPS = ("first", "middle", "last")


def summary(runs: Sequence[dict[str, Any]], config: Config) -> list[dict[str, Any]]:
    """One row a (task, arm, depth): the choice, test errors by seed, and mean angles by step."""
    rows = []
    for own in grouped(runs, "task", "arm", "depth").values():
        own = sorted((r for r in own if r["chosen"]), key=lambda r: r["seed"])
        errors = [r["test"] for r in own]
        rows.append(
            {
                **{key: own[0][key] for key in ("task", "arm", "depth", "rate", "scale", "hidden")},
                "edge": own[0]["rate"] in (min(config.rates), max(config.rates)),
                "errors": errors,
                "test": float(np.mean(errors)),
                "train": float(np.mean([r["train"] for r in own])),
                "angles": _mean_angles([r["angles"] for r in own]),
            }
        )
    return rows


def _mean_angles(runs: Sequence[Sequence[dict[str, float]]]) -> list[dict[str, float]]:
    """Mean, least and greatest over the seeds, at every step that all of them reached."""
    found = []
    for same in zip(*runs):
        row: dict[str, float] = {"step": same[0]["step"]}
        for name in (n for n in same[0] if n != "step"):
            values = [one[name] for one in same]
            row |= {name: float(np.mean(values)), f"{name} least": min(values), f"{name} greatest": max(values)}
        found.append(row)
    return found


def claims(results: dict[str, Any], config: Config) -> list[dict[str, Any]]:
    """What is claimed, and by task the depths where every seed shows it."""
    found = [
        {
            "claim": f"the gradient itself without activations, {kind} layers",
            "seen": [int(d) for d, value in by_depth.items() if value < 1e-10],
            "not seen": [int(d) for d, value in by_depth.items() if not value < 1e-10],
        }
        for kind, by_depth in results["linear"].items()
    ]
    rows = {(r["task"], r["arm"], r["depth"]): r for r in results["summary"]}
    tests = (
        ("foton", "pepita", 1.0, "FOTON errs less than PEPITA"),
        ("foton", "head alone", 1.0, "FOTON's hidden layers learn: it errs less than the last layer alone"),
        ("foton", "backprop, orthogonal", 1.1, "FOTON within 10 % of backpropagation with the same constraint"),
        ("backprop, orthogonal", "backprop, free", 1.1, "the constraint costs backpropagation at most 10 %"),
    )
    for task in dict.fromkeys(r["task"] for r in results["summary"]):
        for better, worse, factor, text in tests:
            depths = sorted({d for t, arm, d in rows if t == task and (t, worse, d) in rows and arm == better})
            if not depths:
                continue
            seen = [
                d
                for d in depths
                if all(a < factor * b for a, b in zip(rows[task, better, d]["errors"], rows[task, worse, d]["errors"]))
            ]
            found.append({"claim": f"{task}: {text}", "seen": seen, "not seen": [d for d in depths if d not in seen]})
    return found


def answer(results: dict[str, Any]) -> str:
    """The verdicts on tasks that need hidden layers; of the others in how many cases every seed shows a claim."""
    hard = hard_report.answer(results["hard"])
    if hard:
        return hard
    counts: dict[str, list[int]] = {}
    for one in results["claims"]:
        text = one["claim"].partition(": ")[2]
        if text:  # of trainings; the equality without activations has no task before it
            seen, whole = counts.get(text, [0, 0])
            counts[text] = [seen + len(one["seen"]), whole + len(one["seen"]) + len(one["not seen"])]
    said = [f"{text} in {seen} of {whole}" for text, (seen, whole) in counts.items()]
    return sentence(f"cases (task and depth) in which every seed shows it: {', '.join(said)}" if said else "")


def print_report(results: dict[str, Any], config: Config) -> None:
    if results["hard"]["rows"]:
        hard_report.show(results["hard"], config)
    for task, reference in results["references"].items():
        rows = [r for r in results["summary"] if r["task"] == task]
        depths = sorted({r["depth"] for r in rows})
        said = ", ".join(f"{name} {value:.3f}" for name, value in reference.items())
        kind = "relative L2 error of the pressure" if task == "darcy" else "error rate"
        print(f"\n{task}: {kind} on test data, mean over {len(config.seeds)} seeds [least, greatest]")
        print(f"@ rate, and share of hidden layers or scale of F; {said}")
        found: dict[str, dict[str, str]] = {r["arm"]: {} for r in rows}
        for r in rows:
            found[r["arm"]][f"{r['depth']} layers"] = _cell(r)
        print_table(found, "=name", *(f"{depth} layers" for depth in depths))
        print("cosine to the true gradient, first / middle / last hidden layer, at the start → end; ratio of norms")
        for row in rows:
            if row["angles"] and row["arm"] not in ("backprop, orthogonal", "backprop, free"):
                start, end = row["angles"][0], row["angles"][-1]
                pair = (" ".join(f"{a[g]:+.2f}" for g in GROUPS) for a in (start, end))
                ratio = f"{start['ratio']:.2g} → {end['ratio']:.2g}"
                print(f"  {row['arm']:<18}{row['depth']:>4} layers   {' → '.join(pair)}   {ratio}")
    print("\nwithout activations: largest relative difference to the gradient, float64")
    for kind, by_depth in results["linear"].items():
        print(f"  {kind:<14}" + "   ".join(f"{d} layers {value:.0e}" for d, value in by_depth.items()))
    if not results["summary"]:
        return
    few = f"; {len(config.seeds)} seeds, a verdict needs {FEWEST}" if len(config.seeds) < FEWEST else ""
    print(f"\nclaims, by number of layers where every seed shows them{few}")
    for one in results["claims"]:
        seen = ", ".join(map(str, one["seen"])) or "none"
        print(f"  {one['claim']}: seen at {seen}; not at {', '.join(map(str, one['not seen'])) or 'none'}")
    print("A star marks a rate at the end of its ladder: a longer one might find better.")


def _cell(row: dict[str, Any]) -> str:
    option = f",{row['scale'] or row['hidden']:g}" if row["arm"] != "head alone" else ""
    edge = "*" if row["edge"] else ""
    spread = f"[{min(row['errors']):.3f}, {max(row['errors']):.3f}]"
    return f"{row['test']:.3f} {spread}@{row['rate']:g}{option}{edge}"


def draw(results: dict[str, Any], config: Config, folder: Path) -> None:
    """hard.png and hard_cosines.png; errors.png and cosines.png."""
    if results["hard"]["rows"]:
        hard_report.draw(results["hard"], folder)
    if not results["summary"]:
        return
    tasks = list(results["references"])
    caption = "Test error against the number of hidden layers, mean and range of the seeds, for every rule of learning."
    with figure(folder / "errors.png", 1, len(tasks), width=3.6, height=3.3, caption=caption) as (fig, axes):
        for axis, task in zip(axes[0], tasks):
            _draw_errors(axis, task, results, config)
        handles, labels = axes[0][0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 4))
    shown = [
        (task, depth)
        for task in tasks
        for depth in sorted({r["depth"] for r in results["summary"] if r["task"] == task and r["arm"] == "foton"})
    ]
    if not shown:
        return
    rows = [task for task in tasks if any(t == task for t, _ in shown)]
    caption = (
        "Cosine between the update and the true gradient over the steps of a training, in the first, middle and last "
        "hidden layer; solid: FOTON, dotted: PEPITA."
    )
    size = {"width": 3.0, "height": 2.5, "sharex": "row", "sharey": True}
    with figure(folder / "cosines.png", len(rows), len(GROUPS), caption=caption, **size) as (_, axes):
        for line, task in zip(axes, rows):
            for axis, group in zip(line, GROUPS):
                _draw_cosines(axis, task, group, results)
            line[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
            line[0].set_ylabel(f"{task}\ncosine to the true gradient")
        for axis, group in zip(axes[0], GROUPS):
            axis.set_title(f"{group} hidden layer")
        for axis in axes[-1]:
            axis.set_xlabel("step")


def _draw_errors(axis: Any, task: str, results: dict[str, Any], config: Config) -> None:
    for arm, style in zip(config.arms, series()):
        rows = sorted((r for r in results["summary"] if (r["task"], r["arm"]) == (task, arm)), key=lambda r: r["depth"])
        depths = [r["depth"] for r in rows]
        if rows:
            band(axis, depths, np.array([r["errors"] for r in rows]).T, label=arm, style=style)
    name, value = next(iter(results["references"][task].items()))
    axis.axhline(value, color="0.4", linewidth=0.8, linestyle=":")
    axis.annotate(name, (0.98, value), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=7)
    depths = sorted({r["depth"] for r in results["summary"] if r["task"] == task and r["arm"] in config.arms})
    axis.set(xscale="log", yscale="log")
    ticks(axis.xaxis, depths)
    low, high = axis.get_ylim()
    ticks(axis.yaxis, [t for t in (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.9) if low <= t <= high])
    kind = "relative $L^2$ error" if task == "darcy" else "error rate"
    axis.set(title=task, xlabel="hidden layers", ylabel=f"{kind}, test")


def _draw_cosines(axis: Any, task: str, group: str, results: dict[str, Any]) -> None:
    rows = [r for r in results["summary"] if r["task"] == task and r["angles"]]
    depths = sorted({r["depth"] for r in rows if r["arm"] == "foton"})
    for depth, style in zip(depths, series()):
        for arm in ("foton", "pepita"):
            row = next((r for r in rows if (r["arm"], r["depth"]) == (arm, depth)), None)
            if row is None:
                continue
            steps = [a["step"] for a in row["angles"]]
            how = style | {"linestyle": "-" if arm == "foton" else ":", "markersize": 3}
            if arm == "pepita":
                how |= {"marker": None, "linewidth": 1.0}
            axis.plot(steps, [a[group] for a in row["angles"]], label=f"{arm}, {depth} layers", **how)
            if arm == "foton":
                low, high = ([a[f"{group} {end}"] for a in row["angles"]] for end in ("least", "greatest"))
                axis.fill_between(steps, low, high, color=style["color"], alpha=0.12, linewidth=0)
    axis.axhline(0, color="0.3", linewidth=0.8)
    axis.set_ylim(-0.5, 1.05)
