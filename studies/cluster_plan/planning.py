"""The plan of a large generation and of a training on its files, from measured costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Law:
    """value = fixed + per_node · n² on a grid of n × n nodes."""

    fixed: float
    per_node: float

    def __call__(self, n: float) -> float:
        return self.fixed + self.per_node * n**2


def law(sizes: Sequence[int], values: Sequence[float]) -> Law:
    """Fits fixed + per_node · n², neither negative, by least squares of the relative errors.

    Raises ValueError for fewer than two grids or a value that is not positive.
    """
    from scipy.optimize import nnls

    n, v = np.asarray(sizes, dtype=float), np.asarray(values, dtype=float)
    if len(set(sizes)) < 2 or not (v > 0).all():
        raise ValueError(f"sizes={list(sizes)}, values={list(values)}: expected two grids or more and positive values")
    fit, _ = nnls(np.stack([1 / v, n**2 / v], 1), np.ones(len(v)))
    return Law(float(fit[0]), float(fit[1]))


def checked_law(sizes: Sequence[int], values: Sequence[float]) -> dict[str, float]:
    """The law of all grids but the largest, and its relative error there.

    Returns {"fixed", "per_node", "largest": n, "predicted", "measured", "error": predicted / measured − 1}.
    """
    order = np.argsort(sizes)
    n, v = [sizes[i] for i in order], [values[i] for i in order]
    fitted = law(n[:-1], v[:-1])
    predicted = fitted(n[-1])
    found = {"fixed": fitted.fixed, "per_node": fitted.per_node, "largest": n[-1]}
    return found | {"predicted": predicted, "measured": v[-1], "error": predicted / v[-1] - 1}


@dataclass(frozen=True)
class Costs:
    """What was measured.

    sample_seconds : processor seconds of a sample
    sample_bytes : stored bytes of a sample
    scheduler_part : processor seconds of the scheduler for each part
    scheduler_worker : processor seconds of the scheduler for each second of each worker that is there
    assembly_part, assembly_byte : processor seconds of the assembly for each part and for each byte
    """

    sample_seconds: float
    sample_bytes: float
    scheduler_part: float
    scheduler_worker: float
    assembly_part: float
    assembly_byte: float


@dataclass(frozen=True)
class Machine:
    """What is assumed of the cluster: its numbers replace these.

    cores : of a node, one worker each
    shared_rate : bytes a second that its file system takes or gives in all
    node_rate : bytes a second that one node reads or writes
    files : entries of one folder that its file system serves well
    """

    cores: int = 64
    shared_rate: float = 20e9
    node_rate: float = 2e9
    files: int = 100_000


def generation(costs: Costs, machine: Machine, *, samples: int, chunk: int, nodes: int) -> dict[str, Any]:
    """Hours and bytes of a generation on some nodes, and which of its stages is the slowest.

    The stages run at the same time: the solves, one core a worker; the scheduler, one core; the writes of the parts, at
    the rate of the nodes or of the shared file system. The HDF5 file is assembled after them by one process; a Zarr
    store is not.

    Returns {"nodes", "workers", "chunk", "parts", "part_bytes", "bytes", "core_hours", "parts_per_second": asked by the
    solves alone, "hours": by stage, "slowest", "zarr_hours", "assembly_hours", "hdf5_hours"}.

    Raises ValueError unless samples, chunk and nodes are positive.
    """
    for name, value in {"samples": samples, "chunk": chunk, "nodes": nodes}.items():
        if value < 1:
            raise ValueError(f"{name}={value}: expected at least 1")
    workers, parts, size = nodes * machine.cores, -(-samples // chunk), samples * costs.sample_bytes
    core_seconds = samples * costs.sample_seconds
    # no more workers than parts can be at work
    solving = core_seconds / min(workers, parts)
    # a share of the scheduler's core goes to workers that only say that they are there
    left = 1 - workers * costs.scheduler_worker
    hours = {
        "solving": solving / 3600,
        "scheduler": parts * costs.scheduler_part / left / 3600 if left > 0 else float("inf"),
        "writing": size / min(machine.shared_rate, nodes * machine.node_rate) / 3600,
    }
    slowest = max(hours, key=lambda stage: hours[stage])
    assembly = max(parts * costs.assembly_part + size * costs.assembly_byte, 2 * size / machine.node_rate) / 3600
    return {
        "nodes": nodes,
        "workers": workers,
        "chunk": chunk,
        "parts": parts,
        "part_bytes": min(chunk, samples) * costs.sample_bytes,
        "bytes": size,
        "core_hours": core_seconds / 3600,
        "parts_per_second": parts / solving,
        "hours": hours,
        "slowest": slowest,
        "zarr_hours": hours[slowest],
        "assembly_hours": assembly,
        "hdf5_hours": hours[slowest] + assembly,
    }


def limits(costs: Costs, machine: Machine, *, samples: int, chunk: int) -> list[dict[str, Any]]:
    """From how many workers on each part of the machinery is the slowest, fewest first: what breaks first.

    Rows {"limit", "workers", "why"}. The scheduler's core is full where w (s / t + h) = 1, for w workers, parts of t
    seconds, s of the scheduler for each part and h for each worker-second. Writing: w workers fill the shared rate.
    Assembly: one process that assembles takes as long as w workers that solve. Files: 0 workers where there are more
    parts than files of a folder, infinitely many otherwise.
    """
    parts, seconds, size = -(-samples // chunk), chunk * costs.sample_seconds, samples * costs.sample_bytes
    assembly = max(parts * costs.assembly_part + size * costs.assembly_byte, 2 * size / machine.node_rate)
    rows = [
        {
            "limit": "scheduler",
            "workers": 1 / (costs.scheduler_part / seconds + costs.scheduler_worker),
            "why": "its core is full",
        },
        {
            "limit": "writing",
            "workers": machine.shared_rate * costs.sample_seconds / costs.sample_bytes,
            "why": "the file system's rate is reached",
        },
        {
            "limit": "assembly of HDF5",
            "workers": samples * costs.sample_seconds / assembly,
            "why": "it takes longer than the solves",
        },
        {
            "limit": "files in a folder",
            "workers": 0.0 if parts > machine.files else float("inf"),
            "why": f"{parts:,} parts, {machine.files:,} are served well",
        },
    ]
    return sorted(rows, key=lambda row: row["workers"])


def least_chunk(costs: Costs, *, workers: int, load: float = 0.5) -> int:
    """The fewest samples per part with which `workers` take at most the share `load` of the scheduler's core.

    Raises ValueError where the workers' heartbeats alone take more.
    """
    left = load - workers * costs.scheduler_worker
    if left <= 0:
        raise ValueError(
            f"{workers} workers take {workers * costs.scheduler_worker:.0%} of the scheduler's core before any part: "
            f"expected less than {load:.0%}; take fewer workers of several threads, or --shard without a scheduler"
        )
    return max(1, int(np.ceil(workers * costs.scheduler_part / (left * costs.sample_seconds))))


def training(
    machine: Machine, *, step_seconds: float, batch: int, sample_bytes: float, data_bytes: float, processes: int
) -> dict[str, Any]:
    """Hours of one pass over data of `data_bytes` by processes that take `step_seconds` for `batch` samples each.

    Returns {"processes", "samples", "steps", "hours": of an epoch's steps, "rate": bytes a second that they read,
    "read_hours": of reading at the rates of the machine, "slowest", "most_processes": from which on the shared file
    system is the slowest}.
    """
    samples = int(data_bytes // sample_bytes)
    steps = -(-samples // (batch * processes))
    nodes = -(-processes // machine.cores)
    each = batch * sample_bytes / step_seconds
    hours, read = (
        steps * step_seconds / 3600,
        data_bytes / min(machine.shared_rate, nodes * machine.node_rate) / 3600,
    )
    return {
        "processes": processes,
        "samples": samples,
        "steps": steps,
        "hours": hours,
        "rate": processes * each,
        "read_hours": read,
        "slowest": "steps" if hours >= read else "reading",
        "most_processes": machine.shared_rate / each,
    }


def assembly_law(rows: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """(seconds a part, seconds a byte) of assemblies, rows {"parts", "bytes", "seconds"}, by relative least squares."""
    from scipy.optimize import nnls

    seconds = np.array([row["seconds"] for row in rows])
    design = np.array([[row["parts"], row["bytes"]] for row in rows]) / seconds[:, None]
    scale = design.max(0)
    fit, _ = nnls(design / scale, np.ones(len(rows)))
    by_part, by_byte = fit / scale
    return float(by_part), float(by_byte)
