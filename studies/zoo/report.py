"""The zoo's table and figure: the error of every model beside its card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sciops.plotting import PALETTE
from studies.kit.answers import listed, sentence
from studies.kit.figures import panels
from studies.kit.tables import print_table


def print_report(results: dict[str, Any]) -> None:
    """One row a model."""
    print_table(results["models"], "model=name; card:.4f; error:.4f; difference:.1e; training s=seconds:.0f")


def answer(results: dict[str, Any]) -> str:
    """The error of every model, and how far it lies from its card where it was computed again."""
    rows = results["models"]
    errors = listed(f"{row['name']} {row['error']:.4f}" for row in rows)
    apart = max(row["difference"] for row in rows)
    again = all(row["seconds"] is None for row in rows)
    return sentence(
        f"errors: {errors}", f"they differ from the cards by at most {apart:.1e}, relatively" if again else ""
    )


def draw(results: dict[str, Any], path: Path) -> None:
    """Errors as points over the cards' values."""
    rows = results["models"]
    caption = "The errors on the cards of the zoo, and the same errors computed again."
    with panels(path, 1, 1, width=5.0, height=0.9 + 0.32 * len(rows), caption=caption) as (axis,):
        places = range(len(rows))
        axis.plot([row["card"] for row in rows], places, "o", color=PALETTE[0], markersize=8, label="card", mfc="none")
        axis.plot([row["error"] for row in rows], places, "x", color=PALETTE[1], label="computed again")
        axis.set_yticks(places, [row["name"] for row in rows])
        axis.set(xlabel="error (relative L2; share of wrong classes for digits)", xlim=(0, None))
        axis.margins(y=0.2)
        axis.legend(loc="best")
