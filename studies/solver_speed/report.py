"""What the study of the solver's speed found: targets, tables, the figure."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from sciops.plotting import figure, series
from studies.kit.answers import listed, met, sentence
from studies.kit.tables import print_table
from studies.kit.timing import print_targets, target

TARGETS = {
    "numba over pyamg, 12/3": 40.0,
    "numba over spsolve, 12/3": 35.0,
    "torch over pyamg, 12/3": 2.5,
    "numba over pyamg, 100:1": 14.0,
}
PEERS = ("pyamg", "spsolve")
GROWTH_TARGET = 1.15
SCALING = 1.9  # of two threads on many small systems
BANDWIDTH = 0.7  # of what small systems move, at the rate of the cache they lie in, over the time they take


def answer(results: dict[str, Any]) -> str:
    """How many times as fast as its peers the solver is, and how its time grows."""
    speed, growth = results["speed"]["ratios"], results["growth"]
    n = results["speed"]["rows"]["12/3"][0]["n"]
    said = listed(f"{speed[f'numba over {peer}, 12/3']['median']:.1f} times as fast as {peer}" for peer in PEERS)
    return sentence(
        f"on {n}² nodes and one thread the compiled solver is {said} at the same residual; its time grows as "
        f"(unknowns)^{growth['exponents']['numba']:.2f} from {growth['from']}² to {growth['to']}²",
        met(results["targets"]),
    )


def targets(results: dict[str, Any]) -> list[dict[str, Any]]:
    ratios, growth = results["speed"]["ratios"], results["growth"]
    rows = [target(what, ratios[what]["median"], least=least) for what, least in TARGETS.items()]
    if (os.cpu_count() or 1) >= 2:
        for row in results["small"]:
            what = f"two threads over one, {row['n']}², batch {row['batch']}"
            rows.append(target(what, row["ratio"]["median"], least=SCALING))
    for row in results["small"]:
        what = f"bandwidth of the cache reached, {row['n']}², one thread"
        rows.append(target(what, row["share"], least=BANDWIDTH))
    what = f"growth exponent, {growth['from']}² → {growth['to']}²"
    return [*rows, target(what, growth["exponents"]["numba"], most=GROWTH_TARGET)]


def print_report(results: dict[str, Any]) -> None:
    constants = ", ".join(f"{row['n']}: {row['constant']:.4f}" for row in results["order"])
    print(f"order 2: max error · (n − 1)² at n = {constants}")
    print_table(
        results["maximum_principle"], "kind; n; least u=minimum:.2e; most=maximum:.2e", title="maximum principle"
    )
    rows = [{"kind": kind, **row} for kind, rows in results["speed"]["rows"].items() for row in rows]
    columns = "kind; solver; n; batch; ms=1e3*seconds:.1f; its=iterations; true residual=residual:.1e"
    print_table(rows, columns, title="per sample, one thread")
    print_table(results["speed"]["ratios"], "faster=name; median:.1f; least:.1f; most:.1f", title="")
    ends = lambda row: ", ".join(f"{count} {name}" for name, count in row["status"].items())  # noqa: E731
    columns = "its=iterations; residual:.1e; floor:.1e; ms/sample=1e3*seconds:.1f"
    print_table(results["hard"], "kind; n", ("how the samples end", ends), columns, title="high contrast")
    growth = results["growth"]
    exponents = ", ".join(f"{solver} {value:.3f}" for solver, value in growth["exponents"].items())
    if results["device"]:
        print_device(results["device"])
    columns = "n; batch; one thread, µs/sample=1e6*seconds.1:.0f; two=1e6*seconds.2:.0f; ratio=ratio.median:.2f; "
    columns += "MB moved=1e-6*bytes:.1f; cache, GB/s=1e-9*rate:.0f; share=share:.2f"
    print_table(results["small"], columns, title="many small systems")
    print(f"\ntime ~ unknowns^p from {growth['from']}² to {growth['to']}²: {exponents}")
    print_targets(results["targets"])


def print_device(rows: list[dict[str, Any]]) -> None:
    columns = "kind; n; batch; ms/sample=1e3*seconds:.3f; its=iterations; bytes per unknown=bytes_per_unknown:.0f"
    compiled = "compiled, one core, ms/sample=1e3*compiled_seconds:.2f"
    print_table(rows, columns, compiled, title="on the device")


def draw(results: dict[str, Any], path: Path) -> None:
    caption = (
        "Time per sample against the number of grid points, and how many times faster than its peers the solver is, "
        "median and range over rounds."
    )
    with figure(path, 1, 2, width=3.8, height=3.0, caption=caption) as (_, axes):
        times, ratios = axes[0]
        for solver, style in zip(("numba", "torch", "pyamg", "spsolve"), series()):
            rows = [row for row in results["growth"]["rows"] if row["solver"] == solver]
            p = results["growth"]["exponents"].get(solver)
            label = solver if p is None else f"{solver}, exponent {p:.2f}"
            times.loglog([row["n"] ** 2 for row in rows], [1e3 * row["seconds"] for row in rows], label=label, **style)
        times.set(xlabel="grid points", ylabel="time per sample (ms), one thread", title="12/3 fields, equal residual")
        times.set_ylim(bottom=0.1 * times.get_ylim()[0])
        times.legend(loc="lower right")
        names = list(TARGETS)
        middle = np.array([results["speed"]["ratios"][name]["median"] for name in names])
        spread = np.array([[results["speed"]["ratios"][name][k] for name in names] for k in ("least", "most")])
        error = np.maximum(0, np.stack([middle - spread[0], spread[1] - middle]))
        style = next(series())
        ratios.barh(names, middle, xerr=error, color=style["color"], height=0.6)
        ratios.plot(
            list(TARGETS.values()), names, linestyle="none", marker="|", markersize=12, color="black", label="target"
        )
        ratios.set(
            xlabel="times faster (median; least to most)", title=f"{results['speed']['rows']['12/3'][0]['n']}² nodes"
        )
        ratios.invert_yaxis()
        ratios.legend(loc="lower right", bbox_to_anchor=(1.0, 0.25))
