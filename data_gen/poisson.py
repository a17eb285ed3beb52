"""Poisson data: −Δu = f on the unit square from random sources f, solved to round-off on every grid.

python -m data_gen.poisson --preset cno2023 --output runs/poisson.h5
python -m data_gen.poisson --preset gaussian --boundary neumann --output runs/neumann.h5
python -m data_gen.poisson --preset quick --samples 64 --resolutions 65 33 --output runs/small.h5
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from data_gen.kit.generation import Recipe, generate_samples, on_every_grid
from data_gen.kit.ranges import Ranges
from data_gen.kit.sources import VARIABLES, SourceConfig, boundary_of, check_sources, solve_each, source_grids, sources
from sciops.commands.command_line import command
from sciops.grids import Grid
from sciops.pde import poisson

__all__ = ["PRESETS", "PoissonConfig", "run"]


@dataclass(frozen=True)
class PoissonConfig(SourceConfig):
    """Options. Sample i depends on the law, the equation and the seed alone."""

    output: Path = Path("runs/poisson.h5")
    """The file to write."""


PRESETS = {
    # CNO (arXiv:2302.01178): K = 16, (i² + j²)^−1/2, u = 0 on the walls. Their files have 64 points per axis; ours have
    # 64 spacings from wall to wall
    "cno2023": PoissonConfig(samples=1408, validation=128, test=256),
    "gaussian": PoissonConfig(law="gaussian"),
    "quick": PoissonConfig(samples=32, resolutions=(33, 17), output=Path("runs/poisson_quick.h5")),
}


def run(config: PoissonConfig) -> Path:
    """Generates the file and returns its path (the folder of parts while other shards are at work).

    Without dirichlet walls the mean of f is taken off on every grid, as the equation asks.

    Raises ValueError for an invalid configuration, or an output that another configuration made; OSError when
    the disk is full.
    """
    recipe = Recipe(
        equation="poisson",
        grids=source_grids(config),
        make=make,
        variables=VARIABLES,
        attrs={"task": "steady", "scheme": config.scheme, **boundary_of(config)},
        probe=check_sources,
        any_batch=config.device == "cpu",
    )
    return generate_samples(config, recipe)


def make(config: PoissonConfig, ranges: Ranges) -> dict[str, np.ndarray]:
    """The samples in `ranges` on every grid of the configuration."""
    return on_every_grid(config, source_grids(config), partial(_solved, config, ranges))


def _solved(config: PoissonConfig, ranges: Ranges, grid: Grid) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    f = sources(config, grid, ranges)
    solve = partial(poisson.solve, grid=grid, boundary=config.boundary, scheme=config.scheme, mean="project")
    u, residual = solve_each(config, solve, f)
    return {"f": f, "u": u}, {"seed": np.full(len(f), config.seed, dtype=np.int64), "residual": residual}


if __name__ == "__main__":
    command(run, PRESETS)
