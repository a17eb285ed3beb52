"""Whether a device computes what the CPU computes: every model, mixer, solver and resampling method, in float64.

    python -m studies.device_equality --device cuda

A model or mixer is built twice from one seed, and its output and its gradients by the parameters are compared; a
solver, its solution. Peers that exist in float32 alone are compared in it. A case that fails does not end the others;
the run ends with status 1 where any did. With ``--device cpu`` it shows that every case runs.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sciops.plotting import PALETTE, figure
from studies.device_equality.cases import CASES, difference, largest_allowed
from studies.kit.answers import sentence
from studies.kit.choices import require_known
from studies.kit.study import device_name, finished, opened
from studies.kit.tables import print_table
from studies.kit.timing import target, threads


@dataclass(frozen=True)
class Config:
    device: str = "cpu"  # to compare with the CPU, such as cuda or cuda:1
    cases: tuple[str, ...] = ()  # some of them by name; all unless given
    threads: int = 2  # of torch, on the CPU
    output: Path = Path("runs/device_equality")  # folder for results.json and the figure


PRESETS = {
    "quick": Config(),
    "full": Config(device="cuda"),
    "gpu": Config(device="cuda", output=Path("runs/device_equality_gpu")),
}


def run(config: Config) -> dict[str, Any]:
    """Compares, prints, and writes results.json and figures/device_equality.png; returns the results.

    Raises ValueError for an unknown case or a device that is not there; SystemExit, after everything is written,
    naming the cases that differ or failed.
    """
    from tqdm.auto import tqdm

    name = device_name(config.device)
    require_known("--cases", config.cases, CASES)
    folder = opened(config, seeds=[0])
    rows = []
    with threads(config.threads), tqdm(config.cases or CASES, unit="case", disable=None) as bar:
        for case in bar:
            bar.set_postfix_str(case)
            rows.append(_row(case, config.device))
    wrong = [row["case"] for row in rows if not row["equal"]]
    results = {"device": name, "rows": rows, "targets": [target("cases that differ or fail", len(wrong), most=0)]}
    results = finished(folder, results, _draw, _print, answer=answer, picture="device_equality.png")
    if wrong:
        raise SystemExit(f"not as on the CPU: {', '.join(wrong)}")
    return results


def answer(results: dict[str, Any]) -> str:
    """How many cases are the same on the device, and the largest difference among them."""
    rows = results["rows"]
    equal = [row for row in rows if row["equal"]]
    wrong = [row["case"] for row in rows if not row["equal"]]
    double = [row["difference"] for row in equal if not row["single"]]
    return sentence(
        f"{len(equal)} of {len(rows)} models, mixers and solvers give on {results['device']} what they give on the CPU",
        f"the largest relative difference in float64 is {max(double):.0e}" if double else "",
        f"not: {', '.join(wrong)}" if wrong else "",
    )


def _row(case: str, device: str) -> dict[str, Any]:
    start = time.perf_counter()
    row: dict[str, Any] = {"case": case, "single": CASES[case].single, "difference": float("nan"), "error": ""}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row["difference"] = difference(case, device)
    except Exception as error:
        row["error"] = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    row["equal"] = bool(row["difference"] <= largest_allowed(case))
    return row | {"seconds": time.perf_counter() - start}


def _print(results: dict[str, Any]) -> None:
    columns = "=case; difference:.1e; equal; error; s=seconds:.1f"
    print_table(results["rows"], columns, title=f"{results['device']} beside the CPU")


def _draw(results: dict[str, Any], path: Path) -> None:
    """Differences by case; those that are exactly zero stand at the left end."""
    rows = [row for row in results["rows"] if row["equal"]]
    caption = "Relative difference between device and CPU of outputs and gradients, by model, mixer and solver."
    with figure(path, width=6.0, height=1.2 + 0.17 * max(len(rows), 3), caption=caption) as (_, axes):
        axis = axes[0, 0]
        for single, color, marker in ((False, PALETTE[0], "o"), (True, PALETTE[1], "s")):
            at = [i for i, row in enumerate(rows) if row["single"] == single]
            values = [max(rows[i]["difference"], 1e-18) for i in at]
            label = "float32" if single else "float64"
            axis.plot(values, at, linestyle="none", marker=marker, color=color, label=label)
        axis.set_xscale("log")
        axis.set_xlim(left=5e-19)
        axis.set_yticks(range(len(rows)), [row["case"] for row in rows], fontsize=7)
        axis.set_xlabel("relative difference (1e-18: none at all)")
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
