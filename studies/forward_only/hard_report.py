"""Tables, figures and the answer of the study on tasks that need hidden layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.plotting import series
from studies.forward_only.comparison import tallies
from studies.forward_only.hard_tasks import POWER, hard_task
from studies.forward_only.rules import LEARNERS, TAKEN
from studies.kit.answers import sentence
from studies.kit.figures import band, panels, ticks
from studies.kit.tables import grouped, print_table

if TYPE_CHECKING:
    from studies.forward_only import Config


def answer(compared: dict[str, Any]) -> str:
    """In how many cases with power, each a task and a depth, the verdict is that a claim holds, and its opposite."""
    cases = sum(one["accepted"] for one in compared["power"])
    if not compared["power"]:
        return ""
    said = [
        f"{row['asked']} in {len(row['holds'])} of {sum(map(len, (row['holds'], row['opposite'], row['undecided'])))}"
        + (f" (the opposite in {len(row['opposite'])})" if row["opposite"] else "")
        for row in tallies(compared)
    ]
    return sentence(f"{cases} of {len(compared['power'])} cases (task and depth) need hidden layers", *said)


def show(compared: dict[str, Any], config: Config) -> None:
    for name, rows in grouped(compared["rows"], "task").items():
        depths = sorted({row["depth"] for row in rows})
        unit = hard_task(name).unit.replace("$L^2$", "L2")
        print(f"\n{name}: {unit} on test data, mean over {len(config.seeds)} seeds [least, greatest]")
        print("@ optimiser, rate, share of it for hidden layers; * a rate at the end of its ladder")
        found: dict[str, dict[str, str]] = {arm: {} for arm in LEARNERS + TAKEN if any(r["arm"] == arm for r in rows)}
        for row in rows:
            found[row["arm"]][f"{row['depth']} layers"] = _cell(row)
        print_table(found, "=name", *(f"{depth} layers" for depth in depths))
    print("\npower: the last layer alone against backpropagation with the constraint, validation error, pilot seeds")
    print(f"{POWER:g} times or more is asked for; no verdict counts elsewhere")
    print_table(
        {
            f"{one['task']}, {one['depth']} layers": {
                "last layer": f"{one['head']:.3f}",
                "solved for": f"{one['solved']['pilot']:.3f}",
                "backpropagation": f"{one['true']:.3f}",
                "ratio": f"{min(one['head'], one['solved']['pilot']) / one['true']:.1f}" if one["true"] else "inf",
                "power": "yes" if one["accepted"] else "no",
            }
            for one in compared["power"]
        },
        "=name",
        "last layer",
        "solved for",
        "backpropagation",
        "ratio",
        "power",
    )
    print("\nverdicts: difference of test errors with its 95 % interval over seeds and samples; ratio of mean errors")
    for asked, own in grouped(compared["verdicts"], "asked").items():
        print_table(
            {
                f"{v['task']}, {v['depth']} layers": {
                    "difference": _interval(v),
                    "ratio": f"{v['ratio']:.2f}",
                    "verdict": (
                        v["winner"] if v["winner"] not in ("first", "second") else v[v["winner"]] + " errs less"
                    )
                    + ("" if v["power"] else " (no power)"),
                    "holds": "yes" if v["holds"] else "no",
                }
                for v in own
            },
            "=name",
            "difference",
            "ratio",
            "verdict",
            "holds",
            title=f"{asked}: {own[0]['first']} − {own[0]['second']}",
        )
    print("\ncosine to the true gradient of the weights of the first / middle / last hidden layer, start → end")
    for row in compared["rows"]:
        if "cosines" in row:
            ends = " / ".join(f"{c[0]:.2f} → {c[-1]:.2f}" for c in row["cosines"].values())
            print(f"  {row['task']:<13}{row['arm']:<27}{row['depth']:>3} layers   {ends}")


def _cell(row: dict[str, Any]) -> str:
    spread = f"[{min(row['errors']):.3f}, {max(row['errors']):.3f}]"
    return f"{row['test']:.3f} {spread}@{row['optimizer']},{row['rate']:g},{row['share']:g}{'*' * row['edge']}"


def _interval(v: dict[str, Any]) -> str:
    return f"{v['difference']:+.3f} [{v['low']:+.3f}, {v['high']:+.3f}]" if "low" in v else "–"


def draw(compared: dict[str, Any], folder: Path) -> None:
    """hard.png: errors by depth; hard_cosines.png: FOTON's angle through a training."""
    tasks = grouped(compared["rows"], "task")
    caption = (
        "Test error against the number of hidden layers on tasks that need them, mean and range of the seeds. "
        "The last layer alone leaves hidden layers as drawn; backpropagation has FOTON's constraint, or none (free)."
    )
    with panels(folder / "hard.png", len(tasks), 3, width=3.3, height=3.4, caption=caption) as axes:
        for axis, (name, rows) in zip(axes, tasks.items()):
            depths = sorted({row["depth"] for row in rows})
            for arm, style in zip(LEARNERS, series()):
                own = [next(row for row in rows if (row["arm"], row["depth"]) == (arm, depth)) for depth in depths]
                errors = np.array([row["errors"] for row in own]).T
                band(axis, depths, np.where(np.isfinite(errors), errors, math.nan), label=arm, style=style, alpha=0.12)
            axis.set(xscale="log", yscale="log", title=name, xlabel="hidden layers")
            axis.set_ylabel(f"{hard_task(name).unit}, test")
            ticks(axis.xaxis, depths)
            low, high = axis.get_ylim()
            ticks(axis.yaxis, [t for t in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if low <= t <= high])
        handles, labels = axes[0].get_legend_handles_labels()
        axes[0].figure.legend(handles, labels, loc="outside lower center", ncols=4)
    caption = (
        "Cosine between FOTON's update and the true gradient over the steps of a training, first, middle and last "
        "hidden layer, mean of the seeds."
    )
    with panels(
        folder / "hard_cosines.png", len(tasks), 3, width=3.3, height=3.0, caption=caption, sharey=True
    ) as axes:
        for axis, (name, rows) in zip(axes, tasks.items()):
            _draw_cosines(axis, [row for row in rows if row["arm"] == "FOTON"])
            axis.set(title=name, xlabel="step", ylim=(-0.3, 1.05))
        axes[0].set_ylabel("cosine to the true gradient")
        handles, labels = axes[0].get_legend_handles_labels()
        axes[0].figure.legend(handles, labels, loc="outside lower center", ncols=4)


def _draw_cosines(axis: Any, rows: Sequence[dict[str, Any]]) -> None:
    lines = {"first": "-", "middle": "--", "last": ":"}
    for row, style in zip(rows, series()):
        for where, line in lines.items():
            how = {"color": style["color"], "linestyle": line}
            axis.plot(row["steps"], row["cosines"][where], label=f"{row['depth']} layers, {where}", **how)
    axis.axhline(0, color="0.3", linewidth=0.8)
