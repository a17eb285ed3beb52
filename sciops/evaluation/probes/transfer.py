"""Whether a group is served worse because its embeddings scatter, or because they lie elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from sciops.evaluation.probes.group_errors import (
    Average,
    as_they_are,
    centred_by_group,
    checked_samples,
    cluster_errors,
    gap_parts,
    mean_error,
    t_interval,
    whitened_by_group,
)
from sciops.evaluation.probes.linear import Probe

Rule = Literal["natural", "balanced", "reference"]


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
    data = checked_samples(embeddings, classes, groups, clusters, units, train, test, average, (reference, group))
    if "rule" in data.levels:
        raise ValueError("a group is called 'rule', as the shared probe is: give it another name")
    rng = np.random.default_rng(seed)
    fixes = {"plain": as_they_are, "centred": centred_by_group, "whitened": whitened_by_group}
    shared = {"rule": (rule, reference)}
    wanted = {("rule", level) for level in data.levels} | {(level, level) for level in data.levels}
    tables, _ = cluster_errors(data, shared, fixes, wanted, repeats, match_clusters, probe, strength, rng)
    weights, units_tested = data.resampled(draws, rng)
    parts = {name: gap_parts(table, reference, group, None) for name, table in tables.items()}
    drawn = {name: gap_parts(table, reference, group, weights) for name, table in tables.items()}
    gap, irreducible, systematic = (float(value) for value in parts["plain"])
    now, boot = parts["plain"], drawn["plain"]
    intervals = {name: t_interval(now[i], boot[i], units_tested) for i, name in ((1, "irreducible"), (2, "systematic"))}
    removed = {}
    for name in ("centred", "whitened"):
        intervals[name] = t_interval(parts[name][2], drawn[name][2], units_tested)
        taken = t_interval(now[2] - parts[name][2], boot[2] - drawn[name][2], units_tested)
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
    data = checked_samples(embeddings, classes, groups, clusters, units, train, test, average, None)
    if {*rules} & {*data.levels}:
        raise ValueError(f"a group is called {({*rules} & {*data.levels}).pop()!r}, as a rule is: give it another name")
    rng = np.random.default_rng(seed)
    trained = (*rules, *data.levels)
    wanted = {(row, level) for row in trained for level in data.levels}
    shared = {str(rule): (str(rule), "") for rule in rules}
    tables, mean = cluster_errors(
        data, shared, {"plain": as_they_are}, wanted, repeats, match_clusters, probe, strength, rng, samples
    )
    table, (weights, units_tested) = tables["plain"], data.resampled(draws, rng)
    size = (len(trained), len(data.levels))
    errors, low, high = np.empty(size), np.empty(size), np.empty(size)
    gains = np.empty((3, len(data.levels)))
    for j, level in enumerate(data.levels):
        drawn = {}
        for i, row in enumerate(trained):
            errors[i, j] = mean_error(table, row, level, None)
            drawn[row] = mean_error(table, row, level, weights)
            low[i, j], high[i, j] = t_interval(errors[i, j], drawn[row], units_tested)
        gain = errors[0, j] - errors[trained.index(level), j]
        gains[:, j] = gain, *t_interval(gain, drawn[trained[0]] - drawn[level], units_tested)
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
