"""Errors of every cluster by probes of one group and of several, trained on equally many samples, and their sums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from sciops.evaluation.probes.linear import Probe, probe_errors

Average = Literal["samples", "classes"]

Rows = dict[str, np.ndarray]  # group → rows of its samples
Table = dict[tuple[str, str], np.ndarray]  # (train, test) → error of every cluster of the tested group


@dataclass(frozen=True)
class GroupedSamples:
    """Samples of the levels compared, with what is held out together.

    labels : names of all clusters
    names : level → numbers of its clusters, in the order of all tables; unit_of : level → the unit of each
    crossed : whether a unit is in several levels
    folds : [(training samples, test samples)]; empty for random halves of the units
    tested : (samples,) that are in a test
    weight : (samples,) in the average over a cluster
    """

    h: np.ndarray
    y: np.ndarray
    g: np.ndarray
    s: np.ndarray
    u: np.ndarray
    levels: tuple[str, ...]
    labels: np.ndarray
    names: dict[str, np.ndarray]
    unit_of: dict[str, np.ndarray]
    crossed: bool
    folds: list[tuple[np.ndarray, np.ndarray]]
    tested: np.ndarray
    weight: np.ndarray

    def splits(self, repeats: int, rng: np.random.Generator) -> Iterator[tuple[Rows, Rows]]:
        """(training rows, test rows) by level."""
        for _ in range(repeats):
            for taught, asked in self.folds:
                yield self._rows(taught), self._rows(asked)
            if self.folds:
                continue
            if self.crossed:
                pools = [np.unique(self.u[np.isin(self.g, self.levels)])]
            else:
                pools = [np.unique(units) for units in self.unit_of.values()]
            mixed = [rng.permutation(pool) for pool in pools]
            first = np.isin(self.u, np.concatenate([pool[: len(pool) // 2] for pool in mixed]))
            for part in (first, ~first):
                yield self._rows(part), self._rows(~part)

    def _rows(self, part: np.ndarray) -> Rows:
        rows = {level: np.flatnonzero(part & (self.g == level)) for level in self.levels}
        empty = [level for level, found in rows.items() if not len(found)]
        if empty:
            raise ValueError(f"group {empty[0]!r} has no samples in one of training and test")
        return rows

    def resampled(self, draws: int, rng: np.random.Generator) -> tuple[dict[str, np.ndarray], int]:
        """(level → (draws, clusters) weights of resamples of the units that are tested, fewest units of a level)."""
        tested = {level: np.isin(names, self.s[self.tested & (self.g == level)]) for level, names in self.names.items()}
        pools = [np.unique(of[tested[level]]) for level, of in self.unit_of.items()]
        fewest = min(map(len, pools))
        if fewest < 2:
            raise ValueError("test: a group is tested on one unit; expected at least two, between which errors differ")
        if self.crossed:
            pools = [np.unique(np.concatenate(pools))] * len(pools)
        found: dict[str, np.ndarray] = {}
        counts: Any = None
        for i, (level, of) in enumerate(self.unit_of.items()):
            if i == 0 or not self.crossed:  # crossed levels share their resamples
                counts = rng.multinomial(len(pools[i]), np.full(len(pools[i]), 1 / len(pools[i])), size=draws)
            at = np.minimum(np.searchsorted(pools[i], of), len(pools[i]) - 1)
            found[level] = np.where(tested[level], counts[:, at], 0).astype(float)
        return found, fewest


def checked_samples(
    embeddings: Any,
    classes: Any,
    groups: Any,
    clusters: Any,
    units: Any,
    train: Any,
    test: Any,
    average: str,
    levels: tuple[str, ...] | None,
) -> GroupedSamples:
    """The samples of both folds with numbers for names; ValueError for what does not fit, in one line."""
    if average not in get_args(Average):
        raise ValueError(f"average={average!r}: expected one of {', '.join(get_args(Average))}")
    h, y, g = np.asarray(embeddings, dtype=float), np.asarray(classes), np.asarray(groups).astype(str)
    # numbers in the order of the names: comparisons of text would take most of the time
    clusters, s = np.unique(np.asarray(clusters).astype(str), return_inverse=True)
    u = s if units is None else np.unique(np.asarray(units).astype(str), return_inverse=True)[1]
    if not np.issubdtype(y.dtype, np.floating):
        y = np.unique(y, return_inverse=True)[1]
    if not len(h) == len(y) == len(g) == len(s) == len(u):
        raise ValueError(
            f"{len(h)} embeddings, {len(y)} classes, {len(g)} groups, {len(s)} clusters, {len(u)} units: "
            "expected as many"
        )
    if levels is None:
        levels = tuple(np.unique(g).tolist())
        if len(levels) < 2:
            raise ValueError(f"one group, {', '.join(levels)}: expected at least two")
    names, unit_of = {}, {}
    for level in levels:
        own = g == level
        names[level], first = np.unique(s[own], return_index=True)
        unit_of[level] = u[own][first]
        if len({*zip(s[own].tolist(), u[own].tolist())}) != len(first):
            raise ValueError(f"a cluster of group {level!r} is in two units")
        if len({*unit_of[level].tolist()}) < 4:
            what = "clusters" if units is None else "units"
            raise ValueError(f"group {level!r} has {len({*unit_of[level].tolist()})} {what}: expected at least 4")
    if len({*np.concatenate([*names.values()]).tolist()}) < sum(map(len, names.values())):
        raise ValueError("a cluster is in two groups")
    known = [{*of.tolist()} for of in unit_of.values()]
    crossed = len(set().union(*known)) < sum(map(len, known))
    folds = _folds(train, test, len(h))
    used = np.isin(g, levels)
    for taught, asked in folds:
        if {*u[used & taught].tolist()} & {*u[used & asked].tolist()}:
            raise ValueError("train: a unit is in training and test")
    tested = used & (np.any([asked for _, asked in folds], axis=0) if folds else True)
    weight = np.ones(len(h))
    if average == "classes":
        for level in levels:
            rows = np.flatnonzero(tested & (g == level))
            _, index, count = np.unique(y[rows], return_inverse=True, return_counts=True)
            weight[rows] = 1.0 / count[index]
    return GroupedSamples(h, y, g, s, u, levels, clusters, names, unit_of, crossed, folds, tested, weight)


def _folds(train: Any, test: Any, samples: int) -> list[tuple[np.ndarray, np.ndarray]]:
    if train is None:
        if test is not None:
            raise ValueError("test without train: pass both")
        return []
    taught = np.asarray(train)
    asked = ~taught if test is None and taught.dtype == bool else np.asarray(test)
    for name, given in (("train", taught), ("test", asked)):
        if given.dtype != bool or given.shape not in {(samples,), (len(given), samples)} or given.shape != taught.shape:
            raise ValueError(
                f"{name} of {given.dtype} and shape {given.shape}: expected booleans ({samples},) or (folds, {samples})"
            )
    return [*zip(np.atleast_2d(taught), np.atleast_2d(asked))]


def cluster_errors(
    data: GroupedSamples,
    shared: Mapping[str, tuple[str, str]],
    fixes: Mapping[str, Any],
    wanted: set[tuple[str, str]],
    repeats: int,
    match_clusters: bool,
    probe: Probe,
    strength: float,
    rng: np.random.Generator,
    most: int | None = None,
) -> tuple[dict[str, Table], float]:
    """(fix → table, mean number of training samples); shared: name → (rule, reference)."""
    index = {level: np.searchsorted(names, data.s) for level, names in data.names.items()}
    sums = {name: {key: np.zeros((2, len(data.names[key[1]]))) for key in wanted} for name in fixes}
    sizes = []
    for train, test in data.splits(repeats, rng):
        probes = _equal_parts(data, train, shared, match_clusters, most, rng)
        sizes.append(len(probes[data.levels[0]]))
        for name, fix in fixes.items():
            h = fix(data.h, data.g, train)
            for row, rows in probes.items():
                levels = [level for level in data.levels if (row, level) in wanted]
                asked = np.concatenate([test[level] for level in levels])
                e = probe_errors(
                    {"": h[rows]}, data.y[rows], {"": h[asked]}, data.y[asked], strength=strength, probe=probe
                )[""]
                for level, part in zip(levels, np.split(e, np.cumsum([len(test[level]) for level in levels])[:-1])):
                    at, w = index[level][test[level]], data.weight[test[level]]
                    count = len(data.names[level])
                    sums[name][row, level] += [
                        np.bincount(at, weights=w * part, minlength=count),
                        np.bincount(at, weights=w, minlength=count),
                    ]
    with np.errstate(invalid="ignore"):  # clusters that were never tested
        tables = {name: {key: total / mass for key, (total, mass) in of.items()} for name, of in sums.items()}
    return tables, float(np.mean(sizes))


def _equal_parts(
    data: GroupedSamples,
    train: Rows,
    shared: Mapping[str, tuple[str, str]],
    match_clusters: bool,
    most: int | None,
    rng: np.random.Generator,
) -> Rows:
    """Rows that each probe is trained on, equally many: of every level alone, and of the shared rules."""
    pools: Rows = dict(train)
    fewest = min(len(np.unique(data.u[rows])) for rows in train.values())
    if match_clusters:
        pools = {
            level: rows[np.isin(data.u[rows], rng.permutation(np.unique(data.u[rows]))[:fewest])]
            for level, rows in train.items()
        }
    least = min(len(rows) for rows in pools.values())
    for name, (rule, reference) in shared.items():
        if rule == "reference":
            pools[name] = pools[reference]
        elif match_clusters:
            pools[name] = _some_clusters(data, train, rule, fewest, rng)
        elif rule == "balanced":
            each = least // len(train)
            pools[name] = np.concatenate([rng.permutation(rows)[:each] for rows in train.values()])
        else:
            pools[name] = np.concatenate([*train.values()])
    # an equal part of each group may be a few samples short of the others
    size = min(
        [len(rows) for name, rows in pools.items() if name in train or match_clusters] + ([most] if most else [])
    )
    return {name: rng.permutation(rows)[:size] for name, rows in pools.items()}


def _some_clusters(data: GroupedSamples, train: Rows, rule: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of `count` clusters, which the groups have equal parts of, or parts like those of their samples."""
    total = sum(len(rows) for rows in train.values())
    share = np.array([1 / len(train) if rule == "balanced" else len(rows) / total for rows in train.values()])
    parts = np.floor(share * count).astype(int)
    # what is left over goes to the largest remainders, at random among equal ones
    order = np.lexsort((rng.uniform(size=len(share)), -np.round(share * count - parts, 9)))
    parts[order[: count - parts.sum()]] += 1
    taken: set[int] = set()
    rows = []
    for at in rng.permutation(len(share)):
        own = [*train.values()][at]
        free = [unit for unit in rng.permutation(np.unique(data.u[own])) if unit not in taken][: parts[at]]
        taken.update(free)
        rows.append(own[np.isin(data.u[own], free)])
    return np.concatenate(rows)


def as_they_are(h: np.ndarray, g: np.ndarray, train: Rows) -> np.ndarray:
    """Embeddings unchanged."""
    return h


def centred_by_group(h: np.ndarray, g: np.ndarray, train: Rows) -> np.ndarray:
    """Embeddings less the mean of their group over its training samples."""
    moved = h.copy()
    for level, rows in train.items():
        moved[g == level] -= h[rows].mean(axis=0)
    return moved


def whitened_by_group(h: np.ndarray, g: np.ndarray, train: Rows) -> np.ndarray:
    """Embeddings of every group times Σ_g^{−1/2}, with the covariance of its training samples by Ledoit and Wolf."""
    try:
        from sklearn.covariance import ledoit_wolf
    except ImportError:
        raise ImportError("probes need scikit-learn: pip install 'sciops[audit]'") from None
    moved = centred_by_group(h, g, train)
    scale = moved[np.concatenate([*train.values()])].std(axis=0)
    moved /= np.where(scale > 0, scale, 1.0)
    for level, rows in train.items():
        covariance, _ = ledoit_wolf(moved[rows], assume_centered=True)
        values, axes = np.linalg.eigh(covariance)
        root = axes / np.sqrt(np.maximum(values, 1e-12 * max(values[-1], 1e-300))) @ axes.T
        moved[g == level] = moved[g == level] @ root
    return moved


def mean_error(table: Table, trained: str, level: str, drawn: Mapping[str, np.ndarray] | None) -> Any:
    """Mean over clusters that were tested, or over each resample of them."""
    values = table[trained, level]
    known = ~np.isnan(values)
    weights = np.ones((1, len(values))) if drawn is None else drawn[level]
    weights = weights[:, known]
    with np.errstate(invalid="ignore", divide="ignore"):
        means = weights @ values[known] / weights.sum(axis=1)
    return means[0] if drawn is None else means


def gap_parts(table: Table, reference: str, group: str, drawn: Mapping[str, np.ndarray] | None) -> tuple[Any, Any, Any]:
    """(gap, irreducible, systematic) over all clusters, or over each resample of them."""

    def error(train: str, level: str) -> Any:
        return mean_error(table, train, level, drawn)

    gap = error("rule", group) - error("rule", reference)
    irreducible = error(group, group) - error(reference, reference)
    gains = [error("rule", level) - error(level, level) for level in (group, reference)]
    return gap, irreducible, gains[0] - gains[1]


def t_interval(value: float, draws: np.ndarray, units: int) -> tuple[float, float]:
    """value ± t · deviation of the resamples, with what few units make the bootstrap too small by."""
    from scipy.stats import t

    half = float(t.ppf(0.975, units - 1) * np.nanstd(draws) * np.sqrt(units / (units - 1)))
    return float(value) - half, float(value) + half
