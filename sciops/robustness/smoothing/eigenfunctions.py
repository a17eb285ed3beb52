"""Eigenfunctions of the Laplacian at the points of a grid: synthesis, and coefficients of functions in their span."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from sciops import bases
from sciops.bases import KIND_OF
from sciops.grids import Grid
from sciops.random_fields import normal_coefficients

Boundary = Literal["neumann", "dirichlet", "periodic"]


@dataclass(frozen=True)
class Eigenbasis:
    """φ_k(x) = Π_i φ_{k_i}(x_i) with −Δφ_k = λ_k φ_k and ∫φ_k² = 1 over the grid's domain.

    axes : per axis (points, modes), float64
    inverses : per axis the pseudo-inverse (modes, points); exact on the span
    eigenvalues : (modes, …)
    gains : (modes, …)  ‖φ_k‖_h²: 1 for modes that the quadrature integrates, 2 for a cosine at the Nyquist frequency
    """

    axes: tuple[np.ndarray, ...]
    inverses: tuple[np.ndarray, ...]
    eigenvalues: np.ndarray
    gains: np.ndarray

    @property
    def modes(self) -> tuple[int, ...]:
        return self.eigenvalues.shape

    def synthesise(self, coefficients: Tensor) -> Tensor:
        """Σ_k c_k φ_k at the points: (..., *modes) → (..., *grid)."""
        return _along_axes(coefficients, self.axes)

    def analyse(self, u: Tensor) -> Tensor:
        """Coefficients of u's least-squares fit: (..., *grid) → (..., *modes)."""
        return _along_axes(u, self.inverses)

    def draw(self, samples: int, *, seed: int, first: int) -> np.ndarray:
        """Standard normal coefficients (samples, *modes): sample i from ``SeedSequence(seed, spawn_key=(i,))``.

        More modes on a finer grid only add to the coefficients of a coarser one.
        """
        out, kept = np.empty((samples, *self.modes)), tuple(slice(m) for m in self.modes)
        for i, row in enumerate(out, start=first):
            row[...] = normal_coefficients(max(self.modes), len(self.modes), seed=seed, number=i)[kept]
        return out


@lru_cache(maxsize=16)
def eigenbasis(grid: Grid, modes: int | None, boundary: Boundary) -> Eigenbasis:
    """The first `modes` eigenfunctions per axis, or as many as the grid tells apart.

    Raises ValueError for more modes than that, and for a grid that stops short of its walls, where the functions are
    not orthogonal.
    """
    if not grid.reaches_walls:
        raise ValueError(f"the grid stops at {grid.extent} in the domain {grid.domain}: expected one up to the walls")
    kind = KIND_OF[boundary]
    most = [bases.distinct(kind, s) for s in grid.fractions()]
    if modes is not None and modes > min(most):
        raise ValueError(f"modes={modes}: a {grid.centering} grid of {grid.shape} points holds at most {min(most)}")
    counts = [m if modes is None else modes for m in most]
    lengths = [right - left for left, right in grid.domain]
    eigenvalues, gains = np.zeros((1,) * grid.ndim), np.ones((1,) * grid.ndim)
    axes = []
    for axis, (s, count, length) in enumerate(zip(grid.fractions(), counts, lengths)):
        place = [count if i == axis else 1 for i in range(grid.ndim)]
        eigenvalues = eigenvalues + ((bases.frequencies(kind, count) / length) ** 2).reshape(place)
        table = bases.functions(kind, s, count) * np.sqrt(1 / bases.mean_squares(kind, count) / length)
        axes.append(table)
        gains = gains * (grid.axes[axis].weights() @ table**2).reshape(place)
    inverses = tuple(np.linalg.pinv(table) for table in axes)
    return Eigenbasis(tuple(axes), inverses, eigenvalues, gains)


def _along_axes(u: Tensor, matrices: tuple[np.ndarray, ...]) -> Tensor:
    """Applies one matrix per trailing axis."""
    d = len(matrices)
    for axis, matrix in enumerate(matrices):
        m = torch.as_tensor(matrix, dtype=u.dtype, device=u.device)
        u = torch.tensordot(u, m, dims=([u.ndim - d + axis], [1])).movedim(-1, u.ndim - d + axis)
    return u


def outside_share(u: Tensor, basis: Eigenbasis, coefficients: Tensor) -> Tensor:
    """max|u − Σ c_k φ_k| / max|u| per leading index: 0 for what lies in the span, 0 for u = 0."""
    d = len(basis.modes)
    rest = (u - basis.synthesise(coefficients)).flatten(-d).abs().amax(-1)
    size = u.flatten(-d).abs().amax(-1)
    return torch.where(size > 0, rest / torch.where(size > 0, size, 1.0), 0.0)


def default_boundary(grid: Grid) -> Boundary:
    """Boundary condition of the noise where none is given: "periodic" on a periodic grid, "neumann" on others."""
    return "periodic" if grid.centering == "periodic" else "neumann"


def root_eigenvalues(basis: Eigenbasis, tau: float, smoothness: float) -> np.ndarray:
    """(1 + λ_k/τ²)^{−s/2}, (*modes): 1 for the constant, falling from there."""
    return np.exp(-0.5 * smoothness * np.log1p(basis.eigenvalues / tau**2))
