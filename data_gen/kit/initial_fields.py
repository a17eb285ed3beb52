"""Random initial fields of the periodic scalar equations: a Gaussian field, or a few waves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from data_gen.kit.ranges import Ranges, drawn
from sciops.grids import Grid
from sciops.random_fields import gaussian_random_field, random_waves

__all__ = ["InitialFields", "initial_fields"]


@dataclass(frozen=True)
class InitialFields:
    """The law of u0."""

    law: Literal["waves", "gaussian"] = "waves"
    """waves: a sum of sines. gaussian: N(0, σ²(−Δ + τ²)^−α) without constants, lengths counted in boxes."""
    terms: int = 2
    """Waves in the sum."""
    wavenumbers: tuple[int, int] = (1, 4)
    """Least and largest number of periods of a wave; all numbers between are equally likely."""
    amplitudes: tuple[float, float] = (0.0, 1.0)
    """Least and largest amplitude of a wave, uniform between."""
    either_sign: bool = False
    """The sum or its negative, with equal probability."""
    absolute: float = 0.0
    """Share of the samples that are the absolute value of a sum: continuous, with kinks."""
    window: float = 0.0
    """Share of the samples that are cut off smoothly outside an interval."""
    normalize: bool = False
    """Move and scale each sum of waves to reach from 0 to 1."""
    sigma: float = 25.0
    """σ of the gaussian law."""
    tau: float = 5.0
    """τ of the gaussian law, inverse correlation length in boxes."""
    alpha: float = 2.0
    """α of the gaussian law, its smoothness."""
    modes: int = 256
    """Modes per axis of the gaussian law, a cosine and a sine to a wavenumber; the same on every grid."""


def initial_fields(config: Any, grid: Grid, ranges: Ranges) -> np.ndarray:
    """u0 of the samples in `ranges` on a grid, for an `InitialFields` and `GenerationConfig` in one.

    (samples, *grid) float64, the same functions on every grid.
    """
    draw: Callable[..., np.ndarray]
    names: tuple[str, ...]
    if config.law == "waves":
        if grid.ndim > 1:
            raise ValueError(f"--law waves: waves have one axis and the box {grid.ndim}; take --law gaussian")
        draw, scale = random_waves, 1.0
        names = ("terms", "wavenumbers", "amplitudes", "either_sign", "absolute", "window", "normalize")
    else:
        draw, scale = gaussian_random_field, config.sigma / config.tau ** (config.alpha - grid.ndim / 2)
        names = ("tau", "alpha", "modes")
        grid = Grid(grid.shape, (0.0, 1.0), "periodic")
    return scale * drawn(draw, grid, ranges, seed=config.seed, **{name: getattr(config, name) for name in names})
