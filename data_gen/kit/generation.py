"""What every generator shares: the common half of its configuration, its checks, and the way from a recipe to a file.

A generator is a configuration that inherits from `GenerationConfig`, presets, a module-level ``make(config, ranges)``
and ``run(config)``, which builds a `Recipe` and hands both to `generate_samples`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch

from data_gen.kit.planning import estimate
from sciops import __version__
from sciops.datasets.generation.cluster import versions
from sciops.datasets.generation.writer import Cluster, Plan, Ranges, check_place, finished, generate, read_manifest
from sciops.datasets.native import group_name
from sciops.grids import Grid, restrict

__all__ = ["GenerationConfig", "Recipe", "generate_samples", "grids_of", "numbers_of", "on_every_grid", "program"]

_PART_BYTES = 32 << 20
_NOUNS = {"node": "nodes", "cell": "cells", "periodic": "points"}
# the content of a file does not depend on these
_FREE = {"output", "shard", "workers", "scheduler", "threads", "device", "chunk", "compression", "allow_failures"}
_FREE |= {"insecure_scheduler", "progress", "dry_run"}


@dataclass(frozen=True)
class GenerationConfig:
    """What every generator asks. Sample i depends on the law and the seed alone: not on how many samples there are, nor
    on workers, threads, shards or parts: bit for bit on a CPU, to rounding on a GPU."""

    samples: int = 1280
    """How many samples."""
    resolutions: tuple[int, ...] = (64,)
    """Points per axis; one group of the file each."""
    labels: Literal["nested", "solved"] = "solved"
    """nested: solved on the finest grid and taken at the points of the coarser ones. solved: the same fields solved on
    every grid, so that each solution answers to the data beside it."""
    seed: int = 0
    """Seed of the fields; a test set of its own needs another seed or samples of this run's test split."""
    validation: float = 0.1
    """Samples for validation, after those for training: a share below 1, a count from 1 on."""
    test: float = 0.1
    """Samples for testing, at the end: a share below 1, a count from 1 on."""
    dtype: Literal["float64", "float32"] = "float64"
    """How fields are stored; they are computed in float64 always."""
    output: Path = Path("runs/data.h5")
    """The file to write; a name that ends in .zarr makes it a Zarr store."""
    shard: str = "0/1"
    """i/n: make every n-th part from the i-th on; the shard that finishes last writes the output."""
    workers: int = 0
    """Processes of a local dask cluster; 0 makes everything in this process."""
    scheduler: str | None = None
    """Address of a running dask scheduler, tls://host:8786, whose workers make the parts; certificates as dask's
    configuration or environment names them."""
    insecure_scheduler: bool = False
    """Accept a scheduler without certificates, tcp://host:8786: whoever reaches its port can run code as you."""
    threads: int | None = None
    """Samples solved at a time in each process; default one for each core it may use, shared among local workers."""
    device: str = "cpu"
    """Where to solve: cpu, or cuda for a GPU."""
    chunk: int | None = None
    """Samples per part, what a kill can cost; default as many as make 32 MB and leave parts for all who work."""
    compression: int | None = None
    """Compression level 1–9 of the output; default none."""
    allow_failures: bool = False
    """Write the file even when samples failed; they are in it, marked, with NaN."""
    progress: bool = True
    """Show progress bars."""
    dry_run: bool = False
    """Make a few samples, say what all would take in parts, bytes, memory and time, and write nothing."""


C = TypeVar("C", bound=GenerationConfig)


@dataclass(frozen=True)
class Recipe:
    """How an equation's samples are made and what the file says about them.

    equation : its name in the file
    grids : group → grid, finest first; `grids_of` gives it
    make : module-level function (config, ranges) → {"r64/u": (samples, time, 64, 64), "r64/seed": (samples,), …}, the
        samples of all half-open ranges one after another; a sample must depend on config and its number alone
    variables : name → attributes (long_name, units, …)
    dims : name → dimensions after ``sample``; default the spatial axes of that rank
    coordinates : further coordinates, name → (values, attributes), such as ``time``
    attrs : of every group: task, state, parameters, boundary, …; dicts become JSON
    solver : program and versions, see `program`; parts of two programs are never mixed
    config : what the content depends on, as JSON; default every field of the configuration that is not about running
    check : called with the `sciops.datasets.generation.writer.Plan` once all parts are there; what it raises keeps them
    probe : called with the configuration before anything is written, to refuse wrong numbers early
    any_batch : whether `make` gives the same bits however many samples it makes at once; small parts then are made
        several at a time to fill the threads
    block : samples that `make` makes together at least, from a multiple of it on: the usual parts hold whole blocks
    at_once : samples for each thread that parts are made together up to: more of them leave threads idle for less time
        at the end, and cost more where a run is killed
    """

    equation: str
    grids: Mapping[str, Grid]
    make: Callable[[Any, Ranges], Mapping[str, np.ndarray]]
    variables: Mapping[str, Mapping[str, Any]]
    solver: str
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    coordinates: Mapping[str, tuple[Any, Mapping[str, Any]]] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] | None = None
    check: Callable[[Plan], None] | None = None
    probe: Callable[[Any], None] | None = None
    any_batch: bool = False
    block: int = 1
    at_once: int = 4


def generate_samples(config: GenerationConfig, recipe: Recipe) -> Path:
    """Generates the file and returns its path (the folder of parts while other shards are at work; for a dry run that
    of the file that would be written).

    A run that is stopped, even by SIGKILL, goes on with the parts it lacks when it is called again; its fields have
    the same bytes in one process, over shards and on a cluster.

    Raises ValueError for a configuration that cannot be, or an output that another configuration made; what `make`,
    `probe` and `check` raise; OSError when the disk is full.
    """
    began = time.monotonic()
    config = _normalized(config)
    _check_nesting(config, recipe.grids)
    shard = _shard(config.shard)
    threads = config.threads or _usual_threads(config)
    plan = Plan(
        config.output,
        config.samples,
        config.chunk or _usual_chunk(config, recipe),
        _essence(config) if recipe.config is None else recipe.config,
        recipe.grids,
        recipe.solver,
        _splits(config),
        variables=recipe.variables,
        dims=recipe.dims,
        coordinates=recipe.coordinates,
        attrs={"equation": recipe.equation, "versions": json.dumps(dict(versions()))},
        group_attrs={"equation": recipe.equation, "labels": config.labels, **recipe.attrs},
        compression=config.compression,
    )
    there_before = finished(plan)
    if not there_before:
        check_place(plan)
    if config.chunk is None:
        plan = _with_chunk_of_parts(plan)
    if recipe.probe is not None and not there_before and not plan.parts.exists():
        recipe.probe(config)
    make = functools.partial(_importable(recipe.make), _importable(type(config))(**vars(config) | {"threads": threads}))
    batch = -(-max(recipe.at_once, recipe.block) * threads // plan.chunk) if recipe.any_batch else 1
    if config.dry_run:
        least = recipe.block * threads
        print(estimate(plan, make, least=least, batch=batch, workers=config.workers, shards=shard[1]))
        return plan.output
    path = generate(
        plan,
        make,
        check=recipe.check,
        shard=shard,
        batch=batch,
        cluster=_cluster(config),
        progress=config.progress,
    )
    if path == plan.output and not there_before:
        took, noun = time.monotonic() - began, _NOUNS[next(iter(recipe.grids.values())).centering]
        sizes = _listed(config.resolutions)
        print(f"{path}: {config.samples} samples at {sizes} {noun} per axis, {took:.1f} s")
    return path


def grids_of(
    config: GenerationConfig,
    ndim: int,
    *,
    centering: Literal["node", "cell", "periodic"] = "periodic",
    extent: Any = None,
    least: int = 3,
) -> dict[str, Grid]:
    """Group → grid with the configuration's resolutions on every axis, finest first: ``Recipe.grids``.

    least : points per axis that a grid must have

    Raises ValueError for resolutions that repeat or are too few points.
    """
    sizes = tuple(sorted(config.resolutions, reverse=True))
    if not sizes or len(set(sizes)) < len(sizes) or min(sizes) < least:
        noun = _NOUNS[centering]
        raise ValueError(
            f"--resolutions {_listed(sizes)}: expected different sizes of at least {least} {noun} per axis"
        )
    return {group_name((n,) * ndim): Grid((n,) * ndim, extent, centering) for n in sizes}


def numbers_of(ranges: Ranges) -> np.ndarray:
    """The numbers of the samples in half-open ranges, int64."""
    return np.concatenate([np.arange(start, stop, dtype=np.int64) for start, stop in ranges])


def on_every_grid(
    config: GenerationConfig,
    grids: Mapping[str, Grid],
    solve: Callable[[Grid], tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]],
) -> dict[str, np.ndarray]:
    """What `make` returns, from a function that makes the samples on one grid.

    solve : grid → (fields, numbers): fields (samples, …, *grid) by name, such as u (samples, time, x), and what is kept
        of each sample beside them, such as residual (samples,)

    ``labels="solved"`` calls it on every grid; ``"nested"`` on the finest alone, whose fields the coarser groups take
    at their own points, with the same numbers. Fields are stored as ``config.dtype``.
    """
    made: dict[str, np.ndarray] = {}
    finest = next(iter(grids.values()))
    fine: Mapping[str, np.ndarray] = {}
    numbers: Mapping[str, np.ndarray] = {}
    for name, grid in grids.items():
        if grid is finest or config.labels == "solved":
            fields, numbers = solve(grid)
            fine = fields if grid is finest else fine
        else:
            fields = {key: restrict(values, finest, grid) for key, values in fine.items()}
        made |= {f"{name}/{key}": np.asarray(values, dtype=config.dtype) for key, values in fields.items()}
        made |= {f"{name}/{key}": np.asarray(values) for key, values in numbers.items()}
    return made


def program(name: str, *, engine: str = "torch", device: str = "cpu") -> str:
    """``Recipe.solver``: module, its version, the engine's version, and the device where it is not the CPU.

    >>> program("sciops.pde.burgers")            # doctest: +SKIP
    'sciops.pde.burgers 0.1.0, torch 2.13.0'
    """
    version = torch.__version__ if engine == "torch" else importlib.metadata.version(engine)
    return f"{name} {__version__}, {engine} {version}" + ("" if device == "cpu" else f" on {device}")


def _normalized(config: C) -> C:
    """The configuration with its resolutions finest first; ValueError for what cannot be."""
    config = replace(config, resolutions=tuple(sorted(config.resolutions, reverse=True)), output=Path(config.output))
    for name, least, most in (
        ("samples", 1, 2**53),
        ("workers", 0, 2**16),
        ("threads", 1, 2**16),
        ("chunk", 1, 2**53),
        ("seed", 0, 2**63 - 1),
        ("compression", 1, 9),
    ):
        value = getattr(config, name)
        if value is not None and not least <= value <= most:
            raise ValueError(f"--{name} {value}: expected at least {least}" + f" and at most {most}" * (value > most))
    if config.labels not in ("nested", "solved"):
        raise ValueError(f"--labels {config.labels}: expected nested or solved")
    if config.dtype not in ("float64", "float32"):
        raise ValueError(f"--dtype {config.dtype}: expected float64 or float32")
    if not config.device.startswith(("cpu", "cuda")):
        raise ValueError(f"--device {config.device}: expected cpu or cuda, the solver needs float64")
    if config.device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"--device {config.device}: there is no CUDA device here; take --device cpu")
    if config.workers and config.scheduler is not None:
        raise ValueError(f"--workers {config.workers} --scheduler {config.scheduler}: take one of them")
    return config


def _check_nesting(config: GenerationConfig, grids: Mapping[str, Grid]) -> None:
    finest, *others = grids.values()
    loose = [grid.shape[0] for grid in others if grid.strides_in(finest) is None]
    if config.labels != "nested" or not loose:
        return
    n = finest.shape[0]
    if finest.centering == "node":
        fit = [(n - 1) // f + 1 for f in range(2, n) if (n - 1) % f == 0 and (n - 1) // f >= 2]
    else:
        fit = [n // f for f in range(2, n) if n % f == 0]
    noun = _NOUNS[finest.centering]
    raise ValueError(
        f"--resolutions {_listed(config.resolutions)}: {_listed(loose)} {noun} are not nested in {n}; "
        f"{_listed(fit) or 'none'} are, or take --labels solved"
    )


def _cluster(config: GenerationConfig) -> Cluster | None:
    if not config.workers and config.scheduler is None:
        return None
    return Cluster(config.workers, config.scheduler, config.insecure_scheduler)


def _essence(config: GenerationConfig) -> dict[str, Any]:
    """The fields of the configuration that the content of the file depends on."""
    values = {key: value for key, value in vars(config).items() if key not in _FREE}
    return {key: str(value) if isinstance(value, Path) else value for key, value in values.items()}


def _splits(config: GenerationConfig) -> dict[str, tuple[int, int]]:
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


def _usual_chunk(config: GenerationConfig, recipe: Recipe) -> int:
    lengths = {name: len(values) for name, (values, _) in recipe.coordinates.items()}
    values = sum(math.prod(lengths.get(dim, 1) for dim in dims) for dims in recipe.dims.values()) or 2
    size = 8 * values * sum(grid.size for grid in recipe.grids.values())
    most = min(256, max(1 if config.device == "cpu" else 64, _PART_BYTES // size))
    # some parts for each who works, so that nobody waits long for the last one
    hands = 16 if config.scheduler is not None else config.workers
    chunk = min(most, -(-config.samples // (_shard(config.shard)[1] * max(1, 4 * hands))))
    return -(-chunk // recipe.block) * recipe.block


def _with_chunk_of_parts(plan: Plan) -> Plan:
    """The plan with the chunk of the parts that are there already, where nothing else differs."""
    found = read_manifest(plan) or {}
    chunk = found.get("chunk")
    same = isinstance(chunk, int) and chunk > 0 and found == {**plan.identity, "chunk": chunk}
    return replace(plan, chunk=chunk) if same else plan


def _importable(item: Any) -> Any:
    """A function or class as the module has it that a worker would import: ``python -m data_gen.darcy`` runs that
    module under another name."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if item.__module__ != "__main__" or spec is None:
        return item
    return getattr(importlib.import_module(spec.name), item.__qualname__)


def _usual_threads(config: GenerationConfig) -> int:
    if config.scheduler is not None:
        return 1  # whoever started the workers chose how many there are on a core
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // max(1, config.workers))


def _listed(values: Sequence[Any]) -> str:
    return " ".join(str(v) for v in values)
