"""The common half of every generator's configuration, its checks, and what follows from it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from sciops.arrays.devices import device_called
from sciops.datasets.native import group_name
from sciops.grids import Grid

NOUNS = {"node": "nodes", "cell": "cells", "periodic": "points"}
# the content of a file does not depend on these
_FREE = {"output", "shard", "workers", "scheduler", "threads", "device", "chunk", "compression", "allow_failures"}
_FREE |= {"insecure_scheduler", "progress", "dry_run"}


@dataclass(frozen=True)
class GenerationConfig:
    """Options of every generator.

    Sample i depends on the law and the seed alone, not on the number of samples, workers, threads, shards or parts: bit
    for bit on a CPU, to rounding on a GPU.
    """

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
    """Samples per part, the work lost when a process is killed; default as many as make 32 MB and leave several parts
    for each worker."""
    compression: int | None = None
    """Compression level 1–9 of the output; default none."""
    allow_failures: bool = False
    """Write the file even when samples failed; they are marked in it, with NaN."""
    progress: bool = True
    """Show progress bars."""
    dry_run: bool = False
    """Make a few samples, print the parts, bytes, memory and time that all would take, and write nothing."""


C = TypeVar("C", bound=GenerationConfig)


def grids_of(
    config: GenerationConfig,
    ndim: int,
    *,
    centering: Literal["node", "cell", "periodic"] = "periodic",
    extent: Any = None,
    least: int = 3,
) -> dict[str, Grid]:
    """Group → grid with the configuration's resolutions on every axis, finest first: ``Recipe.grids``.

    Raises ValueError for resolutions that repeat, and for fewer than `least` points per axis.
    """
    sizes = tuple(sorted(config.resolutions, reverse=True))
    if not sizes or len(set(sizes)) < len(sizes) or min(sizes) < least:
        fit = f"different sizes of at least {least} {NOUNS[centering]} per axis"
        raise ValueError(f"--resolutions {listed(sizes)}: expected {fit}")
    return {group_name((n,) * ndim): Grid((n,) * ndim, extent, centering) for n in sizes}


def normalized(config: C) -> C:
    """The configuration with its resolutions finest first; ValueError where one of the common fields is invalid."""
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
    device_called(config.device)
    if config.workers and config.scheduler is not None:
        raise ValueError(f"--workers {config.workers} --scheduler {config.scheduler}: take one of them")
    return config


def check_numbers(config: Any, *, positive: Iterable[str] = (), nonnegative: Iterable[str] = ()) -> None:
    """Raises ValueError, naming the flag, unless these fields are None or finite numbers, > 0 or ≥ 0."""
    for name, above in [(name, False) for name in nonnegative] + [(name, True) for name in positive]:
        value = getattr(config, name)
        if value is not None and (not 0 <= value < math.inf or (above and value == 0)):
            flag, least = name.replace("_", "-"), "above" if above else "of at least"
            raise ValueError(f"--{flag} {value}: expected a finite number {least} 0")


def check_nesting(config: GenerationConfig, grids: Mapping[str, Grid]) -> None:
    """Raises ValueError where nested labels are asked for on grids that are not nested."""
    finest, *others = grids.values()
    loose = [grid.shape[0] for grid in others if grid.strides_in(finest) is None]
    if config.labels != "nested" or not loose:
        return
    n = finest.shape[0]
    if finest.centering == "node":
        fit = [(n - 1) // f + 1 for f in range(2, n) if (n - 1) % f == 0 and (n - 1) // f >= 2]
    else:
        fit = [n // f for f in range(2, n) if n % f == 0]
    raise ValueError(
        f"--resolutions {listed(config.resolutions)}: {listed(loose)} {NOUNS[finest.centering]} are not nested in {n}; "
        f"{listed(fit) or 'none'} are, or take --labels solved"
    )


def essence(config: GenerationConfig) -> dict[str, Any]:
    """The fields of the configuration that the content of the file depends on."""
    return {k: str(v) if isinstance(v, Path) else v for k, v in vars(config).items() if k not in _FREE}


def splits(config: GenerationConfig) -> dict[str, tuple[int, int]]:
    """The half-open ranges of samples for training, validation and testing, in this order."""
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


def shard_of(text: str) -> tuple[int, int]:
    """(i, n) of the text i/n."""
    first, _, last = text.partition("/")
    if not (first.isdecimal() and last.isdecimal() and int(first) < int(last)):
        raise ValueError(f"--shard {text}: expected i/n with 0 ≤ i < n, such as 0/4 … 3/4")
    return int(first), int(last)


def usual_threads(config: GenerationConfig) -> int:
    """Samples solved at a time where the configuration does not say: one per core, shared among local workers."""
    if config.scheduler is not None:
        return 1  # whoever started the workers chose how many there are on a core
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // max(1, config.workers))


def listed(values: Iterable[Any]) -> str:
    """The values as they are typed after a flag."""
    return " ".join(str(v) for v in values)
