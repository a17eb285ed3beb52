"""An independent assembly of the Darcy scheme, and coefficient fields to try it on."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sparse

from sciops.grids import Grid


def _matrix(a: np.ndarray, grid: Grid):
    """(CSR matrix, dual areas, indices of the unknowns) as Σ Gᵀ C G over the edges of each axis.

    The grid is first completed by the wall points it lacks, carrying the nearest coefficient.
    """
    points, pads = [], []
    for x, (low, high), h in zip(grid.coordinates(), grid.domain, grid.spacing):
        before, after = [low] if x[0] - low > 1e-9 * h else [], [high] if high - x[-1] > 1e-9 * h else []
        points.append(np.concatenate([before, x, after]))
        pads.append((len(before), len(after)))
    a = np.pad(a, pads, mode="edge")
    index = np.arange(a.size).reshape(a.shape)
    matrix = sparse.csr_array((a.size, a.size))
    widths = []
    for x in points:
        gap = np.diff(x)
        widths.append(np.concatenate([[0.0], (gap[:-1] + gap[1:]) / 2, [0.0]]))
    for axis in (0, 1):
        p, q = np.moveaxis(index, axis, 0)[:-1].ravel(), np.moveaxis(index, axis, 0)[1:].ravel()
        across = np.broadcast_to(widths[1 - axis], np.moveaxis(a, axis, 0)[1:].shape).ravel()
        gap = np.broadcast_to(np.diff(points[axis])[:, None], np.moveaxis(a, axis, 0)[1:].shape).ravel()
        face = 1 / (0.5 / a.ravel()[p] + 0.5 / a.ravel()[q])
        edges = np.arange(len(p))
        G = sparse.coo_array(
            (np.repeat([1.0, -1.0], len(p)), (np.tile(edges, 2), np.concatenate([q, p]))), shape=(len(p), a.size)
        ).tocsr()
        matrix = matrix + G.T @ sparse.diags_array(face * across / gap) @ G
    inside = index[1:-1, 1:-1].ravel()
    return sparse.csr_array(matrix)[inside][:, inside], np.outer(widths[0], widths[1])[1:-1, 1:-1]


@pytest.fixture(scope="session")
def reference_matrix():
    return _matrix


def _field(kind: str, n: int, samples: int = 2, seed: int = 0) -> np.ndarray:
    """Smooth random fields of the Darcy law's kind: cosines with falling weights, thresholded or exponentiated."""
    rng = np.random.default_rng(seed)
    k = np.arange(24)
    weight = (np.pi**2 * (k[:, None] ** 2 + k**2) + 9.0) ** -1.0
    weight[0, 0] = 0.0
    C = np.cos(np.pi * np.outer(np.linspace(0, 1, n), k))
    g = C @ (weight * rng.standard_normal((samples, 24, 24))) @ C.T
    g /= g.std()
    if kind.startswith("lognormal"):
        return np.exp(float(kind[9:]) * g)
    if kind == "pixels":
        return np.where(rng.random((samples, n, n)) > 0.5, 1e4, 1.0)
    return np.where(g > 0, float(kind), 1.0)


@pytest.fixture(scope="session")
def field():
    return _field
