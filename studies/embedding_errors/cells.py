"""Cells of the study: planted populations, one seed's encoders, one seed's surrogates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sciops.evaluation.probes import (
    balanced_weights,
    common_classes,
    group_shift,
    neighbour_purity,
    probe_errors,
    rank_correlation,
    relative_scatter,
    scatter,
    split_gap,
    squared_shift,
    transfer_matrix,
)
from studies.embedding_errors import plants
from studies.embedding_errors.crossing import audible, crossed, held_out, parts_of, some_recordings, summary
from studies.kit.accents import ACCENTS, REFERENCE, Segments, accent_states, blocks
from studies.kit.cells import kept, kept_arrays
from studies.kit.fields.rough import NETWORKS, field_states

GROUPS = tuple(accent for accent in ACCENTS if accent != REFERENCE)
GROUP = "en-029"  # the group of tables that have room for one
TUNED = {"fine-tuned": 0.0, "adversarial": 10.0, "enhancing": -1.0}  # strength of the reversed gradient
HEAD_STEPS = 5  # of the domain head on each batch: one that lags behind hides nothing
WHOLE = ("pre-trained", "fine-tuned")  # arms of which every layer is probed
PROBE: dict[str, Any] = {"probe": "discriminant", "average": "classes"}
LINKED = ("log-mel", "random", "pre-trained")  # arms that know no labels: all voices can be tested
CONTROLLED = ("log-mel", "pre-trained")


def plant_cell(folder: Path, seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Every plant of one seed, the unbiased estimates, and adversarial training of a linear encoder."""

    def make() -> dict[str, Any]:
        tuned = {
            f"{name}; λ = {strength:g}": plants.adversarial(
                name, strength, options["plant_samples"] // 2, options["plant_steps"], seed
            )
            for name in plants.ADVERSARIAL
            for strength in (0.0, 1.0)
        }
        found = {name: plants.planted(name, options["plant_samples"], seed) for name in plants.PLANTS}
        return {"plants": found, "unbiased": plants.unbiased(options["plant_draws"], seed), "adversarial": tuned}

    return kept(folder / "cells", f"plants-{seed}", dict(options, seed=seed), make)


def random_cell(folder: Path, clusters: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Share of random groups in which a part is found."""

    def make() -> dict[str, Any]:
        return {"clusters": clusters, **plants.random_groups(options["random_draws"], clusters, 0)}

    return kept(folder / "cells", f"random-{clusters}", dict(options, clusters=clusters), make)


def speech_cell(folder: Path, seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Arm → layer → parts of the gaps and geometry; links, plants on features, controls."""
    return kept(folder / "cells", f"speech-{seed}", dict(options, seed=seed), lambda: _speech(folder, seed, options))


def field_cell(folder: Path, seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Network → arm → layer → parts of the gaps and geometry of two tasks."""

    def make() -> dict[str, Any]:
        return {network: _fields(folder, network, seed, options) for network in NETWORKS}

    return kept(folder / "cells", f"fields-{seed}", dict(options, seed=seed), make)


def field_arrays(folder: Path, network: str, seed: int, options: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Labels, "state/arm/layer", "prediction" and "target" of one surrogate, trained once."""
    trained = {name: options[name] for name in ("points", "fields", "field_steps", "field_width", "field_depth")}

    def make() -> dict[str, np.ndarray]:
        found = field_states(folder / "data", network, seed, options)
        states = {
            f"state/{arm}/{layer}": h.astype(np.float32) for arm, of in found.states.items() for layer, h in of.items()
        }
        return {**found.labels, **states, "prediction": found.prediction, "target": found.target}

    return kept_arrays(folder / "data", f"{network}-{seed}", dict(trained, seed=seed, network=network), make)


def _speech(folder: Path, seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
    noisy = f"log-mel, {options['low_snr']:g} dB"
    every, states, training = accent_states(
        folder / "data",
        seed,
        options,
        tuned=TUNED,
        jitters=options["jitters"],
        snrs=[options["low_snr"]],
        hold_sentences=True,
        head_steps=HEAD_STEPS,
    )
    folds = blocks(every, seed)
    keep = common_classes(every.phoneme, every.accent, fewest=options["fewest"])
    segments = Segments(*(column[keep] for column in every))
    states = {arm: {layer: h[keep] for layer, h in layers.items()} for arm, layers in states.items()}
    voice = np.array([name.split("+")[1] for name in segments.speaker])
    taught, asked = (np.stack([fold[side][keep] for fold in folds]) for side in (0, 1))
    given = {"strength": options["strength"], "draws": options["draws"], "seed": seed}
    free = {"train": taught, "test": asked, "repeats": 1, **given}  # all voices and sentences tested
    about = {"train": taught[0], "test": asked[0], "repeats": 3, **given}  # none that fine-tuning has heard
    arms: dict[str, Any] = {}
    for arm in ("log-mel", "random", "pre-trained", *TUNED):
        layers = [*states[arm]]
        arms[arm] = {
            name: _spoken(states[arm][name], segments, voice, about, name == layers[-1])
            for name in (layers if arm in WHOLE else layers[-1:])
        }
    last = {arm: [*layers.values()][-1] for arm, layers in states.items()}
    own, other = segments.accent == REFERENCE, some_recordings(segments.utterance, seed)
    plant = {"shift": options["shift"], "noise": options["noise"], "smallest": options["smallest"], **free}
    plant |= {"train": taught[:, own], "test": asked[:, own], "repeats": 2}
    plain = {key: value for key, value in plant.items() if key not in ("shift", "noise")}
    planted = {
        arm: crossed(last[arm][own], segments.phoneme[own], voice[own], other[own], **plant) for arm in CONTROLLED
    }
    halves = {
        arm: held_out(last[arm][own], segments.phoneme[own], voice[own], segments.sentence[own], **plain)
        for arm in CONTROLLED
    }
    columns = {"phoneme": segments.phoneme, "accent": segments.accent, "voice": voice, "other": other}
    heard = audible(
        columns, last["log-mel"], last[noisy], REFERENCE, GROUP, **{**free, "repeats": 2}, smallest=options["smallest"]
    )
    return {
        "arms": arms,
        "links": {arm: _linked(last[arm], segments, voice, free) for arm in LINKED},
        "crossing": {**planted, "audio (log-mel)": heard},
        "held out": halves,
        "controls": {arm: _controls(arm, last, segments, voice, free, options) for arm in CONTROLLED},
        "training": training,
        "segments": len(voice),
        "classes": len(np.unique(segments.phoneme)),
    }


def _spoken(
    h: np.ndarray, segments: Segments, voice: np.ndarray, about: Mapping[str, Any], last: bool
) -> dict[str, Any]:
    """Transfer matrix, parts of every group's gap, geometry, and error of a fresh probe of the accent."""
    given = (h, segments.phoneme, segments.accent)
    matrix = transfer_matrix(*given, segments.speaker, units=voice, match_clusters=True, **PROBE, **about)
    splits = {
        group: {
            rule: parts_of(h, segments.phoneme, segments.accent, voice, REFERENCE, group, rule=rule, **about)
            for rule in ("reference", "balanced")
        }
        for group in GROUPS
    }
    train, test = about["train"], about["test"]
    accent = probe_errors(
        {"": h[train]},
        segments.accent[train],
        {"": h[test]},
        segments.accent[test],
        probe="discriminant",
        strength=about["strength"],
        weights=balanced_weights(segments.accent[train]),
    )
    speaker = np.unique(segments.speaker, return_inverse=True)[1]
    phoneme = np.unique(segments.phoneme, return_inverse=True)[1]
    found = {
        **_matrix(matrix),
        "splits": splits,
        "geometry": {group: _geometry(h, phoneme, segments.accent, speaker, REFERENCE, group) for group in ACCENTS},
        "accent": float(accent[""].mean()),
    }
    if last:
        white = _whitened(h, phoneme, segments.accent)
        # neighbours from other sentences, which are other clusters here
        found["purity"] = neighbour_purity(white, phoneme, segments.accent, segments.sentence)
    return found


def _matrix(found: Any) -> dict[str, Any]:
    return {
        "trained": found.trained,
        "groups": found.groups,
        "errors": found.errors,
        "gains": dict(zip(found.groups, found.gains.tolist())),
        "samples": found.samples,
    }


def _whitened(h: np.ndarray, *cells: np.ndarray) -> np.ndarray:
    """Embeddings in units of the covariance within cells, such as the classes of every group, by Ledoit and Wolf.

    Of all groups together: in units of one group's own covariance that group scatters less than a fresh sample of it.
    """
    from sklearn.covariance import ledoit_wolf

    index = np.zeros(len(h), int)
    for labels in cells:
        values = np.unique(labels, return_inverse=True)[1]
        index = index * (values.max() + 1) + values
    index = np.unique(index, return_inverse=True)[1]
    count = np.bincount(index)
    means = np.stack([np.bincount(index, weights=column) for column in h.T], axis=1) / count[:, None]
    inner = h - means[index]
    scale = inner.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    covariance, _ = ledoit_wolf(inner / scale, assume_centered=True)
    values, axes = np.linalg.eigh(covariance * len(h) / (len(h) - len(count)))
    return (h / scale) @ (axes / np.sqrt(values))


def _geometry(
    h: np.ndarray, classes: np.ndarray, groups: np.ndarray, clusters: np.ndarray, reference: str, group: str
) -> dict[str, float | None]:
    """Scatter, shift and separation of a group's classes, in units of the covariance within classes and groups.

    within, between : tr of the covariance within clusters and between them, mean over classes, over the number of
        features: their sum is near 1 on average over groups
    shift : corrected ‖m_pg − m_pr‖² over the mean squared distance of the reference's classes from their centre; common
        : that of the mean over classes, which centring removes
    crossed : share of pairs (p, q) of which the group's p lies past half the way to q
    separation : mean d'
    """
    white = _whitened(h, classes, groups)
    single = len(np.unique(clusters)) == len(clusters)
    own = groups == group

    def enough(name: Any) -> bool:
        return all(len(np.unique(clusters[(groups == g) & (classes == name)])) > 1 for g in (reference, group))

    names = [name for name in np.unique(classes) if enough(name)]
    found: dict[str, float | None] = {}
    parts = [(white[own & (classes == name)], clusters[own & (classes == name)]) for name in names]
    if single:
        found["within"] = float(np.mean([x.var(axis=0, ddof=1).sum() for x, _ in parts])) / white.shape[1]
        found["between"] = None
    else:
        each = [
            scatter(*part) for part in parts if len(np.unique(part[1])) > 1 and len(np.unique(part[1])) < len(part[1])
        ]
        found["within"] = float(np.mean([one.within for one in each])) / white.shape[1]
        found["between"] = float(np.mean([one.between for one in each])) / white.shape[1]
    about = group_shift(h, classes, groups, reference=reference, group=group)
    off = ~np.eye(len(about.classes), dtype=bool)
    found["separation"] = float(about.separation[off].mean())
    if group == reference:
        return found | {"shift": None, "common": None, "crossed": None}
    centers = np.stack([white[(groups == reference) & (classes == name)].mean(axis=0) for name in names])
    between = float(((centers - centers.mean(axis=0)) ** 2).sum(axis=1).mean())
    shifts, gaps, noise = [], [], 0.0
    for name in names:
        sides = [(groups == level) & (classes == name) for level in (reference, group)]
        labels = [None, None] if single else [clusters[side] for side in sides]
        x, z = (white[side] for side in sides)
        shifts.append(squared_shift(x, z, first_clusters=labels[0], second_clusters=labels[1]))
        gaps.append(z.mean(axis=0) - x.mean(axis=0))
        noise += float(sum(part.var(axis=0, ddof=1).sum() / len(part) for part in (x, z)))
    if single:  # the classes' means are independent
        common = float((np.mean(gaps, axis=0) ** 2).sum()) - noise / len(names) ** 2
    else:
        common = squared_shift(*(_class_balanced(white, classes, clusters, groups == g) for g in (reference, group)))
    crossed_over = float((about.toward[off] > 0.5).mean())
    return found | {"shift": float(np.mean(shifts)) / between, "common": common / between, "crossed": crossed_over}


def _class_balanced(h: np.ndarray, classes: np.ndarray, clusters: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(clusters, D): each cluster's mean over classes of its class means; classes that all clusters have."""
    names = np.unique(clusters[rows])
    kept = [c for c in np.unique(classes[rows]) if len(np.unique(clusters[rows & (classes == c)])) == len(names)]
    return np.stack(
        [np.mean([h[rows & (clusters == s) & (classes == c)].mean(axis=0) for c in kept], axis=0) for s in names]
    )


def _linked(h: np.ndarray, segments: Segments, voice: np.ndarray, free: Mapping[str, Any]) -> dict[str, Any]:
    """Scatter and error of every speaker and phoneme, and their rank correlations."""
    matrix = transfer_matrix(
        h, segments.phoneme, segments.accent, segments.speaker, units=voice, match_clusters=True, **PROBE, **free
    )
    names, spread = relative_scatter(h, segments.phoneme, segments.speaker)
    error = np.array([matrix.by_cluster["balanced"][name] for name in names])
    own = np.array([matrix.by_cluster[name.split("+")[0]][name] for name in names])
    accent = np.array([name.split("+")[0] for name in names])
    count = np.array([(segments.speaker == name).sum() for name in names])
    draws = {"draws": free["draws"] // 4, "seed": free["seed"]}
    found = {
        "all": rank_correlation(spread, error, **draws),
        "given accent and number": rank_correlation(spread, error, given=count, groups=accent, **draws),
        "given accent and number, own probe": rank_correlation(spread, own, given=count, groups=accent, **draws),
    }
    phonemes, wide = _by_phoneme(h, segments)
    wrong = np.full(len(h), np.nan)
    for train, test in zip(free["train"], free["test"]):
        wrong[test] = probe_errors(
            {"": h[train]},
            segments.phoneme[train],
            {"": h[test]},
            segments.phoneme[test],
            probe="discriminant",
            strength=free["strength"],
            weights=balanced_weights(segments.accent[train]),
        )[""]
    missed = np.array([np.nanmean(wrong[segments.phoneme == name]) for name in phonemes])
    tokens = np.array([(segments.phoneme == name).sum() for name in phonemes])
    found["phonemes, given number"] = rank_correlation(wide, missed, given=tokens, **draws)
    return {
        "speakers": {"accent": accent, "scatter": spread, "error": error, "own": own},
        "correlations": {name: [one.value, one.low, one.high] for name, one in found.items()},
    }


def _by_phoneme(h: np.ndarray, segments: Segments) -> tuple[np.ndarray, np.ndarray]:
    white = _whitened(h, segments.phoneme, segments.speaker)
    names = np.unique(segments.phoneme)
    rows = [segments.phoneme == name for name in names]
    return names, np.array([scatter(white[of], segments.speaker[of]).within for of in rows])


def _controls(
    arm: str,
    last: Mapping[str, np.ndarray],
    segments: Segments,
    voice: np.ndarray,
    about: Mapping[str, Any],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Gain of the group and parts of its gap, under other labels, probes, segments and amounts of data."""
    h = last[arm]

    def one(x: np.ndarray, labels: np.ndarray, rows: Any = None, **change: Any) -> dict[str, Any]:
        rows = np.ones(len(x), bool) if rows is None else rows
        given = {**PROBE, **about, **{k: v for k, v in change.items() if k not in ("samples", "folds")}}
        given |= {name: given[name][: change.get("folds"), rows] for name in ("train", "test")}
        cut = {"samples": change["samples"]} if "samples" in change else {}
        accent, v = segments.accent[rows], voice[rows]
        matrix = transfer_matrix(
            x[rows], labels[rows], accent, segments.speaker[rows], units=v, match_clusters=True, **given, **cut
        )
        found = {"gain": matrix.gains[matrix.groups.index(GROUP)], "samples": matrix.samples}
        if not cut:
            parts = parts_of(x[rows], labels[rows], accent, v, REFERENCE, GROUP, **given)
            found |= {name: parts[name] for name in ("irreducible", "systematic", "centred", "whitened")}
        return found

    base = one(h, segments.phoneme)
    known = np.stack([segments.accent == name for name in ACCENTS], axis=1).astype(float)
    surface = common_classes(segments.surface, segments.accent, fewest=options["fewest"])
    found = {
        "as it is": base,
        "logistic probe, one fold": one(h, segments.phoneme, probe="logistic", folds=1),
        "one fold": one(h, segments.phoneme, folds=1),
        "samples weigh alike": one(h, segments.phoneme, average="samples"),
        "labels as said": one(h, segments.surface, surface),
        "probe told the accent": one(np.concatenate([h, known], axis=1), segments.phoneme),
    }
    for by in options["jitters"]:
        found[f"ends moved by up to ±{by} frames"] = one(last[f"{arm}, ±{by}"], segments.phoneme)
    for part in (0.25, 0.5):
        count = int(part * base["samples"])
        found[f"{part:.0%} of the training segments"] = one(h, segments.phoneme, samples=count)
    return found


def _fields(folder: Path, network: str, seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
    arrays = field_arrays(folder, network, seed, options)
    group, field = arrays["group"], np.arange(len(arrays["group"]))
    about = {"strength": options["strength"], "draws": options["draws"], "seed": seed, "repeats": 2, **PROBE}
    arms: dict[str, Any] = {}
    for name in arrays:
        if not name.startswith("state/"):
            continue
        _, arm, layer = name.split("/")
        last = layer == f"block {options['field_depth']}"
        if arm == "random" and not last:
            continue
        h = arrays[name].astype(np.float64)
        for task in ("content", "identity") if last or arm == "input" else ("content",):
            given = (h, arrays[task].astype(str), group, field)
            split = split_gap(*given, reference="smooth", group="rough", rule="reference", **about)
            one: dict[str, Any] = {
                "splits": {"rough": {"reference": summary(split)}},
                "geometry": {g: _geometry(*given, "smooth", g) for g in ("smooth", "rough")},
                "errors": {" → ".join(key): value for key, value in split.errors.items()},
            }
            if arm != "random":
                matrix = transfer_matrix(*given, **about)
                one |= _matrix(matrix)
                if task == "content":
                    one["link"] = _linked_fields(*given, matrix, options["draws"] // 4, seed)
            arms.setdefault(arm, {}).setdefault(layer, {})[task] = one
    errors = {g: float(_relative(arrays)[group == g].mean()) for g in ("smooth", "rough")}
    return {"arms": arms, "surrogate": errors}


def _relative(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    gap, size = (
        np.sqrt((v.astype(float) ** 2).sum(axis=(1, 2)))
        for v in (arrays["prediction"] - arrays["target"], arrays["target"])
    )
    return np.asarray(gap / size)


def _linked_fields(
    h: np.ndarray, classes: np.ndarray, group: np.ndarray, field: np.ndarray, matrix: Any, draws: int, seed: int
) -> list[float]:
    """Rank correlation, given the group, of a field's distance from its class and of the error of the pooled probe."""
    white = _whitened(h, classes, group)
    distance = np.full(len(h), np.nan)
    for g in np.unique(group):
        for c in np.unique(classes):
            rows = (group == g) & (classes == c)
            if rows.sum() < 2:  # nothing to be far from
                continue
            away = ((white[rows] - white[rows].mean(axis=0)) ** 2).sum(axis=1)
            distance[rows] = away * (rows.sum() / (rows.sum() - 1)) ** 2  # from the mean of the others
    wrong = np.array([matrix.by_cluster["balanced"][str(i)] for i in field])
    known = np.isfinite(distance)
    found = rank_correlation(distance[known], wrong[known], groups=group[known], draws=draws, seed=seed)
    return [found.value, found.low, found.high]
