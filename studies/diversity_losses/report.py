"""Tables, claims and figures of the study of losses for precision or recall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import Verdict, paired_verdict, spread
from sciops.plotting import figure, series
from studies.diversity_losses.runs import FOR_PRECISION, FOR_RECALL, SHUFFLED
from studies.diversity_losses.selection import at_precision, best_alpha, matched, score
from studies.kit.figures import panels
from studies.kit.tables import grouped, print_table

if TYPE_CHECKING:
    from studies.diversity_losses import Config

Record = Mapping[str, Any]
DRAWN = ("likelihood", "TaiLr", "power for precision", "power for recall", "focal", "truncation")
MARKED = (0.5, 1.0, 1.5, 2.0)  # temperatures of the solvable case that its figure names


def summary(runs: Sequence[Record], config: Config) -> list[dict[str, Any]]:
    """One row a (task, arm): values by seed, and verdicts against the likelihood on errors, one minus the measure.

    "recall" and its verdicts are by wanted precision, None where a seed does not reach it on validation data.
    """
    one = config.temperatures.index(1.0)
    found = _chosen(runs)
    rows = []
    for (task, arm), own in found.items():
        base = found[task, "likelihood"]
        recalls = {f"{w:g}": [at_precision(r, w) for r in own] for w in config.precisions}
        row = {
            "task": task,
            "arm": arm,
            "options": own[0]["options"],
            "score": float(np.mean([score(r["measured"], config.precisions)[0] for r in own])),
            "recall": {w: _means(values) for w, values in recalls.items()},
            "temperatures": {f"{w:g}": _temperatures(own, w, config) for w in config.precisions},
            "precision": {f"{w:g}": _reached(own, w) for w in config.precisions},
            "plain precision": [float(np.mean(r["measured"]["test"]["precision"][one])) for r in own],
            "plain recall": [float(np.mean(r["measured"]["test"]["recall"][one])) for r in own],
            "alpha": [float(best_alpha(r).mean()) for r in own],
            "curve": {
                key: [np.mean(r["measured"]["test"][key], axis=1).tolist() for r in own]
                for key in ("precision", "recall")
            },
            "verdicts": {},
        }
        if arm != "likelihood":
            row["verdicts"] = {
                **{f"{w:g}": _plain(recall_verdict(own, base, w, config)) for w in config.precisions},
                "alpha": _plain(_verdict([best_alpha(r) for r in own], [best_alpha(r) for r in base], config)),
                "plain precision": _plain(_verdict(*([_at(r, one) for r in rows] for rows in (own, base)), config)),
            }
        rows.append(row)
    return rows


def recall_verdict(first: Sequence[Record], second: Sequence[Record], wanted: float, config: Config) -> Verdict | None:
    """Of two arms at a wanted precision; None where a seed of one does not reach it."""
    a, b = ([at_precision(r, wanted) for r in rows] for rows in (first, second))
    return _verdict(a, b, config) if _means(a) and _means(b) else None


def _chosen(runs: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    """The trainings under the chosen options by (task, arm), in the order of the seeds."""
    return {
        key: sorted(own, key=lambda r: r["seed"])
        for key, own in grouped([r for r in runs if r["chosen"]], "task", "arm").items()
    }


def _verdict(first: Sequence[Any], second: Sequence[Any], config: Config) -> Verdict:
    """Of measures by seed and test group, which are better if larger."""
    return paired_verdict(1 - np.stack(first), 1 - np.stack(second), level=config.level)


def _plain(verdict: Verdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    return {"winner": verdict.winner, **{k: getattr(verdict, k) for k in ("difference", "low", "high")}}


def _means(values: Sequence[np.ndarray | None]) -> list[float] | None:
    reached = [float(value.mean()) for value in values if value is not None]
    return reached if len(reached) == len(values) else None


def _temperatures(own: Sequence[Record], wanted: float, config: Config) -> list[float | None]:
    found = [matched(r["measured"], wanted) for r in own]
    ladder = [*config.temperatures, config.temperatures[-1]]
    return [None if one is None else (1 - one[1]) * ladder[one[0]] + one[1] * ladder[one[0] + 1] for one in found]


def _reached(own: Sequence[Record], wanted: float) -> list[float] | None:
    """The precision on test data where that on validation data is the wanted one."""
    return _means([at_precision(r, wanted, "precision") for r in own])


def _at(record: Record, temperature: int) -> np.ndarray:
    return np.array(record["measured"]["test"]["precision"][temperature])


def claims(results: Record, config: Config) -> list[dict[str, Any]]:
    """[{"task", "claim", "seen" (bool), "by" (text)}]."""
    found: list[dict[str, Any]] = []
    one = config.temperatures.index(1.0)
    runs = _chosen(results["runs"])
    for task, rows in grouped(results["summary"], "task").items():
        arms = {row["arm"]: row for row in rows}

        def say(claim: str, seen: bool, by: str, task: str = task) -> None:
            found.append({"task": task, "claim": claim, "seen": bool(seen), "by": by})

        curve = {key: np.array(arms["likelihood"]["curve"][key]) for key in ("precision", "recall")}
        rise = curve["precision"][:, :one].max(1) - curve["precision"][:, one]
        say("a lower temperature makes the likelihood's model more precise", rise.min() > 0, f"by {rise.mean():+.3f}")
        hot = curve["recall"][:, one:].max(1) - curve["recall"][:, one]
        say("a higher one brings it less than 0.05 of recall", hot.max() < 0.05, f"at best {hot.mean():+.3f}")
        sharp, wide = ([arm for arm in side if arm in arms] for side in (FOR_PRECISION, FOR_RECALL))
        for text, names in (("for recall", wide), ("for precision", sharp)):
            for w in map("{:g}".format, config.precisions):
                if names and arms["likelihood"]["recall"][w]:
                    won, lost = (_with(arms, names, w, winner) for winner in ("first", "second"))
                    by = f"better: {', '.join(won) or 'none'}; worse: {', '.join(lost) or 'none'}; of {len(names)}"
                    say(f"a loss {text}, then temperature, has more recall at precision {w}", bool(won), by)
            if names:
                won, lost = (_with(arms, names, "alpha", winner) for winner in ("first", "second"))
                by = f"better: {', '.join(won) or 'none'}; worse: {', '.join(lost) or 'none'}; of {len(names)}"
                say(f"a loss {text}, then temperature, comes nearer to the law (α_1)", bool(won), by)
        if sharp:
            won = _with(arms, sharp, "plain precision", "first")
            say("a loss for precision is more precise at temperature 1", bool(won), ", ".join(won) or "none")
        if sharp and wide:
            best = [max(names, key=lambda arm: arms[arm]["score"]) for names in (wide, sharp)]
            for w in config.precisions:
                text = (
                    f"the best loss for recall, then temperature, beats the best one for precision at precision {w:g}"
                )
                _compare(say, text, best, w, runs, task, config)
        if SHUFFLED in arms and "power for recall" in arms:
            pair = ["power for recall", SHUFFLED]
            for w in config.precisions:
                text = f"it is the weights: shuffled among the targets they bring less recall at precision {w:g}"
                _compare(say, text, pair, w, runs, task, config)
            verdict = _verdict(*([best_alpha(r) for r in runs[task, arm]] for arm in pair), config)
            text = "it is the weights: shuffled among the targets they come less near to the law (α_1)"
            say(text, verdict.winner == "first", f"error {verdict:+.3f}")
    return found


def _with(arms: Record, names: Sequence[str], measure: str, winner: str) -> list[str]:
    return [
        arm for arm in names if arms[arm]["verdicts"][measure] and arms[arm]["verdicts"][measure]["winner"] == winner
    ]


def _compare(say: Any, text: str, pair: Sequence[str], wanted: float, runs: Any, task: str, config: Config) -> None:
    verdict = recall_verdict(runs[task, pair[0]], runs[task, pair[1]], wanted, config)
    if verdict is not None:
        say(text, verdict.winner == "first", f"{pair[0]} against {pair[1]}: error {verdict:+.3f}")


def answer(results: Record) -> str:
    """The first sentence of the page of a run."""
    better = []
    for one in results["claims"]:
        if one["claim"].startswith("a loss for recall, then temperature, has more recall"):
            better.append(f"{one['task']}, {one['claim'].split(' at ')[-1]}: {one['by'].split(';')[0]}")
    return f"Losses for recall against the likelihood, each with its best temperature: {'; '.join(better) or 'none'}."


def print_report(results: Record, config: Config) -> None:
    print_table(
        results["fixed points"],
        ("loss", lambda row: row["loss"]),
        ("q of p = 0.5, 0.3, 0.15, 0.05", lambda row: "  ".join(f"{value:.4f}" for value in row["q"])),
        "entropy:.3f",
        title="what a loss converges to on one categorical law",
    )
    print_table(
        results["solvable"],
        "logit of missed tokens=missed:g; temperature:g; precision:.3f; β_0.1=recall:.4f; α_1=alpha:.4f",
        title="the solvable case: a model that misses half of the tokens (logit 0), and one that covers them (6)",
    )
    for task, rows in grouped(results["summary"], "task").items():
        reached = [w for w in map("{:g}".format, config.precisions) if any(row["recall"][w] for row in rows)]
        title = (
            f"{task}: test data, {len(config.seeds)} seeds; recall β_{config.lam:g} at the temperature of most recall"
        )
        print_table(
            rows,
            "=arm",
            ("options", lambda row: ", ".join(f"{k} {v:g}" for k, v in row["options"].items()) or None),
            ("precision, recall at τ = 1", _plain_pair),
            *((f"recall at {w}", lambda row, w=w: _spread(row["recall"][w])) for w in reached),
            *((f"τ at {w}", lambda row, w=w: _mean(row["temperatures"][w])) for w in reached),
            ("best α_1", lambda row: _spread(row["alpha"])),
            title=f"{title} at a precision of the validation data",
        )
        print_table(
            [row for row in rows if row["verdicts"]],
            "=arm",
            *((f"1 − recall at {w}", lambda row, w=w: _shown(row, w)) for w in reached),
            ("1 − α_1", lambda row: _shown(row, "alpha")),
            title=f"{task}: differences to the likelihood",
        )
    print("\nclaims")
    for one in results["claims"]:
        print(f"  {one['task']}: {one['claim']}: {'seen' if one['seen'] else 'not seen'} ({one['by']})")


def _plain_pair(row: Record) -> str:
    return f"{_mean(row['plain precision'])}, {_mean(row['plain recall'])}"


def _mean(values: Sequence[float | None]) -> str | None:
    return None if None in values else f"{np.mean(values):.3f}"  # type: ignore[arg-type]


def _spread(values: Sequence[float] | None) -> str | None:
    return None if values is None else f"{spread(values):.3f}"


def _shown(row: Record, measure: str) -> str | None:
    v = row["verdicts"].get(measure)
    return f"{v['difference']:+.3f} [{v['low']:+.3f}, {v['high']:+.3f}] {v['winner']}" if v else None


def draw(results: Record, config: Config, folder: Path) -> None:
    """solvable.png and tradeoff.png."""
    _draw_solvable(results, folder / "solvable.png")
    _draw_tradeoff(results, config, folder / "tradeoff.png")


def _draw_solvable(results: Record, path: Path) -> None:
    caption = (
        "Left, middle: what a loss converges to on (0.5, 0.3, 0.15, 0.05). Right: precision and recall in the solvable "
        "case over the temperature τ; a model that misses half of the tokens cannot be heated to recall."
    )
    with figure(path, 1, 3, width=3.4, height=3.6, caption=caption) as (_, axes):
        x = np.arange(1, 5)
        law = results["fixed points"][0]
        for axis, side, title in zip(axes[0], (True, False), ("precision", "recall")):
            rows = [law, *(r for r in results["fixed points"][1:] if r["precision side"] == side)]
            for row, style in zip(rows, series()):
                axis.semilogy(x, np.maximum(row["q"], 1e-3), label=row["loss"], **style)
            axis.set(xlabel="token, the likeliest first", title=f"fixed points of losses for {title}", ylim=(0.8e-3, 1))
            axis.set_xticks(x)
            axis.legend(loc="lower left")
        axes[0, 0].set_ylabel("probability (at least 0.001)")
        axis = axes[0, 2]
        for (missed, rows), style in zip(grouped(results["solvable"], "missed").items(), series()):
            name = "half of the tokens covered" if missed == 0 else "all tokens covered"
            axis.semilogy([r["precision"] for r in rows], [r["recall"] for r in rows], label=name, **style)
            for mark in MARKED:
                r = next(r for r in rows if r["temperature"] == mark)
                place = (r["precision"], r["recall"])
                axis.annotate(f"τ = {mark:g}", place, xytext=(3, 5), textcoords="offset points", fontsize=7)
        axis.set(xlabel="precision", ylabel=r"recall $\beta_{0.1}$", title="temperature in the solvable case")
        axis.legend(loc="lower center")


def _draw_tradeoff(results: Record, config: Config, path: Path) -> None:
    by_task = grouped(results["summary"], "task")
    one = config.temperatures.index(1.0)
    caption = "Precision and recall of samples over the temperature, one curve a loss, mean over seeds; test data."
    with panels(path, len(by_task), 2, width=3.6, height=3.2, caption=caption) as axes:
        for axis, (task, rows) in zip(axes, by_task.items()):
            arms = {row["arm"]: row for row in rows}
            for arm, style in zip(DRAWN, series()):
                if arm not in arms:
                    continue
                precision, recall = (np.mean(arms[arm]["curve"][key], axis=0) for key in ("precision", "recall"))
                axis.plot(precision, recall, label=arm, **(style | {"marker": None}))
                axis.plot(precision[one], recall[one], **(style | {"linestyle": "", "markersize": 7}))
            axis.set(xlabel="precision", ylabel=rf"recall $\beta_{{{config.lam:g}}}$", title=f"{task}; mark: τ = 1")
        handles: dict[str, Any] = {}
        for axis in axes:
            handles |= {text: handle for handle, text in zip(*axis.get_legend_handles_labels())}
        axes[0].figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
