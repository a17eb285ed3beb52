"""Tables, claims and figures of the study of losses for precision or recall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import Verdict, paired_verdict, spread
from sciops.plotting import figure, series
from studies.diversity_losses.runs import FOR_PRECISION, FOR_RECALL, SHUFFLED
from studies.diversity_losses.selection import at_precision, best_alpha, best_temperature
from studies.kit.figures import panels
from studies.kit.tables import grouped, print_table

if TYPE_CHECKING:
    from studies.diversity_losses import Config

DRAWN = ("likelihood", "TaiLr", "power for precision", "power for recall", "focal", "λ-PR")
MARKED = (0.5, 1.0, 1.5, 2.0)  # temperatures named in the figure of the solvable case


def summary(runs: Sequence[Mapping[str, Any]], config: Config) -> list[dict[str, Any]]:
    """One row a (task, arm), with the values of every seed and the verdicts against the likelihood."""
    rows = []
    for (task, arm), own in grouped([r for r in runs if r["chosen"]], "task", "arm").items():
        own = sorted(own, key=lambda r: r["seed"])
        base = [r for r in runs if r["chosen"] and (r["task"], r["arm"]) == (task, "likelihood")]
        base = sorted(base, key=lambda r: r["seed"])
        verdicts = {} if arm == "likelihood" else {key: _verdict(own, base, key, config) for key in MEASURES}
        points = [at_precision(r, config.precision) for r in own]
        one = config.temperatures.index(1.0)
        rows.append(
            {
                "task": task,
                "arm": arm,
                "options": own[0]["options"],
                "reached": [best_temperature(r["measured"], config.precision)[1][0] for r in own],
                "temperatures": [config.temperatures[p["temperature"]] for p in points],
                "precision": [float(p["precision"].mean()) for p in points],
                "recall": [float(p["recall"].mean()) for p in points],
                "validation recall": [best_temperature(r["measured"], config.precision)[1] for r in own],
                "plain precision": [float(np.mean(r["measured"]["test"]["precision"][one])) for r in own],
                "plain recall": [float(np.mean(r["measured"]["test"]["recall"][one])) for r in own],
                "alpha": [float(best_alpha(r).mean()) for r in own],
                "curve": {
                    key: [np.mean(r["measured"]["test"][key], axis=1).tolist() for r in own]
                    for key in ("precision", "recall")
                },
                "verdicts": {key: _plain(v) for key, v in verdicts.items()},
            }
        )
    return rows


def _recall_errors(record: Mapping[str, Any], config: Config) -> np.ndarray:
    return 1 - at_precision(record, config.precision)["recall"]


def _alpha_errors(record: Mapping[str, Any], config: Config) -> np.ndarray:
    return 1 - best_alpha(record)


def _precision_errors(record: Mapping[str, Any], config: Config) -> np.ndarray:
    return 1 - np.array(record["measured"]["test"]["precision"][config.temperatures.index(1.0)])


MEASURES = {"recall": _recall_errors, "alpha": _alpha_errors, "plain precision": _precision_errors}


def _verdict(
    first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]], measure: str, config: Config
) -> Verdict:
    """Of the errors (seeds, test groups), one minus the measure."""
    a, b = (np.stack([MEASURES[measure](r, config) for r in rows]) for rows in (first, second))
    return paired_verdict(a, b, level=config.level)


def _plain(verdict: Verdict) -> dict[str, Any]:
    return {"winner": verdict.winner, **{k: getattr(verdict, k) for k in ("difference", "low", "high")}}


def claims(results: Mapping[str, Any], config: Config) -> list[dict[str, Any]]:
    """[{"task", "claim", "seen" (bool), "by" (text)}]."""
    found: list[dict[str, Any]] = []
    one = config.temperatures.index(1.0)
    by_task = grouped(results["summary"], "task")
    runs = grouped([r for r in results["runs"] if r["chosen"]], "task", "arm")
    for task, rows in by_task.items():
        arms = {row["arm"]: row for row in rows}

        def say(claim: str, seen: bool, by: str, task: str = task) -> None:
            found.append({"task": task, "claim": claim, "seen": bool(seen), "by": by})

        curve = {key: np.array(arms["likelihood"]["curve"][key]) for key in ("precision", "recall")}
        rise = curve["precision"].max(1) - curve["precision"][:, one]
        say("a lower temperature makes the likelihood's model more precise", rise.min() > 0, f"by {rise.mean():+.3f}")
        hot = curve["recall"][:, one:].max(1) - curve["recall"][:, one]
        say("a higher one brings it less than 0.05 of recall", hot.max() < 0.05, f"at best {hot.mean():+.3f}")
        for text, side in (("for recall", FOR_RECALL), ("for precision", FOR_PRECISION)):
            names = [arm for arm in side if arm in arms]
            if names:
                won = [arm for arm in names if arms[arm]["verdicts"]["recall"]["winner"] == "first"]
                lost = [arm for arm in names if arms[arm]["verdicts"]["recall"]["winner"] == "second"]
                by = f"better: {', '.join(won) or 'none'}; worse: {', '.join(lost) or 'none'}; of {len(names)}"
                say(f"a loss {text}, then temperature, has more recall at the wanted precision", bool(won), by)
        sharp = [arm for arm in FOR_PRECISION if arm in arms]
        if sharp:
            won = [arm for arm in sharp if arms[arm]["verdicts"]["plain precision"]["winner"] == "first"]
            say("a loss for precision is more precise at temperature 1", bool(won), ", ".join(won) or "none")
        wide = [arm for arm in FOR_RECALL if arm in arms]
        if sharp and wide:
            best = [max(names, key=lambda arm: _middle(arms[arm])) for names in (wide, sharp)]
            verdict = _verdict(runs[task, best[0]], runs[task, best[1]], "recall", config)
            say(
                "the best loss for recall, then temperature, beats the best loss for precision",
                verdict.winner == "first",
                f"{best[0]} against {best[1]}, error {verdict:+.3f}",
            )
        if SHUFFLED in arms and "power for recall" in arms:
            verdict = _verdict(runs[task, "power for recall"], runs[task, SHUFFLED], "recall", config)
            text = "the weights do it: shuffled among the targets, they bring less recall"
            say(text, verdict.winner == "first", f"error {verdict:+.3f}")
    return found


def _middle(row: Mapping[str, Any]) -> tuple[float, float]:
    """How often the wanted precision is reached on validation data, then the mean score there."""
    reached, scores = zip(*row["validation recall"])
    return float(np.mean(reached)), float(np.mean(scores))


def answer(results: Mapping[str, Any]) -> str:
    """The first sentence of the page of a run."""
    better = []
    for task, rows in grouped(results["summary"], "task").items():
        won = [r["arm"] for r in rows if r["verdicts"] and r["verdicts"]["recall"]["winner"] == "first"]
        better.append(f"{task}: {', '.join(won) or 'none'}")
    found = "; ".join(better)
    return f"More recall than the likelihood at the wanted precision, both with their best temperature: {found}."


def print_report(results: Mapping[str, Any], config: Config) -> None:
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
        title = (
            f"{task}: test data, {len(config.seeds)} seeds; recall β_{config.lam:g} at the temperature that has the "
        )
        title += f"most of it at precision {config.precision:g} on validation data"
        print_table(
            rows,
            "=arm",
            ("options", lambda row: ", ".join(f"{k} {v:g}" for k, v in row["options"].items()) or "–"),
            ("temperature", lambda row: f"{np.mean(row['temperatures']):.2f}"),
            ("precision", lambda row: f"{np.mean(row['precision']):.3f}" + ("" if all(row["reached"]) else "*")),
            ("recall", lambda row: f"{spread(row['recall']):.3f}"),
            ("error − likelihood's", lambda row: _shown(row, "recall")),
            ("precision, recall at 1", lambda row: _pair(row)),
            ("α_1", lambda row: f"{spread(row['alpha']):.3f}"),
            ("1 − α_1 − likelihood's", lambda row: _shown(row, "alpha")),
            title=title,
        )
    if any(not all(row["reached"]) for row in results["summary"]):
        print(
            "* a seed does not reach the wanted precision on validation data at any temperature: its most precise one"
        )
    print("\nclaims")
    for one in results["claims"]:
        print(f"  {one['task']}: {one['claim']}: {'seen' if one['seen'] else 'not seen'} ({one['by']})")


def _pair(row: Mapping[str, Any]) -> str:
    return f"{np.mean(row['plain precision']):.3f}, {np.mean(row['plain recall']):.3f}"


def _shown(row: Mapping[str, Any], measure: str) -> str | None:
    if not row["verdicts"]:
        return None
    v = row["verdicts"][measure]
    return f"{v['difference']:+.3f} [{v['low']:+.3f}, {v['high']:+.3f}] {v['winner']}"


def draw(results: Mapping[str, Any], config: Config, folder: Path) -> None:
    """solvable.png, and tradeoff.png where there are trainings."""
    _draw_solvable(results, folder / "solvable.png")
    if results["summary"]:
        _draw_tradeoff(results, config, folder / "tradeoff.png")


def _draw_solvable(results: Mapping[str, Any], path: Path) -> None:
    with figure(path, 1, 3, width=3.4, height=3.6) as (_, axes):
        x = np.arange(1, 5)
        law = results["fixed points"][0]
        for axis, side, title in zip(axes[0], (True, False), ("losses for precision", "losses for recall")):
            rows = [law, *(r for r in results["fixed points"][1:] if r["precision side"] == side)]
            for row, style in zip(rows, series()):
                axis.semilogy(x, np.maximum(row["q"], 1e-4), label=row["loss"], **style)
            axis.set(xlabel="token, the likeliest first", title=f"fixed points of {title}", ylim=(0.8e-4, 1))
            axis.set_xticks(x)
            axis.legend(loc="lower left")
        axes[0, 0].set_ylabel("probability, at least 1e-4")
        axis = axes[0, 2]
        for (missed, rows), style in zip(grouped(results["solvable"], "missed").items(), series()):
            name = "covers half of the tokens" if missed == 0 else "covers all tokens"
            axis.semilogy([r["precision"] for r in rows], [r["recall"] for r in rows], label=name, **style)
            for r in rows:
                if r["temperature"] in MARKED:
                    place = (r["precision"], r["recall"])
                    axis.annotate(
                        f"τ = {r['temperature']:g}", place, xytext=(4, 4), textcoords="offset points", fontsize=7
                    )
        axis.set(xlabel="precision", ylabel=r"recall $\beta_{0.1}$", title="temperature in the solvable case")
        axis.legend(loc="lower center")


def _draw_tradeoff(results: Mapping[str, Any], config: Config, path: Path) -> None:
    by_task = grouped(results["summary"], "task")
    one = config.temperatures.index(1.0)
    with panels(path, len(by_task), 2, width=3.6, height=3.2) as axes:
        for axis, (task, rows) in zip(axes, by_task.items()):
            arms = {row["arm"]: row for row in rows}
            for arm, style in zip(DRAWN, series()):
                if arm not in arms:
                    continue
                precision, recall = (np.mean(arms[arm]["curve"][key], axis=0) for key in ("precision", "recall"))
                axis.plot(precision, recall, label=arm, **(style | {"markersize": 3}))
                axis.plot(precision[one], recall[one], **(style | {"linestyle": "", "markersize": 8}), alpha=0.6)
            axis.axvline(config.precision, color="0.4", linewidth=0.8, linestyle=":")
            axis.set(xlabel="precision", ylabel=rf"recall $\beta_{{{config.lam:g}}}$", title=f"{task}, large: τ = 1")
        handles: dict[str, Any] = {}
        for axis in axes:
            handles |= {text: handle for handle, text in zip(*axis.get_legend_handles_labels())}
        axes[0].figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
