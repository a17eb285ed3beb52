"""Random sources on the unit square and what holds u at its sides: Poisson, Helmholtz and waves share them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from data_gen.kit.configuration import GenerationConfig, grids_of
from data_gen.kit.ranges import Ranges, drawn, numbers_of
from data_gen.kit.solving import aligned, one_by_one
from sciops.arrays.threads import one_torch_thread
from sciops.bases import functions
from sciops.grids import Grid
from sciops.random_fields import gaussian_random_field

VARIABLES: dict[str, dict[str, Any]] = {
    "f": {"long_name": "source", "units": "1"},
    "u": {"long_name": "solution", "units": "1"},
    "seed": {"long_name": "seed of the source; with the number of the sample it gives the source again"},
    "residual": {"long_name": "true relative residual of the solve, 2-norm", "units": "1"},
}
"""Variables of the files of steady equations."""


@dataclass(frozen=True)
class SourceConfig(GenerationConfig):
    """Sources on the unit square and the boundary condition. Sample i depends on law, equation and seed alone."""

    resolutions: tuple[int, ...] = (129, 65)
    """Points per axis, walls included; one group of the file each."""
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


def source_grids(config: SourceConfig) -> dict[str, Grid]:
    """Group → grid: nodes from wall to wall, or the points of a period."""
    return grids_of(config, 2, centering=_centering(config))


def check_sources(config: SourceConfig) -> None:
    """Raises ValueError where the law does not fit the boundary or has invalid parameters."""
    sources(config, Grid((8, 8), centering=_centering(config)), [(0, 1)])


def boundary_of(config: SourceConfig) -> dict[str, Any]:
    """Attributes that state the boundary condition."""
    side = "periodic" if config.boundary == "periodic" else "wall"
    condition = {"dirichlet": {"wall": "u = 0"}, "neumann": {"wall": "du/dn = 0"}}
    return {"boundary": {"x": side, "y": side}, **condition.get(config.boundary, {})}


def sources(config: SourceConfig, grid: Grid, ranges: Ranges) -> np.ndarray:
    """f of the samples in `ranges` on a grid, (samples, *grid.shape) float64; with mean 0 where the equation needs it.

    Raises ValueError for sines without Dirichlet walls.
    """
    if config.law == "sines":
        if config.boundary != "dirichlet":
            raise ValueError(
                f"--boundary {config.boundary}: sines are 0 on walls and not periodic; take --law gaussian with it"
            )
        return sine_series(grid, numbers_of(ranges), modes=config.sines, power=config.power, seed=config.seed)
    law = {"tau": config.tau, "alpha": config.alpha, "seed": config.seed, "modes": config.modes}
    f = drawn(gaussian_random_field, grid, ranges, **law)
    if config.boundary == "dirichlet":
        return f
    weights = grid.weights() / grid.weights().sum()
    return f - np.stack([(weights * one).sum() for one in f])[:, None, None]


def sine_series(grid: Grid, numbers: np.ndarray, *, modes: int, power: float, seed: int) -> np.ndarray:
    """Samples of (π/K²) Σ_{i,j=1}^K a_ij (i² + j²)^p sin(πix/L_x) sin(πjy/L_y), a_ij iid uniform on [−1, 1].

    The law of the Poisson and wave data of arXiv:2302.01178 (CNO). The same functions on every grid, exactly 0 on the
    walls.

    Parameters
    ----------
    grid
        Two axes; the sines are those of its domain.
    numbers
        Of the samples; number n draws a from ``SeedSequence(seed, spawn_key=(n,))``.
    modes, power
        K and p.

    Returns
    -------
    ndarray
        (samples, nx, ny) float64.
    """
    k = np.arange(1, modes + 1)
    scale = np.pi / modes**2 * (k[:, None] ** 2 + k**2) ** float(power)
    x, y = (torch.tensor(functions("sine", s, modes)) for s in grid.fractions())
    fields = np.empty((len(numbers), *grid.shape))
    with one_torch_thread():
        for field, number in zip(fields, numbers.tolist()):
            a = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,))).uniform(-1, 1, (modes, modes))
            field[...] = x @ torch.tensor(a * scale) @ y.mT
    return fields


def solve_each(config: SourceConfig, solve: Any, f: np.ndarray, *parameters: np.ndarray) -> tuple[Any, Any]:
    """(u, residual) of solve(f, *parameters), each sample alone on the CPU, all at once on a GPU."""
    if config.device == "cpu":
        solutions = one_by_one(solve, map(aligned, f), *parameters, threads=config.threads)
        return np.stack([s.u for s in solutions]), np.array([s.residual for s in solutions], dtype=np.float64)
    solution = solve(torch.from_numpy(f).to(config.device), *parameters)
    return solution.u.cpu().numpy(), solution.residual.cpu().numpy()


def _centering(config: SourceConfig) -> Literal["node", "periodic"]:
    return "periodic" if config.boundary == "periodic" else "node"
