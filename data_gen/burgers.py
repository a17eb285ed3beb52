"""Burgers' equation u_t + u u_x = ν u_xx on a periodic interval: waves that steepen and fade.

    python -m data_gen.burgers --preset li2020 --output runs/burgers.h5
    python -m data_gen.burgers --preset quick --samples 64 --output runs/small.h5
    python -m data_gen.burgers --preset li2020 --shard 0/4 --output /shared/burgers.h5    # … 3/4

PDEBench's points are the centres of cells, ours are periodic nodes: half a cell to the left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from data_gen.kit.coefficients import Coefficient
from data_gen.kit.evolution import SteppedConfig
from data_gen.kit.initial_fields import InitialFields
from data_gen.kit.ranges import Ranges
from data_gen.kit.scalar import generate_scalar, scalar_samples
from sciops.commands.command_line import command
from sciops.pde import burgers as equation

__all__ = ["PRESETS", "BurgersConfig", "run"]


@dataclass(frozen=True)
class BurgersConfig(InitialFields, SteppedConfig):
    """Options. Sample i depends on the law, the equation, the grid it is solved on and the seed alone."""

    resolutions: tuple[int, ...] = (1024, 256)
    """Points of the groups of the file."""
    viscosity: float = 0.01
    """ν."""
    viscosities: tuple[float, float] | None = None
    """Least and largest ν: each sample has its own, uniform in the logarithm, instead of the one above."""
    length: float = 1.0
    """Length of the interval."""
    output: Path = Path("runs/burgers.h5")
    """The file to write."""


PRESETS = {
    # Li et al. 2020 (arXiv:2010.08895, section 5.1): u0 ~ N(0, 625(−Δ + 25I)^−2), ν = 0.1, u(·, 1) from u0, 8192
    # points; 1000 samples to train on and 200 to test
    "li2020": BurgersConfig(
        samples=1300,
        validation=100,
        test=200,
        resolutions=(8192, 1024),
        viscosity=0.1,
        law="gaussian",
        modes=1024,
        duration=1.0,
        every=1.0,
        dt=1 / 1024,
    ),
    # what neuraloperator's burgers_train_16.pt holds, found from its spectra and states: σ = 625, α = 4, ν = 0.01, and
    # 17 times every 0.06; its 800 samples are here beside validation and test
    "neuraloperator": BurgersConfig(
        samples=1000,
        resolutions=(128, 64, 32, 16),
        solved_on=256,
        law="gaussian",
        sigma=625.0,
        alpha=4.0,
        duration=0.96,
        every=0.06,
        dt=1 / 500,
    ),
    # PDEBench (arXiv:2210.07182, and its configurations BurgersEq/config/multi): 10000 samples, 1024 points, 201
    # times to 2; its Nu, here 0.01, is πν, and 0.001 … 4 elsewhere. What is thinner than 4 points rings: take more
    "pdebench": BurgersConfig(
        samples=10000,
        viscosity=0.01 / math.pi,
        either_sign=True,
        absolute=0.1,
        window=0.1,
        duration=2.0,
        every=0.01,
        dt=1 / 2000,
        dtype="float32",
    ),
    "quick": BurgersConfig(
        samples=64,
        resolutions=(64, 32),
        solved_on=128,
        law="gaussian",
        sigma=625.0,
        alpha=4.0,
        every=0.1,
        dt=1 / 250,
        estimate=True,
        output=Path("runs/burgers_quick.h5"),
    ),
}


def run(config: BurgersConfig) -> Path:
    """Generates the file and returns its path (the folder of parts while other shards are at work).

    Raises ValueError for an invalid configuration, or an output that another configuration made; RuntimeError naming
    the samples that blew up, unless allow_failures; OSError when the disk is full.
    """
    return generate_scalar(config, equation, make, _constants(config))


def make(config: BurgersConfig, ranges: Ranges) -> dict[str, np.ndarray]:
    """The samples in `ranges` on every grid of the configuration."""
    return scalar_samples(config, equation, ranges, _constants(config))


def _constants(config: BurgersConfig) -> list[Coefficient]:
    return [Coefficient("viscosity", "viscosity ν", config.viscosity, config.viscosities)]


if __name__ == "__main__":
    command(run, PRESETS)
