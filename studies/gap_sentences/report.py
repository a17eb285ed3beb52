"""Tables and figures of the study of gap sentences."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from sciops.evaluation import Rouge, Verdict, paired_verdict, spread
from sciops.plotting import PALETTE, figure, series
from studies.gap_sentences.query_report import draw_query, print_query, query_answers
from studies.gap_sentences.training import ARMS, LONGER, PRETRAINED
from studies.kit.answers import sentence
from studies.kit.figures import ticks
from studies.kit.tables import print_table
from studies.kit.verdicts import seed_verdict

_NAMES = ("ROUGE-1", "ROUGE-2", "ROUGE-L")


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row an encoder, number of summaries and arm: each seed's scores and losses; and the pre-trained arm against
    the others, {"rouge", "validation": how many seeds are better, "of", "verdict": {"rouge", "validation"}}."""
    found: dict[tuple[str, int, str], dict[int, dict[str, Any]]] = {}
    for run in runs:
        spec = run["spec"]
        for entry in run["fine"]:
            found.setdefault((spec["encoder"], entry["few"], spec["arm"]), {})[spec["seed"]] = entry
    rows = []
    for (encoder, few, arm), by_seed in found.items():
        ours = found.get((encoder, few, PRETRAINED), {})
        row = {
            "encoder": encoder,
            "few": few,
            "arm": arm,
            "seeds": list(by_seed),
            "rouge": [entry["rouge"] for entry in by_seed.values()],
            "validation": [entry["validation"] for entry in by_seed.values()],
            "test_loss": [entry["test_loss"] for entry in by_seed.values()],
            "copied": [entry.get("copied", np.nan) for entry in by_seed.values()],
            "rates": [entry["rate"] for entry in by_seed.values()],
            "seconds": [entry["seconds"] for entry in by_seed.values()],
        }
        if arm != PRETRAINED and ours:
            shared = [seed for seed in by_seed if seed in ours]
            both = [[part[s] for s in shared] for part in (ours, by_seed)]
            row["beaten by pre-training"] = {
                "rouge": [sum(ours[s]["rouge"][i] > by_seed[s]["rouge"][i] for s in shared) for i in range(3)],
                "validation": sum(ours[s]["validation"] < by_seed[s]["validation"] for s in shared),
                "of": len(shared),
                "verdict": {
                    "rouge": [
                        _judged([1 - e[s]["rouge"][i] for s in shared] for e in (ours, by_seed)) for i in range(3)
                    ],
                    "validation": _judged([e["validation"] for e in part] for part in both),
                },
            }
        rows.append(row)
    return rows


def choosing_summary(runs: list[dict[str, Any]], simple: dict[str, Any]) -> list[dict[str, Any]]:
    """One row an encoder: ROUGE of one and of three sentences by seed, and the verdict, over seeds and test texts, on
    ROUGE-1 of one sentence against the first sentence and against every other encoder.

    A verdict is {"difference", "low", "high", "winner"} of ROUGE-1, positive where the row's own is higher; "share" the
    mean over the other's, with its interval.
    """
    gains: dict[str, list[list[float]]] = {}
    for run in runs:
        gains.setdefault(run["spec"]["encoder"], []).append(run["gains"])
    rows = []
    for name, own in gains.items():
        mine = [run for run in runs if run["spec"]["encoder"] == name]
        others = {"lead-1": [simple["gains"]] * len(own)} | {k: v for k, v in gains.items() if k != name}
        row: dict[str, Any] = {
            "encoder": name,
            "parameters": mine[0]["parameters"],
            "rate": mine[0]["spec"]["rate"],
            "seeds": [run["spec"]["seed"] for run in mine],
            "first": [run["first"] for run in mine],
            **{f"rouge {k}": [run["rouge"][k] for run in mine] for k in ("1", "3")},
            "against": {},
        }
        three = [1 - scores[0] for scores in row["rouge 3"]]
        found = seed_verdict(three, [1 - simple["lead-3"][0]] * len(three))
        if found is not None:
            row["three against lead-3"] = _of_rouge(found)
        for other, theirs in others.items():
            found = paired_verdict(1 - np.array(own), 1 - np.array(theirs))
            base = float(np.mean(theirs))
            row["against"][other] = _of_rouge(found) | {
                "share": [1 - d / base for d in (found.difference, found.high, found.low)] if base else None,
            }
        rows.append(row)
    return rows


def _of_rouge(found: Verdict) -> dict[str, Any]:
    """A verdict on 1 − ROUGE as one on ROUGE."""
    winner = {"first": "better", "second": "worse"}.get(found.winner, found.winner)
    return {"difference": -found.difference, "low": -found.high, "high": -found.low, "winner": winner}


def _judged(errors: Iterable[list[float]]) -> str:
    """ "better", "worse", or what `paired_verdict` says instead, of the first errors by seed against the second."""
    found = seed_verdict(*errors)
    return "diverged" if found is None else {"first": "better", "second": "worse"}.get(found.winner, found.winner)


def answer(results: dict[str, Any]) -> str:
    """Where summaries are fewest: how many seeds pre-training makes better, with the verdict."""
    few = min((row["few"] for row in results["summary"]), default=0)
    said = []
    for row in results["summary"]:
        beaten = row.get("beaten by pre-training")
        if beaten and row["few"] == few:
            count = f"{beaten['validation']} of {beaten['of']} seeds"
            said.append(f"{row['encoder']} against {row['arm']}: {count} ({beaten['verdict']['validation']})")
    what = f"with {few} summaries, pre-training on gap sentences lowers the validation loss of"
    chosen = [
        f"{row['encoder']} chooses sentences of ROUGE-1 {np.mean([s[0] for s in row['rouge 1']]):.3f} against "
        f"{results['baselines']['lead-1'][0]:.3f} of the first ({row['against']['lead-1']['winner']})"
        for row in results.get("choosing summary", [])
    ]
    queried = query_answers(results.get("query") or {})
    return sentence(*queried, *([f"{what} {'; '.join(said)}"] if said else []), *chosen)


def print_report(results: dict[str, Any]) -> None:
    print("real texts: " + ", ".join(f"{name} {value}" for name, value in results["corpus"].items()))
    if results["runs"]:
        _print_writing(results)
    _print_choosing(results)
    if results["query"]:
        print_query(results["query"])
    _print_costs(results["costs"])
    if not results["runs"]:
        return
    first = next((run for run in results["runs"] if run["spec"]["arm"] == PRETRAINED), results["runs"][0])
    others = [run for run in results["runs"] if run["spec"]["seed"] == first["spec"]["seed"]]
    others = [run for run in others if run["spec"]["encoder"] == first["spec"]["encoder"]]
    print(f"\nwritten for test texts, seed {first['spec']['seed']}, {first['fine'][-1]['few']} summaries")
    for i, example in enumerate(results["examples"][:6]):
        print(f"  {example['group']}: {example['text'][:110]}…")
        print(f"    {'reference':<22}{example['reference']}")
        for run in others:
            print(f"    {run['spec']['arm']:<22}{run['fine'][-1]['written'][i]}")


def _print_writing(results: dict[str, Any]) -> None:
    both = results["lead"] | {name: scores for name, scores in results["baselines"].items() if name != "gains"}
    rows = {f"baseline: {name}": dict(zip(_NAMES, Rouge(*scores))) for name, scores in both.items()}
    for row in results["summary"]:
        scores = dict(zip(_NAMES, map(spread, zip(*row["rouge"])))) | {"validation": spread(row["validation"])}
        scores["copied"] = spread(row["copied"])
        rows[f"{row['encoder']}, {row['few']} summaries, {row['arm']}"] = scores
    columns = (f"{name}:.3f" for name in _NAMES)
    print_table(
        rows, "=name", *columns, "validation:.2f; copied:.2f", title="test ROUGE F, mean ± deviation over seeds"
    )
    print("copied: share of the written words that stand in the source; of the summaries' own", end=" ")
    print(f"{results['corpus']['copied']:.2f}")
    print("validation: loss on held-out summaries, nats a token, of the weights that are judged")
    print("\npre-training on gap sentences (PEGASUS, LOCOST: it helps, most where summaries are few)")
    for row in results["summary"]:
        beaten = row.get("beaten by pre-training")
        if beaten:
            names, judged = (*_NAMES, "validation loss"), beaten["verdict"]
            said = zip(names, (*beaten["rouge"], beaten["validation"]), (*judged["rouge"], judged["validation"]))
            counts = ", ".join(f"{name} {n}/{beaten['of']} ({verdict})" for name, n, verdict in said)
            print(f"  {row['encoder']}, {row['few']} summaries, against {row['arm']}: better seeds (verdict) {counts}")


def _print_choosing(results: dict[str, Any]) -> None:
    rows = results["choosing summary"]
    if not rows:
        return
    simple = {k: dict(zip(_NAMES, v)) for k, v in results["baselines"].items() if k != "gains"}
    for row in rows:
        for k, what in (("1", "one sentence"), ("3", "three sentences")):
            scores = dict(zip(_NAMES, map(spread, zip(*row[f"rouge {k}"]))))
            more = {"first": spread(row["first"]), "parameters": row["parameters"]} if k == "1" else {}
            simple[f"{row['encoder']}, {what}"] = scores | more
    columns = (f"{name}:.3f" for name in _NAMES)
    title = "choosing sentences: test ROUGE F, mean ± deviation over seeds; first: share of first sentences chosen"
    print_table(simple, "=name", *columns, "first:.2f", "parameters", title=title)
    shown = lambda found: f"{found['difference']:+.4f} [{found['low']:+.4f}, {found['high']:+.4f}] {found['winner']}"  # noqa: E731
    for row in rows:
        if "three against lead-3" in row:
            print(
                f"  {row['encoder']}, three sentences against lead-3: {shown(row['three against lead-3'])}, these texts"
            )
        for other, found in row["against"].items():
            share = found["share"]
            share = f", {share[0]:.1%} [{share[1]:.1%}, {share[2]:.1%}] of its score" if share else ""
            print(f"  {row['encoder']} against {other}: ROUGE-1 {shown(found)}{share}")


def _print_costs(rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    ratio = lambda row: row["bytes"]["self_attention"] / (row["bytes"]["state_space"] or np.nan)  # noqa: E731
    print_table(
        rows,
        "tokens=length; state space, ms=1e3*seconds.state_space:.1f; attention, ms=1e3*seconds.self_attention:.1f",
        f"state space, MB={2**-20}*bytes.state_space:.0f; attention, MB={2**-20}*bytes.self_attention:.0f",
        "time ratio=time ratio.median:.2f",
        ("memory ratio", lambda row: f"{ratio(row):.2f}"),
        title="one forward and backward, one source, one thread (LOCOST: up to 50 % less memory in training)",
    )


def draw(results: dict[str, Any], folder: Path) -> None:
    """learning.png and rouge.png, choosing.png, query.png and costs.png, of the parts that were run."""
    if results["runs"]:
        _draw_learning(results["runs"], folder / "learning.png")
        _draw_rouge(results, folder / "rouge.png")
    if results["choosing summary"]:
        _draw_choosing(results, folder / "choosing.png")
    if results["query"]:
        draw_query(results["query"], folder / "query.png")
    if results["costs"]:
        _draw_costs(results["costs"], folder / "costs.png")


def _draw_learning(runs: list[dict[str, Any]], path: Path) -> None:
    encoders = list(dict.fromkeys(run["spec"]["encoder"] for run in runs))
    caption = "Validation loss over the steps of fine-tuning on summaries, a line a seed, by what came before."
    with figure(path, len(encoders), 1, width=4.4, height=2.9, caption=caption) as (_, axes):
        for axis, encoder in zip(axes[:, 0], encoders):
            for arm, style in zip(ARMS, series()):
                same = [r for r in runs if r["spec"]["encoder"] == encoder and r["spec"]["arm"] == arm]
                for i, run in enumerate(same):
                    curve = run["fine"][-1]["curve"]
                    steps, losses = ([point[key] for point in curve] for key in ("step", "validation"))
                    thin = style | {"markersize": 3, "alpha": 0.75}
                    axis.plot(steps, losses, label=arm if i == 0 else None, **thin)
            few = runs[0]["fine"][-1]["few"]
            if any(run["spec"]["arm"] == LONGER for run in runs):
                axis.set_xscale("symlog", linthresh=10)
            axis.set(
                title=f"encoder {encoder}, {few} summaries, each seed",
                xlabel="steps on summaries",
                ylabel="validation loss (nats a token)",
            )
            axis.legend()


def _draw_rouge(results: dict[str, Any], path: Path) -> None:
    rows = results["summary"]
    encoders = list(dict.fromkeys(row["encoder"] for row in rows))
    numbers = sorted({row["few"] for row in rows})
    caption = "ROUGE F scores of summaries of test texts, bars: means, points: seeds, beside choosing sentences."
    size = {"width": 3.9, "height": 2.9, "sharey": True}
    with figure(path, len(encoders), len(numbers), caption=caption, **size) as (_, axes):
        for line, encoder in zip(axes, encoders):
            for axis, few in zip(line, numbers):
                bars = [(name, [scores], "0.6") for name, scores in results["lead"].items()]
                bars += [
                    (row["arm"], row["rouge"], PALETTE[ARMS.index(row["arm"])])
                    for row in rows
                    if (row["encoder"], row["few"]) == (encoder, few)
                ]
                width = 0.8 / len(bars)
                for i, (name, scores, color) in enumerate(bars):
                    scores = np.array(scores)[:, :3]
                    at = np.arange(3) + (i - (len(bars) - 1) / 2) * width
                    hatch = "//" if i == 1 else None
                    axis.bar(at, scores.mean(0), 0.9 * width, label=name, color=color, hatch=hatch, edgecolor="white")
                    if len(scores) > 1:
                        for seed in scores:
                            axis.plot(at, seed, "o", color="black", markersize=2.2)
                axis.set_xticks(range(3), _NAMES)
                axis.grid(axis="x", visible=False)
                axis.set(title=f"{encoder}, {few} summaries; a point a seed", ylabel="F score on test texts")
        low, high = axes[0, 0].get_ylim()
        axes[0, 0].set_ylim(low, 1.35 * high)  # room for the names
        axes[0, 0].legend(ncols=2)


def _draw_choosing(results: dict[str, Any], path: Path) -> None:
    rows, simple = results["choosing summary"], results["baselines"]
    caption = (
        "ROUGE-1 of one sentence (left) and of three (right) that an encoder chooses, a point a seed, bars: means; "
        "lines: choices without training."
    )
    with figure(path, 1, 2, width=3.6, height=3.0, caption=caption) as (drawn, axes):
        for axis, k in zip(axes.flat, ("1", "3")):
            for i, (row, style) in enumerate(zip(rows, series())):
                scores = [scores[0] for scores in row[f"rouge {k}"]]
                axis.bar(i, np.mean(scores), 0.7, color=style["color"], alpha=0.6)
                axis.plot([i] * len(scores), scores, "o", color="black", markersize=2.5)
            for name, look in (("random", ":"), ("lead", "--"), ("oracle", "-.")):
                axis.axhline(simple[f"{name}-{k}"][0], color="0.25", linestyle=look, linewidth=1, label=name)
            axis.set_xticks(range(len(rows)), [row["encoder"].replace("_", "\n") for row in rows])
            axis.set(ylabel="ROUGE-1 F on test texts", title={"1": "one sentence", "3": "three sentences"}[k])
            axis.grid(axis="x", visible=False)
        drawn.legend(*axes[0, 0].get_legend_handles_labels(), ncols=3, loc="outside lower center")


def _draw_costs(rows: list[dict[str, Any]], path: Path) -> None:
    lengths = [row["length"] for row in rows]
    caption = "Time and peak memory of a training step against the length of the source, by encoder."
    with figure(path, 1, 2, width=3.1, height=2.6, caption=caption) as (_, axes):
        for axis, key, scale, label in (
            (axes[0, 0], "seconds", 1.0, "seconds of a step"),
            (axes[0, 1], "bytes", 2**-20, "peak memory of a step (MB)"),
        ):
            for name, style in zip(("state_space", "self_attention"), series()):
                axis.loglog(lengths, [scale * row[key][name] for row in rows], label=name, **style)
            axis.set(xlabel="tokens of the source", ylabel=label)
            ticks(axis.xaxis, lengths)
        axes[0, 0].legend()
