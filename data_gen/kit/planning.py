"""What a generation will take, from a trial of a few samples: nothing is written."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from sciops.datasets.generation.writer import Plan, Ranges, pending

_ENOUGH = 1.0  # seconds that a trial must take to be believed
_LONG = 60.0  # seconds of the first sample after which it is: what it compiled or loaded is little of them


def estimate(
    plan: Plan,
    make: Callable[[Ranges], Mapping[str, np.ndarray]],
    *,
    least: int,
    batch: int,
    workers: int,
    shards: int,
) -> str:
    """Parts, bytes, memory and time that `plan` will take, as lines of text.

    One sample is made to load and compile what is needed, then more until a second passes, a part at most. Bytes are
    those of the arrays, without compression. Memory is the largest that this process has used, plus the samples that
    wait for the disk. Where several processes work, each is taken to have the cores that this one has.

    Raises ValueError when the folder of parts is that of another plan, and what `make` raises.

    least : samples that keep all threads of a process at work
    batch : parts made at once in a process
    workers : processes of a cluster, 0 without one
    shards : processes that share the parts
    """
    there = plan.chunks - len(pending(plan))
    seconds, made, count = _trial(plan, make, least)
    sample = sum(values.nbytes // count for values in made.values())
    each = seconds / count
    total = sample * plan.samples
    # an HDF5 output grows beside its parts; a part is written while the next is made
    disk = total if plan.in_zarr else 2 * total
    memory = sample * min(plan.samples, 2 * plan.chunk * (1 if workers else batch)) + (_most_memory() or 0)
    processes = max(1, workers) * shards
    free = shutil.disk_usage(_existing(plan.output)).free
    lines = [
        f"{plan.output}: {plan.samples} samples in {plan.chunks} parts of {min(plan.chunk, plan.samples)}"
        + (f", {there} of them are there" if there else ""),
        f"size        {_bytes(total)}, {_bytes(sample)} a sample",
        f"disk        {_bytes(disk)} while it is made, {_bytes(free)} free there",
        f"memory      {_bytes(memory)} in a process",
        f"time        {each:.3g} s a sample from {count} made now: {_time(each * plan.samples)} in one process",
    ]
    if processes > 1:
        busy = min(processes, plan.chunks)
        lines.append(f"            {_time(each * plan.samples / busy)} in {busy} processes with cores of their own")
    if disk > free and plan.compression is None:
        lines.append("the disk is too small: name another --output, or take --dtype float32 or fewer --samples")
    return "\n".join(lines)


def _trial(
    plan: Plan, make: Callable[[Ranges], Mapping[str, np.ndarray]], least: int
) -> tuple[float, Mapping[str, np.ndarray], int]:
    """(seconds, arrays, samples) of a trial."""
    seconds, made = _timed(make, 1)
    count = 1
    if seconds < _LONG:
        most = min(plan.samples, max(least, plan.chunk))
        count = min(plan.samples, least)
        seconds, made = _timed(make, count)
        while seconds < _ENOUGH and count < most:
            count = min(most, 4 * count)
            seconds, made = _timed(make, count)
    return seconds, made, count


def _timed(make: Callable[[Ranges], Mapping[str, np.ndarray]], count: int) -> tuple[float, Mapping[str, np.ndarray]]:
    began = time.perf_counter()
    made = make([(0, count)])
    return time.perf_counter() - began, made


def _most_memory() -> int | None:
    """Largest memory of this process in bytes, where the system reports it."""
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _existing(path: Path) -> Path:
    """The closest folder above a path that is there."""
    return next(folder for folder in path.absolute().parents if folder.is_dir())


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def _time(seconds: float) -> str:
    for length, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} seconds"
