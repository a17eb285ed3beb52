"""What the study of levels found: errors by arm, verdicts on every part of the pyramid, finer grids, targets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import Spread, paired_verdict, spread
from studies.kit.answers import sentence
from studies.kit.tables import grouped, print_table
from studies.kit.timing import print_targets, target
from studies.kit.verdicts import shown
from studies.multipole_levels.arms import ARMS, FULL, ONE, QUESTIONS
from studies.multipole_levels.cases import TITLES, UNITS

if TYPE_CHECKING:
    from studies.multipole_levels import Config

Cells = Sequence[Mapping[str, Any]]
_ON_GRIDS = ("spectral", "paper", "paper + local", "smooth from 2", "linear pyramid")  # whose verdicts are printed


def summary(cells: Cells, times: Mapping[str, Mapping[str, float]]) -> list[dict[str, Any]]:
    """A row for every case and arm: means over seeds, their spread, and what a step takes."""
    rows = []
    for (case, arm), runs in grouped(cells, "case", "arm").items():
        row = {"case": case, "arm": arm, "levels": ARMS[arm].levels, "seeds": len(runs)}
        row |= {"error": vars(spread([run["error"] for run in runs]))}
        if "relative_mse" in runs[0]:
            row["relative_mse"] = vars(spread([run["relative_mse"] for run in runs]))
        row |= {key: float(np.mean([run[key] for run in runs])) for key in ("validation", "steps", "epochs", "cpu")}
        if runs[0]["shift"]:  # of the test samples that finer grids are tried on
            first = len(next(iter(next(iter(runs[0]["shift"].values())).values())))
            row["own"] = float(np.mean([run["errors"][:first] for run in runs]))
        row |= {"parameters": runs[0]["parameters"], "milliseconds": times[case][arm], "shift": _shifts(runs)}
        rows.append(row)
    return rows


def _shifts(runs: Cells) -> dict[str, dict[str, dict[str, Any]]]:
    """points → way → spread over seeds of the mean error on that grid."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for points, ways in runs[0]["shift"].items():
        found[points] = {way: vars(spread([float(np.mean(r["shift"][points][way])) for r in runs])) for way in ways}
    return found


def errors_of(cells: Cells, case: str, arm: str, points: str | None = None, way: str = "") -> np.ndarray | None:
    """(seeds, test samples) on the grid of training, or of a way to a finer grid; None where the arm did not run."""
    runs = [run for run in cells if run["case"] == case and run["arm"] == arm]
    if not runs or (points is not None and way not in runs[0]["shift"].get(points, {})):
        return None
    return np.array([run["errors"] if points is None else run["shift"][points][way] for run in runs])


def compared(first: np.ndarray, second: np.ndarray) -> dict[str, Any]:
    """Ratio of the second to the first mean error, and the verdict on their difference."""
    verdict = paired_verdict(first, second)
    mean = float(first.mean())
    return {"ratio": float(second.mean()) / mean if mean else math.inf, "verdict": verdict, "winner": verdict.winner}


def verdicts(cells: Cells) -> list[dict[str, Any]]:
    """Rows of every question in every case: the error without a part over that with it, above 1 where it pays."""
    rows = []
    for case in dict.fromkeys(run["case"] for run in cells):
        for question, pairs in QUESTIONS.items():
            for part, without in pairs:
                first, second = errors_of(cells, case, part), errors_of(cells, case, without)
                if first is not None and second is not None:
                    row = {"question": question, "case": case, "with": part, "without": without}
                    rows.append(row | compared(first, second))
        rows += _of_grids(cells, case)
    return rows


def _of_grids(cells: Cells, case: str) -> list[dict[str, Any]]:
    rows = []
    runs = {run["arm"]: run for run in cells if run["case"] == case}
    for arm, run in runs.items():
        for points, ways in run["shift"].items():
            own = next(way for way in ways if way.startswith("direct"))
            first = errors_of(cells, case, arm, points, own)
            for other in ways:
                second = errors_of(cells, case, arm, points, other)
                if other == own or first is None or second is None:
                    continue
                question = "the reference grid" if other == "direct, counted" else f"direct against {other}"
                row = {"question": question, "case": case, "with": arm, "without": other, "points": int(points)}
                rows.append(row | compared(first, second))
    return rows


def chosen(rows: Sequence[Mapping[str, Any]], case: str, names: Sequence[str]) -> Mapping[str, Any] | None:
    """The row with the least validation error among some arms of a case."""
    found = [row for row in rows if row["case"] == case and row["arm"] in names]
    return min(found, key=lambda row: row["validation"], default=None)


def _row(rows: Sequence[Mapping[str, Any]], case: str, arm: str) -> Mapping[str, Any] | None:
    return next((row for row in rows if row["case"] == case and row["arm"] == arm), None)


def _mean(row: Mapping[str, Any], key: str = "error") -> float:
    return row[key]["mean"]


def targets(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of `studies.kit.timing.target`; arms are chosen on validation data."""
    rows, found = results["rows"], []
    for case in dict.fromkeys(row["case"] for row in rows):
        full, one = chosen(rows, case, FULL), chosen(rows, case, ONE)
        spectral, paper = _row(rows, case, "spectral"), _row(rows, case, "paper")
        if full is None:
            continue
        name = f"{case}: {full['arm']}"
        if case == "darcy" and spectral:
            found.append(target(f"{name} ÷ spectral", _mean(full) / _mean(spectral), most=1.05))
        if case == "darcy" and one:
            found.append(target(f"{case}: {one['arm']} ÷ {full['arm']}", _mean(one) / _mean(full), least=1.5))
        if paper:
            found.append(target(f"{name}, step ÷ paper's", full["milliseconds"] / paper["milliseconds"], most=1.0))
        for points, ways in full["shift"].items():
            if case in ("darcy", "files"):
                way, most = ("low + sine", 1.05) if case == "darcy" else ("low + spline", 1.0)
                value = ways["direct, tied"]["mean"] / ways[way]["mean"]
                found.append(target(f"{name}, direct on {points} ÷ {way}", value, most=most))
        if case == "files":
            found.append(target(f"{name}, relative MSE", _mean(full, "relative_mse"), most=0.0058))
            hybrid = chosen(rows, case, ("hybrid, smooth", "hybrid, linear"))
            if hybrid:
                found.append(
                    target(f"{case}: {hybrid['arm']}, relative MSE", _mean(hybrid, "relative_mse"), most=0.0055)
                )
    return found


def pays(results: Mapping[str, Any], question: str) -> tuple[int, int, int]:
    """(cases in which it pays, in which it costs, cases asked): the pair whose first arm validates best counts."""
    rows, won, lost, asked = results["rows"], 0, 0, 0
    for case in dict.fromkeys(row["case"] for row in rows):
        pairs = [
            v for v in results["verdicts"] if v["question"] == question and v["case"] == case and "points" not in v
        ]
        best = chosen(rows, case, [pair["with"] for pair in pairs])
        if best is None:
            continue
        pair = next(pair for pair in pairs if pair["with"] == best["arm"])
        asked += pair["winner"] != "too few seeds"
        won += pair["winner"] == "first"
        lost += pair["winner"] == "second"
    return won, lost, asked


def answer(results: Mapping[str, Any]) -> str:
    """Whether attention pays, and what levels, kernels and ties to a grid bring, with the errors of the first case."""
    rows = results["rows"]
    case = rows[0]["case"]
    parts = []
    for question in ("attention", "levels", "kernels"):
        won, lost, asked = pays(results, question)
        if asked:
            pay, cost = ("pays", "costs") if question == "attention" else ("pay", "cost")
            parts.append(f"{question} {pay} in {won} of {asked} cases" + (f" and {cost} in {lost}" if lost else ""))
    full, one = chosen(rows, case, FULL), chosen(rows, case, ONE)
    if full is not None:
        others = [
            ("spectral", _row(rows, case, "spectral")),
            ("one level", one),
            ("the paper's form", _row(rows, case, "paper")),
        ]
        beside = ", ".join(f"{name} {_mean(row):.3g}" for name, row in others if row)
        parts.append(f"errors at equal time, {TITLES[case]}: {full['arm']} {_mean(full):.3g} ({beside})")
        for points, ways in full["shift"].items():
            low = next(way for way in ways if way.startswith("low"))
            counted, upsampled = ways["direct, counted"]["mean"], ways[low]["mean"]
            parts.append(
                f"on {points} points tied to its grid {ways['direct, tied']['mean'] / upsampled:.2f} times {low}, "
                f"counting cells {counted / upsampled:.2f} times"
            )
            break
    return sentence(*parts)


def print_report(results: Mapping[str, Any], config: Config) -> None:
    for case, rows in grouped(results["rows"], "case").items():
        mse = any("relative_mse" in row for row in rows)
        print_table(
            sorted(rows, key=_mean),
            "=arm",
            ("error", lambda row: format(Spread.read(row["error"]), ".4f")),
            *([("relative MSE", lambda row: format(Spread.read(row["relative_mse"]), ".5f"))] if mse else []),
            "validation:.4f; ms/step=milliseconds:.1f; steps:.0f; epochs:.1f; CPU s=cpu:.1f; parameters:.0f",
            title=f"{TITLES[case]}: {UNITS[case]}, mean ± standard deviation over {config.seeds} seed(s), equal time",
        )
    plain = [row for row in results["verdicts"] if "points" not in row]
    print_table(
        plain,
        "=question; =case; =with; =without; without ÷ with=ratio:.2f",
        ("with − without", lambda row: shown(row["verdict"])),
        title="Parts of the pyramid: above 1 the part pays; the verdict is on the difference of the errors",
    )
    for case, rows in grouped(results["rows"], "case").items():
        lines = [
            {"arm": row["arm"], "points": points, "way": way, "error": format(Spread.read(value), ".4f")}
            for row in rows
            for points, ways in row["shift"].items()
            for way, value in ways.items()
        ]
        if lines:
            print_table(_wide(lines), *_columns(lines), title=f"{TITLES[case]}: error on finer grids")
    on_grids = [row for row in results["verdicts"] if "points" in row and row["with"] in _ON_GRIDS]
    if on_grids:
        print_table(
            on_grids,
            "=question; =case",
            ("arm", lambda row: row["with"]),
            "points; other ÷ direct=ratio:.2f",
            ("direct − other", lambda row: shown(row["verdict"])),
            title="Finer grids: run there, tied to the grid of training, against other ways; above 1 it is better",
        )
    print_targets(results["targets"])


def _wide(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines:
        row = rows.setdefault((line["arm"], line["points"]), {"arm": line["arm"], "points": int(line["points"])})
        row["direct" if line["way"] == "direct, counted" and ARMS[line["arm"]].mixer == "spectral" else line["way"]] = (
            line["error"]
        )
    return list(rows.values())


def _columns(lines: Sequence[Mapping[str, Any]]) -> list[Any]:
    ways = list(dict.fromkeys(line["way"] for line in lines))
    ways.sort(key=lambda way: (not way.startswith("direct"), way))
    return ["=arm; points", *((way, lambda row, way=way: row.get(way, "")) for way in ways)]
