"""Where the embeddings of a class lie for each group, and how far they scatter: sampling noise taken off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Scatter:
    """Variance of one class in one group, tr Σ, split between and within clusters.

    total = between + within: unbiased ANOVA estimates; `between` may come out below 0
    samples, clusters : how many
    """

    between: float
    within: float
    samples: int
    clusters: int

    @property
    def total(self) -> float:
        return self.between + self.within


def scatter(embeddings: Any, clusters: Any) -> Scatter:
    """Trace of the covariance of one class in one group, between clusters and within them.

    One-way ANOVA with n_s samples in cluster s of S, N in all: MS_w = Σ_s Σ_i ‖h_si − m_s‖² / (N − S),
    MS_b = Σ_s n_s ‖m_s − m‖² / (S − 1), V_ws = MS_w, V_bs = (MS_b − MS_w) / n₀ with n₀ = (N − Σ n_s² / N) / (S − 1).

    Parameters
    ----------
    embeddings : (samples, D)
    clusters : (samples,) labels

    Raises
    ------
    ValueError
        There are fewer than two clusters, or one sample in each.
    """
    h, (_, index, count) = (
        _embeddings(embeddings),
        np.unique(np.asarray(clusters), return_inverse=True, return_counts=True),
    )
    if len(index) != len(h):
        raise ValueError(f"{len(index)} clusters for {len(h)} embeddings: expected equal numbers")
    if len(count) < 2 or len(h) == len(count):
        raise ValueError(f"{len(h)} samples in {len(count)} clusters: expected two clusters, and one with two samples")
    means = _means(h, index, len(count))
    within = float(((h - means[index]) ** 2).sum()) / (len(h) - len(count))
    about = float((count * ((means - h.mean(axis=0)) ** 2).sum(axis=1)).sum()) / (len(count) - 1)
    size = (len(h) - float((count**2).sum()) / len(h)) / (len(count) - 1)
    return Scatter((about - within) / size, within, len(h), len(count))


def squared_shift(first: Any, second: Any, *, first_clusters: Any = None, second_clusters: Any = None) -> float:
    """‖m₂ − m₁‖² without the part that sampling noise adds.

    b² = ‖m̂₂ − m̂₁‖² − tr Ĉ₁ − tr Ĉ₂, with Ĉ the covariance of a mean: Σ̂/n of independent samples, or with clusters the
    covariance of the clusters' means over their number (the means then weigh clusters alike). Unbiased, so that it may
    come out below 0.

    Parameters
    ----------
    first, second : (samples, D), (other samples, D)
    first_clusters, second_clusters : (samples,) labels; None takes samples for independent

    Raises
    ------
    ValueError
        The features differ, or a side has fewer than two independent members.
    """
    centers, noise = [], 0.0
    for name, values, labels in (("first", first, first_clusters), ("second", second, second_clusters)):
        h = _embeddings(values)
        if labels is not None:
            _, index = np.unique(np.asarray(labels), return_inverse=True)
            h = _means(h, index, int(index.max()) + 1)
        if len(h) < 2:
            raise ValueError(f"{name}: {len(h)} independent members; expected at least two")
        centers.append(h.mean(axis=0))
        noise += float(h.var(axis=0, ddof=1).sum()) / len(h)
    if centers[0].shape != centers[1].shape:
        raise ValueError(f"{len(centers[0])} and {len(centers[1])} features: expected equal numbers")
    return float(((centers[1] - centers[0]) ** 2).sum()) - noise


@dataclass(frozen=True)
class GroupShift:
    """How the classes of one group lie against those of a reference.

    classes : those both have
    common : (D,) mean over classes of m_pg − m_pr, which taking off a group mean removes
    specific : (classes, D) what is left of each
    toward : (classes, classes) τ_pq: the part of the way from class p to q, along their discriminant, by which the
        group's p is shifted; ½ lies on the boundary; NaN on the diagonal
    separation : (classes, classes) d' of the group's classes, in units of the spread within them
    reference_separation : the same of the reference
    """

    classes: tuple[str, ...]
    common: np.ndarray
    specific: np.ndarray
    toward: np.ndarray
    separation: np.ndarray
    reference_separation: np.ndarray


def group_shift(
    embeddings: Any, classes: Any, groups: Any, *, reference: str, group: str, ridge: float = 1e-8
) -> GroupShift:
    """Common and class-specific shift of a group's classes, along the discriminants that a linear probe uses.

    With Σ_W the covariance within the reference's classes and w_pq = Σ_W⁻¹ (m_pr − m_qr)::

        τ_pq = w_pq·(m_pg − m_pr) / w_pq·(m_qr − m_pr),    d'_pq = ‖Σ_W,g^{−1/2} (m_pg − m_qg)‖

    d' does not change under an invertible linear map of the embeddings and is what any linear probe can reach.

    Parameters
    ----------
    embeddings : (samples, D)
    classes, groups : (samples,) labels
    reference, group : levels
    ridge : share of the mean variance that is added to the diagonal of Σ_W

    Raises
    ------
    ValueError
        A group is unknown, fewer than two classes are in both groups with two samples each.
    """
    h, y, g = _embeddings(embeddings), np.asarray(classes).astype(str), np.asarray(groups).astype(str)
    if not len(h) == len(y) == len(g):
        raise ValueError(f"{len(h)} embeddings, {len(y)} classes, {len(g)} groups: expected equal numbers")
    for level in (reference, group):
        if level not in g:
            raise ValueError(f"{level!r} is not a group: expected some of {', '.join(sorted({*g.tolist()}))}")
    enough = [{c for c in {*y[g == level].tolist()} if (y[g == level] == c).sum() > 1} for level in (reference, group)]
    names = tuple(sorted(set.intersection(*enough)))
    if len(names) < 2:
        raise ValueError(f"{len(names)} classes have two samples in both groups: expected at least two")
    means, inverse = {}, {}
    for level in (reference, group):
        parts = [h[(g == level) & (y == name)] for name in names]
        means[level] = np.stack([part.mean(axis=0) for part in parts])
        inner = np.concatenate([part - part.mean(axis=0) for part in parts])
        covariance = inner.T @ inner / max(len(inner) - len(names), 1)
        covariance += ridge * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
        inverse[level] = np.linalg.pinv(covariance, hermitian=True)
    delta = means[group] - means[reference]
    gaps = means[reference][None] - means[reference][:, None]  # (p, q): m_q − m_p
    along = np.einsum("pqd,de->pqe", gaps, inverse[reference])
    with np.errstate(invalid="ignore", divide="ignore"):
        toward = np.einsum("pqe,pe->pq", along, delta) / np.einsum("pqe,pqe->pq", along, gaps)

    def separation(level: str) -> np.ndarray:
        between = means[level][None] - means[level][:, None]
        return np.sqrt(np.maximum(np.einsum("pqd,de,pqe->pq", between, inverse[level], between), 0.0))

    np.fill_diagonal(toward, np.nan)
    common = delta.mean(axis=0)
    return GroupShift(names, common, delta - common, toward, separation(group), separation(reference))


def _embeddings(values: Any) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"embeddings of shape {array.shape}: expected (samples, features)")
    if not np.isfinite(array).all():
        raise ValueError("embeddings are not finite")
    return array


def _means(h: np.ndarray, index: np.ndarray, count: int) -> np.ndarray:
    sums = np.zeros((count, h.shape[1]))
    np.add.at(sums, index, h)
    return sums / np.bincount(index, minlength=count)[:, None]
