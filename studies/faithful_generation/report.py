"""What the study of faithful generation says: verdicts, tables, the figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sciops.evaluation import Verdict, paired_verdict, spread
from sciops.plotting import PALETTE, figure
from studies.faithful_generation.arms import PREFERRED, TUNED
from studies.faithful_generation.fields import TASKS as FIELD_TASKS
from studies.kit.tables import print_table

_MEANS = ("form", "error_sampled", "retrieval", "residual", "ratio", "slope", "negative_error", "chosen", "rejected")
_ABLATED = ("α = 0", "random negatives", "another coefficient")


def summary(results: dict[str, Any]) -> dict[str, Any]:
    """By task: {"base", "arms": {name: {"error" by seed, means of the other scores}}, "verdicts"}."""
    found = {}
    for task, arms in results["arms"].items():
        runs = [run for run in results["runs"] if run["task"] == task]
        rows = {arm["name"]: [run["arms"][i] for run in runs] for i, arm in enumerate(arms)}
        pairs = [(PREFERRED, TUNED), *((PREFERRED, name) for name in _ABLATED if name in rows)]
        found[task] = {
            "base": _row([run["base"] for run in runs]),
            "arms": {name: _row(row) for name, row in rows.items()},
            "verdicts": {f"{a} against {b}": _verdict(task, rows[a], rows[b]) for a, b in pairs},
        }
    return found


def _row(scores: list[dict[str, Any]]) -> dict[str, Any]:
    means = {key: [one[key] for one in scores if one.get(key) is not None] for key in _MEANS}
    return {"error": [one["error"] for one in scores]} | {k: float(np.mean(v)) for k, v in means.items() if v}


def _verdict(task: str, first: list[dict[str, Any]], second: list[dict[str, Any]]) -> Verdict | None:
    """Over seeds and test samples; of fields by the ratio of the errors. None where a training diverged."""
    errors = [np.array([one["errors"] for one in scores]) for scores in (first, second)]
    if not all(np.isfinite(e).all() for e in errors):
        return None
    return paired_verdict(*errors, log=task in FIELD_TASKS)


def answer(results: dict[str, Any]) -> str:
    """The answer in one sentence: by task the winner of preference training against fine-tuning."""
    said = {"first": "better", "second": "worse", "equivalent": "no different"}
    words = []
    for task, one in results["summary"].items():
        verdict = one["verdicts"][f"{PREFERRED} against {TUNED}"]
        words.append(f"{task}: {said.get(verdict.winner, verdict.winner) if verdict else 'diverged'}")
    return "Preference training against fine-tuning on the same data for as many steps, " + ", ".join(words) + "."


def print_report(results: dict[str, Any]) -> None:
    for task, one in results["summary"].items():
        on_fields = task in FIELD_TASKS
        what = "relative L2 error" if on_fields else "share of wrong values, likeliest text"
        rows = {"after the first half": one["base"], **one["arms"]}
        rows = {name: {**row, "shown": spread(row["error"])} for name, row in rows.items()}
        if on_fields:
            columns = "error=shown:.4f; found among 32=retrieval:.3f; own/wrong residual=residual:.3f; "
            columns += "sensitivity=ratio:.3f; slope=slope:.3f"
        else:
            columns = "error=shown:.4f; sampled=error_sampled:.3f; well formed=form:.3f"
        columns += "; negatives' error=negative_error:.3f; preferred, nats=chosen:+.2f; rejected=rejected:+.2f"
        print_table(rows, "=name", columns, title=f"{task}: {what}, mean ± deviation over seeds")
        chosen = [arm for arm in results["arms"][task] if arm["name"] in (TUNED, PREFERRED)]
        for arm in chosen:
            own = {"rate": arm["rate"], "decay": arm["decay"]}
            if arm["negatives"]:
                own = {"α": arm["alpha"], "rate": arm["rate"], "anchor": arm["anchor"], "β": arm["beta"]}
            print(f"chosen for {arm['name']}: " + ", ".join(f"{key} {value:g}" for key, value in own.items()))
        scale = "difference of ln(error)" if on_fields else "difference of the share"
        for name, verdict in one["verdicts"].items():
            print(f"{name}, {scale}: {verdict or 'a training diverged'}")


def draw(results: dict[str, Any], folder: Path) -> None:
    """errors.png: the error of every arm, a panel a task."""
    tasks = list(results["summary"])
    caption = "Errors of each arm on test data, one point a seed; what lies beyond the axis is written at its edge."
    with figure(folder / "errors.png", 1, len(tasks), width=3.1, height=3.4, caption=caption) as (_, axes):
        for axis, task in zip(axes.flat, tasks):
            one = results["summary"][task]
            rows = {"after the first half": one["base"], **one["arms"]}
            for y, (name, row) in enumerate(rows.items()):
                color = {TUNED: PALETTE[1], PREFERRED: PALETTE[0]}.get(name, "0.45")
                axis.plot(row["error"], [y] * len(row["error"]), ".", color=color, markersize=5, alpha=0.6)
                axis.plot([np.mean(row["error"])], [y], "D", color=color, markersize=5)
            axis.axvline(np.mean(one["arms"][TUNED]["error"]), color=PALETTE[1], linewidth=0.8, linestyle=":")
            axis.set_yticks(range(len(rows)), list(rows))
            axis.invert_yaxis()
            axis.grid(axis="y", visible=False)
            kind = "relative $L^2$ error, test" if task in FIELD_TASKS else "share of wrong values, test"
            axis.set(title=task, xlabel=kind)
            _cut_off(axis, [row["error"] for row in rows.values()])


def _cut_off(axis: Any, errors: list[list[float]]) -> None:
    """Ends the axis at twice the largest of the usual errors; an arm beyond it is written at the edge."""
    end = 2.0 * float(np.median([np.mean(row) for row in errors]))
    for y, row in enumerate(errors):
        if np.mean(row) > end:
            axis.annotate(f"{np.mean(row):.2f} →", (end, y), ha="right", va="center", fontsize=8)
    axis.set_xlim(0, end)
