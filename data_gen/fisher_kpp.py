"""Fisher's equation u_t = νΔu + ρu(1 − u) on a periodic interval: a state that spreads and saturates.

    python -m data_gen.fisher_kpp --preset pdebench --output runs/fisher_kpp.h5
    python -m data_gen.fisher_kpp --preset quick --samples 64 --output runs/small.h5
    python -m data_gen.fisher_kpp --preset pdebench --shard 0/4 --output /shared/fisher_kpp.h5    # … 3/4

PDEBench's points are the centres of cells, ours are periodic nodes: half a cell to the left.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from data_gen.kit.coefficients import Coefficient
from data_gen.kit.evolution import SteppedConfig
from data_gen.kit.initial_fields import InitialFields
from data_gen.kit.ranges import Ranges
from data_gen.kit.scalar import generate_scalar, scalar_samples
from sciops.commands.command_line import command
from sciops.pde import fisher_kpp as equation

__all__ = ["PRESETS", "FisherConfig", "run"]


@dataclass(frozen=True)
class FisherConfig(InitialFields, SteppedConfig):
    """Options. Sample i depends on the law, the equation, the grid it is solved on and the seed alone."""

    resolutions: tuple[int, ...] = (1024, 256)
    """Points of the groups of the file."""
    diffusivity: float = 0.5
    """ν."""
    rate: float = 1.0
    """ρ."""
    length: float = 1.0
    """Length of the interval."""
    normalize: bool = True
    """Move and scale each sum of waves to reach from 0 to 1, where the equation wants it."""
    output: Path = Path("runs/fisher_kpp.h5")
    """The file to write."""


PRESETS = {
    # PDEBench (arXiv:2210.07182, and its configurations ReactionDiffusionEq/config/multi): 10000 samples, ν one of 0.5,
    # 1, 2, 5 and ρ one of 1, 2, 5, 10, 1024 points, 101 times to 1
    "pdebench": FisherConfig(
        samples=10000, either_sign=True, absolute=0.1, window=0.1, duration=1.0, every=0.01, dtype="float32"
    ),
    "quick": FisherConfig(
        samples=64,
        resolutions=(64, 32),
        diffusivity=0.01,
        rate=2.0,
        every=0.1,
        estimate=True,
        output=Path("runs/fisher_kpp_quick.h5"),
    ),
}


def run(config: FisherConfig) -> Path:
    """Generates the file and returns its path (the folder of parts while other shards are at work).

    Raises ValueError for an invalid configuration, or an output that another configuration made; RuntimeError naming
    the samples that blew up, unless allow_failures; OSError when the disk is full.
    """
    return generate_scalar(config, equation, make, _constants(config))


def make(config: FisherConfig, ranges: Ranges) -> dict[str, np.ndarray]:
    """The samples in `ranges` on every grid of the configuration."""
    return scalar_samples(config, equation, ranges, _constants(config))


def _constants(config: FisherConfig) -> list[Coefficient]:
    return [Coefficient("diffusivity", "diffusivity ν", config.diffusivity), Coefficient("rate", "rate ρ", config.rate)]


if __name__ == "__main__":
    command(run, PRESETS)
