"""From a recipe, which says how samples are made and what the file says about them, to the file.

A generator is a configuration that inherits from `GenerationConfig`, presets, a module-level ``make(config, ranges)``
and ``run(config)``, which builds a `Recipe` and passes both to `generate_samples`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from data_gen.kit import configuration
from data_gen.kit.configuration import NOUNS, GenerationConfig
from data_gen.kit.planning import estimate
from sciops.datasets.generation.cluster import versions
from sciops.datasets.generation.writer import Cluster, Plan, Ranges, check_place, finished, generate, read_manifest
from sciops.grids import Grid, restrict
from sciops.version import __version__

_PART_BYTES = 32 << 20


@dataclass(frozen=True)
class Recipe:
    """How an equation's samples are made and what the file says about them.

    Parameters
    ----------
    equation
        Its name in the file.
    grids
        Group → grid, finest first; see `grids_of`.
    make
        Module-level function (config, ranges) → {"r64/u": (samples, time, 64, 64), "r64/seed": (samples,), …}: the
        samples of all half-open ranges, in order. A sample must depend on config and its number alone.
    variables
        Name → attributes (long_name, units, …).
    dims
        Name → dimensions after ``sample``; default the spatial axes of that rank.
    coordinates
        Further coordinates, name → (values, attributes), such as ``time``.
    attrs
        Attributes of every group: task, state, parameters, boundary, …; dicts become JSON.
    solver
        Program and versions; parts of two programs are never mixed. Default `program` of ``sciops.pde.<equation>``.
    check
        Called with the `sciops.datasets.generation.writer.Plan` once all parts are there; what it raises keeps them.
    probe
        Called with the configuration before anything is written, to refuse wrong numbers early.
    any_batch
        Whether `make` gives the same bits however many samples it makes at once; small parts are then made several at
        a time to fill the threads.
    block
        Number of samples that `make` makes together at least, from a multiple of it on: default parts hold whole
        blocks.
    at_once
        Samples per thread up to which parts are made together: more of them leave threads idle for less time at the
        end, and lose more work when a process is killed.
    """

    equation: str
    grids: Mapping[str, Grid]
    make: Callable[[Any, Ranges], Mapping[str, np.ndarray]]
    variables: Mapping[str, Mapping[str, Any]]
    solver: str | None = None
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    coordinates: Mapping[str, tuple[Any, Mapping[str, Any]]] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Plan], None] | None = None
    probe: Callable[[Any], Any] | None = None
    any_batch: bool = False
    block: int = 1
    at_once: int = 4


def generate_samples(config: GenerationConfig, recipe: Recipe) -> Path:
    """Generates the file and returns its path.

    While other shards are at work that is the folder of parts; for a dry run, the file that would be written.

    A run that is stopped, even by SIGKILL, resumes with the missing parts when it is called again; its fields have the
    same bytes in one process, over shards and on a cluster.

    Raises
    ------
    ValueError
        The configuration is invalid, or another configuration made the output.
    OSError
        The output cannot be written, or the disk is full.

    What `make`, `probe` and `check` raise is passed on.
    """
    began = time.monotonic()
    config = configuration.normalized(config)
    configuration.check_nesting(config, recipe.grids)
    shard = configuration.shard_of(config.shard)
    threads = config.threads or configuration.usual_threads(config)
    plan = Plan(
        config.output,
        config.samples,
        config.chunk or _usual_chunk(config, recipe),
        configuration.essence(config),
        recipe.grids,
        recipe.solver or program(f"sciops.pde.{recipe.equation}", device=config.device),
        configuration.splits(config),
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
    clustered = config.workers or config.scheduler is not None
    path = generate(
        plan,
        make,
        check=recipe.check,
        shard=shard,
        batch=batch,
        cluster=Cluster(config.workers, config.scheduler, config.insecure_scheduler) if clustered else None,
        progress=config.progress,
    )
    if path == plan.output and not there_before:
        took, noun = time.monotonic() - began, NOUNS[next(iter(recipe.grids.values())).centering]
        sizes = configuration.listed(config.resolutions)
        print(f"{path}: {config.samples} samples at {sizes} {noun} per axis, {took:.1f} s")
    return path


def on_every_grid(
    config: GenerationConfig,
    grids: Mapping[str, Grid],
    solve: Callable[[Grid], tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]],
) -> dict[str, np.ndarray]:
    """What `make` returns, from a function that makes the samples on one grid.

    Parameters
    ----------
    solve
        grid → (fields, numbers): fields (samples, …, *grid) by name, such as u (samples, time, x), and what is stored
        for each sample beside them, such as residual (samples,). Called on every grid for ``labels="solved"``; for
        ``"nested"`` on the finest alone, whose fields the coarser groups take at their own points.

    Returns
    -------
    dict
        "group/name" → array; fields as ``config.dtype``.
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
    """``Recipe.solver``: the module, its version, the engine's version, and the device where it is not the CPU.

    >>> program("sciops.pde.burgers")            # doctest: +SKIP
    'sciops.pde.burgers 0.1.0, torch 2.13.0'
    """
    version = torch.__version__ if engine == "torch" else importlib.metadata.version(engine)
    return f"{name} {__version__}, {engine} {version}" + ("" if device == "cpu" else f" on {device}")


def _usual_chunk(config: GenerationConfig, recipe: Recipe) -> int:
    lengths = {name: len(values) for name, (values, _) in recipe.coordinates.items()}
    values = sum(math.prod(lengths.get(dim, 1) for dim in dims) for dims in recipe.dims.values()) or 2
    size = 8 * values * sum(grid.size for grid in recipe.grids.values())
    most = min(256, max(1 if config.device == "cpu" else 64, _PART_BYTES // size))
    # several parts per worker, so that nobody waits long for the last one
    workers = 16 if config.scheduler is not None else config.workers
    chunk = min(most, -(-config.samples // (configuration.shard_of(config.shard)[1] * max(1, 4 * workers))))
    return -(-chunk // recipe.block) * recipe.block


def _with_chunk_of_parts(plan: Plan) -> Plan:
    """The plan with the chunk of the parts that are there already, where nothing else differs."""
    found = read_manifest(plan) or {}
    chunk = found.get("chunk")
    same = isinstance(chunk, int) and chunk > 0 and found == {**plan.identity, "chunk": chunk}
    return replace(plan, chunk=chunk) if same else plan


def _importable(item: Any) -> Any:
    """A function or class as workers import it: ``python -m data_gen.darcy`` runs that module under another name."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if item.__module__ != "__main__" or spec is None:
        return item
    return getattr(importlib.import_module(spec.name), item.__qualname__)
