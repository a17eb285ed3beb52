"""The zoo's table and figure: scores with their spread, costs, and who is below the blocks without a mixer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import Spread, spread
from sciops.plotting import MARKERS, PALETTE
from studies.kit.answers import listed, sentence
from studies.kit.figures import panels as drawn
from studies.kit.mixers.arms import NO_MIXER
from studies.kit.tables import grouped, print_table
from studies.mixer_zoo.cells import SCORES

if TYPE_CHECKING:
    from studies.mixer_zoo import Config

ORDER = 10.0  # an order of magnitude
_FORMS = {"text": ".1f"}


def summary(
    cells: Sequence[Mapping[str, Any]], costs: Sequence[Mapping[str, Any]], arms: Sequence[str]
) -> list[dict[str, Any]]:
    """One row an arm: {"arm", "scores": {task: {"mean", "spread" (standard deviation), "low", "high", "seeds",
    "parameters" (over the reference's), "seconds" (a step)}}, "below_no_mixer": no mixer's Burgers error over its own,
    or None, "costs"}."""
    rows = []
    for arm in arms:
        scores = {}
        for task, mine in grouped((cell for cell in cells if cell["arm"] == arm), "task").items():
            found = spread(cell["score"] for cell in mine)
            scores[task] = {
                "mean": found.mean,
                "spread": found.deviation,
                "low": found.low,
                "high": found.high,
                "seeds": found.seeds,
                "parameters": mine[0]["parameters"] / mine[0]["reference_parameters"],
                "seconds": float(np.median([cell["seconds"] / cell["steps"] for cell in mine])),
            }
        rows.append({"arm": arm, "scores": scores, "costs": next((c for c in costs if c["arm"] == arm), None)})
    alone = next((row["scores"].get("burgers") for row in rows if row["arm"] == NO_MIXER), None)
    for row in rows:
        mine = row["scores"].get("burgers")
        row["below_no_mixer"] = alone["mean"] / mine["mean"] if alone and mine and row["arm"] != NO_MIXER else None
    return rows


def answer(results: Mapping[str, Any]) -> str:
    """The best arm of every task, and those that are an order below the blocks without a mixer."""
    rows, said = results["rows"], []
    for task in rows[0]["scores"]:
        best = max if "accuracy" in SCORES[task] else min
        row = best(rows, key=lambda row: row["scores"][task]["mean"])  # noqa: B023
        said.append(f"{row['arm']} on {task} with {SCORES[task]} {_score(task, row['scores'][task])}")
    below = [row["arm"] for row in rows if (row["below_no_mixer"] or 0) >= ORDER]
    known = any(row["below_no_mixer"] is not None for row in rows)
    short = f"an order of magnitude below no mixer on Burgers: {listed(below) or 'none'}" if known else ""
    return sentence(f"best means of {len(rows)} arms: {listed(said)}", short)


def print_report(results: Mapping[str, Any], config: Config) -> None:
    rows = results["rows"]
    tasks = list(rows[0]["scores"])
    measured = rows[0]["costs"] is not None
    columns: list[Any] = [(task, lambda row, task=task: _score(task, row["scores"][task])) for task in tasks]
    if measured:
        contexts = list(rows[0]["costs"]["decode"])
        columns += [f"step, ms=1e3*costs.step:.1f; MB={2**-20}*costs.memory:.0f"]
        columns += [f"token@{n}, ms=1e3*costs.decode.{n}:.2f" for n in contexts]
        columns += [f"cache@{n}=costs.cache.{n}:.0f" for n in contexts]
    shares = lambda row: [score["parameters"] for score in row["scores"].values()]  # noqa: E731
    columns.append(("parameters", lambda row: f"{min(shares(row)):.2f}–{max(shares(row)):.2f}"))
    print_table(rows, "=arm", *columns, title="")
    print(f"\nscores: {'; '.join(f'{task}: {SCORES[task]}' for task in tasks)}; parameters: over attention's.")
    if measured:
        print(
            f"step: training step of causal blocks with branches of one width on 4 × {config.cost_length} tokens, one "
            "thread; MB: its peak memory; token: decoding of one of one sequence; cache: numbers a layer and channel"
        )
    for note in notes(results):
        print(note)


def _score(task: str, score: Mapping[str, Any]) -> str:
    shown = Spread(score["mean"], score["spread"], score["low"], score["high"], score["seeds"])
    return format(shown, _FORMS.get(task, ".3f"))


def notes(results: Mapping[str, Any]) -> list[str]:
    """What the target says of the rows: an order of magnitude below the blocks without a mixer on Burgers."""
    rows = [row for row in results["rows"] if row["below_no_mixer"] is not None]
    fields = [cell for cell in results["cells"] if cell["task"] == "burgers"]
    found = []
    if rows:
        met = [row["arm"] for row in rows if row["below_no_mixer"] >= ORDER]
        found.append(f"Burgers, target: an order below no mixer. Met by {', '.join(met) or 'none'}.")
        for row in sorted(rows, key=lambda row: -row["below_no_mixer"]):
            found.append(f"  {row['arm']:19} {row['below_no_mixer']:6.2f} times below")
        last = np.median([cell["loss"] for cell in fields if cell["arm"] != NO_MIXER])
        found.append(
            f"  the training's mean has an error of {fields[0]['mean_error']:.3f}, the initial field "
            f"{fields[0]['input_error']:.3f}; the mixers end with a median training loss of {last:.3f}"
        )
    unigram = next((c["unigram_perplexity"] for c in results["cells"] if c["task"] == "text"), None)
    if unigram is not None:
        found.append(f"text: frequencies of tokens alone have perplexity {unigram:.1f}")
    return found


def draw(results: Mapping[str, Any], config: Config, path: Path) -> None:
    """A panel a task and cost, a row an arm."""
    rows = results["rows"]
    scores = lambda task: [[tuple(row["scores"][task][key] for key in ("mean", "low", "high"))] for row in rows]  # noqa: E731
    panels, contexts = [(f"{task}: {SCORES[task]}", scores(task)) for task in rows[0]["scores"]], []
    if rows[0]["costs"] is not None:
        contexts = list(rows[0]["costs"]["decode"])
        panels.append(("training step, ms", [[(1e3 * row["costs"]["step"], None, None)] for row in rows]))
        panels.append(("its peak memory, MB", [[(row["costs"]["memory"] / 2**20, None, None)] for row in rows]))
        for name, label, unit in (("decode", "one token decoded, ms", 1e3), ("cache", "cache a channel, numbers", 1.0)):
            values = [[(unit * row["costs"][name][n], None, None) for n in row["costs"][name]] for row in rows]
            panels.append((label, values))
    caption = (
        "Score and costs of every mixer, a panel each; points: means, lines: range of the seeds, dashed: blocks "
        "without a mixer."
    )
    with drawn(path, len(panels), _COLUMNS, width=2.4, height=0.6 + 0.22 * len(rows), caption=caption) as axes:
        for i, (axis, (label, values)) in enumerate(zip(axes, panels)):
            _draw_panel(axis, label, values, [row["arm"] for row in rows], contexts)
            if i % _COLUMNS:
                axis.set_yticklabels([])


_COLUMNS = 4  # of panels


def _draw_panel(axis: Any, label: str, values: list, names: list[str], contexts: list[str]) -> None:
    several = max(map(len, values)) > 1
    for series in range(max(map(len, values))):
        color, marker = PALETTE[series % len(PALETTE)], MARKERS[series % len(MARKERS)]
        where = [(v[series], i) for i, v in enumerate(values)]
        axis.plot(
            [value for (value, _, _), _ in where],
            [i for _, i in where],
            marker,
            color=color,
            label=f"after {contexts[series]} tokens" if several else None,
        )
        for (_, low, high), i in where:
            if low is not None and high > low:
                axis.plot([low, high], [i, i], color=color, linewidth=1.2)
    if NO_MIXER in names and not several:
        axis.axvline(values[names.index(NO_MIXER)][0][0], color="0.4", linewidth=0.8, linestyle="--")
    positive = all(value > 0 for row in values for value, _, _ in row)
    if "accuracy" in label:
        axis.set_xlim(-0.04, 1.04)
    elif positive:
        _scaled(axis, [v for row in values for part in row for v in part if v is not None])
    else:
        axis.set_xscale("symlog", linthresh=1.0)
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_xlabel(label)
    if several:
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, handletextpad=0.1, columnspacing=0.8)


def _scaled(axis: Any, values: Sequence[float]) -> None:
    """A logarithmic axis with plain numbers that do not run into each other; a linear one where the range is small."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    decades = np.log10(max(values) / min(values))
    if decades < 0.5:
        axis.locator_params(axis="x", nbins=4)
        return
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1,) if decades > 2 else (1, 3) if decades > 0.9 else (1, 2, 3, 5)))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
