"""Expected radii of partitions, from the selection sample alone."""

from __future__ import annotations

import numpy as np

_Candidate = tuple[int, bool, tuple[float, float, float]]  # singles, pooled, shares

_HEAD = 16  # classes looked at one by one; the others enter by their sum and their largest
_DRAWS = 16
_SINGLES = (2, 3, 4, 6, 10)
_REST_SHARES = (0.02, 0.2)  # of α, for all of the rest together


def best_shapes(ranked: np.ndarray, samples: float, alpha: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(singles, pooled, shares) of the candidate with the largest mean radius over likely class probabilities.

    ranked : (inputs, classes) selection counts, falling. samples : of the estimation to come
    Wilson's bounds stand for the exact ones, since only the choice rests on them.
    """
    inputs, classes = ranked.shape
    probabilities, largest_beyond = _likely(ranked)
    best = np.full(inputs, -1.0)
    singles, pooled, shares = np.ones(inputs, int), np.ones(inputs, bool), np.tile([1.0, 0.0, 0.0], (inputs, 1))
    for candidate in _candidates(classes):
        value = _mean_radius(probabilities, largest_beyond, candidate, classes, samples, alpha)
        m, pool, share = candidate
        better = value > best * (1 + 1e-9)
        best = np.where(better, value, best)
        singles, pooled = np.where(better, m, singles), np.where(better, pool, pooled)
        shares = np.where(better[:, None], share, shares)
    return singles, pooled, shares


def _candidates(classes: int) -> list[_Candidate]:
    """One bucket; equal shares; and half of α for the first class, with a small part for the rest."""
    found: list[_Candidate] = [(1, True, (1.0, 0.0, 0.0))]
    if classes == 2:
        return found
    found.append((1, False, (1 / classes, 0.0, 1 / classes)))
    for m in (m for m in _SINGLES if m <= min(classes, _HEAD)):
        rest = classes - m
        for part in _REST_SHARES if rest else (0.0,):
            first = (1 - part) / 2
            for pool in (True, False) if rest else (False,):
                found.append((m, pool, (first, first / (m - 1), part / (1 if pool or not rest else rest))))
    return found


def _likely(ranked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(draws, inputs, head + 1) class probabilities, the last the sum of the others; (inputs,) the largest of those.

    Counts lose what absolute discounting takes from seen classes for unseen ones, N₁/(N₁ + 2N₂) each (Ney, Essen &
    Kneser 1994), without which a flat tail looks like few classes; then a Dirichlet draw (gammas by Wilson and
    Hilferty's cubes). The normals are the same for every input, so that the choice is a function of the counts.
    """
    classes = ranked.shape[1]
    total = ranked.sum(1, keepdims=True)
    seen = (ranked > 0).sum(1)
    once, twice = (ranked == 1).sum(1), (ranked == 2).sum(1)
    discount = np.where(seen < classes, once / np.maximum(once + 2 * twice, 1), 0.0)
    unseen = discount * seen
    each = unseen / np.maximum(classes - seen, 1)
    smooth = np.where(ranked > 0, ranked - discount[:, None], each[:, None])
    head = min(classes, _HEAD)
    shape = np.concatenate([smooth[:, :head], smooth[:, head:].sum(1, keepdims=True)], 1)
    normal = np.random.default_rng(0).standard_normal((_DRAWS, 1, head + 1))
    normal -= normal.mean(0)
    safe = np.maximum(shape, 1e-9)
    gamma = np.where(shape > 0, safe * np.maximum(1 - 1 / (9 * safe) + normal / (3 * np.sqrt(safe)), 0) ** 3, 0.0)
    beyond = np.zeros(len(ranked))
    if classes > head:
        beyond = np.maximum(ranked[:, head], np.minimum(unseen, 1)) / total[:, 0]
    return gamma / np.maximum(gamma.sum(-1, keepdims=True), 1e-300), beyond


def _mean_radius(
    p: np.ndarray, largest_beyond: np.ndarray, candidate: _Candidate, classes: int, samples: float, alpha: float
) -> np.ndarray:
    from scipy import special

    singles, pooled, shares = candidate
    head = p.shape[-1] - 1
    lower = _wilson(p[..., 0], samples, alpha * shares[0], -1)
    upper = np.zeros_like(lower)
    if singles > 1:
        upper = _wilson(p[..., 1:singles].max(-1), samples, alpha * shares[1], 1)
    if singles < classes:
        if pooled:
            rest = p[..., singles:].sum(-1)
        else:
            rest = np.maximum(p[..., singles:head].max(-1, initial=0.0), largest_beyond)
        upper = np.maximum(upper, _wilson(rest, samples, alpha * shares[2], 1))
    upper = np.minimum(upper, 1 - lower)
    radius = special.ndtri(np.maximum(lower, 1e-12)) - special.ndtri(np.maximum(upper, 1e-12))
    return np.maximum(radius, 0.0).mean(0)


def _wilson(p: np.ndarray, n: float, level: float, sign: int) -> np.ndarray:
    from scipy import special

    if level == 0:
        return np.full_like(p, 1.0 if sign > 0 else 0.0)
    z = -special.ndtri(level)
    spread = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return np.clip((p + z * z / (2 * n) + sign * spread) / (1 + z * z / n), 0.0, 1.0)
