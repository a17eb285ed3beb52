"""Choices on validation data: the temperature of a training, and the options of an arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def best_temperature(measured: Mapping[str, Any], wanted: float) -> tuple[int, tuple[bool, float]]:
    """(index of the temperature, score): most recall on validation data among those of the wanted mean precision.

    Where none has it, the most precise one. Scores of trainings compare in their order.
    """
    precision, recall = (np.mean(measured["validation"][key], axis=1) for key in ("precision", "recall"))
    reached = precision >= wanted
    score = recall if reached.any() else precision
    at = int(np.argmax(np.where(reached, score, -1) if reached.any() else score))
    return at, (bool(reached.any()), float(score[at]))


def best_choice(records: Sequence[Mapping[str, Any]], wanted: float) -> int:
    """The number of the options under which the arm scores best, each at its own best temperature."""
    return max(records, key=lambda r: best_temperature(r["measured"], wanted)[1])["choice"]


def at_precision(record: Mapping[str, Any], wanted: float) -> dict[str, Any]:
    """{"temperature" (its index), "precision", "recall"}, these by test group, at the temperature of validation."""
    at, _ = best_temperature(record["measured"], wanted)
    test = record["measured"]["test"]
    return {"temperature": at, "precision": np.array(test["precision"][at]), "recall": np.array(test["recall"][at])}


def best_alpha(record: Mapping[str, Any]) -> np.ndarray:
    """α_1 by test group at the temperature that has the largest on validation data."""
    measured = record["measured"]
    return np.array(measured["test"]["alpha"][int(np.argmax(np.mean(measured["validation"]["alpha"], axis=1)))])
