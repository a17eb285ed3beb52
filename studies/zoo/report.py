"""The zoo's table and figure: the error of every model beside its card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sciops.plotting import PALETTE
from studies.kit.figures import panels
from studies.kit.tables import print_table


def print_report(results: dict[str, Any]) -> None:
    """One row a model."""
    print_table(results["models"], "model=name; card:.4f; error:.4f; difference:.1e; training s=seconds:.0f")


def draw(results: dict[str, Any], path: Path) -> None:
    """Errors as points over the cards' values."""
    rows = results["models"]
    with panels(path, 1, 1, width=5.0, height=0.9 + 0.32 * len(rows)) as (axis,):
        places = range(len(rows))
        axis.plot([row["card"] for row in rows], places, "o", color=PALETTE[0], markersize=8, label="card", mfc="none")
        axis.plot([row["error"] for row in rows], places, "x", color=PALETTE[1], label="computed again")
        axis.set_yticks(places, [row["name"] for row in rows])
        axis.set(xlabel="error (relative L2; share of wrong classes for digits)", xlim=(0, None))
        axis.margins(y=0.2)
        axis.legend(loc="best")
