"""Random and systematic errors planted on speech features, alone and together: are all four cells typed right?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sciops.evaluation.probes import split_gap

CELLS = {  # (systematic, random) → the verdict required
    (False, False): "none",
    (True, False): "systematic, removed by centring",
    (False, True): "random",
    (True, True): "both",
}


def some_recordings(utterance: np.ndarray, seed: int) -> np.ndarray:
    """(segments,) True for one half of the recordings: a group that differs from the rest in nothing else."""
    made = np.unique(utterance)
    return np.isin(utterance, np.random.default_rng([seed, 21]).permutation(made)[: len(made) // 2])


def crossed(
    h: np.ndarray,
    phoneme: np.ndarray,
    voice: np.ndarray,
    other: np.ndarray,
    seed: int,
    *,
    shift: float,
    noise: float,
    **options: Any,
) -> list[dict[str, Any]]:
    """The four cells, on segments of one accent of which `other` marks the group.

    A shift moves the group by so many deviations within classes along the direction in which class means differ most; a
    noise adds so many times the covariance within classes.
    """
    classes, index = np.unique(phoneme, return_inverse=True)
    means = np.stack([h[index == i].mean(axis=0) for i in range(len(classes))])
    values, axes = np.linalg.eigh(np.cov((h - means[index]).T))
    values = np.maximum(values, 1e-9 * values[-1])
    color, white = axes * np.sqrt(values), axes / np.sqrt(values)  # from white coordinates, and to them
    _, _, along = np.linalg.svd((means - means.mean(axis=0)) @ white, full_matrices=False)
    rng = np.random.default_rng([seed, 22])
    added = rng.standard_normal(h.shape) @ color.T
    rows = []
    for (systematic, random), required in CELLS.items():
        moved = h + other[:, None] * (systematic * shift * along[0] @ color.T + random * np.sqrt(noise) * added)
        rows.append(
            {"systematic planted": systematic, "random planted": random, "required": required}
            | parts_of(moved, phoneme, np.where(other, "B", "A"), voice, "A", "B", seed=seed, **options)
        )
    return rows


def parts_of(
    h: np.ndarray,
    phoneme: np.ndarray,
    group: np.ndarray,
    voice: np.ndarray,
    reference: str,
    other: str,
    **options: Any,
) -> dict[str, Any]:
    """The verdict of `split_gap`, its parts and their intervals; a voice is held out in all groups together."""
    both = np.isin(group, [reference, other])
    speaker = np.char.add(np.char.add(group.astype(str), "+"), voice.astype(str))
    given: dict[str, Any] = {"match_clusters": True, "average": "classes", "probe": "discriminant", "rule": "reference"}
    given |= options
    for name in ("train", "test"):
        given[name] = np.asarray(given[name])[..., both]
    found = split_gap(
        h[both], phoneme[both], group[both], speaker[both], reference=reference, group=other, units=voice[both], **given
    )
    return summary(found)


def summary(found: Any) -> dict[str, Any]:
    """What is kept of a `GapSplit`."""
    parts = {name: getattr(found, name) for name in ("gap", "irreducible", "systematic", "centred", "whitened")}
    intervals = {name: getattr(found, f"{name}_interval") for name in parts if name != "gap"}
    own = found.errors[found.group, found.group]
    return parts | {"intervals": intervals, "verdict": found.verdict, "removed by": found.removed_by, "own": own}


def held_out(
    h: np.ndarray, phoneme: np.ndarray, voice: np.ndarray, sentence: np.ndarray, seed: int, **options: Any
) -> dict[str, dict[str, Any]]:
    """Parts of the gap between two random halves of the sentences, with sentences held out beside the voices or not.

    The halves differ in nothing but their sentences. All parts are 0 in truth; a group's own probe that has heard its
    test sentences from other voices finds a systematic part.

    options : "train" and "test" are the folds that hold out both
    """
    said = np.unique(sentence)
    other = np.isin(sentence, np.random.default_rng([seed, 24]).permutation(said)[: len(said) // 2])
    group = np.where(other, "B", "A")
    first = np.isin(voice, voice[options["train"][0]])
    known = {**options, "train": np.stack([first, ~first]), "test": np.stack([~first, first])}
    return {
        name: parts_of(h, phoneme, group, voice, "A", "B", seed=seed, **given)
        for name, given in (("voices", known), ("voices and sentences", options))
    }


def audible(
    segments: Mapping[str, np.ndarray],
    clean: np.ndarray,
    noisy: np.ndarray,
    reference: str,
    accent: str,
    **options: Any,
) -> list[dict[str, Any]]:
    """The same four cells in the audio: half of the recordings in another accent, or in more noise, or both.

    segments : "phoneme", "accent", "voice", "other" (the half of the recordings) of every segment; clean, noisy : its
    features at both levels of noise
    """
    rows = []
    for (systematic, random), required in CELLS.items():
        chosen = ~segments["other"] & (segments["accent"] == reference)
        chosen |= segments["other"] & (segments["accent"] == (accent if systematic else reference))
        h = np.where((segments["other"] & random)[:, None], noisy, clean)[chosen]
        group = np.where(segments["other"][chosen], "B", "A")
        held = {name: options[name][:, chosen] for name in ("train", "test")}
        found = parts_of(
            h, segments["phoneme"][chosen], group, segments["voice"][chosen], "A", "B", **{**options, **held}
        )
        rows.append({"systematic planted": systematic, "random planted": random, "required": required} | found)
    return rows
