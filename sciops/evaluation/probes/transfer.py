"""Whether a group is served worse because its embeddings scatter, or because they lie elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from sciops.evaluation.probes.linear import Probe, probe_errors

Rule = Literal["natural", "balanced", "reference"]
Average = Literal["samples", "classes"]

Rows = dict[str, np.ndarray]  # group → rows of its samples
Table = dict[tuple[str, str], np.ndarray]  # (train, test) → error of every cluster of the tested group


@dataclass(frozen=True)
class TransferMatrix:
    """Errors of probes trained on some groups and tested on others, over clusters held out.

    trained : rows: "balanced" (all groups in equal parts) and "natural" (in the proportion of the data) where asked
        for, then the groups
    groups : columns
    errors, low, high : (trained, groups) mean over clusters, and its 95 % interval
    gains, gain_low, gain_high : (groups,) in-domain gain G_g = err(first row, g) − err(g, g): what a group's own probe
        has fewer errors by. Above 0 the laws of the classes differ between the groups; below or at 0 they may all the
        same, since a probe of all groups can find the group by itself
    samples : training samples of a probe, on average over the splits
    by_cluster : trained → cluster → error
    """

    trained: tuple[str, ...]
    groups: tuple[str, ...]
    errors: np.ndarray
    low: np.ndarray
    high: np.ndarray
    gains: np.ndarray
    gain_low: np.ndarray
    gain_high: np.ndarray
    samples: float
    by_cluster: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class GapSplit:
    """A gap in errors as a sum of two parts, each with its 95 % interval over clusters.

    gap = irreducible + systematic, exactly::

        err(rule, g) − err(rule, r) = [err(g, g) − err(r, r)] + [G_g − G_r],   G_g = err(rule, g) − err(g, g)

    irreducible : what probes of the groups' own leave: scatter, and overlap of classes
    systematic : what they remove: the group lies elsewhere than the shared rule expects
    centred : systematic part after the mean of every group was taken off; near 0 where that removes it
    whitened : the same after every group was centred and its covariance made the identity
    removed_by : what leaves no systematic part: "centring", else "whitening", else "nothing" where both leave some;
        "undecided" where the intervals do not say; "" where there is no systematic part
    verdict : "none", "random", "systematic, removed by centring", "systematic, removed by whitening", "systematic,
        structural", "systematic, removal undecided" or "both"
    errors : (train, test) → error, with train "rule" or a group
    """

    reference: str
    group: str
    gap: float
    irreducible: float
    systematic: float
    centred: float
    whitened: float
    irreducible_interval: tuple[float, float]
    systematic_interval: tuple[float, float]
    centred_interval: tuple[float, float]
    whitened_interval: tuple[float, float]
    removed_by: str
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
    units: Any = None,
    train: Any = None,
    test: Any = None,
    match_clusters: bool = False,
    average: Average = "samples",
    probe: Probe = "logistic",
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
    units : (samples,) labels that are held out and resampled together, by default the clusters: a voice that speaks in
        two accents is two clusters and one unit
    train, test : (samples,) or (folds, samples) True for the samples that probes are trained on and tested on; by
        default random halves of the units. Give both to hold out more than the units, such as sentences that all voices
        say: a group's own probe else knows its test sentences by heart. `test` alone is what `train` leaves by default
    match_clusters : trains all probes on equally many clusters, not only on equally many samples: the shared probe
        would else know more speakers than the others. With "natural" a group's share is rounded to whole clusters
    average : {"samples", "classes"}
        Whether samples or classes weigh alike in a group's errors; classes where the groups differ in how frequent
        they are
    probe, strength : as in `probe_errors`
    repeats : random splits of the units into halves, both used for training and testing once; with `train` random
        choices of equally many training samples in each fold
    draws : resamples of test units
    smallest : parts of the gap below this are taken for none
    seed : of splits and resamples

    Returns
    -------
    GapSplit

    Raises
    ------
    ValueError
        A group is unknown or has fewer than 4 units; a cluster is in two groups; a unit is in training and test; an
        option is unknown.

    Notes
    -----
    Scatter hides bias: with twice the noise the same shift costs a third of what it costs otherwise. Read
    `squared_shift` beside this. A probe of high capacity may find the group by itself, and then no systematic part is
    left although the laws of the groups differ.

    The intervals are t intervals, ± t_{n−1} √(n/(n − 1)) times the deviation of the bootstrap, with the fewest units n
    of a group. They are those of other clusters for the probes of these splits: that other clusters would train other
    probes is not in them. `studies.embedding_errors` measures how often random groups are taken for different. Over
    several seeds of a model compare the parts by `paired_verdict`.

    References
    ----------
    Herron et al., Identifying and typifying demographic unfairness in phoneme-level embeddings (arXiv:2604.22631), who
    tell random from systematic errors by probes of a group's own; the identity is ours.
    """
    if rule not in get_args(Rule):
        raise ValueError(f"rule={rule!r}: expected one of {', '.join(get_args(Rule))}")
    data = _checked(embeddings, classes, groups, clusters, units, train, test, average, (reference, group))
    if "rule" in data.levels:
        raise ValueError("a group is called 'rule', as the shared probe is: give it another name")
    rng = np.random.default_rng(seed)
    fixes = {"plain": _plain, "centred": _centred, "whitened": _whitened}
    shared = {"rule": (rule, reference)}
    wanted = {("rule", level) for level in data.levels} | {(level, level) for level in data.levels}
    tables, _ = _measured(data, shared, fixes, wanted, repeats, match_clusters, probe, strength, rng)
    weights, units_tested = data.resampled(draws, rng)
    parts = {name: _parts(table, reference, group, None) for name, table in tables.items()}
    drawn = {name: _parts(table, reference, group, weights) for name, table in tables.items()}
    gap, irreducible, systematic = (float(value) for value in parts["plain"])
    now, boot = parts["plain"], drawn["plain"]
    intervals = {name: _interval(now[i], boot[i], units_tested) for i, name in ((1, "irreducible"), (2, "systematic"))}
    removed = {}
    for name in ("centred", "whitened"):
        intervals[name] = _interval(parts[name][2], drawn[name][2], units_tested)
        taken = _interval(now[2] - parts[name][2], boot[2] - drawn[name][2], units_tested)
        removed[name] = "no" if intervals[name][0] > smallest else "yes" if taken[0] > 0 else "unknown"
    found = {name: intervals[name][0] > smallest for name in ("irreducible", "systematic")}
    removed_by = remedy(removed["centred"], removed["whitened"]) if found["systematic"] else ""
    return GapSplit(
        reference=reference,
        group=group,
        gap=gap,
        irreducible=irreducible,
        systematic=systematic,
        centred=float(parts["centred"][2]),
        whitened=float(parts["whitened"][2]),
        irreducible_interval=intervals["irreducible"],
        systematic_interval=intervals["systematic"],
        centred_interval=intervals["centred"],
        whitened_interval=intervals["whitened"],
        removed_by=removed_by,
        verdict=error_type(found["irreducible"], found["systematic"], removed_by),
        errors={key: float(np.nanmean(values)) for key, values in tables["plain"].items()},
    )


def remedy(centring: str, whitening: str) -> str:
    """What removes a systematic part, of whether each of two steps does: "yes", "no" or "unknown"."""
    if centring == "yes":
        return "centring"
    if whitening == "yes":
        return "whitening"
    return "nothing" if centring == whitening == "no" else "undecided"


def error_type(irreducible: bool, systematic: bool, removed_by: str = "undecided") -> str:
    """The verdict of `GapSplit` of what was found.

    irreducible, systematic : whether there is such a part
    removed_by : "centring", "whitening", "nothing" or "undecided", see `remedy`
    """
    if irreducible and systematic:
        return "both"
    if systematic:
        kinds = {"nothing": "structural", "undecided": "removal undecided"}
        return f"systematic, {kinds.get(removed_by) or f'removed by {removed_by}'}"
    return "random" if irreducible else "none"


def transfer_matrix(
    embeddings: Any,
    classes: Any,
    groups: Any,
    clusters: Any,
    *,
    rules: Sequence[Literal["balanced", "natural"]] = ("balanced",),
    units: Any = None,
    train: Any = None,
    test: Any = None,
    match_clusters: bool = False,
    samples: int | None = None,
    average: Average = "samples",
    probe: Probe = "logistic",
    strength: float = 1.0,
    repeats: int = 5,
    draws: int = 1000,
    seed: int = 0,
) -> TransferMatrix:
    """Errors on every group of probes trained on all groups and on each alone, with equally many samples.

    Parameters
    ----------
    embeddings, classes, groups, clusters, units, train, test, match_clusters, average : as in `split_gap`
    rules : what the shared probes are trained on, the first rows of the matrix; gains are those against the first
    samples : at most this many training samples a probe, for learning curves: a group's own probe has less data than
        there is for all groups, by which its gain looks too small
    probe, strength, repeats, draws, seed : as in `split_gap`

    Returns
    -------
    TransferMatrix

    Raises
    ------
    ValueError
        As `split_gap`; no rule is given.
    """
    unknown = [rule for rule in rules if rule not in ("balanced", "natural")]
    if unknown or not rules:
        raise ValueError(f"rules={tuple(rules)!r}: expected some of balanced, natural")
    if samples is not None and samples < 2:
        raise ValueError(f"samples={samples}: expected at least 2")
    data = _checked(embeddings, classes, groups, clusters, units, train, test, average, None)
    if {*rules} & {*data.levels}:
        raise ValueError(f"a group is called {({*rules} & {*data.levels}).pop()!r}, as a rule is: give it another name")
    rng = np.random.default_rng(seed)
    trained = (*rules, *data.levels)
    wanted = {(row, level) for row in trained for level in data.levels}
    shared = {str(rule): (str(rule), "") for rule in rules}
    tables, mean = _measured(
        data, shared, {"plain": _plain}, wanted, repeats, match_clusters, probe, strength, rng, samples
    )
    table, (weights, units_tested) = tables["plain"], data.resampled(draws, rng)
    size = (len(trained), len(data.levels))
    errors, low, high = np.empty(size), np.empty(size), np.empty(size)
    gains = np.empty((3, len(data.levels)))
    for j, level in enumerate(data.levels):
        drawn = {}
        for i, row in enumerate(trained):
            errors[i, j] = _error(table, row, level, None)
            drawn[row] = _error(table, row, level, weights)
            low[i, j], high[i, j] = _interval(errors[i, j], drawn[row], units_tested)
        gain = errors[0, j] - errors[trained.index(level), j]
        gains[:, j] = gain, *_interval(gain, drawn[trained[0]] - drawn[level], units_tested)
    by_cluster = {
        row: {
            str(data.labels[name]): float(error)
            for level in data.levels
            for name, error in zip(data.names[level], table[row, level])
            if not np.isnan(error)
        }
        for row in trained
    }
    return TransferMatrix(trained, data.levels, errors, low, high, gains[0], gains[1], gains[2], mean, by_cluster)


def common_classes(classes: Any, groups: Any, *, fewest: int = 20) -> np.ndarray:
    """(samples,) True for the classes that every group has at least `fewest` samples of.

    Raises ValueError where fewer than two classes are left.
    """
    y, g = np.asarray(classes).astype(str), np.asarray(groups).astype(str)
    if len(y) != len(g):
        raise ValueError(f"{len(y)} classes, {len(g)} groups: expected equal numbers")
    names, index = np.unique(y, return_inverse=True)
    counts = np.stack([np.bincount(index[g == level], minlength=len(names)) for level in np.unique(g)])
    enough = np.asarray((counts >= fewest).all(axis=0))
    if enough.sum() < 2:
        raise ValueError(f"{enough.sum()} classes have {fewest} samples in every group: expected at least two classes")
    return np.asarray(enough[index])


@dataclass(frozen=True)
class _Data:
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


def _checked(
    embeddings: Any,
    classes: Any,
    groups: Any,
    clusters: Any,
    units: Any,
    train: Any,
    test: Any,
    average: str,
    levels: tuple[str, ...] | None,
) -> _Data:
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
    return _Data(h, y, g, s, u, levels, clusters, names, unit_of, crossed, folds, tested, weight)


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


def _measured(
    data: _Data,
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
    data: _Data,
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


def _some_clusters(data: _Data, train: Rows, rule: str, count: int, rng: np.random.Generator) -> np.ndarray:
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


def _plain(h: np.ndarray, g: np.ndarray, train: Rows) -> np.ndarray:
    return h


def _centred(h: np.ndarray, g: np.ndarray, train: Rows) -> np.ndarray:
    """Embeddings less the mean of their group over its training samples."""
    moved = h.copy()
    for level, rows in train.items():
        moved[g == level] -= h[rows].mean(axis=0)
    return moved


def _whitened(h: np.ndarray, g: np.ndarray, train: Rows) -> np.ndarray:
    """Embeddings of every group times Σ_g^{−1/2}, with the covariance of its training samples by Ledoit and Wolf."""
    try:
        from sklearn.covariance import ledoit_wolf
    except ImportError:
        raise ImportError("probes need scikit-learn: pip install 'sciops[audit]'") from None
    moved = _centred(h, g, train)
    scale = moved[np.concatenate([*train.values()])].std(axis=0)
    moved /= np.where(scale > 0, scale, 1.0)
    for level, rows in train.items():
        covariance, _ = ledoit_wolf(moved[rows], assume_centered=True)
        values, axes = np.linalg.eigh(covariance)
        root = axes / np.sqrt(np.maximum(values, 1e-12 * max(values[-1], 1e-300))) @ axes.T
        moved[g == level] = moved[g == level] @ root
    return moved


def _error(table: Table, trained: str, level: str, drawn: Mapping[str, np.ndarray] | None) -> Any:
    """Mean over clusters that were tested, or over each resample of them."""
    values = table[trained, level]
    known = ~np.isnan(values)
    weights = np.ones((1, len(values))) if drawn is None else drawn[level]
    weights = weights[:, known]
    with np.errstate(invalid="ignore", divide="ignore"):
        means = weights @ values[known] / weights.sum(axis=1)
    return means[0] if drawn is None else means


def _parts(table: Table, reference: str, group: str, drawn: Mapping[str, np.ndarray] | None) -> tuple[Any, Any, Any]:
    """(gap, irreducible, systematic) over all clusters, or over each resample of them."""

    def error(train: str, level: str) -> Any:
        return _error(table, train, level, drawn)

    gap = error("rule", group) - error("rule", reference)
    irreducible = error(group, group) - error(reference, reference)
    gains = [error("rule", level) - error(level, level) for level in (group, reference)]
    return gap, irreducible, gains[0] - gains[1]


def _interval(value: float, draws: np.ndarray, units: int) -> tuple[float, float]:
    """value ± t · deviation of the resamples, with what few units make the bootstrap too small by."""
    from scipy.stats import t

    half = float(t.ppf(0.975, units - 1) * np.nanstd(draws) * np.sqrt(units / (units - 1)))
    return float(value) - half, float(value) + half
