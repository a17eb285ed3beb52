"""Lipschitz constant of the discrete Darcy solution with respect to its coefficient."""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from sciops.bases import Basis
from sciops.grids import Grid
from sciops.pde import darcy

__all__ = ["darcy_lipschitz", "neighbour_ratio"]


def darcy_lipschitz(grid: Grid, least: float, ratio: float) -> float:
    """A Lipschitz constant of the discrete Darcy solution with f = 1, for coefficients of at least `least`.

    sup ‖S(a₁) − S(a₂)‖_h/max|a₁ − a₂| ≤ κ‖f‖_{−1}/(√λ₁ a_min²): the energy estimate with λ₁ the least eigenvalue of the
    five-point Laplacian and ‖f‖²_{−1} = ⟨f, (−Δ_h)^{−1}f⟩. Faces take harmonic means, which change by at most
    κ = 2(1 + ρ²)/(1 + ρ)² times the change of the coefficient, ρ the largest ratio between neighbours.

    ratio : ρ, such as that of `neighbour_ratio`
    """
    hx, hy = grid.spacing
    sines = [Basis("sine", n, grid.centering, b - a) for n, (a, b) in zip(grid.shape, grid.extent)]
    eigenvalue = sum(float(basis.eigenvalues("finite-volume")[0]) for basis in sines)
    dual = math.sqrt(float((darcy.solve(np.ones(grid.shape), grid, tol=1e-12).u).sum() * hx * hy))
    kappa = 2 * (1 + ratio**2) / (1 + ratio) ** 2
    return kappa * dual / (math.sqrt(eigenvalue) * least**2)


def neighbour_ratio(a: Tensor, epsilon: float) -> float:
    """The largest ratio between neighbours after a perturbation of size ε: (a_P + ε)/(a_Q − ε)."""
    ratios = []
    for axis in (-2, -1):
        n = a.shape[axis]
        p, q = a.narrow(axis, 0, n - 1), a.narrow(axis, 1, n - 1)
        ratios += [float(((p + epsilon) / (q - epsilon)).max()), float(((q + epsilon) / (p - epsilon)).max())]
    return max(ratios)
