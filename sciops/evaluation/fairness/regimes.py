"""Which inputs a predictor serves badly: errors by factor and cell, over training seeds and clusters of samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciops.arrays.kinds import as_tensor, refuse_masked
from sciops.evaluation.fairness.cells import _indicators, _paule_mandel
from sciops.evaluation.paired import half_widths, paired_verdict

_WORDS = {"first": "better", "second": "worse", "equivalent": "alike"}


@dataclass(frozen=True)
class LevelEffect:
    """Errors of one level of a factor as a ratio to those of its reference level.

    factor, level, reference : names
    ratio, low, high : adjusted for the other factors, and its interval; the intervals of all effects hold together
    marginal, marginal_low, marginal_high : not adjusted
    verdict : "worse" or "better" (by more than the smallest ratio of interest), "alike" (surely by less), "undecided",
        "too few seeds" or "too few samples"
    clusters : number of clusters with rows of this level
    """

    factor: str
    level: str
    reference: str
    ratio: float
    low: float
    high: float
    marginal: float
    marginal_low: float
    marginal_high: float
    verdict: str
    clusters: int

    def __str__(self) -> str:
        return (
            f"{self.factor} {self.level} against {self.reference}: error × {self.ratio:.3g} [{self.low:.3g}, "
            f"{self.high:.3g}], {self.verdict}; not adjusted × {self.marginal:.3g}"
        )


@dataclass(frozen=True)
class RegimeCell:
    """Errors in one joint level of all factors.

    levels : one of each factor
    clusters, rows : number of each
    error, low, high : geometric mean error over seeds and rows, and its interval
    shrunken : drawn towards what the factors predict one by one; the more, the less is known of the cell
    additive : the prediction of the factors one by one
    suppressed : fewer clusters than asked for: the cell's own mean is not to be read by itself
    """

    levels: tuple[str, ...]
    clusters: int
    rows: int
    error: float
    low: float
    high: float
    shrunken: float
    additive: float
    suppressed: bool


@dataclass(frozen=True)
class RegimeErrors:
    """What `regime_errors` found.

    factors : name → levels; the first is the reference
    effects : one for each level but the references
    cells : those that occur, in the order of the levels
    overall : geometric mean error of all rows
    explained : 1 − τ²_additive / τ²_null, the share of the spread between cells that the factors explain one by one;
        NaN where the cells do not differ
    seeds, clusters, rows : number of each
    notes : what a reader has to know, one sentence each
    """

    factors: Mapping[str, tuple[str, ...]]
    effects: tuple[LevelEffect, ...]
    cells: tuple[RegimeCell, ...]
    overall: float
    explained: float
    seeds: int
    clusters: int
    rows: int
    notes: tuple[str, ...]

    @property
    def worst(self) -> RegimeCell:
        """The cell with the largest shrunken error, of those that are not suppressed.

        The largest of several noisy means is too large: choose the cell on validation samples, and read its error on
        test samples.
        """
        read = [cell for cell in self.cells if not cell.suppressed] or list(self.cells)
        return max(read, key=lambda cell: cell.shrunken)

    def cell(self, *levels: str) -> RegimeCell:
        """The cell of these levels, one of each factor in order. Raises ValueError where it does not occur."""
        for cell in self.cells:
            if cell.levels == levels:
                return cell
        raise ValueError(f"no cell {' × '.join(levels)}: expected a level of each of {', '.join(self.factors)}")

    def __str__(self) -> str:
        worst = self.worst
        return "\n".join(
            [
                f"geometric mean {self.overall:.3g}; {self.seeds} seeds, {self.clusters} clusters, {self.rows} rows",
                *map(str, self.effects),
                f"worst cell {' × '.join(worst.levels)}: {worst.error:.3g} [{worst.low:.3g}, {worst.high:.3g}]",
                *self.notes,
            ]
        )


def regime_errors(
    errors: Any,
    factors: Mapping[str, Any],
    *,
    cluster: Any = None,
    references: Mapping[str, str] | None = None,
    smallest: float = 1.1,
    level: float = 0.95,
    fewest_clusters: int = 10,
) -> RegimeErrors:
    """Says which levels of which factors have larger errors, adjusted for the other factors.

    The logarithms of the errors follow y_si = x_i'β + a_s + b_c(i) + e_si, with seeds s and clusters c drawn at
    random and x the indicators of all levels but the references. β̂ is least squares on the mean over seeds; exp(β̂_j)
    is a ratio of geometric means. With P = (X'X)⁻¹X' and r = y − Xβ̂ each seed and cluster adds

        d_sc = β̂_j + C Σ_{i∈c} P_ji r_si

    whose mean over seeds and clusters is β̂_j. `paired_verdict` takes these d_sc, so that the interval covers another
    training and other clusters. Where every cluster has a row in every cell, d_sc is the paired difference within the
    cluster, and adjusted and marginal ratios are the same.

    Parameters
    ----------
    errors : array_like of shape (rows,) or (seeds, rows)
        Positive, such as relative L² errors; smaller is better. With one seed no verdict follows.
    factors : mapping from name to array_like of shape (rows,)
        Labels. Unlike those of `Observations` they may change within a cluster.
    cluster : array_like of shape (rows,), optional
        What was drawn independently: the coefficient field that several problems share, the geometry, the trajectory.
        By default every row is its own.
    references : mapping from factor to level, optional
        What the other levels are compared with; by default the level that comes first.
    smallest : float
        Smallest ratio of errors of interest, at least 1.
    level : float
        Coverage of the interval of each cell, and of those of all effects together (Bonferroni).
    fewest_clusters : int
        Cells with fewer are marked as suppressed.

    Returns
    -------
    RegimeErrors

    Raises
    ------
    ValueError
        An error is not positive or not finite, lengths differ, a factor has one level, factors say the same, or there
        are fewer than two clusters.

    Notes
    -----
    For one seed and every row a cluster of its own the variance is the sandwich HC0 times C / (C − 1); with clusters it
    is the cluster-robust one. Fewer than 10 clusters or skewed cluster effects make the intervals too short.

    References
    ----------
    Liu, Veliche and Peng, Model-based approach for measuring the fairness in ASR, arXiv:2109.09061, for the joint
    regression; Paule and Mandel (1982) for the spread between cells.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> field = np.arange(20).repeat(2)
    >>> wall = np.tile(["dirichlet", "neumann"], 20)
    >>> errors = np.where(wall == "neumann", 0.06, 0.03) * np.exp(0.1 * rng.standard_normal((5, 40)))
    >>> found = regime_errors(errors, {"wall": wall}, cluster=field)
    >>> found.effects[0].verdict, round(found.effects[0].ratio, 1)
    ('worse', 2.0)
    """
    if not 1.0 <= smallest < math.inf:
        raise ValueError(f"smallest={smallest}: expected a ratio of at least 1, such as 1.1")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level={level}: expected a share between 0 and 1, such as 0.95")
    y = np.log(_positive(errors))
    seeds, rows = y.shape
    labels = {name: _labels(f"factor {name!r}", values, rows) for name, values in factors.items()}
    if not labels:
        raise ValueError("factors: expected at least one, such as {'boundary': labels}")
    levels = {name: _levels(name, values, (references or {}).get(name)) for name, values in labels.items()}
    unknown = sorted({*(references or {})} - {*labels})
    if unknown:
        raise ValueError(f"references: {unknown[0]!r} is not a factor; expected some of {', '.join(labels)}")
    names = np.arange(rows) if cluster is None else _labels("cluster", cluster, rows)
    _, index = np.unique(names, return_inverse=True)
    count = int(index.max()) + 1
    if count < 2:
        raise ValueError(f"cluster: {rows} rows of one cluster; expected at least two clusters, better twenty")

    columns = [(name, one) for name, found in levels.items() for one in found[1:]]
    joint = _contributions(y, _design(labels, columns), index, count)
    each = {
        name: _contributions(y, _design(labels, [c for c in columns if c[0] == name]), index, count) for name in labels
    }
    coverage = 1 - (1 - level) / len(columns)
    effects = []
    for place, (name, one) in enumerate(columns):
        alone = each[name][levels[name].index(one)]
        adjusted, marginal = (
            paired_verdict(d, np.zeros_like(d), smallest=math.log(smallest), level=coverage)
            for d in (joint[1 + place], alone)
        )
        ratio, low, high = _exponentials(adjusted.difference, adjusted.low, adjusted.high)
        raw, raw_low, raw_high = _exponentials(marginal.difference, marginal.low, marginal.high)
        effects.append(
            LevelEffect(
                factor=name,
                level=one,
                reference=levels[name][0],
                ratio=ratio,
                low=low,
                high=high,
                marginal=raw,
                marginal_low=raw_low,
                marginal_high=raw_high,
                verdict=_WORDS.get(adjusted.winner, adjusted.winner),
                clusters=len(np.unique(index[labels[name] == one])),
            )
        )
    cells, explained = _cells(y, labels, levels, index, level, fewest_clusters)
    return RegimeErrors(
        factors=levels,
        effects=tuple(effects),
        cells=cells,
        overall=float(np.exp(y.mean())),
        explained=explained,
        seeds=seeds,
        clusters=count,
        rows=rows,
        notes=_notes(effects, cells, seeds, count, fewest_clusters),
    )


def _design(labels: Mapping[str, np.ndarray], columns: list[tuple[str, str]]) -> np.ndarray:
    """(rows, 1 + columns): an intercept and the indicators of the levels."""
    rows = len(next(iter(labels.values())))
    x = np.stack([np.ones(rows), *((labels[name] == one).astype(float) for name, one in columns)], axis=1)
    if np.linalg.matrix_rank(x) < x.shape[1]:
        said = ", ".join(dict.fromkeys(name for name, _ in columns))
        raise ValueError(f"the factors {said} say the same in part: leave one out, or join them into one")
    return x


def _contributions(y: np.ndarray, x: np.ndarray, index: np.ndarray, count: int) -> np.ndarray:
    """(columns, seeds, clusters) d_sc of every coefficient; their mean is the coefficient."""
    p = np.linalg.pinv(x)
    beta = p @ y.mean(axis=0)
    residuals = y - x @ beta
    sums = [[np.bincount(index, weights=row * r, minlength=count) for r in residuals] for row in p]
    return np.asarray(beta[:, None, None] + count * np.array(sums))


def _cells(
    y: np.ndarray,
    labels: Mapping[str, np.ndarray],
    levels: Mapping[str, tuple[str, ...]],
    index: np.ndarray,
    level: float,
    fewest: int,
) -> tuple[tuple[RegimeCell, ...], float]:
    joint = list(zip(*(values.tolist() for values in labels.values())))
    found = sorted({*joint}, key=lambda cell: [levels[name].index(one) for name, one in zip(levels, cell)])
    means, halves, sizes, own = [], [], [], np.array([found.index(one) for one in joint])
    for c in range(len(found)):
        part, (_, of_cell) = y[:, own == c], np.unique(index[own == c], return_inverse=True)
        number = int(of_cell.max()) + 1
        # weights of the rows of a cluster as in the mean over rows
        d = np.stack([np.bincount(of_cell, weights=row) for row in part]) * number / part.shape[1]
        means.append(part.mean())
        spread = d - means[-1] * np.bincount(of_cell) * number / part.shape[1]
        halves.append(_half(spread, level))
        sizes.append((number, part.shape[1]))
    y_c, half = np.array(means), np.array(halves)
    from scipy.stats import norm

    variance = np.square(half / norm.ppf(0.5 + level / 2))
    known = np.isfinite(variance)
    many = np.array([number for number, _ in sizes])
    # one cluster says nothing of its spread: that of the others counts
    variance[~known] = float((variance[known] * many[known]).mean()) if known.any() else 1.0
    variance = np.maximum(variance, 1e-12)
    null, _ = _paule_mandel(y_c, variance, np.ones((len(found), 1)))
    spread, additive = _paule_mandel(y_c, variance, _indicators(found))
    weight = spread / (spread + variance)
    shrunken = weight * y_c + (1 - weight) * additive
    cells = tuple(
        RegimeCell(
            levels=tuple(found[c]),
            clusters=sizes[c][0],
            rows=sizes[c][1],
            error=math.exp(y_c[c]),
            low=math.exp(y_c[c] - half[c]),
            high=_exponentials(y_c[c] + half[c])[0],
            shrunken=math.exp(shrunken[c]),
            additive=math.exp(additive[c]),
            suppressed=sizes[c][0] < fewest,
        )
        for c in range(len(found))
    )
    return cells, math.nan if null == 0 else float(np.clip(1 - spread / null, 0.0, 1.0))


def _half(d: np.ndarray, level: float) -> float:
    """Half-width over seeds and clusters; over clusters alone with one seed; infinite with one cluster."""
    widths = half_widths(d, level=level)
    if d.shape[1] == 1:
        return math.inf
    return float(widths.samples if d.shape[0] == 1 else max(widths))


def _notes(
    effects: list[LevelEffect], cells: tuple[RegimeCell, ...], seeds: int, clusters: int, fewest: int
) -> tuple[str, ...]:
    notes = []
    if seeds == 1:
        notes.append("One seed: the intervals cover other samples, not another training; five seeds give a verdict.")
    if clusters < fewest:
        notes.append(f"{clusters} clusters: intervals from fewer than {fewest} are too short.")
    few = [cell for cell in cells if cell.suppressed]
    if few:
        notes.append(f"{len(few)} of {len(cells)} cells have fewer than {fewest} clusters: read their shrunken errors.")
    for effect in effects:
        if not effect.low <= effect.marginal <= effect.high:
            notes.append(
                f"{effect.factor} {effect.level}: errors are {effect.marginal:.3g} times those of {effect.reference}, "
                f"in equal cells {effect.ratio:.3g} times; the rest is the mix of the other factors."
            )
    return tuple(notes)


def _exponentials(*values: float) -> list[float]:
    """exp of each; infinite where it leaves the range of float64."""
    with np.errstate(over="ignore"):
        return np.exp(np.array(values, dtype=float)).tolist()


def _positive(errors: Any) -> np.ndarray:
    refuse_masked(errors, "errors")
    array = np.atleast_2d(as_tensor(errors, "errors")[0].detach().cpu().numpy().astype(np.float64))
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"errors of shape {np.shape(errors)}: expected (rows,) or (seeds, rows)")
    bad = ~(np.isfinite(array) & (array > 0))
    if bad.any():
        seed, row = np.argwhere(bad)[0]
        raise ValueError(
            f"errors[{seed}, {row}] = {array[seed, row]:g}: expected positive finite errors, whose logarithms are "
            "compared; leave these rows out for all seeds"
        )
    return array


def _labels(what: str, values: Any, rows: int) -> np.ndarray:
    array = np.array([str(value) for value in np.asarray(values).tolist()], dtype=object)
    if np.ndim(values) != 1 or array.shape != (rows,):
        raise ValueError(f"{what} of shape {np.shape(values)}: expected ({rows},), a label for each row of the errors")
    return array


def _levels(name: str, values: np.ndarray, reference: str | None) -> tuple[str, ...]:
    """The levels in the order in which they come, the reference first."""
    found = list(dict.fromkeys(values.tolist()))
    if len(found) < 2:
        raise ValueError(f"factor {name!r} has one level, {found[0]}: nothing to compare; leave it out")
    if reference is None:
        return tuple(found)
    if str(reference) not in found:
        raise ValueError(f"references: {name} has the levels {', '.join(found)}, not {reference}")
    return (str(reference), *(one for one in found if one != str(reference)))
