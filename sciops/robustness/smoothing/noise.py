"""Gaussian noise for fields, and the norm in which its certificates are stated.

Adding ξ ~ N(0, C) to a and to a + δ gives two laws that differ as N(0, 1) and N(r, 1) do, r = ‖C^{−1/2}δ‖. A
certificate by randomised smoothing depends on δ only through r, the norm of the noise. What r means for the function δ
depends on C:

==============================  ===================================  =================================================
noise                           r = norm(δ)                          under refinement, for a fixed function δ
==============================  ===================================  =================================================
WhiteNoise, scale="point"       ‖δ‖₂/σ, Euclidean                    grows like h^{−d/2}: the certificate fades
WhiteNoise, scale="field"       ‖δ‖_h/σ                              stays; the noise itself grows like h^{−d/2}
GaussianFieldNoise              Cameron–Martin norm of N(0, C)       stays, and so does the noise: one random function
==============================  ===================================  =================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import numpy as np
import torch
from torch import Tensor

from sciops.arrays.kinds import as_tensor
from sciops.arrays.scale import norm_of, widened
from sciops.grids import Grid, check_on_grid
from sciops.robustness.checks import check_choice, check_positive, check_size
from sciops.robustness.field_norm import field_norm
from sciops.robustness.smoothing.eigenfunctions import (
    Boundary,
    Eigenbasis,
    default_boundary,
    eigenbasis,
    outside_share,
    root_eigenvalues,
)
from sciops.values import check_whole

__all__ = ["GaussianFieldNoise", "Noise", "WhiteNoise"]

_IN_SPAN = 1e-9  # what round-off leaves outside the span of the modes, as a share of max|δ|


class Noise(Protocol):
    """The methods that smoothing needs of a noise."""

    def draw(self, grid: Grid, samples: int, *, seed: int, first: int = 0) -> Tensor:
        """(samples, *grid) float64; sample i depends on (seed, i) alone."""

    def norm(self, delta: Any, grid: Grid) -> Any:
        """‖C^{−1/2}δ‖ per sample, (batch,); channels carry independent noise."""

    def reach(self, grid: Grid) -> float:
        """sup ‖δ‖_h over norm(δ) ≤ 1: multiplies a Lipschitz constant in ‖·‖_h to give one in the noise's norm."""


@dataclass(frozen=True)
class WhiteNoise:
    """White noise: independent N(0, σ_j²) at every point.

    sigma : σ > 0, in units of the field for "point", of field × length^{d/2} for "field"
    scale : "point", σ_j = σ on every grid, norm(δ) = ‖δ‖₂/σ;
        "field", σ_j = σ/√w_j with w the quadrature weights (σ h^{−d/2} on uniform ones), norm(δ) = ‖δ‖_h/σ
    """

    sigma: float
    scale: Literal["point", "field"] = "point"

    def __post_init__(self) -> None:
        check_positive(sigma=self.sigma)
        check_choice(("point", "field"), scale=self.scale)

    def draw(self, grid: Grid, samples: int, *, seed: int, first: int = 0) -> Tensor:
        """(samples, *grid) float64; sample i draws from ``SeedSequence(seed, spawn_key=(first + i,))``."""
        out = np.empty((samples, *grid.shape))
        for i, row in enumerate(out, start=first):
            generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(i,))))
            generator.standard_normal(out=row)
        deviation = self.sigma if self.scale == "point" else self.sigma / np.sqrt(grid.weights())
        return torch.from_numpy(out * deviation)

    def norm(self, delta: Any, grid: Grid) -> Any:
        """‖δ‖₂/σ or ‖δ‖_h/σ per sample, (batch, ..., *grid) → (batch,), same kind."""
        return field_norm(delta, None if self.scale == "point" else grid) / self.sigma

    def reach(self, grid: Grid) -> float:
        """σ√(max w_j) or σ."""
        return self.sigma * (math.sqrt(float(grid.weights().max())) if self.scale == "point" else 1.0)


@dataclass(frozen=True)
class GaussianFieldNoise:
    """A Gaussian random field as noise: ξ ~ N(0, C), C = σ² τ^{2s} (−Δ + τ²)^{−s}.

    ξ = σ Σ_k (1 + λ_k/τ²)^{−s/2} z_k φ_k with z_k iid N(0, 1): the random fields of `sciops.random_fields` including
    the constant. The same seed gives the same z on every grid, so that all grids see one random function. The norm is
    the Cameron–Martin norm

        norm(δ)² = σ^{−2} Σ_k (1 + λ_k/τ²)^s δ_k²,      δ = Σ_k δ_k φ_k,

    the same number on every grid that holds δ. It is at least ‖δ‖_h/σ; a δ outside the span of the modes has norm inf,
    because its law and that of the noise have no common support.

    Parameters
    ----------
    sigma : float
        σ > 0, standard deviation of the coefficient of the constant, the largest of all; s = 0 is WhiteNoise(sigma,
        "field").
    tau : float
        τ > 0, inverse correlation length.
    smoothness : float
        s ≥ 0; for s > d/2 samples are functions, with a variance that stays under refinement.
    modes : int, optional
        Eigenfunctions per axis; None takes all that the grid tells apart: then every δ that meets the boundary
        condition has a finite norm, but finer grids add detail to a sample. An even number of cells holds the sine of
        its Nyquist frequency, which periodic noise with None leaves out.
    boundary : str, optional
        "neumann" cosines, "dirichlet" sines, "periodic" waves; default periodic on periodic grids, else neumann.
    """

    sigma: float
    tau: float = 3.0
    smoothness: float = 2.0
    modes: int | None = None
    boundary: Boundary | None = None

    def __post_init__(self) -> None:
        check_positive(sigma=self.sigma, tau=self.tau)
        check_size(smoothness=self.smoothness)
        if self.modes is not None:
            check_whole(modes=self.modes)
        check_choice((None, *get_args(Boundary)), boundary=self.boundary)

    def draw(self, grid: Grid, samples: int, *, seed: int, first: int = 0) -> Tensor:
        """(samples, *grid) float64; sample i draws from ``SeedSequence(seed, spawn_key=(first + i,))``."""
        basis, deviation = self._law(grid)
        return basis.synthesise(torch.from_numpy(basis.draw(samples, seed=seed, first=first)) * deviation)

    def field(self, coefficients: Tensor, grid: Grid) -> Tensor:
        """C^{1/2}z = Σ_k σ(1 + λ_k/τ²)^{−s/2} z_k φ_k: (..., *modes) → (..., *grid), of norm ‖z‖₂; differentiable."""
        basis, deviation = self._law(grid)
        return basis.synthesise(coefficients * deviation.to(coefficients))

    def coefficients(self, delta: Tensor, grid: Grid) -> Tensor:
        """C^{−1/2}δ: (..., *grid) → (..., *modes); for a δ outside the span, of the part inside."""
        basis, deviation = self._law(grid)
        return basis.analyse(delta) / deviation.to(delta)

    def norm(self, delta: Any, grid: Grid) -> Any:
        """The Cameron–Martin norm of each sample; see `cameron_martin_norm`."""
        return self.cameron_martin_norm(delta, grid)

    def cameron_martin_norm(self, delta: Any, grid: Grid) -> Any:
        """‖C^{−1/2}δ‖ per sample, (batch, ..., *grid) → (batch,), same kind; inf outside the span."""
        tensor, restore = as_tensor(delta, "delta")
        check_on_grid(tensor, grid, "delta")
        wide = tensor.to(torch.float64)
        basis, deviation = self._law(grid)
        coefficients = basis.analyse(wide)
        allowed = _IN_SPAN if tensor.dtype == torch.float64 else 16 * torch.finfo(tensor.dtype).eps
        outside = outside_share(wide, basis, coefficients).reshape(len(wide), -1).amax(1) > allowed
        size = norm_of((coefficients / deviation.to(wide)).flatten(1), 1)
        return restore(torch.where(outside, torch.inf, size).to(widened(tensor).dtype))

    def reach(self, grid: Grid) -> float:
        """σ for the constant of the usual bases; the largest σ(1 + λ_k/τ²)^{−s/2}‖φ_k‖_h of all modes."""
        basis, deviation = self._law(grid)
        return float((deviation.numpy() * np.sqrt(basis.gains)).max())

    def root_mean_square(self, grid: Grid) -> float:
        """√(E‖ξ‖_h²/|Ω|): the size of the noise at a point, in units of the field."""
        basis, deviation = self._law(grid)
        return math.sqrt(float((deviation.numpy() ** 2 * basis.gains).sum() / grid.weights().sum()))

    def _law(self, grid: Grid) -> tuple[Eigenbasis, Tensor]:
        basis = eigenbasis(grid, self.modes, self.boundary or default_boundary(grid))
        return basis, torch.from_numpy(self.sigma * root_eigenvalues(basis, self.tau, self.smoothness))
