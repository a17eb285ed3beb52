"""Tables, claims and figures of the study of token mixing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import FEWEST
from sciops.plotting import PALETTE, figure, series
from studies.kit.answers import extent, listed, met, sentence
from studies.kit.tables import print_table
from studies.token_mixing.copying import FAR, LEVEL
from studies.token_mixing.runs import PAPER, TASKS, chance, score

if TYPE_CHECKING:
    from studies.token_mixing import Config


def summary(runs: Sequence[dict[str, Any]], config: Config) -> dict[str, dict[str, Any]]:
    """By task: {"chance", "arms": {arm: {"accuracy" by seed, "mean", "paper", "late"}}, "rank"}.

    late : percent that the accuracy of the first test sequences rose by in the last quarter of training, mean of seeds
    rank : Spearman's correlation of the means with the paper's column, and of every seed alone
    """
    tables = {}
    for task in config.tasks:
        arms: dict[str, Any] = {}
        for arm in config.arms:
            records = [r for r in runs if r["spec"]["task"] == task and r["spec"]["arm"] == arm]
            values = [score(task, r) for r in records]
            arms[arm] = {
                "accuracy": values,
                "mean": float(np.mean(values)),
                "paper": PAPER[arm][TASKS.index(task)],
                "late": float(np.mean([100 * _late(r["curve"]) for r in records])),
                "seconds": float(np.sum([r["seconds"] for r in records])),
            }
        paper = [row["paper"] for row in arms.values()]
        by_seed = zip(*(row["accuracy"] for row in arms.values()))
        tables[task] = {
            "chance": chance(task, next(r["spec"]["sizes"] for r in runs if r["spec"]["task"] == task)),
            "arms": arms,
            "rank": rank_correlation([row["mean"] for row in arms.values()], paper),
            "rank by seed": [rank_correlation(list(values), paper) for values in by_seed],
        }
    return tables


def _late(curve: Sequence[dict[str, float]]) -> float:
    last = curve[-1]
    earlier = min(curve, key=lambda point: abs(point["step"] - 0.75 * last["step"]))
    return last["accuracy"] - earlier["accuracy"]


def rank_correlation(measured: Sequence[float], paper: Sequence[float]) -> float:
    """Spearman's ρ, accuracies rounded to half a percent so that noise among equals is no order; nan below 3 values."""
    from scipy.stats import spearmanr

    a, b = (np.round(2 * np.asarray(values)) / 2 for values in (measured, paper))
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(spearmanr(a, b).statistic)


def claims(results: dict[str, Any], config: Config) -> list[dict[str, Any]]:
    """[{"claim", "seen" (True, False, or None where arms are left out), "by"}], every seed has to show it."""

    def of(task: str, arm: str) -> np.ndarray:
        return np.array(results["summary"][task]["arms"][arm]["accuracy"])

    def checked(claim: str, task: str, better: Sequence[str], worse: Sequence[str], margin: float) -> None:
        if task not in config.tasks or not {*better, *worse} <= {*config.arms}:
            rows.append({"claim": claim, "seen": None, "by": None})
            return
        gap = float(min((of(task, a) - of(task, b)).min() for a in better for b in worse))
        rows.append({"claim": claim, "seen": gap > margin, "by": gap})

    rows: list[dict[str, Any]] = []
    sparse = ("2^k", "2^k, pruned", "k²+1", "k²+1, pruned")
    checked("copy: dense links are no worse than any sparse pattern", "copy", ("dense recurrence",), sparse, -1.0)
    checked("copy: k² + 1 beats 2^k", "copy", ("k²+1",), ("2^k",), 0.0)
    checked("copy: k² + 1 beats the last k", "copy", ("k²+1",), ("order k",), 0.0)
    checked("copy: 2^k beats the last k", "copy", ("2^k",), ("order k",), 0.0)
    checked("copy: the last k beat the last one", "copy", ("order k",), ("first order",), 0.0)
    checked("copy: pruning costs 2^k accuracy", "copy", ("2^k",), ("2^k, pruned",), 0.0)
    checked("copy: pruning costs k² + 1 accuracy", "copy", ("k²+1",), ("k²+1, pruned",), 0.0)
    rest = ("local attention", "first order", "order k", *sparse)
    all_dense = ("attention", "dense recurrence")
    checked("recall: links to all tokens beat every fixed pattern by 20 points", "recall", all_dense, rest, 20.0)
    one = ("dense recurrence",)
    checked("multi-hop: only the dense recurrence; 20 points to the rest", "multi-hop", one, ("attention", *rest), 20.0)
    return rows


def answer(results: dict[str, Any]) -> str:
    """How many claims every seed shows, which not, and the best pattern of links by task."""
    said = []
    for task, table in results["summary"].items():
        arm, row = max(table["arms"].items(), key=lambda item: item[1]["mean"])
        said.append(f"{arm} on {task} ({row['mean']:.1f} %, guessing {table['chance']:.1f} %)")
    missed = [row["claim"] for row in results["claims"] if row["seen"] is False]
    return sentence(
        *(_of_order(depth, table) for depth, table in results.get("order", {}).items()),
        f"most accurate: {listed(said)}" if said else "",
        met(results["claims"], "claims", "seen"),
        f"not seen: {listed(missed)}" if missed else "",
    )


def _of_order(depth: str, table: dict[str, Any]) -> str:
    """How many pairs of the paper's order of copying are confirmed at a depth, and the rank correlation."""
    says = [row["says"] for row in table["pairs"]]
    if not says:
        return ""
    rank, count = table["rank"]["all"], {word: says.count(word) for word in ("confirmed", "contradicted")}
    few = says.count("too few seeds")
    blocks = f"{depth} block{'s' if depth != '1' else ''}"
    if few:
        return f"copying with {blocks}: too few seeds for a verdict on the order"
    return (
        f"copying with {blocks}, {count['confirmed']} of {len(says)} pairs of the paper's order are confirmed and "
        f"{count['contradicted']} contradicted, rank correlation {_within(rank, '.2f')}"
    )


def print_order(order: dict[str, Any]) -> None:
    """Accuracies by length with links to the answer, verdicts on neighbours, and what the controls say."""
    for depth, table in order.items():
        arms, lengths = table["arms"], [str(length) for length in table["lengths"]]
        seeds = len(table["rank"]["all"]["by seed"])
        columns: list[Any] = [("% right", lambda row: _within(row, ".1f")), "paper:.2f"]
        for length in lengths:
            columns.append((f"m = {length} (links)", lambda row, length=length: _at(row["by length"][length])))
        columns += ["rate:g", "late:.1f", "steps"]
        title = (
            f"copying, {depth} block(s): mean of the lengths m with its interval over {seeds} seeds, the paper's, by "
            f"length and links to the answer; guessing {table['guessing']:.1f} %"
        )
        print_table(arms, "=name", *columns, title=title)
        near = [row for row in table["pairs"] if row["neighbours"]]
        print_table(
            near,
            ("", lambda row: f"{row['better']} − {row['worse']}"),
            ("points", lambda row: _within(row, "+.1f", "gap")),
            "says",
            *(
                (f"m = {n}", lambda row, n=n: f"{row['by length'][n]['gap']:+.1f} {row['by length'][n]['says']}")
                for n in lengths
            ),
            title=f"neighbours in the paper's order, {depth} block(s); verdicts over seeds at {LEVEL:.0%}",
        )
        says = [row["says"] for row in table["pairs"]]
        counts = ", ".join(f"{says.count(word)} {word}" for word in dict.fromkeys(sorted(says)))
        print(f"all {len(says)} pairs: {counts}")
        for n in lengths:
            one = [row["by length"][n]["says"] for row in table["pairs"]]
            counts = ", ".join(f"{one.count(word)} {word}" for word in dict.fromkeys(sorted(one)))
            print(f"  m = {n}: {counts}; rank correlation {_within(table['rank'][n], '.2f')}")
        print(f"rank correlation with the paper, mean of the lengths: {_within(table['rank']['all'], '.2f')}")
        print(f"rank correlation with the links to the answer: {_within(table['links'], '.2f')}")
        for control, by_length in table["controls"].items():
            gaps = ", ".join(f"m = {n}: {_within(row, '+.1f', 'gap')} {row['says']}" for n, row in by_length.items())
            print(f"2^k − {control}: {gaps}")
        if table["unreached"]:
            most = max(table["unreached"], key=lambda row: row["mean"])
            print(
                f"no path of links to the answer: {len(table['unreached'])} cases, at most {most['mean']:.1f} % right "
                f"({most['arm']}, m = {most['length']})"
            )
        shifted = [
            (arm, one["mean"], one["shifted"])
            for arm, row in arms.items()
            for one in row["by length"].values()
            if one["shifted"] is not None
        ]
        if shifted:
            before, after = (extent((row[i] for row in shifted), ".1f") for i in (1, 2))
            print(f"every link one token longer than trained: from {before} % to {after} %")


def _within(row: dict[str, Any], form: str, key: str = "mean") -> str:
    return f"{row[key]:{form}} [{row['low']:{form}}, {row['high']:{form}}]"


def _at(one: dict[str, Any]) -> str:
    links = "–" if one["links"] == FAR else f"{one['links']:.3g}"
    return f"{one['mean']:.1f} ({links})"


def _growth(fit: dict[str, Any]) -> str:
    off = "" if fit["best"] == fit["expected"] else f", not {fit['expected']}"
    return f"{fit['best']} ({fit['R2'][fit['best']]:.4f}){off}"


def _extremes(accuracies: Sequence[float] | None) -> str | None:
    return f"{min(accuracies):.1f}–{max(accuracies):.1f}" if accuracies else None


def print_report(results: dict[str, Any], config: Config) -> None:
    tables = results["summary"]
    if tables:
        rows = {arm: {task: table["arms"][arm] for task, table in tables.items()} for arm in config.arms}
        rows["guessing"] = {task: {"mean": table["chance"]} for task, table in tables.items()}
        columns = []
        for task in tables:
            columns.append(f"{task}={task}.mean:.1f")
            columns.append(("of seeds", lambda row, task=task: _extremes(row[task].get("accuracy"))))
            columns.append(f"paper={task}.paper:.1f")
        title = "accuracy in %, mean of seeds, least to most, the paper's; multi-hop: over two links and more"
        print_table(rows, "=name", *columns, title=title)
        print("rank correlation: " + ", ".join(f"{task} {table['rank']:.2f}" for task, table in tables.items()))
        late = {
            task: max(table["arms"].values(), key=lambda row: row["late"])["late"] for task, table in tables.items()
        }
        said = ", ".join(f"{task} {value:.1f}" for task, value in late.items())
        print(f"largest rise in the last quarter of a training, in points: {said}")
        few = f"; {len(config.seeds)} seeds, a verdict needs {FEWEST}" if len(config.seeds) < FEWEST else ""
        print(f"claims, seen where every seed shows them, and the least gap in points{few}")
        for row in results["claims"]:
            seen = "left out" if row["seen"] is None else f"{'seen' if row['seen'] else 'not seen'}, {row['by']:+.1f}"
            print(f"  {row['claim']}: {seen}")
    print_order(results["order"])
    short, long = config.lengths[0], config.lengths[-1]
    columns = []
    for key in ("links", "cache"):
        columns.append((key, lambda row, key=key: f"{row[key][0]:.1f} → {row[key][-1]:.1f}"))
        columns.append(("growth (R²)", lambda row, key=key: _growth(row[f"{key} growth"])))
    title = f"per decoded token, mean over the second half of n = {short} and {long}: links read, tokens in the cache"
    print_table(results["cost"], "=name", *columns, title=title)
    held = sum(len(row["states"]) for row in results["cost"].values())
    equal = sum(a == b for row in results["cost"].values() for _, a, b in row["states"])
    print(f"states that hold the tokens counted: {equal} of {held}")


def draw(results: dict[str, Any], config: Config, folder: Path) -> None:
    tables = results["summary"]
    if tables:
        caption = (
            "Accuracy of every pattern of links, bars: means, points: seeds, diamonds: the paper, dotted: guessing."
        )
        size = {"width": 3.0, "height": 3.2, "sharey": True}
        with figure(folder / "accuracy.png", 1, len(tables), caption=caption, **size) as (_, axes):
            for axis, (task, table) in zip(axes.flat, tables.items()):
                at = np.arange(len(config.arms))
                rows = list(table["arms"].values())
                axis.barh(at, [row["mean"] for row in rows], color=PALETTE[0], height=0.6, label="measured, mean")
                for y, row in zip(at, rows):
                    axis.plot(row["accuracy"], [y] * len(row["accuracy"]), ".", color="black", markersize=4)
                axis.plot([], [], ".", color="black", markersize=4, label="a seed")
                paper = [row["paper"] for row in rows]
                axis.plot(paper, at, linestyle="none", marker="D", color=PALETTE[1], markersize=4, label="paper")
                axis.axvline(table["chance"], color="0.4", linewidth=0.8, linestyle=":", label="guessing")
                axis.set_yticks(at, list(config.arms))
                axis.set(xlabel="accuracy (%)", xlim=(0, 104), title=f"{task}, rank correlation {table['rank']:.2f}")
                axis.grid(axis="y", visible=False)
            axes.flat[0].invert_yaxis()
            handles, labels = axes.flat[0].get_legend_handles_labels()
            axes.flat[0].figure.legend(handles, labels, loc="outside lower center", ncols=4)
    _draw_order(results["order"], folder)
    caption = "Links read, and tokens held in the cache, for a decoded token against the length, counted."
    with figure(folder / "cost.png", 1, 2, width=3.6, height=3.9, caption=caption) as (_, axes):
        for axis, key, what in zip(axes.flat, ("links", "cache"), ("links read", "tokens in the cache")):
            alike: dict[tuple[float, ...], list[str]] = {}
            for arm, row in results["cost"].items():
                alike.setdefault(tuple(row[key]), []).append(arm)
            for (values, names), style in zip(alike.items(), series()):
                axis.loglog(config.lengths, values, label=" and ".join(names), **style)
            axis.set(xlabel="length n (tokens)", ylabel=f"{what} a token", title="decoding, mean over n/2 … n")
            axis.set_xscale("log", base=2)
            axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18))


def _draw_order(order: dict[str, Any], folder: Path) -> None:
    if not order:
        return
    caption = (
        "Copying m symbols, mixers in the paper's order: markers are means by m, lines the range of the seeds, the "
        "number beside a marker the links from a question to its answer; dotted: guessing."
    )
    with figure(folder / "order.png", 1, len(order), width=4.2, height=4.4, sharey=True, caption=caption) as (_, axes):
        for axis, (depth, table) in zip(axes.flat, order.items()):
            arms = sorted(table["arms"], key=lambda arm: -(table["arms"][arm]["paper"] or -1))
            styles = [style for style, _ in zip(series(), table["lengths"])]
            for i, length in enumerate(table["lengths"]):
                rows = [table["arms"][arm]["by length"][str(length)] for arm in arms]
                at = np.arange(len(arms)) + 0.24 * (i - (len(table["lengths"]) - 1) / 2)
                style = {key: styles[i][key] for key in ("color", "marker")}
                axis.hlines(at, [row["least"] for row in rows], [row["most"] for row in rows], color=style["color"])
                axis.plot([row["mean"] for row in rows], at, linestyle="none", label=f"m = {length}", **style)
                for y, row in zip(at, rows):
                    if row["links"] != FAR:
                        axis.annotate(f"{row['links']:.2g}", (103, y), fontsize=6, va="center", color=style["color"])
            axis.plot(
                [table["arms"][arm]["paper"] or np.nan for arm in arms],
                np.arange(len(arms)),
                linestyle="none",
                marker="|",
                markersize=18,
                color="black",
                label="paper",
            )
            axis.axvline(table["guessing"], color="0.4", linewidth=0.8, linestyle=":", label="guessing")
            axis.set_yticks(range(len(arms)), arms)
            rank = table["rank"]["all"]["mean"]
            axis.set(xlim=(0, 110), xlabel="right answers (%)", title=f"{depth} block(s), rank correlation {rank:.2f}")
        axes.flat[0].invert_yaxis()
        handles, labels = axes.flat[0].get_legend_handles_labels()
        axes.flat[0].figure.legend(handles, labels, loc="outside lower center", ncols=5)
