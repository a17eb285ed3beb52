"""The Korteweg–de Vries equation u_t + c u u_x + d u_xxx = 0 on a periodic interval: trains of solitons.

python -m data_gen.kdv --preset brandstetter2022 --output runs/kdv.h5
python -m data_gen.kdv --preset quick --samples 64 --output runs/small.h5
python -m data_gen.kdv --preset brandstetter2022 --shard 0/4 --output /shared/kdv.h5    # … 3/4
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
from sciops.pde import kdv as equation

__all__ = ["PRESETS", "KdVConfig", "run"]


@dataclass(frozen=True)
class KdVConfig(InitialFields, SteppedConfig):
    """Options. Sample i depends on the law, the equation, the grid it is solved on and the seed alone."""

    resolutions: tuple[int, ...] = (256, 128)
    """Points of the groups of the file."""
    convection: float = 1.0
    """c."""
    dispersion: float = 1.0
    """d."""
    length: float = 128.0
    """Length of the interval."""
    output: Path = Path("runs/kdv.h5")
    """The file to write."""


# Brandstetter et al. 2022 (arXiv:2202.07643 and its program): 10 waves of 1 or 2 periods, 250 times to 100 (50 in the
# easy set) of which the last 140 are kept, 256 points, 512 samples for each split. Theirs vary length and time by a
# tenth about these values from sample to sample; one file of ours has one grid and one clock
_WAVES = {"terms": 10, "wavenumbers": (1, 2), "amplitudes": (-0.5, 0.5)}
_LPSDA = {**_WAVES, "samples": 1536, "validation": 512, "test": 512, "solved_on": 512, "dt": 0.02}
PRESETS = {
    "brandstetter2022": KdVConfig(**_LPSDA, warm_up=110 * 100 / 249, duration=139 * 100 / 249, every=100 / 249),
    "brandstetter2022-easy": KdVConfig(**_LPSDA, warm_up=110 * 50 / 249, duration=139 * 50 / 249, every=50 / 249),
    "quick": KdVConfig(
        **_WAVES,
        samples=64,
        resolutions=(64, 32),
        solved_on=128,
        length=32.0,
        duration=10.0,
        every=0.5,
        dt=0.025,
        estimate=True,
        output=Path("runs/kdv_quick.h5"),
    ),
}


def run(config: KdVConfig) -> Path:
    """Generates the file and returns its path (the folder of parts while other shards are at work).

    Raises ValueError for an invalid configuration, or an output that another configuration made; RuntimeError naming
    the samples that blew up, unless allow_failures; OSError when the disk is full.
    """
    return generate_scalar(config, equation, make, _constants(config))


def make(config: KdVConfig, ranges: Ranges) -> dict[str, np.ndarray]:
    """The samples in `ranges` on every grid of the configuration."""
    return scalar_samples(config, equation, ranges, _constants(config))


def _constants(config: KdVConfig) -> list[Coefficient]:
    return [
        Coefficient("convection", "convection c", config.convection),
        Coefficient("dispersion", "dispersion d", config.dispersion),
    ]


if __name__ == "__main__":
    command(run, PRESETS)
