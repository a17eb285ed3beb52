"""Waves: u_tt + γu_t = c²Δu on the unit square from random u at rest, exact in time, recorded at equal times.

python -m data_gen.wave --preset cno2023 --output runs/wave.h5
python -m data_gen.wave --preset periodic --speed 0.5 --output runs/periodic.h5
python -m data_gen.wave --preset medium --contrast 0.4 --output runs/medium.h5
python -m data_gen.wave --preset quick --samples 64 --resolutions 65 33 --output runs/small.h5

With a contrast the speed is a random field c(x) of each sample, which the file holds beside u and v.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from data_gen.kit.configuration import check_numbers
from data_gen.kit.generation import Recipe, generate_samples, on_every_grid
from data_gen.kit.media import Medium, check_medium, media
from data_gen.kit.ranges import Ranges
from data_gen.kit.solving import aligned, one_by_one
from data_gen.kit.sources import SourceConfig, boundary_of, check_sources, source_grids, sources
from sciops.commands.command_line import command
from sciops.grids import Grid
from sciops.pde import wave

__all__ = ["PRESETS", "WaveConfig", "run"]

_VARIABLES = {
    "u": {"long_name": "displacement", "units": "1"},
    "v": {"long_name": "velocity, the rate of change of u", "units": "1"},
    "c": {"long_name": "speed of waves", "units": "1"},
    "seed": {"long_name": "seed of the initial field; with the number of the sample it gives the field again"},
}


@dataclass(frozen=True)
class WaveConfig(Medium, SourceConfig):
    """Options; the laws are those of u at time 0. Sample i depends on the law, the equation and the seed."""

    sines: int = 24
    """K of the sines law."""
    power: float = -1.0
    """Exponent of i² + j² in the sines law."""
    speed: float = 0.1
    """c, boxes per unit of time; with a contrast the middle of its logarithm."""
    damping: float = 0.0
    """γ, per unit of time."""
    duration: float = 5.0
    """Time of the last record; the first is at 0."""
    records: int = 11
    """How many records, at equal times."""
    output: Path = Path("runs/wave.h5")
    """The file to write."""


PRESETS = {
    # CNO (arXiv:2302.01178): K = 24, (i² + j²)^−1, c = 0.1, u = 0 on the walls; their task is u(0) → u(5), the first
    # record and the last. Their files have 64 points per axis; ours have 64 spacings from wall to wall
    "cno2023": WaveConfig(samples=896, validation=128, test=256),
    "periodic": WaveConfig(law="gaussian", boundary="periodic", resolutions=(128, 64), speed=0.2),
    # speeds between a half and twice the mean; half waves of up to 12 a box, so that the slow parts resolve them
    "medium": WaveConfig(sines=12, contrast=0.4),
    "quick": WaveConfig(samples=16, resolutions=(33, 17), records=6, output=Path("runs/wave_quick.h5")),
}


def run(config: WaveConfig) -> Path:
    """Generates the file and returns its path (the folder of parts while other shards are at work).

    Raises ValueError for an invalid configuration, or an output that another configuration made; OSError when
    the disk is full.
    """
    check_numbers(config, positive=("speed", "duration"), nonnegative=("damping",))
    if config.records < 2:
        raise ValueError(f"--records {config.records}: expected at least 2, the first at time 0")
    check_medium(config)
    if config.scheme != "spectral":
        raise ValueError(f"--scheme {config.scheme}: waves are solved mode by mode; take --scheme spectral")
    recipe = Recipe(
        equation="wave",
        grids=source_grids(config),
        make=make,
        variables={name: about for name, about in _VARIABLES.items() if name != "c" or config.contrast},
        dims={"u": ("time", "x", "y"), "v": ("time", "x", "y")},
        coordinates={"time": (_times(config), {"units": "1", "long_name": "time"})},
        attrs={
            "task": "trajectory",
            "state": ["u", "v"],
            "parameters": {"damping": config.damping} | ({} if config.contrast else {"speed": config.speed}),
            **boundary_of(config),
        },
        probe=check_sources,
        any_batch=config.device == "cpu",
    )
    return generate_samples(config, recipe)


def make(config: WaveConfig, ranges: Ranges) -> dict[str, np.ndarray]:
    """The samples in `ranges` on every grid of the configuration."""
    return on_every_grid(config, source_grids(config), partial(_solved, config, ranges))


def _solved(config: WaveConfig, ranges: Ranges, grid: Grid) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    u0 = sources(config, grid, ranges)
    state = np.stack([u0, np.zeros_like(u0)], 1)
    c = config.speed * media(config, grid, ranges) if config.contrast else np.full(len(state), config.speed)

    def solve(state: Any, c: Any) -> Any:
        options = {"times": _times(config), "damping": config.damping, "boundary": config.boundary}
        return wave.solve(state, grid, speed=c, **options).u

    if config.device == "cpu":
        u = np.stack(one_by_one(solve, map(aligned, state), c, threads=config.threads))
    else:
        u = solve(torch.from_numpy(state).to(config.device), torch.from_numpy(c).to(config.device)).cpu().numpy()
    fields = {"u": u[:, :, 0], "v": u[:, :, 1]} | ({"c": c} if config.contrast else {})
    return fields, {"seed": np.full(len(u), config.seed, dtype=np.int64)}


def _times(config: WaveConfig) -> np.ndarray:
    return np.linspace(0.0, config.duration, config.records)


if __name__ == "__main__":
    command(run, PRESETS)
