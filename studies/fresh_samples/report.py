"""Tables, figure and answer of the study of fresh samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import spread
from sciops.plotting import PALETTE, figure
from studies.kit.answers import sentence
from studies.kit.figures import round_ticks, ticks
from studies.kit.tables import print_table
from studies.kit.verdicts import seed_verdict, shown

if TYPE_CHECKING:
    from studies.fresh_samples import Config

_CAPTION = (
    "Relative L2 error on test fields, and on fields of the training, against the number of different fields that the "
    "training draws from; the last never sees one twice. Points are seeds, lines their means; all have the same steps."
)


def summary(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A row for each number of fields, and the stream against each by a paired verdict over seeds."""
    counts = list(dict.fromkeys(record["count"] for record in records))
    by_count = {count: [r for r in records if r["count"] == count] for count in counts}
    fresh = [r["error"] for r in by_count[None]]
    rows = []
    for count, own in by_count.items():
        errors = [r["error"] for r in own]
        verdict = None if count is None else seed_verdict(errors, fresh)
        row = {
            "fields": "endless" if count is None else f"{count:,}",
            "passes": 1.0 if count is None else own[0]["seen"] / count,
            "error": spread(errors),
            "training": spread(r["training_error"] for r in own),
            "seconds": spread(r["seconds"] for r in own),
            "verdict": "" if count is None else shown(verdict),
            "winner": verdict and verdict.winner,
            "ratio": float(np.mean(errors) / np.mean(fresh)),
        }
        rows.append(row)
    milliseconds = float(np.median([r["milliseconds_per_field"] for r in records]))
    first = records[0]
    fixed = [r["seconds"] for r in records if r["count"] == max(c for c in counts if c is not None)]
    step = 1e3 * float(np.median(fixed)) / first["steps"]
    return {
        "rows": rows,
        "milliseconds_per_field": milliseconds,
        "milliseconds_per_step": step,
        "batch": first["seen"] / first["steps"],
        "parameters": first["parameters"],
    }


def print_report(results: Mapping[str, Any], config: Config) -> None:
    found = results["summary"]
    print_table(
        found["rows"],
        "training fields=fields; passes=passes:.1f; test error=error:.4f; error on training fields=training:.4f; "
        "over that of the stream=ratio:.2f; seconds=seconds:.0f; against the stream=verdict",
        title=f"{config.size}² nodes, {config.steps} steps of {config.batch_size}, mean over seeds",
    )
    print(
        f"\n{found['parameters']:,} parameters. A field takes {found['milliseconds_per_field']:.2f} ms to make, "
        f"{found['batch']:.0f} of them {found['milliseconds_per_field'] * found['batch']:.1f} ms; a step on fields "
        f"that are there {found['milliseconds_per_step']:.1f} ms (processor time, one thread)."
    )


def answer(results: Mapping[str, Any]) -> str:
    """The first sentence of the page."""
    rows, found = results["summary"]["rows"], results["summary"]
    stream, least, most = rows[-1], rows[0], rows[-2]
    cost = found["milliseconds_per_field"] * found["batch"] / found["milliseconds_per_step"]
    said = {"first": "better than the stream", "second": "worse than the stream"}.get(most["winner"], most["winner"])
    told = f"{most['error'].mean:.4f} with {most['fields']} ({said})" if most is not least else ""
    return sentence(
        f"in equally many steps the error is {least['error'].mean:.4f} with {least['fields']} training fields"
        + (f", {told}" if told else "")
        + f" and {stream['error'].mean:.4f} with an endless stream, which costs {cost:.2f} of a step's time to make"
    )


def draw(results: Mapping[str, Any], config: Config, path: Path) -> None:
    runs = results["runs"]
    counts = [c for c in dict.fromkeys(r["count"] for r in runs)]
    numbers = [c for c in counts if c is not None]
    place = {c: float(c) for c in numbers} | {
        None: max(numbers) * (max(numbers) / min(numbers)) ** (1 / len(numbers)) * 2
    }
    with figure(path, width=4.6, height=3.2, caption=_CAPTION) as (_, axes):
        axis = axes[0, 0]
        for key, label, color, marker in (
            ("error", "test fields", PALETTE[0], "o"),
            ("training_error", "fields of the training", PALETTE[1], "s"),
        ):
            means = [np.mean([r[key] for r in runs if r["count"] == c]) for c in counts]
            axis.plot([place[c] for c in counts], means, color=color, linewidth=1.4)
            axis.plot(
                [place[r["count"]] for r in runs],
                [r[key] for r in runs],
                marker,
                color=color,
                markersize=4,
                alpha=0.7,
                label=label,
            )
        axis.set(xscale="log", yscale="log", xlabel="training fields", ylabel="relative L2 error")
        values = [r[key] for r in runs for key in ("error", "training_error")]
        ticks(
            axis.xaxis,
            [place[c] for c in counts],
            lambda x: next("endless" if c is None else f"{c:,}" for c in counts if place[c] == x),
        )
        round_ticks(axis.yaxis, 0.8 * min(values), 1.2 * max(values))
        axis.legend()
