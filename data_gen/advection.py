"""Advection u_t + βu_x = 0 on a periodic interval: moved waves, exact in time.

    python -m data_gen.advection --preset pdebench --output runs/advection.h5
    python -m data_gen.advection --preset quick --samples 64 --output runs/small.h5
    python -m data_gen.advection --preset pdebench --shard 0/4 --output /shared/advection.h5    # … 3/4

PDEBench's points are the centres of cells, ours are periodic nodes: half a cell to the left.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from data_gen.kit.coefficients import Coefficient
from data_gen.kit.evolution import EvolutionConfig
from data_gen.kit.initial_fields import InitialFields
from data_gen.kit.ranges import Ranges
from data_gen.kit.scalar import generate_scalar, scalar_samples
from sciops.commands.command_line import command
from sciops.pde import advection as equation

__all__ = ["PRESETS", "AdvectionConfig", "run"]


@dataclass(frozen=True)
class AdvectionConfig(InitialFields, EvolutionConfig):
    """Options. Sample i depends on the law, the equation, the grid it is solved on and the seed alone."""

    resolutions: tuple[int, ...] = (1024, 256)
    """Points of the groups of the file."""
    velocity: float = 0.4
    """β."""
    velocities: tuple[float, float] | None = None
    """Least and largest β: each sample has its own, uniform in the logarithm, instead of the one above."""
    length: float = 1.0
    """Length of the interval."""
    output: Path = Path("runs/advection.h5")
    """The file to write."""


# PDEBench (arXiv:2210.07182, and its configurations AdvectionEq/config/multi): 10000 samples, β one of 0.1, 0.2,
# 0.4, 0.7, 1, 2, 4, 7, 1024 points of the unit interval, 201 times to 2
PRESETS = {
    "pdebench": AdvectionConfig(
        samples=10000,
        either_sign=True,
        absolute=0.1,
        window=0.1,
        duration=2.0,
        every=0.01,
        dtype="float32",
    ),
    "quick": AdvectionConfig(
        samples=64, resolutions=(64, 32), duration=1.0, every=0.05, output=Path("runs/advection_quick.h5")
    ),
}


def run(config: AdvectionConfig) -> Path:
    """Generates the file and returns its path (the folder of parts while other shards are at work).

    Raises ValueError for an invalid configuration, or an output that another configuration made; OSError when the
    disk is full.
    """
    return generate_scalar(config, equation, make, _constants(config))


def make(config: AdvectionConfig, ranges: Ranges) -> dict[str, np.ndarray]:
    """The samples in `ranges` on every grid of the configuration."""
    return scalar_samples(config, equation, ranges, _constants(config))


def _constants(config: AdvectionConfig) -> list[Coefficient]:
    return [Coefficient("velocity", "velocity β", config.velocity, config.velocities)]


if __name__ == "__main__":
    command(run, PRESETS)
