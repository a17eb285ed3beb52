"""Tables, sentence and figure of query-focused extraction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sciops.evaluation import spread
from sciops.plotting import figure, series
from studies.gap_sentences.query import ABLATIONS
from studies.gap_sentences.querying import EXPECTED, FULL, LENGTHS, NONE, OURS, PAPER, SPARSE, claim_of
from studies.kit.tables import print_table

_UNTRAINED = ("random", "lead", "nearest", "oracle")
_NAMES = ("ROUGE-1", "ROUGE-2", "ROUGE-L")
_SHOWN = {
    OURS: "state space",
    FULL: "attention",
    SPARSE: "sparse attention",
    NONE: "none",
    ABLATIONS[0]: "no gate",
    ABLATIONS[1]: "short kernel",
}


def query_answers(found: dict[str, Any]) -> list[str]:
    """A sentence a length: the share of the score of sparse attention, whether it is the paper's, and the power."""
    said = []
    for length in LENGTHS:
        rows = {row["encoder"]: row for row in found.get("summary", []) if row["length"] == length}
        against = rows.get(OURS, {}).get("against", {}).get(SPARSE)
        if not against or not against["gains"]["share"]:
            continue
        ratio = against["gains"]["share"]
        claim = claim_of(ratio, len(rows[OURS]["seeds"]))
        text = (
            f"asked for one of several texts in {found['untrained'][length]['tokens']:.0f} tokens, a state space has "
            f"{_percent(ratio)} of the ROUGE-1 of sparse attention (at least {PAPER:.0%}: {claim})"
        )
        gain = against["gains"].get("gain")
        said.append(text + (f" and {_percent(gain)} of what it gains over no mixing" if gain else ""))
    return said


def print_query(found: dict[str, Any]) -> None:
    print(f"\n{EXPECTED}")
    for length in LENGTHS:
        rows = [row for row in found["summary"] if row["length"] == length]
        if not rows:
            continue
        simple = found["untrained"][length]
        table: dict[str, Any] = {
            name: dict(zip(_NAMES, simple[name]["rouge"])) | {"right": float(np.mean(simple[name]["right"]))}
            for name in _UNTRAINED
        }
        for row in rows:
            scores = dict(zip(_NAMES, map(spread, zip(*row["rouge"]))))
            more = {"right": spread(row["right"]), "parameters": row["parameters"], "rate": row["rate"]}
            table[_SHOWN.get(row["encoder"], row["encoder"])] = scores | more
        columns = (f"{name}:.3f" for name in (*_NAMES, "right"))
        title = (
            f"query-focused extraction, {length} documents, {simple['tokens']:.0f} tokens: test ROUGE F, mean ± "
            "deviation over seeds; right: share of the three chosen sentences that are of the queried text"
        )
        print_table(table, "=name", *columns, "parameters", "rate:g", title=title)
        for i, row in enumerate(rows):
            for other in rows[i + 1 :]:
                keys = row["against"][other["encoder"]]
                names = [_SHOWN.get(one["encoder"], one["encoder"]) for one in (row, other)]
                for key, what in (("gains", "ROUGE-1"), ("right", "right")):
                    print(f"  {names[0]} against {names[1]}: {what} {_verdict(keys[key])}")
    for encoder, tried in found["trials"].items():
        values = ", ".join(f"{rate}: {value:.3f}" for rate, value in tried.items())
        print(
            f"  trials of rates, {_SHOWN.get(encoder, encoder)}, right on validation documents: {values or 'one rate'}"
        )


def _verdict(one: dict[str, Any]) -> str:
    text = f"{one['difference']:+.4f} [{one['low']:+.4f}, {one['high']:+.4f}] {one['winner']}"
    text += f", {_percent(one['share'])} of its score" if one.get("share") else ""
    return text + (f", {_percent(one['gain'])} of its gain over none" if one.get("gain") else "")


def _percent(ratio: list[float]) -> str:
    return f"{ratio[0]:.1%} [{ratio[1]:.1%}, {ratio[2]:.1%}]"


def draw_query(found: dict[str, Any], path: Path) -> None:
    caption = (
        "ROUGE-1 of the three sentences that an encoder chooses for a query, by mixer, bars: means, a point a seed; "
        "lines: choices without training."
    )
    lengths = [name for name in LENGTHS if any(row["length"] == name for row in found["summary"])]
    with figure(path, 1, len(lengths), width=4.5, height=3.1, caption=caption) as (drawn, axes):
        looks = dict(zip(dict.fromkeys(row["encoder"] for row in found["summary"]), series()))
        for axis, length in zip(axes.flat, lengths):
            rows = [row for row in found["summary"] if row["length"] == length]
            for i, row in enumerate(rows):
                scores = [scores[0] for scores in row["rouge"]]
                axis.bar(i, np.mean(scores), 0.7, color=looks[row["encoder"]]["color"], alpha=0.6)
                axis.plot([i] * len(scores), scores, "o", color="black", markersize=2.5)
            simple = found["untrained"][length]
            for name, look in (("random", ":"), ("nearest", "--")):
                label = {"random": "random", "nearest": "nearest by word vectors"}[name]
                axis.axhline(simple[name]["rouge"][0], color="0.25", linestyle=look, linewidth=1, label=label)
            names = [_SHOWN.get(row["encoder"], row["encoder"]).replace(" ", "\n") for row in rows]
            axis.set_xticks(range(len(rows)), names)
            axis.set(ylabel="ROUGE-1 F on test documents", title=f"{simple['tokens']:.0f} tokens")
            axis.grid(axis="x", visible=False)
        drawn.legend(*axes[0, 0].get_legend_handles_labels(), ncols=2, loc="outside lower center")
