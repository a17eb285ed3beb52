"""How fast the periodic equations are stepped: compiled steps beside torch's operations and beside exponax.

    python -m studies.stepper_speed

Fourth-order exponential Runge–Kutta with the 2/3 rule everywhere, in float64, on one core: each contestant takes the
same steps from the same fields, in turns, and ends at the same fields, or the run ends. exponax is compiled by jax's
jit with all steps in one call; it takes part where it is installed (`pip install exponax`). Compilations are done
beforehand and not counted.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sciops.plotting import figure, series
from studies.kit.answers import extent, met, sentence
from studies.kit.choices import require_installed, require_known
from studies.kit.figures import ticks
from studies.kit.study import finished, opened
from studies.kit.tables import print_table
from studies.kit.timing import exponent, interleaved, on_cores, print_targets, ratio, target, threads
from studies.stepper_speed.cases import CASES, contestants, errors


@dataclass(frozen=True)
class Config:
    cases: tuple[str, ...] = tuple(CASES)  # equations, sizes and batches
    steps: tuple[int, ...] = (25, 50, 100)  # by which the order of the time stepping is measured, on Korteweg–de Vries
    rounds: int = 7  # in which every contestant takes its turn
    seed: int = 0  # of the initial fields
    output: Path = Path("runs/stepper_speed")  # folder for results.json and the figure


PRESETS = {"quick": Config(), "full": Config(rounds=21)}


def run(config: Config) -> dict[str, Any]:
    """Measures, checks, prints, and writes results.json and figures/stepper_speed.png; returns the results.

    Raises RuntimeError where contestants do not end at the same fields; ValueError for an unknown case.
    """
    require_known("--cases", config.cases, CASES, some=True)
    require_installed({"numba": '"sciops[fast]"', "rocket_fft": '"sciops[fast]"'})
    peer = importlib.util.find_spec("exponax") is not None
    folder = opened(config, seeds=[config.seed])
    with on_cores(_one_core()), threads(1):
        rows = [_row(name, config, peer) for name in config.cases]
        found = errors(config.steps, config.seed, peer=peer)
    orders = {who: -exponent(config.steps, list(row.values())) for who, row in found.items()}
    results = {"rows": rows, "peer": peer, "errors": found, "orders": orders, "targets": _targets(rows)}
    return finished(folder, results, _draw, _print, answer=answer, picture="stepper_speed.png")


def _one_core() -> set[int]:
    """One of the cores that this process may use, whatever threads it has; none where the system cannot say."""
    return {max(os.sched_getaffinity(0))} if hasattr(os, "sched_getaffinity") else set()


def answer(results: dict[str, Any]) -> str:
    """How many times as fast compiled steps are as torch's and as exponax's."""
    rows = results["rows"]
    said = f"compiled steps are {extent(row['torch']['median'] for row in rows)} times as fast as torch's operations"
    if results["peer"]:
        said += f" and {extent(row['exponax']['median'] for row in rows)} times as fast as jitted exponax"
    order = f"on Korteweg–de Vries errors fall with the order {results['orders']['compiled']:.1f}"
    if results["peer"]:
        order += f", exponax's with {results['orders']['exponax']:.1f}"
    return sentence(
        said, order, met(results["targets"]) if results["targets"] else "exponax is not installed: not compared"
    )


def _row(name: str, config: Config, peer: bool) -> dict[str, Any]:
    case = CASES[name]
    calls, difference = contestants(case, config.seed, peer=peer)
    times = interleaved(calls, rounds=config.rounds)
    micro = {who: float(1e6 * np.median(taken) / case.steps) for who, taken in times.items()}
    ratios = {who: ratio(times[who], times["compiled"]) for who in times if who != "compiled"}
    return {"case": name, "microseconds": micro, "difference": difference, "target": case.target, **ratios}


def _targets(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        target(f"{row['case']}: exponax over compiled", row["exponax"]["median"], least=row["target"])
        for row in rows
        if "exponax" in row
    ]


def _print(results: dict[str, Any]) -> None:
    columns = ["case", "compiled=microseconds.compiled:.1f; torch=microseconds.torch:.1f"]
    ratios = "torch ÷ compiled=torch.median:.2f"
    if results["peer"]:
        columns.append("exponax=microseconds.exponax:.1f")
        ratios += "; exponax ÷ compiled=exponax.median:.2f"
    quartiles = ("(quartiles)", lambda row: "{low:.2f}–{high:.2f}".format(**row.get("exponax", row["torch"])))
    equal = "equal=difference:.0e"
    print_table(results["rows"], *columns, ratios, quartiles, equal, title="microseconds a step, one core")
    columns = [f"{count}={count}:.1e" for count in next(iter(results["errors"].values()))]
    title = "Korteweg–de Vries to t = 0.3: relative error of the time stepping by steps"
    print_table(results["errors"], "=name", *columns, title=title)
    print("order: " + ", ".join(f"{who} {order:.2f}" for who, order in results["orders"].items()))
    print_targets(results["targets"])


def _draw(results: dict[str, Any], path: Path) -> None:
    caption = (
        "Left: time of a step of the compiled form, torch's operations and jitted exponax, one core, float64. Right: "
        "error of the time stepping of the Korteweg–de Vries equation by the number of steps."
    )
    rows = results["rows"]
    with figure(path, 1, 2, width=4.2, height=3.2, caption=caption) as (_, axes):
        axis, right = axes[0]
        counts = [int(count) for count in next(iter(results["errors"].values()))]
        for who, style in zip(("compiled", "exponax", "torch"), series()):
            found = results["errors"].get(who, {})
            if found:
                right.loglog(counts, list(found.values()), **style, label=f"{who}, order {results['orders'][who]:.1f}")
        right.set(xlabel="steps to t = 0.3", ylabel="relative error", title="Korteweg–de Vries, 256 points")
        ticks(right.xaxis, counts, str)
        right.legend()
        for who, style in zip(("compiled", "exponax", "torch"), series()):
            at = [i for i, row in enumerate(rows) if who in row["microseconds"]]
            values = [rows[i]["microseconds"][who] for i in at]
            if at:
                axis.plot(values, at, **{**style, "linestyle": "none"}, label=who)
        axis.set_xscale("log")
        axis.set_yticks(range(len(rows)), [row["case"] for row in rows])
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_xlabel("time of a step (µs)")
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
