"""Errors per unit of exposure, by cluster and group: the table that every question about groups starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Observations:
    """Errors of a predictor with what is known about each: the cluster it belongs to, its factors and covariates.

    A cluster is what was drawn independently: a speaker, an instance of an equation, a mesh. Rows of one cluster depend
    on each other. Factors are properties of clusters (an accent, a boundary type); covariates may differ from row to
    row (a signal-to-noise ratio, the length of an utterance).

    Parameters
    ----------
    errors : array_like of shape (rows,)
        Counts or losses, at least 0: substitutions + deletions + insertions, or cells above a tolerance.
    exposure : array_like of shape (rows,)
        What the errors are counted against, positive: words of the reference, cells of the grid, or 1.
    cluster : array_like of shape (rows,)
        Labels of the clusters.
    factors : mapping from name to array_like of shape (rows,)
        Labels, one level in each cluster.
    covariates : mapping from name to array_like of shape (rows,), optional
        Finite numbers, which enter regressions as they are.
    parts : mapping from name to array_like of shape (rows,), optional
        Kinds of errors that add up to `errors`, such as substitutions, deletions and insertions.

    Raises
    ------
    ValueError
        The lengths differ, a number is not finite, negative, or an exposure is 0; a factor changes within a cluster;
        the parts do not add up to the errors.
    """

    errors: np.ndarray
    exposure: np.ndarray
    cluster: np.ndarray
    factors: Mapping[str, np.ndarray]
    covariates: Mapping[str, np.ndarray] = field(default_factory=dict)
    parts: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        errors = _numbers("errors", self.errors)
        rows = len(errors)
        if rows == 0:
            raise ValueError("errors: there are no rows")
        exposure = _numbers("exposure", self.exposure, rows)
        if (exposure <= 0).any():
            raise ValueError("exposure: expected positive numbers; leave out rows without a reference")
        cluster = _labels("cluster", self.cluster, rows)
        factors = {name: _labels(name, values, rows) for name, values in self.factors.items()}
        for name, values in factors.items():
            pairs = {*zip(cluster.tolist(), values.tolist())}
            if len(pairs) != len({*cluster.tolist()}):
                raise ValueError(f"factor {name!r} changes within a cluster: pass it as a covariate, or as the cluster")
        covariates = {name: _finite(name, values, rows) for name, values in self.covariates.items()}
        parts = {name: _numbers(name, values, rows) for name, values in self.parts.items()}
        if parts and not np.allclose(sum(parts.values()), errors, rtol=1e-9, atol=1e-9):
            raise ValueError(f"parts {', '.join(parts)} do not add up to the errors")
        both = sorted({*factors} & {*covariates})
        if both:
            raise ValueError(f"{both[0]!r} is a factor and a covariate: give it one name each")
        checked = {"errors": errors, "exposure": exposure, "cluster": cluster}
        for name, value in (checked | {"factors": factors, "covariates": covariates, "parts": parts}).items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.errors)

    def rows(self, chosen: Any) -> Observations:
        """The observations of some rows, by indices or a mask."""

        def of(named: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {name: values[chosen] for name, values in named.items()}

        plain = (self.errors[chosen], self.exposure[chosen], self.cluster[chosen])
        return Observations(*plain, of(self.factors), of(self.covariates), of(self.parts))

    def factor(self, name: str) -> np.ndarray:
        """Labels (rows,) of a factor. Raises ValueError for an unknown name."""
        if name not in self.factors:
            raise ValueError(f"factor {name!r} is unknown: the observations have {', '.join(self.factors) or 'none'}")
        return self.factors[name]

    def levels(self, name: str) -> list[str]:
        """The levels of a factor, sorted."""
        return sorted({*self.factor(name).tolist()})


@dataclass(frozen=True)
class ClusterTable:
    """Sums over the rows of each cluster.

    cluster : (clusters,) labels, sorted
    errors, exposure, rate : (clusters,) E_s, N_s and E_s / N_s
    row_rate : (clusters,) mean over the rows of E_si / N_si
    factors : name → (clusters,) levels
    parts : name → (clusters,) sums
    """

    cluster: np.ndarray
    errors: np.ndarray
    exposure: np.ndarray
    rate: np.ndarray
    row_rate: np.ndarray
    factors: Mapping[str, np.ndarray]
    parts: Mapping[str, np.ndarray]

    def labels(self, names: tuple[str, ...]) -> np.ndarray:
        """(clusters,) of the joint levels of these factors, "a × b"; a single factor keeps its own."""
        columns = [self.factors[name].tolist() for name in names]
        return np.array([" × ".join(levels) for levels in zip(*columns)], dtype=object)


@dataclass(frozen=True)
class GroupRate:
    """Error rates of one group.

    clusters, rows : number of each
    exposure : sum over rows
    pooled : Σ E / Σ N, in which clusters with much exposure weigh more
    macro : mean over clusters of E_s / N_s: one cluster, one vote
    row_mean : mean over rows of E / N, the mean of utterances
    parts : name → its share of the pooled rate
    """

    group: str
    clusters: int
    rows: int
    exposure: float
    pooled: float
    macro: float
    row_mean: float
    parts: Mapping[str, float]


def cluster_table(observations: Observations) -> ClusterTable:
    """Errors, exposure and rates of every cluster."""
    labels, first, index = np.unique(observations.cluster, return_index=True, return_inverse=True)

    def summed(values: np.ndarray) -> np.ndarray:
        return np.bincount(index, weights=values, minlength=len(labels))

    errors, exposure = summed(observations.errors), summed(observations.exposure)
    return ClusterTable(
        cluster=labels,
        errors=errors,
        exposure=exposure,
        rate=errors / exposure,
        row_rate=summed(observations.errors / observations.exposure) / np.bincount(index),
        factors={name: values[first] for name, values in observations.factors.items()},
        parts={name: summed(values) for name, values in observations.parts.items()},
    )


def group_rates(observations: Observations, *factors: str) -> list[GroupRate]:
    """Pooled, macro and row-mean rates of every group, or of every cell of several factors.

    Parameters
    ----------
    observations : Observations
    *factors : str
        One factor for its groups; several for the cells that occur.

    Returns
    -------
    list of GroupRate, sorted by the group's name
    """
    if not factors:
        raise ValueError(f"group_rates: name a factor, one of {', '.join(observations.factors) or 'none'}")
    columns = [observations.factor(name).tolist() for name in factors]
    joint = np.array([" × ".join(levels) for levels in zip(*columns)], dtype=object)
    found = []
    for group in sorted({*joint.tolist()}):
        part = observations.rows(joint == group)
        table = cluster_table(part)
        total = float(table.exposure.sum())
        found.append(
            GroupRate(
                group=group,
                clusters=len(table.cluster),
                rows=len(part),
                exposure=total,
                pooled=float(table.errors.sum()) / total,
                macro=float(table.rate.mean()),
                row_mean=float((part.errors / part.exposure).mean()),
                parts={name: float(values.sum()) / total for name, values in table.parts.items()},
            )
        )
    return found


def _finite(name: str, values: Any, rows: int | None = None) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or (rows is not None and len(array) != rows):
        wanted = "(rows,)" if rows is None else f"({rows},)"
        raise ValueError(f"{name} of shape {array.shape}: expected {wanted}, as the errors")
    if not np.isfinite(array).all():
        raise ValueError(f"{name}: {int((~np.isfinite(array)).sum())} of {len(array)} numbers are not finite")
    return array


def _numbers(name: str, values: Any, rows: int | None = None) -> np.ndarray:
    array = _finite(name, values, rows)
    if (array < 0).any():
        raise ValueError(f"{name}: {array.min():g} is negative; expected counts or losses of at least 0")
    return array


def _labels(name: str, values: Any, rows: int) -> np.ndarray:
    array = np.array([str(value) for value in np.asarray(values).tolist()], dtype=object)
    if array.shape != (rows,):
        raise ValueError(f"{name} of shape {array.shape}: expected ({rows},), as the errors")
    return array
