"""Errors and gaps between groups over depth, on four scales that may disagree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciops.evaluation.multiplicity import adjusted_p

SCALES = ("difference", "ratio", "log odds", "spread")
"""e_B − e_A; e_B / e_A; logit e_B − logit e_A; standard deviation of the groups' errors, less its noise."""


@dataclass(frozen=True)
class DepthCurves:
    """Gaps of one group against a reference over layers.

    layers : names, in the order of depth
    groups : names; `errors` (groups, layers): macro means over clusters
    reference, group : A and B
    bias : scale → (layers,); low, high : scale → (layers,), 95 % intervals over clusters
    trend : scale → Spearman correlation over layers of the gap with the mean error; trend_low, trend_high likewise
    emergence : first layer whose log-odds gap excludes 0 by Holm over layers; None where there is none
    p : (layers,) of "no gap", adjusted by Holm over layers
    warning : what the scales contradict each other in; "" where they agree

    The ratio is infinite where only the reference makes no error, and NaN where neither group makes one: 0/0 says
    nothing of a gap. Resamples of which it is NaN count towards both ends of its interval, which they can only widen,
    and its trend is NaN where one of the layers' ratios is.
    """

    layers: tuple[str, ...]
    groups: tuple[str, ...]
    errors: np.ndarray
    reference: str
    group: str
    bias: Mapping[str, np.ndarray]
    low: Mapping[str, np.ndarray]
    high: Mapping[str, np.ndarray]
    trend: Mapping[str, float]
    trend_low: Mapping[str, float]
    trend_high: Mapping[str, float]
    emergence: str | None
    p: np.ndarray
    warning: str


def depth_curves(
    errors: Mapping[str, Any],
    clusters: Any,
    groups: Any,
    *,
    reference: str,
    group: str,
    draws: int = 2000,
    alpha: float = 0.05,
    seed: int = 0,
) -> DepthCurves:
    """The gap between two groups at every layer, with intervals that share their resamples of clusters.

    A constant handicap b in log odds at every layer, e_B = σ(logit e_A + b), gives a ratio that rises to e^b as errors
    fall and a difference with a hump: "relative bias is largest where errors are least" follows without any layer being
    special. So all scales are reported, and a warning where the trends of ratio and log odds with the error differ.

    Parameters
    ----------
    errors : layer → (samples,), between 0 and 1 for the log-odds scale; in the order of depth
    clusters, groups : (samples,) labels; every cluster in one group
    reference, group : A and B
    draws, alpha, seed : resamples of clusters within groups, level, seed

    Returns
    -------
    DepthCurves

    Raises
    ------
    ValueError
        Lengths differ, a group is unknown or has fewer than 5 clusters.

    Notes
    -----
    The log odds of a group with errors 0 or 1 count half an error of a cluster: e is kept within ½/S … 1 − ½/S.
    """
    names = tuple(errors)
    table = np.stack([np.asarray(errors[name], dtype=float) for name in names], axis=1)
    labels, of_group = np.asarray(clusters).astype(str), np.asarray(groups).astype(str)
    if not len(labels) == len(of_group) == len(table):
        raise ValueError(f"{len(table)} errors, {len(labels)} clusters, {len(of_group)} groups: expected equal numbers")
    order, first, index = np.unique(labels, return_index=True, return_inverse=True)
    if len({*zip(labels.tolist(), of_group.tolist())}) != len(order):
        raise ValueError("a cluster is in two groups")
    sums = np.stack([np.bincount(index, weights=column) for column in table.T], axis=1)
    per_cluster = sums / np.bincount(index)[:, None]
    levels = sorted({*of_group.tolist()})
    for level in (reference, group):
        if level not in levels:
            raise ValueError(f"{level!r} is not a group: expected some of {', '.join(levels)}")
    parts = {level: per_cluster[of_group[first] == level] for level in levels}
    few = [level for level in (reference, group) if len(parts[level]) < 5]
    if few:
        raise ValueError(f"{few[0]!r} has {len(parts[few[0]])} clusters: expected at least 5")
    rng = np.random.default_rng(seed)
    drawn = {}
    for level, part in parts.items():
        weights = rng.multinomial(len(part), np.full(len(part), 1 / len(part)), size=draws) / len(part)
        drawn[level] = weights @ part  # (draws, layers)
    mean = {level: part.mean(axis=0) for level, part in parts.items()}
    noise = {level: part.var(axis=0, ddof=1) / len(part) if len(part) > 1 else np.inf for level, part in parts.items()}
    counts = {level: len(part) for level, part in parts.items()}
    bias = _scales(mean, reference, group, counts, noise)
    # a resample has twice the noise of the data: its own and that of the data it is drawn from
    twice = {level: 2 * value for level, value in noise.items()}
    each = _scales(drawn, reference, group, counts, twice)
    ends = {scale: _ends(values, alpha) for scale, values in each.items()}
    overall = np.mean([mean[level] for level in levels], axis=0)
    overall_drawn = np.mean([drawn[level] for level in levels], axis=0)
    trend = {scale: float(_spearman(values[None], overall[None])[0]) for scale, values in bias.items()}
    trends = {scale: _spearman(values, overall_drawn) for scale, values in each.items()}
    tails = [alpha / 2, 1 - alpha / 2]
    # one layer has no trend
    trend_ends = {
        scale: np.nanquantile(values, tails) if np.isfinite(values).any() else np.full(2, np.nan)
        for scale, values in trends.items()
    }
    odds = each["log odds"]
    tail = np.minimum((odds <= 0).sum(axis=0), (odds >= 0).sum(axis=0))
    p = np.array(adjusted_p([min(1.0, 2 * (1 + int(count)) / (draws + 1)) for count in tail]))
    emerged = [name for name, value in zip(names, p) if value < alpha]
    warning = ""
    signs = {scale: np.sign(value) for scale, value in trend.items() if not np.isnan(value)}  # an undefined one is none
    if trend_ends["ratio"][1] < 0 <= trend_ends["log odds"][1]:
        warning = (
            "the ratio of errors falls as errors rise and the log odds do not: a constant handicap gives this at every "
            "layer alike"
        )
    elif len({signs[scale] for scale in ("difference", "ratio", "log odds") if scale in signs}) > 1:
        warning = "the trend of the gap with the error changes its sign with the scale: report all of them"
    return DepthCurves(
        layers=names,
        groups=tuple(levels),
        errors=np.stack([mean[level] for level in levels]),
        reference=reference,
        group=group,
        bias=bias,
        low={scale: value[0] for scale, value in ends.items()},
        high={scale: value[1] for scale, value in ends.items()},
        trend=trend,
        trend_low={scale: float(value[0]) for scale, value in trend_ends.items()},
        trend_high={scale: float(value[1]) for scale, value in trend_ends.items()},
        emergence=emerged[0] if emerged else None,
        p=p,
        warning=warning,
    )


def _scales(
    errors: Mapping[str, np.ndarray], reference: str, group: str, counts: Mapping[str, int], noise: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    a, b = errors[reference], errors[group]

    def odds(e: np.ndarray, count: int) -> np.ndarray:
        e = np.clip(e, 0.5 / count, 1 - 0.5 / count)
        return np.log(e / (1 - e))

    every = np.stack([errors[level] for level in errors])
    between = every.var(axis=0, ddof=1) - np.mean([np.broadcast_to(noise[g], a.shape) for g in errors], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(a > 0, b / np.where(a > 0, a, 1.0), np.where(b > 0, np.inf, np.nan))
    return {
        "difference": b - a,
        "ratio": ratio,
        "log odds": odds(b, counts[group]) - odds(a, counts[reference]),
        "spread": np.sqrt(np.maximum(between, 0.0)),
    }


def _ends(values: np.ndarray, alpha: float) -> np.ndarray:
    """(2, layers): quantiles α/2 and 1 − α/2 over draws; an undefined draw is below the first and above the second."""
    if np.isfinite(values).all():
        return np.quantile(values, [alpha / 2, 1 - alpha / 2], axis=0)
    # between two infinite values nothing can be interpolated
    low = np.quantile(np.where(np.isnan(values), -np.inf, values), alpha / 2, axis=0, method="lower")
    high = np.quantile(np.where(np.isnan(values), np.inf, values), 1 - alpha / 2, axis=0, method="higher")
    return np.stack([np.where(np.isneginf(low), 0.0, low), high])  # a ratio is at least 0


def _spearman(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(draws,) rank correlations of rows; NaN where a row is constant."""
    from scipy.stats import rankdata

    a, b = (rankdata(values, axis=1) for values in (first, second))
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    size = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(size > 0, (a * b).sum(axis=1) / np.where(size > 0, size, 1.0), np.nan)
