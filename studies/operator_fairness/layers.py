"""From which layer on a regime can be read, and where its disadvantage enters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import paired_verdict
from sciops.evaluation.probes import probe_errors, shuffled
from studies.operator_fairness.networks import COARSE

if TYPE_CHECKING:
    from studies.operator_fairness import Config
    from studies.operator_fairness.problems import Problems
    from studies.operator_fairness.runs import Found

_SMALLEST = 0.05
"""Smallest difference of a share of wrong guesses that counts."""


def layer_results(
    found: Found,
    factors: Mapping[str, np.ndarray],
    test: Problems,
    validation: Problems,
    largest: tuple[str, str, str],
    config: Config,
) -> dict[str, Any]:
    """Probes of every layer, fitted on validation fields and judged on test fields.

    "read" : factor → errors of a linear probe of pooled features, for trained and untrained weights and shuffled
        labels; the first layer that says more than shuffled labels do, and the first that says more than untrained
    "flag" : how much of the variance of the model's own log error a ridge probe of each layer explains
    "gap" : errors of the coarse solution read from each layer, for two levels of one factor

    largest : (factor, worse level, better level)
    """
    layers = ["input", *(f"block {i}" for i in range(1, config.depth + 1))]
    held = _rows_of(factors, test, validation)
    read = {name: _read(found, name, values, held[name], layers, test) for name, values in factors.items()}
    return {
        "layers": layers,
        "read": read,
        "flag": _flag(found, layers),
        "gap": _gap(found, factors, layers, test, validation, largest),
    }


def _rows_of(factors: Mapping[str, np.ndarray], test: Problems, validation: Problems) -> dict[str, np.ndarray]:
    """Labels of the validation rows: those of the test rows of the same regime."""
    first = {int(k): i for i, k in reversed(list(enumerate(test.regime)))}
    return {name: np.array([values[first[int(k)]] for k in validation.regime]) for name, values in factors.items()}


def _read(
    found: Found, name: str, labels: np.ndarray, held: np.ndarray, layers: list[str], test: Problems
) -> dict[str, Any]:
    truth = labels.astype(str)
    errors: dict[str, list[list[np.ndarray]]] = {kind: [] for kind in ("trained", "untrained", "shuffled")}
    for seed, arrays in enumerate(found.models):
        random = shuffled(held.astype(str), seed=seed)
        for kind, start, wanted in (
            ("trained", "", held.astype(str)),
            ("untrained", "untrained, ", held.astype(str)),
            ("shuffled", "", random),
        ):
            # of untrained weights the input is the same
            inner = [layer for layer in layers if kind != "untrained" or layer != "input"]
            known = {layer: arrays[f"{start}pooled, {layer} of validation"] for layer in inner}
            asked = {layer: arrays[f"{start}pooled, {layer}"] for layer in inner}
            wrong = probe_errors(known, wanted, asked, truth, strength=1.0)
            errors[kind].append([wrong[layer] for layer in inner])
    of = {kind: np.array(values) for kind, values in errors.items()}  # (seeds, layers, rows)
    level = 1 - 0.05 / len(layers)
    verdicts: list[dict[str, Any]] = []
    for place, layer in enumerate(layers):
        mine = of["trained"][:, place]
        row = {"layer": layer, "shuffled": _verdict(mine, of["shuffled"][:, place], test.field, level)}
        if place:
            row["untrained"] = _verdict(mine, of["untrained"][:, place - 1], test.field, level)
        verdicts.append(row)

    def first(against: str) -> str | None:
        return next((row["layer"] for row in verdicts if row.get(against, {}).get("winner") == "first"), None)

    return {
        "guessing": 1 - float(np.unique(truth, return_counts=True)[1].max()) / len(truth),
        **{kind: values.mean(axis=-1).tolist() for kind, values in of.items()},
        "verdicts": verdicts,
        "read from": first("shuffled"),
        "learned from": first("untrained"),
    }


def _flag(found: Found, layers: list[str]) -> list[list[float]]:
    """(seeds, layers) share of the variance of ln(error) over test rows that a ridge probe explains."""
    shares = []
    for arrays in found.models:
        known = {layer: arrays[f"pooled, {layer} of validation"] for layer in layers}
        asked = {layer: arrays[f"pooled, {layer}"] for layer in layers}
        train, own = np.log(arrays["errors of validation"]), np.log(arrays["errors"])
        missed = probe_errors(known, train, asked, own, strength=0.01)
        scale = float(((train - train.mean()) ** 2).mean())
        rest = float(((own - own.mean()) ** 2).mean())
        shares.append([1 - float(missed[layer].mean()) * scale / rest for layer in layers])
    return shares


def _gap(
    found: Found,
    factors: Mapping[str, np.ndarray],
    layers: list[str],
    test: Problems,
    validation: Problems,
    largest: tuple[str, str, str],
) -> dict[str, Any]:
    """By layer: errors of the coarse solution at two levels; growth of their ratio from the input to the last layer."""
    factor, *levels = largest
    targets = {"test": _coarse(test.y.numpy()), "validation": _coarse(validation.y.numpy())}
    errors = []
    for arrays in found.models:
        known = {layer: arrays[f"coarse, {layer} of validation"] for layer in layers}
        asked = {layer: arrays[f"coarse, {layer}"] for layer in layers}
        one = probe_errors(known, targets["validation"], asked, targets["test"], strength=0.01)
        errors.append([one[layer] for layer in layers])
    every = np.array(errors)  # (seeds, layers, rows)
    values = factors[factor]
    level = 1 - 0.05 / len(layers)
    rows, logs = [], []
    for place, layer in enumerate(layers):
        parts = [_by_field(every[:, place], values == one, test.field) for one in levels]
        logs.append(np.log(parts[0]) - np.log(parts[1]))
        rows.append(
            {
                "layer": layer,
                "errors": [float(p.mean()) for p in parts],
                "ratio": asdict(paired_verdict(*parts, log=True, level=level)),
                "difference": asdict(paired_verdict(*parts, level=level)),
            }
        )
    onset = next((row["layer"] for row in rows if row["ratio"]["winner"] == "second"), None)
    growth = asdict(paired_verdict(logs[-1], logs[0]))
    return {"factor": factor, "levels": levels, "by layer": rows, "onset": onset, "growth": growth}


def _coarse(u: np.ndarray) -> np.ndarray:
    """(rows, 16) means of a solution over 4 × 4 boxes, over its root mean square."""
    n = u.shape[-1] // COARSE
    cut = u[:, 0, : n * COARSE, : n * COARSE].astype(np.float64)
    boxes = cut.reshape(len(u), COARSE, n, COARSE, n).mean(axis=(2, 4)).reshape(len(u), -1)
    return np.asarray(boxes / np.sqrt((u[:, 0].astype(np.float64) ** 2).mean(axis=(1, 2)))[:, None])


def _by_field(errors: np.ndarray, rows: np.ndarray, field: np.ndarray) -> np.ndarray:
    """(seeds, fields) mean errors over the rows of a field."""
    _, index = np.unique(field[rows], return_inverse=True)
    return np.stack([np.bincount(index, weights=one[rows]) for one in errors]) / np.bincount(index)


def _verdict(first: np.ndarray, second: np.ndarray, field: np.ndarray, level: float) -> dict[str, Any]:
    rows = np.ones(len(field), dtype=bool)
    parts = (_by_field(one, rows, field) for one in (first, second))
    return asdict(paired_verdict(*parts, smallest=_SMALLEST, level=level))
