"""How far the discrete Darcy solution moves when its coefficient does, in the worst case."""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from sciops.bases import Basis
from sciops.grids import Grid
from sciops.pde import darcy

__all__ = ["darcy_lipschitz", "neighbour_ratio"]


def darcy_lipschitz(grid: Grid, least: float, ratio: float) -> float:
    """sup ‖S(a₁) − S(a₂)‖_h/max|a₁ − a₂| of the discrete Darcy problem with f = 1, for coefficients ≥ `least`.

    ‖u₁ − u₂‖_h ≤ κ‖f‖_{−1}/(√λ₁ a_min²): the energy estimate with λ₁ the least eigenvalue of the five-point Laplacian
    and ‖f‖²_{−1} = ⟨f, (−Δ_h)^{−1}f⟩. Faces take harmonic means, which change by at most κ = 2(1 + ρ²)/(1 + ρ)² times
    the change of the coefficient, ρ the largest ratio between neighbours.
    """
    hx, hy = grid.spacing
    sines = [Basis("sine", n, grid.centering, b - a) for n, (a, b) in zip(grid.shape, grid.extent)]
    eigenvalue = sum(float(basis.eigenvalues("finite-volume")[0]) for basis in sines)
    dual = math.sqrt(float((darcy.solve(np.ones(grid.shape), grid, tol=1e-12).u).sum() * hx * hy))
    kappa = 2 * (1 + ratio**2) / (1 + ratio) ** 2
    return kappa * dual / (math.sqrt(eigenvalue) * least**2)


def neighbour_ratio(a: Tensor, epsilon: float) -> float:
    """The largest (a_P + ε)/(a_Q − ε) of neighbours, what a perturbation of size ε can make of their ratio."""
    ratios = []
    for axis in (-2, -1):
        n = a.shape[axis]
        p, q = a.narrow(axis, 0, n - 1), a.narrow(axis, 1, n - 1)
        ratios += [float(((p + epsilon) / (q - epsilon)).max()), float(((q + epsilon) / (p - epsilon)).max())]
    return max(ratios)
