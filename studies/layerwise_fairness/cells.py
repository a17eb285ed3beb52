"""Probes of every layer of one seed's models."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sciops.evaluation.probes import balanced_weights, depth_curves, probe_errors, shuffled
from studies.kit.accents import ACCENTS, REFERENCE, accent_states, blocks
from studies.kit.cells import kept
from studies.kit.fields.rough import NETWORKS, field_states

GROUP = "en-029"


def speech_cell(folder: Path, seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Arm → task → curves: identity is which of the voices of its accent, content is which phoneme.

    Content is tested on voices and sentences that neither a probe nor a fine-tuning has heard.
    """
    return kept(folder / "cells", f"speech-{seed}", dict(options, seed=seed), lambda: _speech(folder, seed, options))


def field_cell(folder: Path, seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Network and arm → task → curves: identity is the contrast, content is where the solution leans to."""
    return kept(folder / "cells", f"fields-{seed}", dict(options, seed=seed), lambda: _fields(folder, seed, options))


def _speech(folder: Path, seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
    segments, states, record = accent_states(folder / "data", seed, options, hold_sentences=True)
    train, test = blocks(segments, seed)[0]  # neither voices nor sentences in common
    said = np.unique(segments.sentence)
    half = np.isin(segments.sentence, np.random.default_rng([seed, 7]).permutation(said)[: len(said) // 2])
    about = {"reference": REFERENCE, "group": GROUP, "seed": seed, "draws": options["draws"]}
    arms: dict[str, Any] = {}
    for arm, layers in states.items():
        one: dict[str, Any] = {}
        for rule in ("balanced", "reference"):
            rows = train if rule == "balanced" else train & (segments.accent == REFERENCE)
            errors = _errors(layers, segments.phoneme, rows, test, segments.accent, options["strength"])
            whose = segments.speaker[test], segments.accent[test]
            one["content" if rule == "balanced" else "content, reference probe"] = _curves(errors, *whose, **about)
        # the same number of speakers in every group: with more of them there are more to be confused with
        parts = [
            _errors(layers, segments.speaker, half & own, ~half & own, segments.accent, options["strength"])
            for own in (segments.accent == accent for accent in ACCENTS)
        ]
        who = [segments.speaker[~half & (segments.accent == accent)] for accent in ACCENTS]
        of = np.concatenate([np.full(len(names), accent) for names, accent in zip(who, ACCENTS)])
        errors = {name: np.concatenate([part[name] for part in parts]) for name in layers}
        one["identity"] = _curves(errors, np.concatenate(who), of, **about)
        accent = _errors(layers, segments.accent, train, test, segments.accent, options["strength"])
        one["accent"] = {name: float(e.mean()) for name, e in accent.items()}
        if arm in ("log-mel", "pre-trained"):
            one["controls"] = _controls(
                layers, segments.phoneme, train, test, segments.accent, seed, options["strength"]
            )
        arms[arm] = one
    return {"arms": arms, "training": record, "classes": len(np.unique(segments.phoneme)), "segments": len(train)}


def _fields(folder: Path, seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
    arms: dict[str, Any] = {}
    training: dict[str, Any] = {}
    for network in NETWORKS:
        labels, states, training[network] = field_states(folder / "data", network, seed, options)[:3]
        group = labels["group"]
        train = np.random.default_rng([seed, 8]).uniform(size=len(group)) < 0.5
        about = {"reference": "smooth", "group": "rough", "seed": seed, "draws": options["draws"]}
        for arm, layers in states.items():
            one: dict[str, Any] = {}
            for task in ("identity", "content"):
                errors = _errors(layers, labels[task], train, ~train, group, options["strength"])
                one[task] = _curves(errors, np.flatnonzero(~train), group[~train], **about)
            if arm in ("input", "trained"):
                one["controls"] = _controls(layers, labels["content"], train, ~train, group, seed, options["strength"])
            arms["input" if arm == "input" else f"{network}, {arm}"] = one
    return {"arms": arms, "training": training}


def _errors(
    layers: Mapping[str, np.ndarray], labels: Any, train: Any, test: Any, groups: Any, strength: float
) -> dict[str, np.ndarray]:
    """Errors of a linear probe of every layer, all groups with equal weight in its training."""
    rows = ({name: h[part] for name, h in layers.items()} for part in (train, test))
    first, second = rows
    weights = balanced_weights(np.asarray(groups)[train])
    return probe_errors(first, labels[train], second, labels[test], strength=strength, weights=weights)


def _curves(errors: Mapping[str, Any], clusters: Any, groups: Any, **about: Any) -> dict[str, Any]:
    found = depth_curves(errors, clusters, groups, **about)
    return {
        "layers": found.layers,
        "groups": dict(zip(found.groups, found.errors.tolist())),
        "bias": {scale: _listed(values) for scale, values in found.bias.items()},
        "low": {scale: _listed(values) for scale, values in found.low.items()},
        "high": {scale: _listed(values) for scale, values in found.high.items()},
        "trend": {scale: None if np.isnan(value) else value for scale, value in found.trend.items()},
        "onset": found.emergence,
        "warning": found.warning,
    }


def _listed(values: np.ndarray) -> list[float | None]:
    """The values, None for a ratio to no error at all."""
    return [float(v) if np.isfinite(v) else None for v in values]


def _controls(
    layers: Mapping[str, np.ndarray],
    labels: Any,
    train: np.ndarray,
    test: np.ndarray,
    groups: Any,
    seed: int,
    strength: float,
) -> dict[str, Any]:
    """Errors of a probe of shuffled labels, and of one with a hidden layer; by layer."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    mixed = shuffled(labels, seed=seed, within=train.astype(int))
    control = _errors(layers, mixed, train, test, groups, strength)
    found: dict[str, Any] = {"shuffled": {name: float(e.mean()) for name, e in control.items()}, "hidden layer": {}}
    for name, h in layers.items():
        center, scale = h[train].mean(0), h[train].std(0) + 1e-12
        x = (h - center) / scale
        probe = MLPClassifier((64,), alpha=strength / 10, max_iter=40, random_state=seed, early_stopping=True)
        with warnings.catch_warnings():  # the length of training is part of the probe
            warnings.simplefilter("ignore", ConvergenceWarning)
            probe.fit(x[train], labels[train])
        found["hidden layer"][name] = float((probe.predict(x[test]) != labels[test]).mean())
    return found
