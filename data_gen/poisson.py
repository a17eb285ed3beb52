"""Poisson data: −Δu = f on the unit square from random sources f, solved to round-off on every grid.

python -m data_gen.poisson --preset cno2023 --output runs/poisson.h5
python -m data_gen.poisson --preset gaussian --boundary neumann --output runs/neumann.h5
python -m data_gen.poisson --preset quick --samples 64 --resolutions 65 33 --output runs/small.h5
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from data_gen.kit.generation import (
    GenerationConfig,
    Recipe,
    generate_samples,
    grids_of,
    numbers_of,
    on_every_grid,
    program,
)
from data_gen.kit.sines import sine_series
from data_gen.kit.solving import aligned, one_by_one
from sciops.command import command
from sciops.datasets.generation.writer import Ranges
from sciops.grids import Grid
from sciops.pde import poisson
from sciops.random_fields import gaussian_random_field

__all__ = ["PRESETS", "VARIABLES", "PoissonConfig", "SourceConfig", "boundary_of", "run", "sources"]

VARIABLES: dict[str, dict[str, Any]] = {
    "f": {"long_name": "source", "units": "1"},
    "u": {"long_name": "solution", "units": "1"},
    "seed": {"long_name": "seed of the source; with the number of the sample it gives the source again"},
    "residual": {"long_name": "true relative residual of the solve, 2-norm", "units": "1"},
}


@dataclass(frozen=True)
class SourceConfig(GenerationConfig):
    """Sources on the unit square and what holds u at its sides. Sample i depends on law, equation and seed alone."""

    boundary: Literal["dirichlet", "neumann", "periodic"] = "dirichlet"
    """dirichlet: u = 0 on the walls. neumann: no flux through them. periodic: no walls, points j/n."""
    law: Literal["sines", "gaussian"] = "sines"
    """sines: (π/K²) Σ a_ij (i² + j²)^power sin πix sin πjy, a uniform on [−1, 1], 0 on the walls. gaussian: a Gaussian
    field of covariance τ^(2α−2) (−Δ + τ²)^(−α), with cosines or, on a periodic box, Fourier modes."""
    sines: int = 16
    """K of the sines law."""
    power: float = -0.5
    """Exponent of i² + j² in the sines law."""
    tau: float = 3.0
    """Inverse correlation length of the gaussian law."""
    alpha: float = 3.0
    """Smoothness of the gaussian law; more than 1."""
    modes: int = 64
    """Modes of the gaussian law per axis, the same on every grid."""
    scheme: Literal["spectral", "finite-volume"] = "spectral"
    """spectral: exact on the eigenfunctions of the box. finite-volume: the five-point scheme, second order."""


@dataclass(frozen=True)
class PoissonConfig(SourceConfig):
    """What to generate. Sample i depends on the law, the equation and the seed alone."""

    resolutions: tuple[int, ...] = (129, 65)
    """Points per axis, walls included; one group of the file each."""
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

    Raises ValueError for a configuration that cannot be, or an output that another configuration made; OSError when
    the disk is full.
    """
    recipe = Recipe(
        equation="poisson",
        grids=_grids(config),
        make=make,
        variables=VARIABLES,
        solver=program("sciops.pde.poisson", device=config.device),
        attrs={"task": "steady", "scheme": config.scheme, **boundary_of(config)},
        probe=lambda config: sources(config, Grid((8, 8), centering=centering_of(config)), [(0, 1)]),
        any_batch=config.device == "cpu",
    )
    return generate_samples(config, recipe)


def make(config: PoissonConfig, ranges: Ranges) -> dict[str, np.ndarray]:
    """The samples in `ranges` on every grid of the configuration."""
    return on_every_grid(config, _grids(config), partial(_solved, config, ranges))


def sources(config: SourceConfig, grid: Grid, ranges: Ranges) -> np.ndarray:
    """f of the samples in `ranges` on a grid, (samples, *grid.shape) float64; of mean 0 where u needs that."""
    if config.law == "sines":
        if config.boundary != "dirichlet":
            raise ValueError(
                f"--boundary {config.boundary}: sines are 0 on walls and no period's; take --law gaussian with it"
            )
        f = sine_series(grid, numbers_of(ranges), modes=config.sines, power=config.power, seed=config.seed)
    else:
        law = {"tau": config.tau, "alpha": config.alpha, "seed": config.seed, "modes": config.modes}
        f = np.concatenate([gaussian_random_field(grid, stop - start, first=start, **law) for start, stop in ranges])
    if config.boundary == "dirichlet":
        return f
    weights = grid.weights() / grid.weights().sum()
    return f - np.stack([(weights * one).sum() for one in f])[:, None, None]


def centering_of(config: SourceConfig) -> Literal["node", "periodic"]:
    """Nodes on the walls, or the points of a period."""
    return "periodic" if config.boundary == "periodic" else "node"


def boundary_of(config: SourceConfig) -> dict[str, Any]:
    """Attributes that say what holds u at the sides."""
    side = "periodic" if config.boundary == "periodic" else "wall"
    condition = {"dirichlet": {"wall": "u = 0"}, "neumann": {"wall": "du/dn = 0"}}
    return {"boundary": {"x": side, "y": side}, **condition.get(config.boundary, {})}


def solve_each(config: SourceConfig, solve: Any, f: np.ndarray, *parameters: np.ndarray) -> tuple[Any, Any]:
    """(u, residual) of solve(f, *parameters), each sample alone on the CPU, all at once on a GPU."""
    if config.device == "cpu":
        solutions = one_by_one(solve, map(aligned, f), *parameters, threads=config.threads)
        return np.stack([s.u for s in solutions]), np.array([s.residual for s in solutions], dtype=np.float64)
    solution = solve(torch.from_numpy(f).to(config.device), *parameters)
    return solution.u.cpu().numpy(), solution.residual.cpu().numpy()


def _solved(config: PoissonConfig, ranges: Ranges, grid: Grid) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    f = sources(config, grid, ranges)
    solve = partial(poisson.solve, grid=grid, boundary=config.boundary, scheme=config.scheme, mean="project")
    u, residual = solve_each(config, solve, f)
    return {"f": f, "u": u}, {"seed": np.full(len(f), config.seed, dtype=np.int64), "residual": residual}


def _grids(config: SourceConfig) -> dict[str, Grid]:
    return grids_of(config, 2, centering=centering_of(config))


if __name__ == "__main__":
    command(run, PRESETS)
