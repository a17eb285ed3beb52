"""What the study of accuracy for time found: means and spread by arm, targets, the table, the figure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.plotting import MARKERS, PALETTE, figure
from studies.accuracy_for_time.arms import ARMS, KINDS
from studies.kit.answers import listed, sentence
from studies.kit.figures import name_points, round_ticks
from studies.kit.tables import print_table
from studies.kit.timing import print_targets, target

if TYPE_CHECKING:
    from studies.accuracy_for_time import Config

_SHORT, _LONG = 60.0, 150.0  # seconds a run from which an error is held against a target of a minute, of ten


def summary(
    records: Mapping[int, Mapping[str, list[dict[str, Any]]]],
    solver: Mapping[int, Any],
    generation: float | None = None,
) -> dict[int, list]:
    """By size: a row an arm, with the mean over seeds and their range, and the rows of the solver.

    generation : seconds that the fields to learn from took to make
    """
    found = {}
    for n, arms in records.items():
        rows = []
        for name, alone in solver[n].items():
            rows.append(
                {"name": name, "kind": "solver", "error": alone["error"], "averaged": alone["error"], "low": None}
                | {"high": None, "milliseconds": alone["milliseconds"], "seeds": 0, "seconds": 0.0, "pays after": ""}
            )
        solves = list(rows)
        for name, runs in arms.items():
            row = {"name": name, "kind": ARMS[name].kind, "seeds": len(runs)}
            for key in ("error", "averaged", "validation", "milliseconds", "milliseconds per step"):
                row[key] = float(np.mean([run[key] for run in runs]))
            for key in ("seconds", "steps", "epochs", "parameters"):
                row[key] = float(np.mean([run[key] for run in runs]))
            row["low"], row["high"] = (float(f([run["error"] for run in runs])) for f in (min, max))
            row["pays after"] = pays_after(row, solves, generation)
            rows.append(row)
        found[n] = rows
    return found


def pays_after(row: Mapping[str, Any], solves: list[dict[str, Any]], generation: float | None) -> str:
    """Number of solutions N from which a surrogate has cost less time than the numerical solver at equal error.

    N = (generation + training) / (time of a solve − time of the surrogate), the solve being the fastest one whose error
    is not above that of the surrogate.

    Returns
    -------
    str
        N; "never" where the surrogate is not faster than that solve; "no solve" where none is as accurate; "unknown"
        where the time of generation was not kept.
    """
    times = [one["milliseconds"] for one in solves if one["error"] <= row["error"]]
    if not times:
        return "no solve"
    saved = 1e-3 * (min(times) - row["milliseconds"])
    if saved <= 0:
        return "never"
    return "unknown" if generation is None else f"{math.ceil((generation + row['seconds']) / saved):,}"


def targets(rows_by_size: Mapping[int, list[dict[str, Any]]], config: Config) -> list[dict[str, Any]]:
    """Rows of `studies.kit.timing.target`. Errors are compared with their bounds where the runs are long enough.

    A network's error is the better of its two: the averaged one takes eight runs of the network a sample.
    """
    found = []
    for n, rows in rows_by_size.items():
        best = _best(rows)
        note = f"{config.seconds:g} s a run, {config.samples[0]} fields"
        if best["network"] and best["peer"]:
            what = f"{n}²: best network ({best['network']['name']}) ÷ best peer ({best['peer']['name']})"
            found.append(target(what, best["network"]["error"] / best["peer"]["error"], most=0.5, note=note))
        for kind, most in _bounds(n, config).items():
            if row := best[kind]:
                found.append(target(f"85²: {row['name']}", _least(row), most=most, note=note))
    return found


def _bounds(n: int, config: Config) -> dict[str, float]:
    """Largest errors by kind, stated for 85 nodes and 1000 fields after a minute and after ten."""
    if n != 85 or config.samples[0] != 1000 or config.seconds < _SHORT:
        return {}
    return {"network": 0.0050, "endless": 0.0042, "hybrid": 0.0026} if config.seconds >= _LONG else {"network": 0.011}


def _best(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any] | None]:
    return {kind: min((row for row in rows if row["kind"] == kind), key=_least, default=None) for kind in KINDS}


def _least(row: Mapping[str, Any]) -> float:
    return min(row["error"], row["averaged"])


def answer(results: Mapping[str, Any]) -> str:
    """The best of each kind on the finest grid, beside the equation solved on the same coefficient."""
    n, rows = list(results["summary"].items())[-1]
    native = next(row for row in rows if row["name"] == "native solve")
    said = [f"the best {kind} ({row['name']}) {_least(row):.4f}" for kind, row in _best(rows).items() if row]
    return sentence(
        f"relative L2 error on {n}² nodes: the equation solved on the coarse coefficient {native['error']:.4f}, "
        f"{listed(said)}"
    )


def print_report(results: Mapping[str, Any], config: Config) -> None:
    for n, rows in results["summary"].items():
        title = (
            f"{n}² nodes of {config.finest}², {config.samples[0]} training fields, {config.seconds:g} s of training "
            f"on {config.threads} threads ({config.device}), {len(config.seeds)} seed(s); mean relative L2 of "
            f"{config.samples[2]} test fields"
        )
        print_table(
            sorted(rows, key=lambda row: row["error"]),
            "=name; kind; error:.5f; low:.5f; high:.5f; averaged:.5f; ms/sample=milliseconds:.2f",
            "pays after; ms/step=milliseconds per step:.1f; steps:.0f; epochs:.1f; parameters:.0f",
            title=title,
        )
        native, finer = results["solver"][n]["weighted solves"]["weights"]
        print(f"weighted solves: {native:.3f} of the native one and {finer:.3f} of that at twice the intervals")
    print(
        "\npays after: number of solutions from which generation, training and inference take less time than the "
        "fastest"
    )
    print("solve with no larger error; never: that solve is faster; no solve: none of the solves is as accurate")
    print("averaged: over the eight symmetries of the square, eight runs of the network a sample")
    for kind, meaning in KINDS.items():
        print(f"{kind}: {meaning}")
    print_targets(results["targets"])


def draw(results: Mapping[str, Any], config: Config, path: Path) -> None:
    """Error against time per sample, one panel a size: what a solver or an operator costs where it is used."""
    colours = {
        "solver": PALETTE[6],
        "network": PALETTE[0],
        "endless": PALETTE[3],
        "hybrid": PALETTE[2],
        "peer": PALETTE[1],
    }
    markers = dict(zip(colours, MARKERS))
    labels = {
        "solver": "solver, two fitted weights at most",
        "network": "network",
        "endless": "network, endless fields",
        "hybrid": "hybrid: given the equation",
        "peer": "peer",
    }
    caption = (
        "Error of every model against its time a sample, bars from the least to the largest seed; the dotted line is "
        "the equation solved on the same coarse coefficient."
    )
    with figure(path, 1, len(results["summary"]), width=5.2, height=3.8, caption=caption) as (_, axes):
        for axis, (n, rows) in zip(axes[0], results["summary"].items()):
            for kind, colour in colours.items():
                mine = [row for row in rows if row["kind"] == kind]
                if not mine:
                    continue
                times, errors = ([row[key] for row in mine] for key in ("milliseconds", "error"))
                spread = [
                    [row["error"] - row["low"], row["high"] - row["error"]] if row["seeds"] > 1 else [0, 0]
                    for row in mine
                ]
                style = {"fmt": markers[kind], "color": colour, "label": labels[kind], "capsize": 2}
                axis.errorbar(times, errors, yerr=np.transpose(spread), **style)
            native = next(row["error"] for row in rows if row["name"] == "native solve")
            axis.axhline(native, color=PALETTE[6], linewidth=0.8, linestyle=":")
            axis.set(xscale="log", yscale="log", xlabel="time per sample, solves included (ms)")
            axis.set(ylabel="mean relative $L^2$ error", title=f"{n}² nodes, {config.seconds:g} s of training")
            axis.margins(x=0.25, y=0.12)
            round_ticks(axis.xaxis, *axis.get_xlim())
            axis.legend(loc="best")
            name_points(axis, {row["name"]: (row["milliseconds"], row["error"]) for row in rows})
