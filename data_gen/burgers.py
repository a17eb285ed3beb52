"""Burgers' equation u_t + u u_x = ν u_xx on a periodic interval: waves that steepen and fade.

    python -m data_gen.burgers --preset li2020 --output runs/burgers.h5
    python -m data_gen.burgers --preset quick --samples 64 --output runs/small.h5
    python -m data_gen.burgers --preset li2020 --shard 0/4 --output /shared/burgers.h5    # … 3/4

PDEBench's points are the centres of cells, ours are periodic nodes: half a cell to the left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from data_gen.kit.coefficients import Coefficient
from data_gen.kit.evolution import SteppedConfig, evolution_recipe, trajectories
from data_gen.kit.generation import generate_samples, grids_of
from data_gen.kit.initial_fields import InitialFields, initial_fields
from sciops.command import command
from sciops.datasets.generation.writer import Ranges
from sciops.grids import Grid
from sciops.pde import burgers as equation

__all__ = ["PRESETS", "BurgersConfig", "run"]

_STATE = {"u": "solution"}


@dataclass(frozen=True)
class BurgersConfig(InitialFields, SteppedConfig):
    """What to generate. Sample i depends on the law, the equation, the grid it is solved on and the seed alone."""

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

    Raises ValueError for a configuration that cannot be, or an output that another configuration made; RuntimeError
    naming the samples that blew up, unless allow_failures; OSError when the disk is full.
    """
    recipe = evolution_recipe(
        config,
        equation="burgers",
        grids=_grids(config),
        make=make,
        state=_STATE,
        parameters=_viscosity(config).parameters,
        by_sample=_viscosity(config).variables,
    )
    return generate_samples(config, recipe)


def make(config: BurgersConfig, ranges: Ranges) -> dict[str, np.ndarray]:
    """The samples in `ranges` on every grid of the configuration."""
    coefficient = _viscosity(config)

    def solve(u0, grid, times, numbers):
        return equation.solve(
            u0,
            grid,
            times=times,
            viscosity=coefficient.values(config.seed, numbers),
            dt=config.dt,
            order=config.order,
            estimate=config.estimate,
            on_failure="flag",
        )

    law, by_sample = partial(initial_fields, config), partial(coefficient.by_sample, config.seed)
    return trajectories(config, _grids(config), ranges, state=_STATE, law=law, solve=solve, by_sample=by_sample)


def _viscosity(config: BurgersConfig) -> Coefficient:
    return Coefficient("viscosity", "viscosity ν", config.viscosity, config.viscosities)


def _grids(config: BurgersConfig) -> dict[str, Grid]:
    return grids_of(config, 1, extent=config.length, least=4)


if __name__ == "__main__":
    command(run, PRESETS)
