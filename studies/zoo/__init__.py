"""The models of the zoo: trained by their recipes, described by cards, and scored again.

    python -m studies.zoo --models darcy85-fno        # its fields, its training, its score and its card: minutes
    python -m studies.zoo --preset full               # all of them
    python -m studies.zoo --preset score              # the models of the package, on test fields made anew

Training fields have the seed 0, test fields the seed 1. A model's folder is that of its run without checkpoints; with
``--into sciops/zoo/models`` of a checkout it becomes part of the package. Scoring makes the first test fields again, or
with ``--whole`` all of them, and compares the errors with those of the card: the study ends with status 1 where they
differ by more than a thousandth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from studies.kit.choices import require_known
from studies.kit.study import finished, opened
from studies.zoo import digits, fields
from studies.zoo.recipes import RECIPES
from studies.zoo.report import answer, draw, print_report

DIGITS = digits.NAME
NAMES = (*RECIPES, DIGITS)
TOLERANCE = 1e-3  # relative, between a card and the same errors computed again


@dataclass(frozen=True)
class Config:
    models: tuple[str, ...] = ()  # which; default those of the recipes, or of the package where they are scored
    part: Literal["train", "score"] = "train"
    """train: make the models and their cards. score: compare the cards of the package with errors computed again"""
    whole: bool = False  # score: everything that a card states, not the errors of its first test samples alone
    into: Path | None = None  # folder that the models are copied to, one folder each
    threads: int = 2  # of torch
    output: Path = Path("runs/zoo")  # folder for the fields, the runs, results.json and the figure


PRESETS = {
    "quick": Config(models=("burgers256",)),
    "score": Config(part="score", output=Path("runs/zoo_score")),
    "full": Config(models=NAMES),
}


def run(config: Config) -> dict[str, Any]:
    """Trains or scores, prints the table, writes results.json and figures/zoo.png; returns the results.

    Raises ValueError for unknown models, and RuntimeError, after writing, for cards that are not met.
    """
    from sciops import zoo
    from studies.kit.timing import threads

    score = config.part == "score"
    names = config.models or (tuple(zoo.names()) if score else NAMES)
    require_known("--models", names, tuple(zoo.names()) if score else NAMES)
    folder = opened(config, seeds=[0, 1])
    with threads(config.threads):
        rows = [scored(name, folder.path, config.whole) if score else _trained(name, config) for name in names]
    wrong = [row["name"] for row in rows if row["difference"] > TOLERANCE]
    message = f"the card of {', '.join(wrong)} is not met" if wrong else ""
    how = {"answer": answer, "picture": "zoo.png", "wrong": message}
    return finished(folder, {"models": rows}, draw, print_report, **how)


def _trained(name: str, config: Config) -> dict[str, Any]:
    make = digits.trained if name == DIGITS else fields.trained
    card = make(name, Path(config.output), config.into)
    return {"name": name, "error": card.error, "card": card.error, "difference": 0.0, "seconds": card.seconds}


def scored(name: str, output: Path, whole: bool = False) -> dict[str, Any]:
    """A row of the table: the numbers on a card, computed again on test samples that are made anew under `output`.

    whole : all numbers, on all test samples; else the errors of the first ones
    """
    from sciops import zoo

    card, kind = zoo.card(name), digits if name == DIGITS else fields
    if whole:
        found, stated = (_numbers(one) for one in (kind.measured(name, zoo.folder_of(name), output), vars(card)))
        both = {"error": found[0], "card": stated[0]}
    else:
        found, stated = kind.errors(name, zoo.folder_of(name), output, len(card.check)), list(card.check)
        both = {"error": sum(found) / len(found), "card": sum(stated) / len(stated)}
    apart = max(abs(a - b) / max(abs(b), 1e-6) for a, b in zip(found, stated, strict=True))
    return {"name": name, **both, "difference": float(apart), "seconds": None}


def _numbers(card: Mapping[str, Any]) -> list[float]:
    """The measured numbers of a card, its error first."""
    shifted = [row[key] for row in card.get("shift", ()) for key in ("direct", "resampled")]
    others = (card.get("baseline") or {}).values()
    return [*(card[key] for key in ("error", "spread", "worst")), *card["check"], *shifted, *others]
