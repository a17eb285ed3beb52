"""Samples of Gaussian fields, each drawn from the seed and its number alone."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np

from sciops.grids import Grid
from sciops.random_fields.karhunen_loeve import KarhunenLoeve
from sciops.values import check_whole


def gaussian_random_field(
    grid: Grid,
    samples: int,
    *,
    tau: float,
    alpha: float,
    seed: int,
    modes: int = 192,
    first: int = 0,
    boundary: Literal["neumann", "periodic"] | None = None,
    normalize: bool = False,
) -> np.ndarray:
    """Samples of N(0, τ^{2α−d} (−Δ + τ²)^{−α}) on the grid's domain, constants removed, d axes:

        g(x) = Σ_{k ≠ 0, k_i < modes}  τ^{α−d/2} (λ_k + τ²)^{−α/2}  ξ_k  φ_k(x),      ξ_k iid N(0, 1)

    with −Δφ_k = λ_k φ_k and ∫φ_k² = 1 over the domain of lengths L_i:

    * ``neumann`` (default on node and cell grids): φ_k = Π √(w_k/L_i) cos(πk_i(x_i − a_i)/L_i), w_0 = 1, else 2,
      λ_k = Σ (πk_i/L_i)²;
    * ``periodic`` (default on periodic grids): 1, √2 cos, √2 sin, √2 cos, … of 2πq(x_i − a_i)/L_i, λ from 2πq/L_i.

    On the unit square this is the law of Li et al.'s Darcy data (arXiv:2010.08895, τ = 3, α = 2), with their prefactor
    τ^{α−1} written for any d: it makes the pointwise variance of short-correlated fields independent of τ. Their own
    generator keeps only as many modes as there are pixels, so its field changes with the grid; this one does not.
    Neumann fields are not stationary: the variance about doubles at each wall.

    Parameters
    ----------
    grid
        Points of evaluation; x, y, … are in its units, and so are 1/τ and the L_i.
    samples
        How many.
    tau
        Inverse correlation length, > 0.
    alpha
        Smoothness, > d/2: samples have α − d/2 derivatives in L² (less any ε).
    seed
        Sample i draws from ``SeedSequence(seed, spawn_key=(i,))``.
    modes
        Functions per axis; of periodic ones an odd number pairs every cosine with its sine, so that the law does not
        depend on where the period begins. ξ is drawn in shells max(k_i) = 0, 1, 2, …, so more modes only add to the
        same sum. Keep one value for a data set. With τ = 3, α = 2 on the square, 192 modes leave out 2e-5 of the
        variance. The coefficients take modes^d numbers: use fewer in 3-D.
    first
        Index of the first sample: samples 5…9 are ``samples=5, first=5``.
    boundary
        See above.
    normalize
        Divide by the law's own root mean square over the domain (one number for all samples and grids, never a sample's
        own deviation, which would differ from grid to grid).

    Returns
    -------
    ndarray
        (samples, *grid.shape) float64. A sample has the same bits in any batch and with any number of threads; on
        another kind of processor, or between nested grids, it agrees to about 1e-15 of its size.

    Raises
    ------
    ValueError
        tau ≤ 0, alpha ≤ d/2 (not a function in the limit of many modes), modes < 2, negative counts, or tau and alpha
        whose coefficients float64 cannot hold.
    """
    check_whole(0, samples=samples, seed=seed, first=first)
    law = KarhunenLoeve(grid, tau=tau, alpha=alpha, modes=modes, boundary=boundary, normalize=normalize)
    fields = np.empty((samples, *grid.shape))
    for i, field in enumerate(fields, start=first):
        field[...] = law.field(normal_coefficients(modes, grid.ndim, seed=seed, number=i))
    return fields


def normal_coefficients(modes: int, ndim: int, *, seed: int, number: int) -> np.ndarray:
    """Standard normal coefficients of one sample, (modes,) * ndim, from ``SeedSequence(seed, spawn_key=(number,))``.

    They are drawn in shells max(k_i) = 0, 1, 2, …, so that a larger box begins with the numbers of a smaller one.
    """
    draw = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(number,))))
    coefficients = np.empty(modes**ndim)
    coefficients[_shells(modes, ndim)] = draw.standard_normal(coefficients.size)
    return coefficients.reshape((modes,) * ndim)


@lru_cache(maxsize=8)
def _shells(modes: int, d: int) -> np.ndarray:
    """Flat indices of the modes^d box, ordered by max(k_i) and then row by row."""
    largest = np.zeros((1,) * d, dtype=np.int64)
    for axis in range(d):
        largest = np.maximum(largest, np.arange(modes).reshape([modes if i == axis else 1 for i in range(d)]))
    order = np.argsort(largest, axis=None, kind="stable")
    order.setflags(write=False)
    return order
