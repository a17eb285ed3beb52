"""Figures of the study of levels: errors by arm, errors on finer grids, and time per step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciops.evaluation import Spread
from sciops.plotting import PALETTE, series
from studies.kit.figures import panels, round_ticks, ticks
from studies.kit.tables import grouped
from studies.multipole_levels.arms import ARMS
from studies.multipole_levels.cases import TITLES, UNITS

if TYPE_CHECKING:
    from studies.multipole_levels import Config

_SHIFTED = ("spectral", "paper", "paper + local", "linear pyramid", "smooth from 2")


def draw(results: Mapping[str, Any], config: Config, folder: Path) -> None:
    by_case = grouped(results["rows"], "case")
    _errors(by_case, folder / "errors.png")
    _times(by_case, folder / "times.png")
    if any(row["shift"] for row in results["rows"]):
        _grids(results, folder / "grids.png")


def _kind(arm: str) -> tuple[str, str]:
    """(colour, label) of an arm."""
    one = ARMS[arm]
    if one.mixer == "spectral":
        return "0.3", "spectral"
    if one.mixer == "both":
        return PALETTE[3], "hybrid: spectral and pyramid in turns"
    if one.levels == "one":
        return PALETTE[4], "one level"
    if one.options["pyramid"] == "paper":
        return PALETTE[1], "paper's samplers"
    return (PALETTE[2], "smooth, no attention") if one.options["attention_from"] == "none" else (PALETTE[0], "smooth")


def _errors(by_case: Mapping[str, list[dict[str, Any]]], path: Path) -> None:
    most = max(map(len, by_case.values()))
    caption = (
        "Test error of every arm at equal training time: mean over seeds, bars from the least to the largest seed."
    )
    with panels(path, len(by_case), 2, width=4.6, height=0.9 + 0.23 * most, caption=caption) as axes:
        for axis, (case, rows) in zip(axes, by_case.items()):
            rows = sorted(rows, key=lambda row: -row["error"]["mean"])
            for i, row in enumerate(rows):
                found, (colour, _) = Spread.read(row["error"]), _kind(row["arm"])
                axis.plot([found.low, found.high], [i, i], color=colour, linewidth=2.2, solid_capstyle="round")
                axis.plot([found.mean], [i], "o", color=colour)
            axis.set_yticks(range(len(rows)), [row["arm"] for row in rows])
            axis.set(xscale="log", xlabel=UNITS[case], title=TITLES[case])
            low, high = min(r["error"]["low"] for r in rows), max(r["error"]["high"] for r in rows)
            axis.set_xlim(0.9 * low, 1.1 * high)
            steps = range(1, 9) if high < 10 * low else (1, 2, 5)
            round_ticks(axis.xaxis, 0.9 * low, 1.1 * high, steps=steps)
        named = dict(_kind(row["arm"])[::-1] for rows in by_case.values() for row in rows)
        marks = [axes[0].plot([], [], "o-", color=colour)[0] for colour in named.values()]
        axes[0].figure.legend(marks, list(named), loc="outside lower center", ncols=3)


def _times(by_case: Mapping[str, list[dict[str, Any]]], path: Path) -> None:
    most = max(map(len, by_case.values()))
    caption = "Time of a training step of every arm, processor time of one thread, medians of turns."
    with panels(path, len(by_case), 2, width=4.6, height=0.8 + 0.23 * most, caption=caption) as axes:
        for axis, (case, rows) in zip(axes, by_case.items()):
            rows = sorted(rows, key=lambda row: -row["milliseconds"])
            for i, row in enumerate(rows):
                axis.barh(i, row["milliseconds"], color=_kind(row["arm"])[0], height=0.7)
            axis.set_yticks(range(len(rows)), [row["arm"] for row in rows])
            axis.set(xlabel="time per training step (ms)", title=TITLES[case])
            axis.grid(visible=False, axis="y")
            axis.set_axisbelow(True)


def _grids(results: Mapping[str, Any], path: Path) -> None:
    """Error against the grid: tied to the grid of training, counting cells, and upsampled from the grid of training."""
    by_case = {case: [r for r in rows if r["shift"]] for case, rows in grouped(results["rows"], "case").items()}
    by_case = {case: rows for case, rows in by_case.items() if rows}
    ways = {"direct, tied": ("-", True), "direct, counted": ("--", True), "low": (":", False)}
    own = {"darcy": 22, "files": 16, "flow": 32}
    caption = "Error of models trained on the coarsest grid on finer grids: run there or upsampled; mean over seeds."
    with panels(path, len(by_case), 3, width=3.7, height=3.3, caption=caption) as axes:
        names: dict[str, Any] = {}
        for axis, (case, rows) in zip(axes, by_case.items()):
            first = min((int(p) for p in rows[0]["shift"]), default=0)
            start = own.get(case, first)
            for name, style in zip(_SHIFTED, series()):
                style = style | {"color": _kind(name)[0]}
                row = next((row for row in rows if row["arm"] == name), None)
                if row is None:
                    continue
                grids = sorted(map(int, row["shift"]))
                at = [start, *grids]
                for way, (line, filled) in ways.items():
                    key = _key(row["shift"][str(grids[0])], way)
                    if key is None:
                        continue
                    values = [row["own"], *(row["shift"][str(n)][key]["mean"] for n in grids)]
                    face = {} if filled else {"markerfacecolor": "white"}
                    axis.plot(at, values, **(style | {"linestyle": line}), **face)
                names[name] = style
            axis.set(xscale="log", yscale="log", xlabel="points per axis", ylabel=UNITS[case], title=TITLES[case])
            ticks(axis.xaxis, [start, *sorted(map(int, rows[0]["shift"]))])
            round_ticks(axis.yaxis, *axis.get_ylim(), steps=(1, 2, 3, 5))
        marks = [axes[0].plot([], [], **(style | {"linestyle": "-"}))[0] for style in names.values()]
        marks += [axes[0].plot([], [], color="0.3", linestyle=line)[0] for line, _ in ways.values()]
        labels = [*names, "direct (pyramid tied to its grid)", "direct, levels count cells", "low + upsampling"]
        axes[0].figure.legend(marks, labels, loc="outside lower center", ncols=4)


def _key(ways: Mapping[str, Any], way: str) -> str | None:
    if way == "low":
        return next(name for name in ways if name.startswith("low"))
    if way == "direct, tied" and "direct" in ways:
        return "direct"
    return way if way in ways else None
