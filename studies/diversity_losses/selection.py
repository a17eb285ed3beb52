"""Choices on validation data: the temperature of a training at a wanted precision, and the options of an arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def best_temperature(measured: Mapping[str, Any], wanted: float) -> int | None:
    """The index of the temperature with most recall on validation data among those of the wanted mean precision.

    None where no temperature has it.
    """
    precision, recall = (np.mean(measured["validation"][key], axis=1) for key in ("precision", "recall"))
    reached = precision >= wanted
    return int(np.argmax(np.where(reached, recall, -1))) if reached.any() else None


def score(measured: Mapping[str, Any], wanted: Sequence[float]) -> tuple[float, float]:
    """(recall on validation data, mean over the wanted precisions, 0 for one not reached; best α_1), to be compared."""
    recall = np.mean(measured["validation"]["recall"], axis=1)
    found = [best_temperature(measured, one) for one in wanted]
    mean = float(np.mean([0.0 if at is None else recall[at] for at in found]))
    return mean, float(np.mean(measured["validation"]["alpha"], axis=1).max())


def best_choice(records: Sequence[Mapping[str, Any]], wanted: Sequence[float]) -> int:
    """The number of the options under which the arm scores best."""
    return max(records, key=lambda r: score(r["measured"], wanted))["choice"]


def matched(measured: Mapping[str, Any], wanted: float) -> tuple[int, float] | None:
    """(index i, share s): the point (1 − s)·[temperature i] + s·[temperature i + 1] that is compared.

    Where the next temperature is too imprecise on validation data, the point between the two whose precision there is
    the wanted one: otherwise an arm would gain by the place of its temperatures on the ladder.
    """
    at = best_temperature(measured, wanted)
    if at is None:
        return None
    precision = np.mean(measured["validation"]["precision"], axis=1)
    if at + 1 == len(precision) or precision[at + 1] >= wanted:
        return at, 0.0
    return at, float((precision[at] - wanted) / (precision[at] - precision[at + 1]))


def at_precision(record: Mapping[str, Any], wanted: float, measure: str = "recall") -> np.ndarray | None:
    """A measure by test group at the point of `matched`; None where the wanted precision is not reached."""
    found = matched(record["measured"], wanted)
    if found is None:
        return None
    at, share = found
    values = record["measured"]["test"][measure]
    return (1 - share) * np.array(values[at]) + share * np.array(values[min(at + 1, len(values) - 1)])


def best_alpha(record: Mapping[str, Any]) -> np.ndarray:
    """α_1 by test group at the temperature that has the largest on validation data."""
    measured = record["measured"]
    return np.array(measured["test"]["alpha"][int(np.argmax(np.mean(measured["validation"]["alpha"], axis=1)))])
