"""Tables and the figure of the comparison with published bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sciops.plotting import MARKERS, PALETTE
from sciops.reports.tables import Columns
from studies.kit.figures import panels, round_ticks
from studies.kit.tables import grouped, print_table
from studies.spectral_norms.comparison import ESTIMATES, OURS, by_channels


def print_comparison(results: dict[str, Any]) -> None:
    """The estimates by padding, and the estimates by channels."""
    print("\nbounds of published papers on the same convolutions, estimate ÷ σ₁; time ÷ that of spectral_norm, medians")
    for padding, rows in grouped(results["summary"], "padding").items():
        columns: tuple[Columns, ...] = (
            "method; median:.4f; worst:.4f; below σ₁=below:.0%; time:.2f; tighter:.0%; faster:.0%",
            ("bound", lambda row: "yes" if row["bound"] else "no"),
            "verdict",
        )
        print_table(rows, *columns, title=_title(padding, rows), indent=2)
    print("tighter, faster: share of layers on which the bound is less, by more than 0.1 %, or takes less time")
    table = by_channels([row for row in results["layers"] if row["padding"] == "zeros"])
    counts = [f"{count}={count}:.3f" for count in next(iter(table.values()))]
    print_table(table, "method=name", *counts, title="zero padding, estimate ÷ σ₁ by channels, medians", indent=2)


def draw_comparison(results: dict[str, Any], path: Path) -> None:
    """Tightness against time, one panel a padding."""
    caption = (
        "Estimate of the norm of a convolution over the true one against time over that of spectral_norm: medians over "
        "layers, with a line to the worst. Filled: a bound for this padding; open: not a bound."
    )
    with panels(path, 2, 2, width=5.2, height=4.0, caption=caption) as axes:
        by_padding = grouped(results["summary"], "padding")
        for axis, (padding, rows) in zip(axes, by_padding.items()):
            for row in rows:
                color, marker = _style(row["method"])
                face = color if row["bound"] else "white"
                axis.plot([row["time"]] * 2, [row["median"], row["worst"]], color=color, linewidth=1)
                axis.plot(
                    row["time"],
                    row["median"],
                    marker,
                    color=color,
                    markerfacecolor=face,
                    label=row["method"],
                    linestyle="none",
                )
            axis.axhline(1, color="0.6", linewidth=0.8)
            axis.set(xscale="log", yscale="log", title=_title(padding, rows))
            axis.set(xlabel=f"time of a call / that of {OURS}", ylabel="estimate / σ₁")
            ends = [row[key] for row in rows for key in ("median", "worst")]
            round_ticks(axis.yaxis, min(ends) * 0.9, max(ends) * 1.1)
        axes[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _title(padding: str, rows: list[dict[str, Any]]) -> str:
    return f"{'zero' if padding == 'zeros' else padding} padding, {rows[0]['cases']} layers"


def _style(name: str) -> tuple[str, str]:
    """One colour a source, all of ours together, and one marker each within it."""
    source = lambda method: "ours" if ESTIMATES[method].ours else method.split()[0]  # noqa: E731
    sources = list(dict.fromkeys(map(source, ESTIMATES)))
    alike = [method for method in ESTIMATES if source(method) == source(name)]
    return PALETTE[sources.index(source(name)) % len(PALETTE)], MARKERS[alike.index(name) % len(MARKERS)]
