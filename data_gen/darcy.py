"""Darcy flow data: −∇·(a∇u) = f on the unit square, u = 0 on the wall, one random field a on several grids.

    python -m data_gen.darcy --preset li2020 --output runs/darcy.h5
    python -m data_gen.darcy --preset quick --samples 64 --resolutions 85 43 --output runs/small.h5
    python -m data_gen.darcy --preset li2020 --shard 0/4 --output /shared/darcy.h5      # and 1/4, 2/4, 3/4 elsewhere

A run that is stopped, even by kill -9, goes on where it was when the same command is given again.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from sciops import __version__
from sciops._command import command
from sciops.datasets.native import group_name
from sciops.datasets.writer import Plan, Ranges, generate, read_parts
from sciops.grids import Grid, restrict
from sciops.pde.darcy import SolverError, solve
from sciops.random_fields import gaussian_random_field, log_normal, two_phase

__all__ = ["PRESETS", "STATUS", "DarcyConfig", "run"]

STATUS = ("ok", "fallback_ok", "floor_limited", "failed")  # stored as the numbers 0, 1, 2, 3

_PART_BYTES = 32 << 20
_VARIABLES: dict[str, dict[str, Any]] = {
    "a": {"long_name": "coefficient", "units": "1"},
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


@dataclass(frozen=True)
class DarcyConfig:
    """What to generate. Sample i depends on the law, the modes and the seed alone: not on how many samples there are,
    nor on workers, shards or parts."""

    samples: int = 1280
    """How many samples."""
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
    forcing: float = 1.0
    """The constant right side f."""
    tol: float = 1e-8
    """Relative residual that every solve must reach."""
    seed: int = 0
    """Seed of the fields; a test set of its own needs another seed or samples of this run's test split."""
    validation: float = 0.1
    """Samples for validation, after those for training: a share below 1, a count from 1 on."""
    test: float = 0.1
    """Samples for testing, at the end: a share below 1, a count from 1 on."""
    dtype: Literal["float64", "float32"] = "float64"
    """How a and u are stored; the solve is in float64 always."""
    output: Path = Path("runs/darcy.h5")
    """The file to write."""
    shard: str = "0/1"
    """i/n: make every n-th part from the i-th on; the shard that finishes last writes the output."""
    workers: int | None = None
    """Samples solved at a time; default one for each core this process may use."""
    device: str = "cpu"
    """Where to solve: cpu, or cuda for the torch solver on a GPU."""
    chunk: int | None = None
    """Samples per part, what a kill can cost; default as many as make 32 MB and leave a part for every shard."""
    compression: int | None = None
    """gzip level 1–9 of the output; default none."""
    allow_failures: bool = False
    """Write the file even when samples failed; they are in it, with status "failed" and u = NaN."""
    progress: bool = True
    """Show progress bars."""


PRESETS = {
    "li2020": DarcyConfig(),
    "lognormal": DarcyConfig(law="lognormal"),
    "quick": DarcyConfig(samples=64, resolutions=(43, 22), modes=64, output=Path("runs/darcy_quick.h5")),
}


def run(config: DarcyConfig) -> Path:
    """Generates the file and returns its path (the folder of parts while other shards are at work).

    Parts are made one after another and the samples of a part in parallel, by threads of the compiled solver in this
    process: that beats worker processes on few cores, which cost seconds to start and copy every field. For many
    machines, or more cores than a part has samples, use shards.

    Raises ValueError for a configuration that cannot be, or an output that another configuration made; SolverError
    naming the samples that failed, unless allow_failures; OSError when the disk is full.
    """
    began = time.monotonic()
    config = _checked(config)
    grids = {group_name(n): Grid((n, n)) for n in config.resolutions}
    workers = config.workers or _cores()
    compiled = config.device == "cpu" and importlib.util.find_spec("numba") is not None
    plan = Plan(
        config.output,
        config.samples,
        config.chunk or _usual_chunk(config),
        _essence(config),
        grids,
        _made_with(config, compiled),
        _splits(config),
    )
    # the compiled solver gives the same bits in any batch; torch may not, and then a part must be a batch of its own
    batch = -(-4 * workers // plan.chunk) if compiled else 1
    there_before = plan.output.exists()
    if not there_before and not plan.parts.exists():
        # one sample on the smallest grid: field and solver refuse their wrong numbers before anything is written
        _solved(config, Grid((3, 3)), [(0, 1)], 1)
    path = generate(
        plan,
        lambda ranges: _make(config, grids, ranges, workers),
        variables=_VARIABLES,
        attrs={"equation": "darcy", "versions": json.dumps(_versions())},
        group_attrs={
            "equation": "darcy",
            "coefficient": "values",
            "forcing": config.forcing,
            "labels": config.labels,
            "solved_on": config.resolutions[0] if config.labels == "nested" else "its own grid",
        },
        check=lambda plan: _check(config, plan),
        shard=_shard(config.shard),
        batch=batch,
        compression=config.compression,
        progress=config.progress,
    )
    if path == plan.output and not there_before:
        took, sizes = time.monotonic() - began, _listed(config.resolutions)
        print(f"{path}: {config.samples} samples at {sizes} nodes per axis, {took:.1f} s")
    return path


def coefficients(config: DarcyConfig, grid: Grid, ranges: Ranges) -> np.ndarray:
    """a of the samples in `ranges` on a grid, (samples, *grid.shape) float64."""
    law = {"tau": config.tau, "alpha": config.alpha, "seed": config.seed, "modes": config.modes}
    g = np.concatenate([gaussian_random_field(grid, stop - start, first=start, **law) for start, stop in ranges])
    return two_phase(g, config.low, config.high) if config.law == "two_phase" else log_normal(g, config.scale)


def _make(config: DarcyConfig, grids: dict[str, Grid], ranges: Ranges, workers: int) -> dict[str, np.ndarray]:
    made: dict[str, np.ndarray] = {}
    finest = next(iter(grids.values()))
    solved: dict[str, np.ndarray] = {}
    for name, grid in grids.items():
        if config.labels == "solved" or grid is finest:
            solved = _solved(config, grid, ranges, workers)
            fields = {key: solved[key] for key in ("a", "u")}
            fine = fields if grid is finest else {}
        else:
            fields = {key: restrict(values, finest, grid) for key, values in fine.items()}
        numbers = {key: values for key, values in solved.items() if key not in fields}
        fields = {key: values.astype(config.dtype) for key, values in fields.items()}
        made |= {f"{name}/{key}": values for key, values in (fields | numbers).items()}
    return made


def _solved(config: DarcyConfig, grid: Grid, ranges: Ranges, workers: int) -> dict[str, np.ndarray]:
    a = coefficients(config, grid, ranges)
    given = a if config.device == "cpu" else torch.from_numpy(a).to(config.device)
    solution = solve(given, grid, forcing=config.forcing, tol=config.tol, on_failure="flag", threads=workers)
    u, residual, iterations = (
        np.asarray(v.cpu() if hasattr(v, "cpu") else v) for v in (solution.u, solution.residual, solution.iterations)
    )
    return {
        "a": a,
        "u": u,
        "seed": np.full(len(a), config.seed, dtype=np.int64),
        "residual": residual.astype(np.float64),
        "iterations": iterations.astype(np.int32),
        "status": np.array([STATUS.index(s) for s in solution.status], dtype=np.int8),
    }


def _check(config: DarcyConfig, plan: Plan) -> None:
    """Raises SolverError naming the failed samples, unless they are allowed; tells of those at the float64 floor."""
    for name in plan.grids if config.labels == "solved" else list(plan.grids)[:1]:
        status = read_parts(plan, f"{name}/status")
        for word, told in (("failed", "did not reach"), ("floor_limited", "stop at the floor of float64 above")):
            which = np.flatnonzero(status == STATUS.index(word))
            if not which.size:
                continue
            listed = _listed(which[:10]) + (" …" if which.size > 10 else "")
            text = f"{which.size} of {plan.samples} samples {told} tol={config.tol:g} at {name[1:]} nodes: {listed}"
            if word == "failed" and not config.allow_failures:
                raise SolverError(
                    f"{text}; --allow-failures writes {plan.output} with them marked (the parts are kept)"
                )
            print(text)


def _essence(config: DarcyConfig) -> dict[str, Any]:
    """The fields of the configuration that the content of the file depends on."""
    free = ("output", "shard", "workers", "device", "chunk", "compression", "allow_failures", "progress")
    values = {key: value for key, value in vars(config).items() if key not in free}
    return {**values, "resolutions": list(config.resolutions)}


def _made_with(config: DarcyConfig, compiled: bool) -> str:
    engine = f"numba {importlib.metadata.version('numba')}" if compiled else f"torch {torch.__version__}"
    return f"sciops.pde.darcy {__version__}, {engine}" + ("" if config.device == "cpu" else f" on {config.device}")


def _versions() -> dict[str, str]:
    found = {"sciops": __version__, "python": platform.python_version()}
    for name in ("numpy", "scipy", "torch", "numba", "h5py", "h5netcdf", "xarray"):
        if importlib.util.find_spec(name):
            found[name] = importlib.metadata.version(name)
    return found


def _checked(config: DarcyConfig) -> DarcyConfig:
    """The configuration with its resolutions finest first; ValueError for what cannot be."""
    sizes = tuple(sorted(config.resolutions, reverse=True))
    config = replace(config, resolutions=sizes, output=Path(config.output))
    for name, least, most in (
        ("samples", 1, 2**53),
        ("workers", 1, 2**16),
        ("chunk", 1, 2**53),
        ("seed", 0, 2**63 - 1),
        ("compression", 1, 9),
    ):
        value = getattr(config, name)
        if value is not None and not least <= value <= most:
            raise ValueError(f"--{name} {value}: expected at least {least}" + f" and at most {most}" * (value > most))
    if not sizes or len(set(sizes)) < len(sizes) or min(sizes) < 3:
        raise ValueError(f"--resolutions {_listed(sizes)}: expected different sizes of at least 3 nodes per axis")
    if config.law == "two_phase" and not (0 < config.low < np.inf and 0 < config.high < np.inf):
        raise ValueError(f"--low {config.low} --high {config.high}: expected positive values")
    if config.forcing == 0:
        raise ValueError("--forcing 0: u would be zero everywhere; take --forcing 1")
    if not config.device.startswith(("cpu", "cuda")):
        raise ValueError(f"--device {config.device}: expected cpu or cuda, the solver needs float64")
    if config.device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"--device {config.device}: there is no CUDA device here; take --device cpu")
    finest, *others = sizes
    loose = [n for n in others if (finest - 1) % (n - 1)]
    if config.labels == "nested" and loose:
        fit = [(finest - 1) // f + 1 for f in range(2, finest) if (finest - 1) % f == 0 and (finest - 1) // f >= 2]
        raise ValueError(
            f"--resolutions {_listed(config.resolutions)}: {_listed(loose)} nodes are not nested in {finest}; "
            f"{_listed(fit) or 'none'} are, or take --labels solved"
        )
    return config


def _splits(config: DarcyConfig) -> dict[str, tuple[int, int]]:
    counts = {}
    for name in ("validation", "test"):
        value = getattr(config, name)
        if not value >= 0 or (value >= 1 and value != int(value)):
            raise ValueError(f"--{name} {value}: expected a share in [0, 1) or a whole number of samples")
        counts[name] = round(value * config.samples) if value < 1 else int(value)
    train = config.samples - sum(counts.values())
    if train < 1:
        raise ValueError(
            f"--validation {config.validation:g} --test {config.test:g}: none of {config.samples} is left to train on"
        )
    middle = train + counts["validation"]
    return {"train": (0, train), "validation": (train, middle), "test": (middle, config.samples)}


def _shard(text: str) -> tuple[int, int]:
    first, _, last = text.partition("/")
    if not (first.isdecimal() and last.isdecimal() and int(first) < int(last)):
        raise ValueError(f"--shard {text}: expected i/n with 0 ≤ i < n, such as 0/4 … 3/4")
    return int(first), int(last)


def _usual_chunk(config: DarcyConfig) -> int:
    size = sum(2 * 8 * n * n for n in config.resolutions)
    most = min(256, max(1 if config.device == "cpu" else 64, _PART_BYTES // size))
    return min(most, -(-config.samples // _shard(config.shard)[1]))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _listed(values: Any) -> str:
    return " ".join(str(v) for v in values)


if __name__ == "__main__":
    command(run, PRESETS)
