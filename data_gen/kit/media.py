"""Random media for waves: smooth positive fields of mean logarithm 0, the same functions on every grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from data_gen.kit.ranges import Ranges, drawn
from sciops.grids import Grid
from sciops.random_fields import gaussian_random_field

__all__ = ["Medium", "check_medium", "media"]


@dataclass(frozen=True)
class Medium:
    """The law of the medium exp(contrast·√3 (2Φ(g) − 1)), with g a smooth Gaussian field of root mean square 1.

    Φ is the normal distribution function: where g has standard deviation 1, the logarithm of the medium is uniform
    about 0 with standard deviation `contrast`.
    """

    contrast: float = 0.0
    """The medium's property lies between e^−1.73·contrast and e^1.73·contrast, 0.4 for ½ to 2; 0 makes it 1."""
    medium_tau: float = 10.0
    """Inverse correlation length of the medium, in boxes."""
    medium_alpha: float = 4.0
    """Smoothness of the medium; more than 1."""
    medium_modes: int = 64
    """Modes of the medium per axis, the same on every grid."""


def media(config: Any, grid: Grid, ranges: Ranges) -> np.ndarray:
    """The medium of the samples in `ranges` on a grid, (samples, *grid), for a `Medium` and `GenerationConfig` in one.

    g is a sum of cosines, so even about walls, or of the Fourier modes of a periodic box, from a random stream of its
    own.
    """
    from scipy.special import ndtr

    seed = int(np.random.SeedSequence(config.seed, spawn_key=(0, 2)).generate_state(1, np.uint64)[0])
    law = {"tau": config.medium_tau, "alpha": config.medium_alpha, "modes": config.medium_modes, "seed": seed}
    g = drawn(gaussian_random_field, grid, ranges, normalize=True, **law)
    # bounded, because a cosine field varies four times as much in a corner as far from it
    return np.exp(config.contrast * np.sqrt(3) * (2 * ndtr(g) - 1))


def check_medium(config: Medium) -> None:
    """Raises ValueError for a contrast that is negative, or so large that the field overflows."""
    if not 0 <= config.contrast <= 3:
        raise ValueError(
            f"--contrast {config.contrast}: expected between 0, uniform, and 3, a medium of factors from e^−5 to e^5"
        )
