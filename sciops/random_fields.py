"""Random coefficient fields by their Karhunen–Loève sum, so that every grid sees the same field.

A sample is a set of coefficients, not a set of values: they are drawn once from (seed, index) and the sum is evaluated
at the true positions of whatever grid is asked for. Coarse and fine versions of a sample are therefore one function,
in any batch, on any shard, on node grids, cell grids and grids that stop short of their walls.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from sciops import bases
from sciops.arrays.compiling import kept
from sciops.arrays.kinds import as_tensor
from sciops.arrays.threads import one_torch_thread
from sciops.bases import KIND_OF
from sciops.grids import Grid

__all__ = ["gaussian_random_field", "log_normal", "normal_coefficients", "random_waves", "two_phase"]

_REFERENCE = 4096  # points whose least and largest value stand for those of a function on the line, or more,
_PER_WAVE = 16  # so that the shortest wave has this many: at 2 they could all lie on its zeros


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
    _check(grid, samples, tau, alpha, seed, modes, first, boundary)
    boundary = boundary or ("periodic" if grid.centering == "periodic" else "neumann")
    lengths = tuple(right - left for left, right in grid.domain)
    scale = _scale(lengths, tau, alpha, modes, boundary, normalize)
    functions = _functions(grid, modes, boundary)
    fields = np.empty((samples, *grid.shape))
    with one_torch_thread():
        for i, field in enumerate(fields, start=first):
            coefficients = normal_coefficients(modes, grid.ndim, seed=seed, number=i)
            field[...] = _evaluate(coefficients * scale, functions).reshape(grid.shape)
    return fields


def normal_coefficients(modes: int, ndim: int, *, seed: int, number: int) -> np.ndarray:
    """Standard normal coefficients of one sample, (modes,) * ndim, from ``SeedSequence(seed, spawn_key=(number,))``.

    They are drawn in shells max(k_i) = 0, 1, 2, …, so that a larger box begins with the numbers of a smaller one.
    """
    draw = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(number,))))
    coefficients = np.empty(modes**ndim)
    coefficients[_shells(modes, ndim)] = draw.standard_normal(coefficients.size)
    return coefficients.reshape((modes,) * ndim)


def random_waves(
    grid: Grid,
    samples: int,
    *,
    terms: int,
    wavenumbers: tuple[int, int],
    amplitudes: tuple[float, float],
    seed: int,
    first: int = 0,
    absolute: float = 0.0,
    window: float = 0.0,
    either_sign: bool = False,
    normalize: bool = False,
) -> np.ndarray:
    """Sums of a few waves with random amplitudes, wavenumbers and phases, on one axis with domain (a, a + L):

        u(x) = Σ_{j=1}^N A_j sin(2π n_j (x − a)/L + φ_j)

    A_j uniform between the `amplitudes`, n_j uniform among the whole numbers between the `wavenumbers`, φ_j uniform on
    (0, 2π), all independent.

    Parameters
    ----------
    grid
        One axis; its domain is the period of the waves, which are evaluated at its own points.
    samples, seed, first
        As in `gaussian_random_field`; what a sample draws does not depend on the other options.
    terms
        N.
    wavenumbers, amplitudes
        Smallest and largest.
    absolute
        Probability that u becomes |u|.
    window
        Probability that u is multiplied by ½(tanh((ξ − l)/0.01) − tanh((ξ − r)/0.01)), ξ = (x − a)/L, with l uniform on
        (0.1, 0.45) and r on (0.55, 0.9).
    either_sign
        u or −u with equal probability, after `absolute`.
    normalize
        (u − min u)/(max u − min u), the extremes taken over 4096 points of the domain or 16 of the shortest wave, the
        same on every grid. Where u is constant (all n_j drawn 0) it is u − min u = 0.

    Returns
    -------
    ndarray
        (samples, n) float64.

    Raises
    ------
    ValueError
        More than one axis, terms < 1, probabilities outside [0, 1], or pairs in the wrong order.

    Notes
    -----
    Good values: ``terms=10, wavenumbers=(1, 2), amplitudes=(-0.5, 0.5)`` of Brandstetter et al. (arXiv:2202.07643) for
    KdV and Kuramoto–Sivashinsky; ``terms=2, wavenumbers=(1, 4), amplitudes=(0, 1), absolute=0.1, window=0.1,
    either_sign=True`` of PDEBench (arXiv:2210.07182) for advection, Burgers and, with `normalize`, reaction–diffusion.
    PDEBench's program adds a constant to that sum and measures a period one spacing too short; this is the sum alone,
    which is periodic.
    """
    _check_waves(grid, samples, seed, first, terms, wavenumbers, amplitudes, absolute, window)
    points = [*grid.fractions()]
    if normalize:
        count = max(_REFERENCE, _PER_WAVE * wavenumbers[1])
        points.append(np.arange(count) / count)
    fields = np.empty((samples, *grid.shape))
    for i in range(samples):
        draw = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(first + i,))))
        a = draw.uniform(*amplitudes, terms)
        n = draw.integers(wavenumbers[0], wavenumbers[1] + 1, terms)
        phase = draw.uniform(0, 2 * np.pi, terms)
        fold, flip, cut, l, r = draw.uniform(size=5)
        values = []
        for xi in points:
            u = np.sin(2 * np.pi * np.fmod(np.multiply.outer(xi, n), 1.0) + phase)
            u = (u * a).sum(1)  # as a product it would depend on the number of points and threads
            u = np.abs(u) if fold < absolute else u
            u = -u if either_sign and flip < 0.5 else u
            if cut < window:
                u = u * 0.5 * (np.tanh((xi - 0.1 - 0.35 * l) / 0.01) - np.tanh((xi - 0.55 - 0.35 * r) / 0.01))
            values.append(u)
        if normalize:
            low, high = values[1].min(), values[1].max()
            values[0] = (values[0] - low) / (high - low) if high > low else np.zeros_like(values[0])
        fields[i] = values[0]
    return fields


def two_phase(field: Any, low: float = 3.0, high: float = 12.0) -> Any:
    """Two-valued field: `high` where field ≥ 0, `low` elsewhere; NaN remains NaN.

    Parameters
    ----------
    field
        Any shape, numpy or torch.

    Returns
    -------
    array
        Same kind, shape and dtype (float64 for integers).
    """
    g, restore = as_tensor(field, "field")
    phases = torch.where(g >= 0, g.new_tensor(high), g.new_tensor(low))
    # one pass that finds no NaN saves two
    return restore(torch.where(g.isnan(), g, phases) if torch.isnan(g.sum()) else phases)


def log_normal(field: Any, scale: float = 1.0) -> Any:
    """exp(field / scale): positive, with contrast that grows as scale shrinks. Any shape, same kind back.

    Raises ValueError for scale ≤ 0.
    """
    if not scale > 0:
        raise ValueError(f"scale={scale}: expected a positive number")
    g, restore = as_tensor(field, "field")
    return restore(torch.exp(g / scale))


def _evaluate(coefficients: np.ndarray, functions: tuple[Tensor, ...]) -> Tensor:
    """Σ_k x_k Π_i functions[i][:, k_i], flat: one axis after the other, from the last to the first."""
    # copied, as the functions are, because products may round by memory alignment, which torch fixes and numpy does not
    x = torch.tensor(coefficients) @ functions[-1].mT
    for values in reversed(functions[:-1]):
        x = torch.matmul(values, x)
        x = x.reshape(*x.shape[:-2], -1)
    return x


@kept(8)
def _functions(grid: Grid, modes: int, boundary: str) -> tuple[Tensor, ...]:
    """(points, modes) per axis: the eigenfunctions at the points, without their √(w/L)."""
    return tuple(torch.tensor(bases.functions(KIND_OF[boundary], s, modes)) for s in grid.fractions())


@lru_cache(maxsize=8)
def _scale(
    lengths: tuple[float, ...], tau: float, alpha: float, modes: int, boundary: str, normalize: bool
) -> np.ndarray:
    """(modes, …): τ^{α−d/2} (λ_k + τ²)^{−α/2} Π √(w_k/L_i), 0 for the constant; or that over its root mean square."""
    d = len(lengths)
    frequency, weights = bases.frequencies(KIND_OF[boundary], modes), 1 / bases.mean_squares(KIND_OF[boundary], modes)
    eigenvalue, weight = np.zeros((1,) * d), np.ones((1,) * d)
    for axis, length in enumerate(lengths):
        shape = [modes if i == axis else 1 for i in range(d)]
        eigenvalue = eigenvalue + ((frequency / length) ** 2).reshape(shape)
        weight = weight * weights.reshape(shape)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scale = np.float64(tau) ** (alpha - d / 2) * (eigenvalue + np.float64(tau) ** 2) ** (-alpha / 2)
    scale[(0,) * d] = 0.0
    if not (np.isfinite(scale).all() and np.sum(scale**2) > 0):
        raise ValueError(
            f"tau={tau:g} and alpha={alpha:g}: float64 cannot hold the coefficients on a domain of {lengths}; give the "
            "domain and tau in units that bring tau × length nearer to 1"
        )
    scale /= math.sqrt(np.sum(scale**2) if normalize else math.prod(lengths))
    scale *= np.sqrt(weight)
    scale.setflags(write=False)
    return scale


@lru_cache(maxsize=8)
def _shells(modes: int, d: int) -> np.ndarray:
    """Flat indices of the modes^d box, ordered by max(k_i) and then row by row."""
    largest = np.zeros((1,) * d, dtype=np.int64)
    for axis in range(d):
        largest = np.maximum(largest, np.arange(modes).reshape([modes if i == axis else 1 for i in range(d)]))
    order = np.argsort(largest, axis=None, kind="stable")
    order.setflags(write=False)
    return order


def _check(
    grid: Grid, samples: int, tau: float, alpha: float, seed: int, modes: int, first: int, boundary: str | None
) -> None:
    if not isinstance(grid, Grid):
        raise TypeError(f"grid={grid!r}: expected a Grid, such as Grid((85, 85))")
    _check_counts(samples=(samples, 0), seed=(seed, 0), modes=(modes, 2), first=(first, 0))
    if not (0 < tau < math.inf):
        raise ValueError(f"tau={tau}: expected a positive inverse correlation length, such as tau=3")
    if not (grid.ndim / 2 < alpha < math.inf):
        raise ValueError(
            f"alpha={alpha} on {grid.ndim} axes: expected more than {grid.ndim / 2}, else the field is not a function: "
            "its variance grows without bound with modes"
        )
    if boundary not in (None, "neumann", "periodic"):
        raise ValueError(f"boundary={boundary!r}: expected 'neumann' or 'periodic'")


def _check_counts(**counts: tuple[Any, int]) -> None:
    """name=(value, least): ValueError unless it is a whole number of at least that."""
    for name, (value, least) in counts.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise ValueError(f"{name}={value!r}: expected a whole number of at least {least}")


def _check_waves(
    grid: Grid,
    samples: int,
    seed: int,
    first: int,
    terms: int,
    wavenumbers: tuple[int, int],
    amplitudes: tuple[float, float],
    absolute: float,
    window: float,
) -> None:
    if not isinstance(grid, Grid):
        raise TypeError(f"grid={grid!r}: expected a Grid, such as Grid((1024,), centering='periodic')")
    if grid.ndim != 1:
        raise ValueError(f"grid of {grid.ndim} axes: waves are drawn on one; take gaussian_random_field")
    _check_counts(samples=(samples, 0), seed=(seed, 0), first=(first, 0), terms=(terms, 1))
    low, high = wavenumbers
    _check_counts(wavenumbers=(low, 0), wavenumber=(high, 0))
    if not low <= high:
        raise ValueError(f"wavenumbers={wavenumbers}: expected the smallest and the largest, such as (1, 4)")
    if not (amplitudes[0] < amplitudes[1] and np.isfinite(amplitudes).all()):
        raise ValueError(f"amplitudes={amplitudes}: expected the least and the largest, such as (-0.5, 0.5)")
    for name, value in (("absolute", absolute), ("window", window)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name}={value}: expected a probability, between 0 and 1")
