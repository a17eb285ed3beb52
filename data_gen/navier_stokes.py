"""Flow on a torus in vorticity form: w_t + u·∇w = νΔw − αw + f from random vorticity, recorded at equal times.

    python -m data_gen.navier_stokes --preset li2020-1e-5 --output runs/ns.h5
    python -m data_gen.navier_stokes --preset quick --viscosity 1e-4 --output runs/small.h5
    python -m data_gen.navier_stokes --preset li2020 --shard 0/8 --output /shared/ns.h5      # and 1/8 … 7/8 elsewhere

Solved on a fine grid and given at the points of coarser ones. A run that is stopped resumes when the same command is
given again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from data_gen.kit.coefficients import Coefficient
from data_gen.kit.configuration import check_numbers, grids_of
from data_gen.kit.evolution import (
    ERROR_ATTRS,
    STATUS,
    STATUS_ATTRS,
    EvolutionConfig,
    check_evolution,
    fine_grid,
    records,
    statuses,
    time_of,
)
from data_gen.kit.generation import Recipe, generate_samples, on_every_grid
from data_gen.kit.ranges import Ranges, drawn, numbers_of
from data_gen.kit.solving import aligned, one_by_one
from sciops.commands.command_line import command
from sciops.grids import Grid, restrict
from sciops.pde import navier_stokes as equation
from sciops.random_fields import gaussian_random_field

__all__ = ["PRESETS", "STATUS", "NavierStokesConfig", "run"]

_VARIABLES: dict[str, dict[str, Any]] = {
    "w": {"long_name": "vorticity", "units": "1"},
    "seed": {"long_name": "seed of the initial field; with the number of the sample it gives the field again"},
    "error": ERROR_ATTRS,
    "status": STATUS_ATTRS,
}


@dataclass(frozen=True)
class NavierStokesConfig(EvolutionConfig):
    """Options. Sample i depends on the law, the equation, the grid it is solved on and the seed alone."""

    resolutions: tuple[int, ...] = (64,)
    """Points per axis of the groups of the file."""
    solved_on: int | None = 256
    """Points per axis of the solve of nested labels; a multiple of every resolution."""
    viscosity: float = 1e-3
    """ν, in the units of the box."""
    viscosities: tuple[float, float] | None = None
    """Least and largest ν: each sample has its own, uniform in the logarithm, instead of the one above."""
    drag: float = 0.0
    """α of the linear drag −αw."""
    forcing: Literal["li2020", "kolmogorov", "none"] = "li2020"
    """li2020: 0.1 (sin 2π(x + y) + cos 2π(x + y)). kolmogorov: −κ cos κy with κ = 2π waves/side."""
    waves: int = 4
    """Waves of the kolmogorov forcing along y."""
    side: float = 1.0
    """Length of the box."""
    tau: float = 7.0
    """Inverse correlation length of w0 in boxes, so that w0 looks alike on any box."""
    alpha: float = 2.5
    """Smoothness of w0, covariance τ^(2α−2) (−Δ + τ²)^(−α) on the unit box."""
    strength: float = 1.0
    """Factor of w0."""
    modes: int = 128
    """Fourier modes of w0 per axis, the same on every grid."""
    duration: float = 50.0
    """Time from the first record to the last."""
    every: float = 1.0
    """Time between records."""
    dt: float = 1 / 256
    """Largest step; half a spacing over the largest speed is safe, twice that is unstable."""
    estimate: bool = False
    """Estimate each sample's error of time stepping by a second run of twice the step, for half as much time again."""
    output: Path = Path("runs/navier_stokes.h5")
    """The file to write."""


# Li et al. 2020 (arXiv:2010.08895, section 5.3) give 5000, 10000 and 1200 trajectories, train on 1000 and test on 200.
# Their published script has N(0, 7³(−Δ + 49I)^−2.5) for w0 with this scale, 256² points and Crank–Nicolson steps of
# 1e-4, of first order in the advection; ours are of fourth order, and the record holds w0 too. The script as it was in
# 2020 draws real and imaginary parts of variance 1 each, so that w0 has twice that variance: strength √2.
_LI = {"samples": 1300, "validation": 100, "test": 200, "dtype": "float32"}
PRESETS = {
    "li2020": NavierStokesConfig(**_LI),
    "li2020-1e-4": NavierStokesConfig(**_LI, viscosity=1e-4, duration=30.0),
    "li2020-1e-5": NavierStokesConfig(**_LI, viscosity=1e-5, duration=20.0),
    # equation, forcing and box of Kochkov et al. 2021 (doi:10.1073/pnas.2101784118), warmed up for 40 as theirs; the
    # initial law, the spectral grid and the record are ours
    "kolmogorov": NavierStokesConfig(
        samples=128,
        viscosity=1e-3,
        drag=0.1,
        forcing="kolmogorov",
        side=2 * math.pi,
        strength=10.0,
        warm_up=40.0,
        duration=20.0,
        every=0.25,
        dt=1 / 512,
        dtype="float32",
    ),
    "quick": NavierStokesConfig(
        samples=16,
        resolutions=(32, 16),
        solved_on=32,
        modes=24,
        duration=4.0,
        every=0.5,
        dt=1 / 16,
        estimate=True,
        output=Path("runs/navier_stokes_quick.h5"),
    ),
}


def run(config: NavierStokesConfig) -> Path:
    """Generates the file and returns its path (the folder of parts while other shards are at work).

    Raises ValueError for an invalid configuration, or an output that another configuration made; RuntimeError
    naming the sample that blew up, unless allow_failures; OSError when the disk is full.
    """
    grids, viscosity, forcing = _grids(config), _viscosity(config), _forcing(config)
    check_evolution(config, grids)
    check_numbers(config, positive=("side",), nonnegative=("viscosity", "drag"))
    if callable(forcing):  # refuses a box that is not its own
        forcing(Grid((4, 4), config.side, "periodic"))
    recipe = Recipe(
        equation="navier_stokes",
        grids=grids,
        make=make,
        variables={key: value for key, value in _VARIABLES.items() if key != "error" or config.estimate}
        | {name: {"long_name": about, "units": "1"} for name, about in viscosity.variables.items()},
        dims={"w": ("time", "x", "y")},
        coordinates=time_of(config),
        attrs={
            "task": "trajectory",
            "state": ["w"],
            "parameters": {**viscosity.parameters, "drag": config.drag},
            "boundary": {"x": "periodic", "y": "periodic"},
            "forcing": {"kolmogorov": f"kolmogorov, {config.waves} waves along y"}.get(config.forcing, config.forcing),
            "solved_on": config.solved_on if config.labels == "nested" else "its own grid",
        },
        # on the CPU every sample is solved alone; on a GPU a part is a batch
        any_batch=config.device == "cpu",
    )
    return generate_samples(config, recipe)


def make(config: NavierStokesConfig, ranges: Ranges) -> dict[str, np.ndarray]:
    """The samples in `ranges` on every grid of the configuration."""
    return on_every_grid(config, _grids(config), partial(_solved, config, ranges))


def initial_vorticity(config: NavierStokesConfig, grid: Grid, ranges: Ranges) -> np.ndarray:
    """w0 of the samples in `ranges` on a grid, (samples, nx, ny) float64."""
    law = {"tau": config.tau, "alpha": config.alpha, "seed": config.seed, "modes": config.modes}
    box = Grid(grid.shape, (0.0, 1.0), "periodic")
    return config.strength * drawn(gaussian_random_field, box, ranges, **law)


def _solved(
    config: NavierStokesConfig, ranges: Ranges, grid: Grid
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    fine = fine_grid(config, grid, _grids(config))
    w0, numbers = initial_vorticity(config, fine, ranges), numbers_of(ranges)
    nu = np.broadcast_to(_viscosity(config).values(config.seed, numbers), len(numbers))
    if config.device == "cpu":
        solved = one_by_one(
            partial(_trajectory, config, fine, grid), map(aligned, w0[:, None]), nu, threads=config.threads
        )
    else:
        solved = [_trajectory(config, fine, grid, torch.from_numpy(w0).to(config.device), nu)]
    w, error, failed_at = (np.concatenate(parts) for parts in zip(*solved))
    status = statuses(config, numbers, failed_at)
    seed = np.full(len(w), config.seed, dtype=np.int64)
    kept = {"seed": seed, "status": status, **_viscosity(config).by_sample(config.seed, numbers)}
    return {"w": w}, kept | ({"error": error} if config.estimate else {})


def _trajectory(
    config: NavierStokesConfig, fine: Grid, grid: Grid, w0: Any, viscosity: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(w at the points of grid, error, when it blew up) of the samples in w0."""
    solution = equation.solve(
        w0,
        fine,
        times=config.warm_up + records(config),
        viscosity=viscosity,
        drag=config.drag,
        forcing=_forcing(config),
        dt=config.dt,
        estimate=config.estimate,
        on_failure="flag",
    )
    w = restrict(solution.u, fine, grid) if fine != grid else solution.u
    error = np.full(len(w0), np.nan) if solution.error is None else solution.error
    w, error = (v.cpu().numpy() if isinstance(v, torch.Tensor) else v for v in (w, error))
    return w, np.where(np.isnan(solution.failed_at), error, np.nan), solution.failed_at


def _viscosity(config: NavierStokesConfig) -> Coefficient:
    return Coefficient("viscosity", "viscosity ν", config.viscosity, config.viscosities)


def _forcing(config: NavierStokesConfig) -> Any:
    if config.forcing == "none":
        return 0.0
    if config.forcing == "kolmogorov":
        return partial(equation.kolmogorov_forcing, k=config.waves)
    return equation.li2020_forcing


def _grids(config: NavierStokesConfig) -> dict[str, Grid]:
    return grids_of(config, 2, extent=config.side, least=4)


if __name__ == "__main__":
    command(run, PRESETS)
