"""Coefficient fields, a matrix assembled apart, and the check of a solution that studies of the Darcy solver share."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciops.grids import Grid
from sciops.random_fields import gaussian_random_field, two_phase


def fields(kind: str, n: int, samples: int, seed: int) -> np.ndarray:
    """Coefficients of the Darcy benchmark's law (τ = 3, α = 2) as two phases, or independent pixels."""
    grid = Grid((n, n))
    low, high = {"12/3": (3, 12), "100:1": (1, 100), "1e4:1": (1, 1e4), "1e6:1": (1, 1e6), "pixels 1e4:1": (1, 1e4)}[
        kind
    ]
    if kind.startswith("pixels"):
        g = np.random.default_rng([seed, n]).standard_normal((samples, n, n))
    else:
        g = gaussian_random_field(grid, samples, tau=3.0, alpha=2.0, seed=seed)
    return two_phase(g, low=low, high=high)


def matrix_of(a: np.ndarray) -> tuple[Any, np.ndarray]:
    """(CSR matrix, right side for f = 1) of −∇·(a∇u) = f on the unit square, u = 0 on its walls; harmonic means."""
    from scipy.sparse import diags_array

    m = len(a) - 2
    e = 2.0 / (1.0 / a[1:-1, 1:] + 1.0 / a[1:-1, :-1])
    s = 2.0 / (1.0 / a[1:, 1:-1] + 1.0 / a[:-1, 1:-1])
    diagonal = (e[:, 1:] + e[:, :-1] + s[1:] + s[:-1]).ravel()
    right = e[:, 1:].copy()
    right[:, -1] = 0.0  # the next unknown in memory lies in the next row
    right, down = right.ravel()[:-1], s[1:-1].ravel()
    matrix = diags_array([diagonal, -right, -right, -down, -down], offsets=[0, 1, -1, m, -m], format="csr")
    matrix.eliminate_zeros()
    return matrix, np.full(m * m, 1.0 / (m + 1) ** 2)


def check(name: str, A, b: np.ndarray, u: np.ndarray, reference: np.ndarray, tol: float) -> float:
    """The true relative residual of u; RuntimeError where it exceeds tol or u is another solution."""
    u = u.ravel()
    rho = float(np.linalg.norm(b - A @ u) / np.linalg.norm(b))
    difference = float(np.abs(u - reference.ravel()).max() / np.abs(reference).max())
    if not rho <= 1.01 * tol or not difference <= 10 * tol:
        raise RuntimeError(f"{name}: residual {rho:.1e} (tol {tol:.0e}), {difference:.1e} away from sciops' solution")
    return rho
