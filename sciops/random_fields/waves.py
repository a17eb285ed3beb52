"""Sums of a few random waves on one axis, the initial values of the public benchmarks."""

from __future__ import annotations

import numpy as np

from sciops.grids import Grid
from sciops.values import check_whole

_REFERENCE = 4096  # points whose least and largest value stand for those of a function on the line, or more,
_PER_WAVE = 16  # so that the shortest wave has this many: at 2 they could all lie on its zeros


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
    check_whole(0, samples=samples, seed=seed, first=first)
    check_whole(terms=terms)
    low, high = wavenumbers
    check_whole(0, wavenumbers=low)
    check_whole(0, wavenumber=high)
    if not low <= high:
        raise ValueError(f"wavenumbers={wavenumbers}: expected the smallest and the largest, such as (1, 4)")
    if not (amplitudes[0] < amplitudes[1] and np.isfinite(amplitudes).all()):
        raise ValueError(f"amplitudes={amplitudes}: expected the least and the largest, such as (-0.5, 0.5)")
    for name, value in (("absolute", absolute), ("window", window)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name}={value}: expected a probability, between 0 and 1")
