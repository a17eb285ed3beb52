"""The Gray–Scott equations on a torus: spots, stripes, spirals and gliders from random species A and B.

    python -m data_gen.gray_scott --preset the_well --output runs/gray_scott.h5
    python -m data_gen.gray_scott --preset quick --samples 64 --output runs/small.h5
    python -m data_gen.gray_scott --preset the_well --shard 0/8 --output /shared/gs.h5    # and 1/8 … 7/8 elsewhere

A run that is stopped resumes when the same command is given again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from data_gen.kit.configuration import grids_of
from data_gen.kit.evolution import SteppedConfig, evolution_recipe, trajectories
from data_gen.kit.generation import generate_samples
from data_gen.kit.ranges import Ranges, numbers_of
from sciops.commands.command_line import command
from sciops.grids import Grid
from sciops.pde import gray_scott as equation
from sciops.resampling import resample

__all__ = ["PRESETS", "GrayScottConfig", "initial_species", "run"]

_STATE = {"A": "concentration of A, fed", "B": "concentration of B, which turns A into itself"}
_BY_SAMPLE = {"feed": "feed rate F", "kill": "kill rate k"}
_REFERENCE = 256  # points per axis whose least and largest value stand for those of a function


@dataclass(frozen=True)
class GrayScottConfig(SteppedConfig):
    """Options. Sample i depends on the law, the equation, the grid it is solved on and the seed alone."""

    resolutions: tuple[int, ...] = (128, 64)
    """Points per axis of the groups of the file."""
    patterns: tuple[str, ...] = tuple(equation.PATTERNS)
    """Names of pairs (F, k), taken in turn: sample i has the i-th, round and round."""
    law: Literal["both", "gaussians", "waves"] = "both"
    """gaussians: 10 to 100 bumps. waves: a trigonometric polynomial through 32² random values about a steady state.
    both: every round of the patterns, the other one."""
    diffusivity: tuple[float, float] = (2e-5, 1e-5)
    """(δ_A, δ_B)."""
    dt: float | None = 1.0
    """Largest step."""
    output: Path = Path("runs/gray_scott.h5")
    """The file to write."""


PRESETS = {
    # The Well (arXiv:2412.00568; gray_scott_reaction_diffusion, and the program it names): six patterns, 100 samples of
    # either law for each, 128² points of (−1, 1)², 1001 times to 10000, steps of 1. Random numbers are ours
    "the_well": GrayScottConfig(
        samples=1200, resolutions=(128,), duration=10000.0, every=10.0, dtype="float32", compression=4
    ),
    "quick": GrayScottConfig(
        samples=12,
        resolutions=(32, 16),
        diffusivity=(4e-4, 2e-4),
        duration=400.0,
        every=20.0,
        estimate=True,
        output=Path("runs/gray_scott_quick.h5"),
    ),
}


def run(config: GrayScottConfig) -> Path:
    """Generates the file and returns its path (the folder of parts while other shards are at work).

    Raises ValueError for an invalid configuration, or an output that another configuration made; RuntimeError
    naming the samples that blew up, unless allow_failures; OSError when the disk is full.
    """
    unknown = [name for name in config.patterns if name not in equation.PATTERNS]
    if unknown or not config.patterns:
        raise ValueError(f"--patterns {' '.join(unknown) or '(none)'}: expected of {', '.join(equation.PATTERNS)}")
    recipe = evolution_recipe(
        config,
        equation="gray_scott",
        grids=_grids(config),
        make=make,
        state=_STATE,
        parameters=dict(zip(("diffusivity_A", "diffusivity_B"), config.diffusivity)),
        by_sample=_BY_SAMPLE,
    )
    return generate_samples(config, recipe)


def make(config: GrayScottConfig, ranges: Ranges) -> dict[str, np.ndarray]:
    """The samples in `ranges` on every grid of the configuration."""

    def rates(numbers: np.ndarray) -> dict[str, np.ndarray]:
        pairs = np.array([_rates(config, number) for number in numbers.tolist()]).reshape(-1, 2)
        return dict(zip(_BY_SAMPLE, pairs.T.copy()))

    def solve(u0, grid, times, numbers):
        return equation.solve(
            u0,
            grid,
            times=times,
            **rates(numbers),
            diffusivity=config.diffusivity,
            dt=1.0 if config.dt is None else config.dt,
            order=config.order,
            estimate=config.estimate,
            on_failure="flag",
        )

    law = partial(initial_species, config)
    return trajectories(config, _grids(config), ranges, state=_STATE, law=law, solve=solve, by_sample=rates)


def initial_species(config: GrayScottConfig, grid: Grid, ranges: Ranges) -> np.ndarray:
    """A and B of the samples in `ranges` on a grid, (samples, 2, n, n) float64: the same functions on every grid.

    gaussians : Σ a exp(−s|x − c|²) over the torus, 10 to 100 bumps with a uniform on (1, 3) and s on (150, 300), moved
        and scaled to reach from 0 to 1; A is one minus such a sum, B another
    waves : m + ½ d p with p the trigonometric interpolant of 32² values uniform on (−½, ½): about the third steady
        state m, with d = 0.9 min(m, 1 − m), where the kinetics have one, else about (1, 0) with d = 1. Grids of fewer
        than 32 points lack its highest modes
    """
    fields = []
    for number in numbers_of(ranges).tolist():
        draw = np.random.default_rng(np.random.SeedSequence(config.seed, spawn_key=(number,)))
        law = config.law
        if law == "both":
            law = ("gaussians", "waves")[number // len(config.patterns) % 2]
        if law == "gaussians":
            fields.append([1 - _bumps(draw, grid), _bumps(draw, grid)])
        else:
            fields.append([m + 0.5 * d * _polynomial(draw, grid) for m, d in _steady_state(*_rates(config, number))])
    return np.array(fields).reshape(-1, 2, *grid.shape)


def _bumps(draw: np.random.Generator, grid: Grid) -> np.ndarray:
    count = draw.integers(10, 101)
    a, s = draw.uniform(1, 3, count), draw.uniform(150, 300, count)
    centres = [draw.uniform(*interval, count) for interval in grid.extent]

    def values(on: Grid) -> np.ndarray:
        factors = []
        for x, c, (left, right) in zip(on.coordinates(), centres, on.extent):
            away = x[:, None] - c + (right - left) * np.array([-1, 0, 1])[:, None, None]
            factors.append(np.exp(-s * away**2).sum(0))  # a bump and its two images; those beyond vanish
        x, y = (torch.tensor(factor) for factor in (a * factors[0], factors[1]))
        return (x @ y.mT).numpy()

    reference = values(Grid((_REFERENCE,) * 2, grid.extent, "periodic"))
    low, high = reference.min(), reference.max()
    return (values(grid) - low) / (high - low)


def _polynomial(draw: np.random.Generator, grid: Grid) -> np.ndarray:
    coarse = Grid((32, 32), grid.extent, "periodic")
    return resample(draw.uniform(-0.5, 0.5, coarse.shape), coarse, grid, "fourier")


def _steady_state(feed: float, kill: float) -> list[tuple[float, float]]:
    """(mean, width) of A and of B."""
    if not kill < (math.sqrt(feed) - 2 * feed) / 2:
        return [(1.0, 1.0), (0.0, 1.0)]
    ratio = math.sqrt(feed) / (feed + kill)
    root = math.sqrt(ratio**2 - 4)
    means = ((ratio - root) / (2 * ratio), math.sqrt(feed) * (ratio + root) / 2)
    return [(m, 0.9 * min(m, 1 - m)) for m in means]


def _rates(config: GrayScottConfig, number: int) -> tuple[float, float]:
    return equation.PATTERNS[config.patterns[number % len(config.patterns)]]


def _grids(config: GrayScottConfig) -> dict[str, Grid]:
    return grids_of(config, 2, extent=(-1.0, 1.0), least=4)


if __name__ == "__main__":
    command(run, PRESETS)
