"""From which layer on a regime can be read, and where its disadvantage enters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import paired_verdict
from sciops.evaluation.fairness import RegimeErrors
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
    regimes: RegimeErrors,
    config: Config,
) -> dict[str, Any]:
    """Probes of every layer, fitted on validation fields and judged on test fields.

    "read" : factor → errors of a linear probe of pooled features, for trained and untrained weights and shuffled
        labels, and the first layer that says more than what is given
    "flag" : how much of the variance of the model's own log error a ridge probe of each layer explains
    "gap" : errors of the coarse solution read from each layer, of the level with the largest effect and its reference
    """
    layers = ["input", *(f"block {i}" for i in range(1, config.depth + 1))]
    held = _rows_of(factors, test, validation)
    read = {name: _read(found, name, values, held[name], layers, test) for name, values in factors.items()}
    return {
        "layers": layers,
        "read": read,
        "flag": _flag(found, layers),
        "gap": _gap(found, factors, layers, test, validation, regimes),
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
            inner = [layer for layer in layers if kind == "trained" or layer != "input"]
            known = {layer: arrays[f"{start}pooled, {layer} of validation"] for layer in inner}
            asked = {layer: arrays[f"{start}pooled, {layer}"] for layer in inner}
            wrong = probe_errors(known, wanted, asked, truth, strength=1.0)
            errors[kind].append([wrong[layer] for layer in inner])
    of = {kind: np.array(values) for kind, values in errors.items()}  # (seeds, layers, rows)
    inner = layers[1:]
    given = of["trained"][:, 0]
    level = 1 - 0.05 / len(inner)
    onset = None
    verdicts = []
    for place, layer in enumerate(inner):
        mine = of["trained"][:, 1 + place]
        said = {
            "more than the input": _verdict(mine, given, test.field, level),
            "more than untrained": _verdict(mine, of["untrained"][:, place], test.field, level),
            "more than shuffled labels": _verdict(mine, of["shuffled"][:, place], test.field, level),
        }
        verdicts.append({"layer": layer, **said})
        if onset is None and said["more than the input"]["winner"] == "first":
            onset = layer
    return {
        "guessing": 1 - float(np.unique(truth, return_counts=True)[1].max()) / len(truth),
        **{kind: values.mean(axis=-1).tolist() for kind, values in of.items()},
        "verdicts": verdicts,
        "onset": onset,
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
    regimes: RegimeErrors,
) -> dict[str, Any]:
    """By layer: the error of the coarse solution, of a level against its reference."""
    effects = [one for one in regimes.effects if one.factor in factors]
    largest = max(effects, key=lambda one: abs(math.log(one.ratio)))
    levels = (largest.level, largest.reference)
    if largest.ratio < 1:
        levels = levels[::-1]
    targets = {"test": _coarse(test.y.numpy()), "validation": _coarse(validation.y.numpy())}
    errors = []
    for arrays in found.models:
        known = {layer: arrays[f"coarse, {layer} of validation"] for layer in layers}
        asked = {layer: arrays[f"coarse, {layer}"] for layer in layers}
        one = probe_errors(known, targets["validation"], asked, targets["test"], strength=0.01)
        errors.append([one[layer] for layer in layers])
    every = np.array(errors)  # (seeds, layers, rows)
    values = factors[largest.factor]
    level = 1 - 0.05 / len(layers)
    rows, onset = [], None
    for place, layer in enumerate(layers):
        parts = [_by_field(every[:, place], values == one, test.field) for one in levels]
        ratio = paired_verdict(*parts, log=True, level=level)
        rows.append({"layer": layer, "errors": [float(p.mean()) for p in parts], "ratio": asdict(ratio)})
        if onset is None and ratio.winner == "second":
            onset = layer
    return {"factor": largest.factor, "levels": list(levels), "by layer": rows, "onset": onset}


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
