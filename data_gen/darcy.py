"""Darcy flow data: −∇·(A∇u) = f on the unit square, one random field a on several grids, A = a or diag(r·a, a).

    python -m data_gen.darcy --preset li2020 --output runs/darcy.h5
    python -m data_gen.darcy --preset flow_cell --samples 200 --output runs/flow.h5
    python -m data_gen.darcy --preset quick --samples 64 --resolutions 85 43 --output runs/small.h5
    python -m data_gen.darcy --preset li2020 --shard 0/4 --output /shared/darcy.h5      # and 1/4, 2/4, 3/4 elsewhere

A run that is stopped, even by kill -9, resumes when the same command is given again.
"""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from data_gen.kit.configuration import GenerationConfig, grids_of
from data_gen.kit.generation import Recipe, generate_samples, on_every_grid, program
from data_gen.kit.ranges import Ranges, drawn
from data_gen.kit.solving import in_groups
from sciops.commands.command_line import command
from sciops.datasets.generation.writer import Plan, read_parts
from sciops.grids import Grid
from sciops.pde.darcy import SolverError, solve
from sciops.random_fields import gaussian_random_field, log_normal, two_phase

__all__ = ["PRESETS", "STATUS", "DarcyConfig", "run"]

STATUS = ("ok", "fallback_ok", "floor_limited", "failed")  # stored as the numbers 0, 1, 2, 3

_VARIABLES: dict[str, dict[str, Any]] = {
    "a": {"long_name": "coefficient", "units": "1"},
    "a_x": {"long_name": "coefficient along x", "units": "1"},
    "a_y": {"long_name": "coefficient along y", "units": "1"},
    "f": {"long_name": "source", "units": "1"},
    "u": {"long_name": "solution", "units": "1"},
    "seed": {"long_name": "seed of the field; with the number of the sample it gives the field again"},
    "residual": {"long_name": "true relative residual of the solve, 2-norm", "units": "1"},
    "iterations": {"long_name": "iterations of conjugate gradients of the solve"},
    "status": {
        "long_name": "outcome of the solve",
        "flag_values": np.arange(len(STATUS), dtype=np.int8),
        "flag_meanings": " ".join(STATUS),
    },
}

# boundary conditions as the solver takes them; also the attribute `walls` of the file
_WALLS: dict[str, dict[str, Any]] = {
    "zero": {},
    "flow_cell": {"boundary": {"y": "neumann"}, "values": {"x": [1.0, 0.0]}},
    "five_spot": {"boundary": "neumann"},
}
_GROUP = 2**16  # values of a field that a thread takes at a time: what stays in its cache
_WELL = 0.05  # radius of a well, standard deviation of its source


@dataclass(frozen=True)
class DarcyConfig(GenerationConfig):
    """Options. Sample i depends on the law, the modes and the seed alone: not on how many samples there are,
    nor on workers, threads, shards or parts."""

    resolutions: tuple[int, ...] = (421, 211, 85)
    """Nodes per axis, walls included; one group of the file each."""
    labels: Literal["nested", "solved"] = "nested"
    """nested: solved on the finest grid, a and u taken at the nodes of the coarser ones. solved: the same field solved
    on every grid, so that each u answers to the a beside it."""
    law: Literal["two_phase", "lognormal"] = "two_phase"
    """two_phase: a = high where g ≥ 0, low elsewhere. lognormal: a = exp(g / scale). g is Gaussian."""
    low: float = 3.0
    """Lower value of the two-phase coefficient."""
    high: float = 12.0
    """Higher value of the two-phase coefficient."""
    scale: float = 0.3
    """Divisor of g in the log-normal law; smaller means more contrast."""
    tau: float = 3.0
    """Inverse correlation length of g."""
    alpha: float = 2.0
    """Smoothness of g, covariance τ^(2α−2) (−Δ + τ²)^(−α)."""
    modes: int = 192
    """Cosine modes of g per axis, the same on every grid."""
    walls: Literal["zero", "flow_cell", "five_spot"] = "zero"
    """zero: u = 0 all around. flow_cell: u = 1 at x = 0 and 0 at x = 1, nothing flows through the sides y = 0 and 1.
    five_spot: closed walls, a unit flows in around (0, 0) and out around (1, 1), u has mean 0: the file holds f."""
    anisotropy: float = 1.0
    """r in A = diag(r·a, a); unless it is 1 the file holds a_x and a_y."""
    forcing: float = 1.0
    """The constant right side f, for walls other than five_spot."""
    tol: float = 1e-8
    """Relative residual that every solve must reach."""
    output: Path = Path("runs/darcy.h5")
    """The file to write; a name that ends in .zarr makes it a Zarr store."""


PRESETS = {
    "li2020": DarcyConfig(),
    "lognormal": DarcyConfig(law="lognormal"),
    # the cell of core-flooding experiments and of upscaling: effective permeability is what flows through
    "flow_cell": DarcyConfig(walls="flow_cell", forcing=0.0, law="lognormal", resolutions=(129, 65), tol=1e-10),
    # a quarter of the five-spot pattern of wells, the classic test of reservoir simulation
    "five_spot": DarcyConfig(walls="five_spot", law="lognormal", resolutions=(129, 65)),
    # layered rock: ten times as permeable along x
    "anisotropic": DarcyConfig(law="lognormal", anisotropy=10.0, resolutions=(129, 65)),
    "quick": DarcyConfig(samples=64, resolutions=(43, 22), modes=64, output=Path("runs/darcy_quick.h5")),
}


def run(config: DarcyConfig) -> Path:
    """Generates the file and returns its path (the folder of parts while other shards are at work).

    The samples of a part are solved in parallel by threads of the compiled solver. On few cores that beats worker
    processes, which cost seconds to start; they, or shards, serve where a machine has more cores than that fills, and
    where there are more machines.

    Raises ValueError for an invalid configuration, or an output that another configuration made; SolverError
    naming the samples that failed, unless allow_failures; OSError when the disk is full.
    """
    grids = grids_of(config, 2, centering="node")
    if config.law == "two_phase" and not (0 < config.low < np.inf and 0 < config.high < np.inf):
        raise ValueError(f"--low {config.low} --high {config.high}: expected positive values")
    if config.forcing == 0 and config.walls == "zero":
        raise ValueError("--forcing 0: u would be zero everywhere; take --forcing 1")
    if config.forcing != 1.0 and config.walls == "five_spot":
        raise ValueError(f"--forcing {config.forcing:g}: the wells of five_spot are its source; leave --forcing out")
    if not 0 < config.anisotropy < np.inf:
        raise ValueError(f"--anisotropy {config.anisotropy}: expected a positive ratio")
    compiled = _compiled(config)
    engine = "numba" if compiled else "torch"
    recipe = Recipe(
        equation="darcy",
        grids=grids,
        make=make,
        variables=_VARIABLES,
        solver=program("sciops.pde.darcy", engine=engine, device=config.device),
        attrs={
            "coefficient": "values",
            **({} if config.walls == "five_spot" else {"forcing": config.forcing}),
            **({"walls": json.dumps(_WALLS[config.walls])} if _WALLS[config.walls] else {}),
            "solved_on": max(config.resolutions) if config.labels == "nested" else "its own grid",
        },
        check=partial(_check, config),
        probe=lambda config: _solved(config, [(0, 1)], Grid((3, 3))),
        any_batch=config.device == "cpu",
        block=1 if compiled else _together(config),
        at_once=16,
    )
    path = generate_samples(config, recipe)
    if _trial_in_torch(config):
        print("            by the torch form; the compiled solver, compiled once at the start, is several times faster")
    return path


def make(config: DarcyConfig, ranges: Ranges) -> dict[str, np.ndarray]:
    """The samples in `ranges` on every grid of the configuration."""
    grids = grids_of(config, 2, centering="node")

    def together(ranges: Ranges) -> dict[str, np.ndarray]:
        return on_every_grid(config, grids, partial(_solved, config, ranges))

    if config.device != "cpu":
        return together(ranges)
    # the compiled solver loops over the points of one sample after the other: any batch gives the same bits
    return in_groups(together, ranges, _together(config), config.threads, whole=not _compiled(config))


def _together(config: DarcyConfig) -> int:
    return max(1, _GROUP // max(config.resolutions) ** 2)


def coefficients(config: DarcyConfig, grid: Grid, ranges: Ranges) -> np.ndarray:
    """a of the samples in `ranges` on a grid, (samples, *grid.shape) float64."""
    law = {"tau": config.tau, "alpha": config.alpha, "seed": config.seed, "modes": config.modes}
    g = drawn(gaussian_random_field, grid, ranges, **law)
    return two_phase(g, config.low, config.high) if config.law == "two_phase" else log_normal(g, config.scale)


def _compiled(config: DarcyConfig) -> bool:
    return config.device == "cpu" and importlib.util.find_spec("numba") is not None


def _trial_in_torch(config: DarcyConfig) -> bool:
    """Whether the few samples of a dry run are solved in torch: where the solver would have to be compiled for them."""
    if not (config.dry_run and _compiled(config)):
        return False
    from sciops.pde.darcy.compiled.kernels import kept_on_disk

    return not kept_on_disk()


def wells(grid: Grid) -> np.ndarray:
    """f of the five-spot: Gaussians of radius 0.05 at two opposite corners, a unit in and a unit out, (*grid.shape)."""
    x, y = grid.meshgrid()

    def at(corner: float) -> np.ndarray:
        # a quarter of the bell lies inside
        return 4 * np.exp(-((x - corner) ** 2 + (y - corner) ** 2) / (2 * _WELL**2)) / (2 * np.pi * _WELL**2)

    return at(0.0) - at(1.0)


def _solved(config: DarcyConfig, ranges: Ranges, grid: Grid) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    a = coefficients(config, grid, ranges)
    fields, coefficient = {"a": a}, a
    if config.anisotropy != 1.0:
        coefficient = np.stack([config.anisotropy * a, a], 1)
        fields = {"a_x": coefficient[:, 0], "a_y": a}
    forcing: Any = config.forcing
    if config.walls == "five_spot":
        forcing = wells(grid)
        fields["f"] = np.broadcast_to(forcing, a.shape)
    given = coefficient if _compiled(config) else torch.tensor(coefficient, device=config.device)
    solution = solve(
        given,
        grid,
        forcing=forcing,
        **_WALLS[config.walls],
        tensor=config.anisotropy != 1.0,
        mean="project",
        tol=config.tol,
        backend="torch" if _trial_in_torch(config) else "auto",
        on_failure="flag",
        threads=1 if config.device == "cpu" else config.threads,
    )
    u, residual, iterations = (
        np.asarray(v.cpu() if hasattr(v, "cpu") else v) for v in (solution.u, solution.residual, solution.iterations)
    )
    return {**fields, "u": u}, {
        "seed": np.full(len(a), config.seed, dtype=np.int64),
        "residual": residual.astype(np.float64),
        "iterations": iterations.astype(np.int32),
        "status": np.array([STATUS.index(s) for s in solution.status], dtype=np.int8),
    }


def _check(config: DarcyConfig, plan: Plan) -> None:
    """Raises SolverError naming the failed samples, unless they are allowed; reports those at the float64 floor."""
    for name in plan.grids if config.labels == "solved" else list(plan.grids)[:1]:
        status = read_parts(plan, f"{name}/status")
        for word, told in (("failed", "did not reach"), ("floor_limited", "stop at the floor of float64 above")):
            which = np.flatnonzero(status == STATUS.index(word))
            if not which.size:
                continue
            listed = " ".join(map(str, which[:10])) + (" …" if which.size > 10 else "")
            text = f"{which.size} of {plan.samples} samples {told} tol={config.tol:g} at {name[1:]} nodes: {listed}"
            if word == "failed" and not config.allow_failures:
                raise SolverError(
                    f"{text}; --allow-failures writes {plan.output} with them marked (the parts are kept)"
                )
            print(text)


if __name__ == "__main__":
    command(run, PRESETS)
