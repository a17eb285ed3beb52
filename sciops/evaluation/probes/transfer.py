"""Whether a group is served worse because its embeddings scatter, or because they lie elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from sciops.evaluation.probes.linear import probe_errors

Rule = Literal["natural", "balanced", "reference"]


@dataclass(frozen=True)
class GapSplit:
    """A gap in errors as a sum of two parts, each with its 95 % interval over clusters.

    gap = irreducible + systematic, exactly::

        err(rule, g) − err(rule, r) = [err(g, g) − err(r, r)] + [G_g − G_r],   G_g = err(rule, g) − err(g, g)

    irreducible : what probes of the groups' own leave: scatter, and overlap of classes
    systematic : what they remove: the group lies elsewhere than the shared rule expects
    centred : systematic part after the mean of every group was taken off; near 0 where that removes it
    verdict : "none", "random", "systematic, removed by centring", "systematic, structural" or "both"
    errors : (train, test) → error, with train "rule" or a group
    """

    reference: str
    group: str
    gap: float
    irreducible: float
    systematic: float
    centred: float
    irreducible_interval: tuple[float, float]
    systematic_interval: tuple[float, float]
    centred_interval: tuple[float, float]
    verdict: str
    errors: Mapping[tuple[str, str], float]


def split_gap(
    embeddings: Any,
    classes: Any,
    groups: Any,
    clusters: Any,
    *,
    reference: str,
    group: str,
    rule: Rule = "natural",
    strength: float = 1.0,
    repeats: int = 5,
    draws: int = 1000,
    smallest: float = 0.0,
    seed: int = 0,
) -> GapSplit:
    """Trains probes on all groups and on each alone, with equally many samples, and tests them on clusters held out.

    Parameters
    ----------
    embeddings : (samples, D)
    classes : (samples,) integer or text labels
    groups, clusters : (samples,) labels; every cluster in one group
    reference, group : the two that are compared
    rule : {"natural", "balanced", "reference"}
        What the shared probe is trained on: both groups in the proportion of the data, in equal parts, or the reference
        alone. A balanced rule shares the cost of a shift between both groups, so that their difference hides it.
    strength : of the probes' penalty, as in `probe_errors`
    repeats : random splits of the clusters into halves, both used for training and testing once
    draws : resamples of test clusters
    smallest : parts of the gap below this are taken for none
    seed : of splits and resamples

    Returns
    -------
    GapSplit

    Raises
    ------
    ValueError
        A group is unknown or has fewer than 4 clusters; a cluster is in two groups; the rule is unknown.

    Notes
    -----
    Scatter hides bias: with twice the noise the same shift costs a third of what it costs otherwise. Read
    `squared_shift` beside this. A probe of high capacity may find the group by itself, and then no systematic part is
    left although the laws of the groups differ.
    """
    if rule not in get_args(Rule):
        raise ValueError(f"rule={rule!r}: expected one of {', '.join(get_args(Rule))}")
    h, y = np.asarray(embeddings, dtype=float), np.asarray(classes)
    g, s = np.asarray(groups).astype(str), np.asarray(clusters).astype(str)
    if not len(h) == len(y) == len(g) == len(s):
        raise ValueError(f"{len(h)} embeddings, {len(y)} classes, {len(g)} groups, {len(s)} clusters: expected as many")
    names = {level: np.array(sorted({*s[g == level].tolist()})) for level in (reference, group)}
    for level, found in names.items():
        if len(found) < 4:
            raise ValueError(f"group {level!r} has {len(found)} clusters: expected at least 4")
    if {*names[reference].tolist()} & {*names[group].tolist()}:
        raise ValueError("a cluster is in two groups")
    rng = np.random.default_rng(seed)
    plain, centred = [], []
    for _ in range(repeats):
        halves = {level: rng.permutation(found) for level, found in names.items()}
        for side in (0, 1):
            train, test = {}, {}
            for level, found in halves.items():
                parts = (found[: len(found) // 2], found[len(found) // 2 :])
                train[level] = np.flatnonzero(np.isin(s, parts[side]))
                test[level] = np.flatnonzero(np.isin(s, parts[1 - side]))
            most = min(len(rows) for rows in train.values())
            # the same number of samples for every probe
            shared = _shared(train, most, reference, rule, rng)
            probes = {level: rng.permutation(rows)[:most] for level, rows in train.items()}
            plain.append(_tested(h, y, probes | {"rule": shared}, test, strength))
            centred.append(_tested(_centred(h, g, train), y, probes | {"rule": shared}, test, strength))
    tables = [_by_cluster(found, s) for found in (plain, centred)]
    point = [_parts(table, reference, group, None) for table in tables]
    boot = np.array([_resampled(tables, names, reference, group, rng) for _ in range(draws)])
    low, high = np.quantile(boot, [0.025, 0.975], axis=0)
    (gap, irreducible, systematic), (_, _, left) = point
    errors = {key: float(np.mean([*table.values()])) for key, table in tables[0].items()}
    intervals = [(float(low[i]), float(high[i])) for i in range(3)]
    return GapSplit(
        reference=reference,
        group=group,
        gap=gap,
        irreducible=irreducible,
        systematic=systematic,
        centred=left,
        irreducible_interval=intervals[0],
        systematic_interval=intervals[1],
        centred_interval=intervals[2],
        verdict=_verdict(intervals, smallest),
        errors=errors,
    )


def _tested(
    h: np.ndarray, y: np.ndarray, train: Mapping[str, np.ndarray], test: Mapping[str, np.ndarray], strength: float
) -> list[tuple[tuple[str, str], np.ndarray, np.ndarray]]:
    """((train, test), rows, errors of these rows)."""
    found = []
    for name, rows in train.items():
        for level, rows_of_test in test.items():
            if name in ("rule", level):
                e = probe_errors({"": h[rows]}, y[rows], {"": h[rows_of_test]}, y[rows_of_test], strength=strength)[""]
                found.append(((name, level), rows_of_test, e))
    return found


def _shared(
    train: Mapping[str, np.ndarray], most: int, reference: str, rule: Rule, rng: np.random.Generator
) -> np.ndarray:
    """Rows that the shared probe is trained on, `most` of them."""
    if rule == "balanced":
        return np.concatenate([rng.permutation(rows)[: most // 2] for rows in train.values()])
    rows = train[reference] if rule == "reference" else np.concatenate([*train.values()])
    return rng.permutation(rows)[:most]


def _centred(h: np.ndarray, g: np.ndarray, train: Mapping[str, np.ndarray]) -> np.ndarray:
    """Embeddings less the mean of their group over its training samples."""
    moved = h.copy()
    for level, rows in train.items():
        moved[g == level] -= h[rows].mean(axis=0)
    return moved


def _by_cluster(found: list[Any], s: np.ndarray) -> dict[tuple[str, str], dict[str, float]]:
    """(train, test) → cluster → mean error over its samples and the splits."""
    sums: dict[tuple[str, str], dict[str, list[float]]] = {}
    for tests in found:
        for key, rows, errors in tests:
            for cluster, error in zip(s[rows].tolist(), errors.tolist()):
                sums.setdefault(key, {}).setdefault(cluster, []).append(error)
    return {key: {cluster: float(np.mean(values)) for cluster, values in table.items()} for key, table in sums.items()}


def _parts(
    table: Mapping[tuple[str, str], Mapping[str, float]], reference: str, group: str, drawn: Mapping[str, Any] | None
) -> tuple[float, float, float]:
    """(gap, irreducible, systematic) over the clusters drawn, all of them by default."""

    def error(train: str, level: str) -> float:
        of = table[train, level]
        return float(np.mean([of[c] for c in drawn[level] if c in of] if drawn else [*of.values()]))

    gap = error("rule", group) - error("rule", reference)
    irreducible = error(group, group) - error(reference, reference)
    gains = [error("rule", level) - error(level, level) for level in (group, reference)]
    return gap, irreducible, gains[0] - gains[1]


def _resampled(
    tables: list[Any], names: Mapping[str, np.ndarray], reference: str, group: str, rng: np.random.Generator
) -> tuple[float, float, float]:
    drawn = {level: rng.choice(found, len(found)).tolist() for level, found in names.items()}
    _, irreducible, systematic = _parts(tables[0], reference, group, drawn)
    _, _, left = _parts(tables[1], reference, group, drawn)
    return irreducible, systematic, left


def _verdict(intervals: list[tuple[float, float]], smallest: float) -> str:
    irreducible, systematic, left = (low > smallest for low, _ in intervals)
    if irreducible and systematic:
        return "both"
    if systematic:
        return "systematic, structural" if left else "systematic, removed by centring"
    return "random" if irreducible else "none"
