"""The Kuramoto–Sivashinsky equation u_t + u u_x + u_xx + u_xxxx = 0 on a periodic interval: chaos.

    python -m data_gen.kuramoto_sivashinsky --preset brandstetter2022 --output runs/ks.h5
    python -m data_gen.kuramoto_sivashinsky --preset quick --samples 64 --output runs/small.h5
    python -m data_gen.kuramoto_sivashinsky --preset brandstetter2022 --shard 0/4 --output /shared/ks.h5    # … 3/4

On another grid, or another kind of processor, a trajectory parts from its twin at a time of 100 to 200; nested labels
are one solution.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from data_gen.kit.evolution import SteppedConfig
from data_gen.kit.initial_fields import InitialFields
from data_gen.kit.ranges import Ranges
from data_gen.kit.scalar import generate_scalar, scalar_samples
from sciops.commands.command_line import command
from sciops.pde import kuramoto_sivashinsky as equation

__all__ = ["PRESETS", "KuramotoSivashinskyConfig", "run"]


@dataclass(frozen=True)
class KuramotoSivashinskyConfig(InitialFields, SteppedConfig):
    """Options. Sample i depends on the law, the equation, the grid it is solved on and the seed alone."""

    resolutions: tuple[int, ...] = (256, 128)
    """Points of the groups of the file."""
    length: float = 64.0
    """Length of the interval."""
    output: Path = Path("runs/kuramoto_sivashinsky.h5")
    """The file to write."""


_WAVES = {"terms": 10, "wavenumbers": (1, 2), "amplitudes": (-0.5, 0.5)}
PRESETS = {
    # Brandstetter et al. 2022 (arXiv:2202.07643 and its program): 500 times to 100 of which the last 140 are kept, 256
    # points, 512 samples for each split. Theirs vary length and time by a tenth about these values from sample to
    # sample; one file of ours has one grid and one clock
    "brandstetter2022": KuramotoSivashinskyConfig(
        **_WAVES,
        samples=1536,
        validation=512,
        test=512,
        warm_up=360 * 100 / 499,
        duration=139 * 100 / 499,
        every=100 / 499,
        dt=0.02,
    ),
    "quick": KuramotoSivashinskyConfig(
        **_WAVES,
        samples=64,
        resolutions=(64, 32),
        length=32.0,
        warm_up=20.0,
        duration=20.0,
        every=1.0,
        dt=0.025,
        estimate=True,
        output=Path("runs/kuramoto_sivashinsky_quick.h5"),
    ),
}


def run(config: KuramotoSivashinskyConfig) -> Path:
    """Generates the file and returns its path (the folder of parts while other shards are at work).

    Raises ValueError for an invalid configuration, or an output that another configuration made; RuntimeError naming
    the samples that blew up, unless allow_failures; OSError when the disk is full.
    """
    return generate_scalar(config, equation, make)


def make(config: KuramotoSivashinskyConfig, ranges: Ranges) -> dict[str, np.ndarray]:
    """The samples in `ranges` on every grid of the configuration."""
    return scalar_samples(config, equation, ranges)


if __name__ == "__main__":
    command(run, PRESETS)
