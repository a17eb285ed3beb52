"""The heat equation u_t = νΔu on a periodic box: fields that smooth out, exact in time.

python -m data_gen.heat --preset brandstetter2022 --output runs/heat.h5
python -m data_gen.heat --preset quick --samples 64 --output runs/small.h5
python -m data_gen.heat --preset brandstetter2022 --shard 0/4 --output /shared/heat.h5    # … 3/4
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from data_gen.kit.coefficients import Coefficient
from data_gen.kit.evolution import EvolutionConfig
from data_gen.kit.initial_fields import InitialFields, initial_fields
from data_gen.kit.ranges import Ranges
from data_gen.kit.scalar import generate_scalar, scalar_samples
from sciops.commands.command_line import command
from sciops.grids import Grid
from sciops.pde import heat as equation

__all__ = ["PRESETS", "HeatConfig", "run"]


@dataclass(frozen=True)
class HeatConfig(InitialFields, EvolutionConfig):
    """Options. Sample i depends on the law, the equation, the grid it is solved on and the seed alone."""

    resolutions: tuple[int, ...] = (128, 64)
    """Points per axis of the groups of the file."""
    axes: int = 1
    """Axes of the box, 1 to 3; waves have one."""
    diffusivity: float = 0.01
    """ν."""
    diffusivities: tuple[float, float] | None = None
    """Least and largest ν: each sample has its own, uniform in the logarithm, instead of the one above."""
    length: float = 1.0
    """Length of each side of the box."""
    exponent: float | None = None
    """E: u0 = exp(E(2g − 1)) of the normalized waves g, the heat behind Burgers flows by Cole and Hopf's transform."""
    output: Path = Path("runs/heat.h5")
    """The file to write."""


PRESETS = {
    # Brandstetter et al. 2022 (arXiv:2202.07643; their program makes Burgers data as −2ν u_x/u of these): 20 waves, 180
    # times to 18 of which the last 140 are kept, 256 points of (0, 2π), 512 samples for each split
    "brandstetter2022": HeatConfig(
        samples=1536,
        validation=512,
        test=512,
        resolutions=(256, 128, 64),
        diffusivity=0.01,
        length=2 * math.pi,
        terms=20,
        wavenumbers=(1, 6),
        amplitudes=(-0.5, 0.5),
        normalize=True,
        exponent=10.0,
        warm_up=40 * 18 / 179,
        duration=139 * 18 / 179,
        every=18 / 179,
    ),
    "plane": HeatConfig(
        axes=2, law="gaussian", sigma=25.0, tau=5.0, alpha=2.5, modes=64, duration=1.0, every=0.1, diffusivity=0.01
    ),
    "quick": HeatConfig(samples=64, resolutions=(64, 32), duration=0.5, every=0.05, output=Path("runs/heat_quick.h5")),
}


def run(config: HeatConfig) -> Path:
    """Generates the file and returns its path (the folder of parts while other shards are at work).

    Raises ValueError for an invalid configuration, or an output that another configuration made; OSError when the
    disk is full.
    """
    if not 1 <= config.axes <= 3:
        raise ValueError(f"--axes {config.axes}: expected 1, 2 or 3")
    return generate_scalar(config, equation, make, _constants(config))


def make(config: HeatConfig, ranges: Ranges) -> dict[str, np.ndarray]:
    """The samples in `ranges` on every grid of the configuration."""
    return scalar_samples(config, equation, ranges, _constants(config), law=_law)


def _constants(config: HeatConfig) -> list[Coefficient]:
    return [Coefficient("diffusivity", "diffusivity ν", config.diffusivity, config.diffusivities)]


def _law(config: HeatConfig, grid: Grid, ranges: Ranges) -> np.ndarray:
    u0 = initial_fields(config, grid, ranges)
    return u0 if config.exponent is None else np.exp(config.exponent * (2 * u0 - 1))


if __name__ == "__main__":
    command(run, PRESETS)
