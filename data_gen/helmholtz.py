"""Helmholtz data: −Δu − k²a u = f on the unit square from random sources f, wavenumbers k and media a.

    python -m data_gen.helmholtz --preset waves --output runs/helmholtz.h5
    python -m data_gen.helmholtz --preset waves --wavenumbers 20 40 --output runs/high.h5
    python -m data_gen.helmholtz --preset medium --contrast 0.5 --output runs/medium.h5
    python -m data_gen.helmholtz --preset screened --output runs/screened.h5

Without a contrast a = 1, and the solve is exact to round-off; with one a(x) is a random field of each sample, which the
file holds beside f and u. The presets are this project's own: the public Helmholtz sets have walls that let waves out,
or hold them at a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from data_gen.kit.generation import Recipe, generate_samples, on_every_grid
from data_gen.kit.media import Medium, check_medium, media
from data_gen.kit.ranges import Ranges, numbers_of
from data_gen.kit.sources import VARIABLES, SourceConfig, boundary_of, check_sources, solve_each, source_grids, sources
from sciops.bases import KIND_OF, frequencies
from sciops.commands.command_line import command
from sciops.grids import Grid
from sciops.pde import helmholtz

__all__ = ["PRESETS", "HelmholtzConfig", "run"]

_TRIES = 10_000


@dataclass(frozen=True)
class HelmholtzConfig(Medium, SourceConfig):
    """Options. Sample i depends on the law, the equation and the seed alone."""

    power: float = 0.0
    """Exponent of i² + j² in the sines law."""
    wavenumbers: tuple[float, float] = (5.0, 20.0)
    """k of a sample is uniform between these two, in radians per unit of length."""
    gap: float = 0.01
    """k is drawn again where |λ − k²| < gap·k² for an eigenvalue λ of the box: ‖u‖ ≤ ‖f‖/(gap k²) then, where a = 1 and
    the scheme is spectral."""
    screened: bool = False
    """−Δu + k²a u = f instead; k is then an inverse length, and any k will do."""
    tol: float = 1e-8
    """Relative residual of the solve where the medium varies."""
    output: Path = Path("runs/helmholtz.h5")
    """The file to write."""


PRESETS = {
    "waves": HelmholtzConfig(),
    "screened": HelmholtzConfig(screened=True, law="gaussian", wavenumbers=(1.0, 30.0)),
    "medium": HelmholtzConfig(contrast=0.4),
    "quick": HelmholtzConfig(samples=32, resolutions=(33, 17), output=Path("runs/helmholtz_quick.h5")),
}


def run(config: HelmholtzConfig) -> Path:
    """Generates the file and returns its path (the folder of parts while other shards are at work).

    Raises ValueError for an invalid configuration, or an output that another configuration made; OSError when
    the disk is full.
    """
    low, high = config.wavenumbers
    if not 0 < low < high < np.inf:
        raise ValueError(f"--wavenumbers {low:g} {high:g}: expected two positive numbers, the smaller first")
    if not 0 < config.gap < 1:
        raise ValueError(f"--gap {config.gap:g}: expected a share between 0 and 1, such as 0.01")
    check_medium(config)
    if not 0 < config.tol < 1:
        raise ValueError(f"--tol {config.tol:g}: expected a relative residual between 0 and 1, such as 1e-8")
    name = "screening" if config.screened else "wavenumber"
    recipe = Recipe(
        equation="helmholtz",
        grids=source_grids(config),
        make=make,
        variables=VARIABLES
        | {name: {"long_name": f"{name} k of −Δu {'+' if config.screened else '−'} k²a u = f", "units": "1"}}
        | ({"a": {"long_name": "squared slowness of the medium", "units": "1"}} if config.contrast else {}),
        attrs={"task": "steady", "scheme": config.scheme, **boundary_of(config)},
        probe=_probe,
        any_batch=config.device == "cpu",
    )
    return generate_samples(config, recipe)


def make(config: HelmholtzConfig, ranges: Ranges) -> dict[str, np.ndarray]:
    """The samples in `ranges` on every grid of the configuration."""
    return on_every_grid(config, source_grids(config), partial(_solved, config, ranges))


def _solved(config: HelmholtzConfig, ranges: Ranges, grid: Grid) -> tuple[dict[str, Any], dict[str, Any]]:
    f, k = sources(config, grid, ranges), _parameters(config, ranges)
    name = "screening" if config.screened else "wavenumber"

    def solve(f: Any, k: Any, a: Any = None) -> helmholtz.Solution:
        options = {name: k, "boundary": config.boundary, "scheme": config.scheme, "tol": config.tol}
        return helmholtz.solve(f, grid, coefficient=a, **options)

    medium = {"a": media(config, grid, ranges)} if config.contrast else {}
    u, residual = solve_each(config, solve, f, k, *medium.values())
    seed = np.full(len(f), config.seed, dtype=np.int64)
    return {"f": f, "u": u} | medium, {"seed": seed, "residual": residual, name: k}


def _probe(config: HelmholtzConfig) -> None:
    check_sources(config)
    _parameters(config, [(0, 1)])


def _parameters(config: HelmholtzConfig, ranges: Ranges) -> np.ndarray:
    """k of every sample, (samples,), the same on every grid: kept off the eigenvalues of the box itself."""
    low, high = config.wavenumbers
    squares = _eigenvalues(config.boundary, 2 * high)
    values = []
    for number in numbers_of(ranges).tolist():
        # the field draws from spawn_key (number,); its wavenumber has a stream of its own
        draw = np.random.default_rng(np.random.SeedSequence(config.seed, spawn_key=(number, 1)))
        for _ in range(_TRIES):
            k = draw.uniform(low, high)
            if config.screened or np.abs(squares - k**2).min() >= config.gap * k**2:
                break
        else:
            raise ValueError(
                f"--gap {config.gap:g}: leaves next to no wavenumber between {low:g} and {high:g}; take a smaller one"
            )
        values.append(k)
    return np.array(values)


def _eigenvalues(boundary: str, most: float) -> np.ndarray:
    """λ of −Δ on the unit square with √λ up to `most` and a little beyond."""
    k = frequencies(KIND_OF[boundary], 2 * int(most / np.pi) + 4)
    return np.unique(np.add.outer(k**2, k**2))


if __name__ == "__main__":
    command(run, PRESETS)
