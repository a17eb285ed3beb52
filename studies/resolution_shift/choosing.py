"""Rate, weight decay and length of training of every arm, chosen among the same candidates on validation fields."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciops.files.digest import read_sealed
from studies.resolution_shift.arms import ARMS, weights_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from studies.resolution_shift import ResolutionShiftConfig

SEED = 1000  # of the trainings that choose: none of the seeds that are judged


@dataclass(frozen=True)
class Choice:
    """How an arm is trained: peak rate of the one-cycle schedule, weight decay, epochs."""

    learning_rate: float
    weight_decay: float
    epochs: int


def default_choice(config: ResolutionShiftConfig, name: str) -> Choice:
    """What the arm itself says, where nothing is chosen."""
    arm = ARMS[config.recipe][name]
    return Choice(arm.learning_rate, arm.weight_decay, arm.epochs or config.epochs)


def choose(
    config: ResolutionShiftConfig, train: Callable[[Iterable[tuple[str, Choice]]], list[Path]]
) -> tuple[dict[str, Choice], list[dict[str, Any]]]:
    """(choice by arm, a row per candidate and arm) on the first training grid, with one seed that is not judged.

    All pairs of rate and decay are trained for the fewest epochs; the best of them is trained for the other lengths.
    The least error on the validation fields decides; test fields are not read. Without candidates the arms are trained
    as they say; with `config.choices` as an earlier run has chosen.

    train : trains (arm, choice) pairs and returns the folders of the models, in order
    """
    names = list(dict.fromkeys(weights_of(config.recipe, arm) for arm in config.arms))
    if config.choices is not None:
        return _read(config, names), []
    if not config.rates:
        return {name: default_choice(config, name) for name in names}, []
    shortest, *longer = sorted(config.lengths)
    pairs = [(name, Choice(*both, shortest)) for name in names for both in product(config.rates, config.decays)]
    rows = _scored(pairs, train(pairs))
    best = {name: min((r for r in rows if r["arm"] == name), key=_validation) for name in names}
    pairs = [
        (name, Choice(best[name]["learning_rate"], best[name]["weight_decay"], epochs))
        for name in names
        for epochs in longer
    ]
    rows += _scored(pairs, train(pairs))
    chosen = {}
    for name in names:
        row = min((r for r in rows if r["arm"] == name), key=_validation)
        row["chosen"] = True
        chosen[name] = Choice(row["learning_rate"], row["weight_decay"], row["epochs"])
    return chosen, rows


def _scored(pairs: list[tuple[str, Choice]], folders: list[Path]) -> list[dict[str, Any]]:
    rows = []
    for (name, choice), folder in zip(pairs, folders):
        found = read_sealed(folder / "results.json")
        score = {"validation": found["validation"], "seconds": found["seconds"], "chosen": False}
        rows.append({"arm": name, **asdict(choice), **score})
    return rows


def _validation(row: dict[str, Any]) -> float:
    return row["validation"]


def _read(config: ResolutionShiftConfig, names: list[str]) -> dict[str, Choice]:
    rows = [row for row in json.loads(config.choices.read_text()).get("choices", []) if row["chosen"]]
    found = {row["arm"]: Choice(row["learning_rate"], row["weight_decay"], row["epochs"]) for row in rows}
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(f"--choices {config.choices}: no choice for {', '.join(missing)}; it has {', '.join(found)}")
    return {name: found[name] for name in names}
