"""Side-by-side measurements: contestants take turns, medians become ratios, ratios are held against targets.

A ratio is taken between contestants of one run only: they share the load of the machine. Peak memory is that of a
process of its own.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from sciops.commands.packages import own_environment
from studies.kit.tables import print_table


def interleaved(
    contestants: Mapping[str, Callable[[], Any]],
    *,
    rounds: int,
    warmup: int = 1,
    synchronize: Callable[[], Any] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of every call: `rounds` rounds in which each contestant is called once, in an order that turns around.

    warmup : calls of each beforehand that are not counted
    synchronize : waits for the device before and after each call (``torch.cuda.synchronize``)
    clock : ``time.process_time`` counts the processor's time of this process alone, whatever else the machine does
    """
    wait = synchronize or (lambda: None)
    for call in contestants.values():
        for _ in range(warmup):
            call()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    collecting = gc.isenabled()
    gc.disable()
    try:
        for number in range(rounds):
            names = list(contestants)
            for name in names if number % 2 == 0 else reversed(names):
                wait()
                start = clock()
                contestants[name]()
                wait()
                seconds[name].append(clock() - start)
    finally:
        if collecting:
            gc.enable()
    return seconds


def ratio(slow: Sequence[float], fast: Sequence[float]) -> dict[str, float]:
    """{"median": median(slow)/median(fast), "low", "high": quartiles of the ratios round by round}."""
    rounds = np.asarray(slow) / np.asarray(fast)
    low, high = np.quantile(rounds, [0.25, 0.75])
    return {"median": float(np.median(slow) / np.median(fast)), "low": float(low), "high": float(high)}


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """p of value ~ size^p, by least squares of the logarithms; nan for fewer than two sizes."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0]) if len(sizes) > 1 else float("nan")


def crossover(sizes: Sequence[float], ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The size from which on `ours` is less than `theirs`, interpolated in logarithms.

    0 where it is less at every size, ∞ where it is not at the largest, nan without sizes.
    """
    if not len(sizes):
        return float("nan")
    gain = np.log(np.asarray(theirs) / np.asarray(ours))
    more = np.flatnonzero(gain <= 0)
    if not len(more):
        return 0.0
    i = int(more[-1])
    if i == len(sizes) - 1:
        return float("inf")
    share = -gain[i] / (gain[i + 1] - gain[i])
    return float(sizes[i] * (sizes[i + 1] / sizes[i]) ** share)


def target(
    what: str,
    value: float,
    *,
    least: float | None = None,
    most: float | None = None,
    note: str = "",
    limit: float | None = None,
) -> dict[str, Any]:
    """One row of a table of targets: what, the bound as text, the value, and whether it is met.

    note : why it is missed, where that is known; shown beside a miss
    limit : the value at the limits of the processor (`studies.kit.limits`)
    """
    met = (least is None or value >= least) and (most is None or value <= most)
    bounds = [f"{sign} {bound:g}" for sign, bound in (("≥", least), ("≤", most)) if bound is not None]
    row = {"what": what, "target": ", ".join(bounds) or "–", "value": float(value), "met": bool(met)}
    return row | ({"note": note} if note else {}) | ({} if limit is None else {"limit": float(limit)})


def print_targets(rows: Iterable[Mapping[str, Any]]) -> None:
    """The rows of `target`, target beside result."""
    rows = list(rows)
    missed = ("", lambda row: "" if row["met"] else "missed")
    limit = "; at the limit=limit:.3g" if any("limit" in row for row in rows) else ""
    print_table(rows, f"=what; target; measured=value:.4g{limit}", missed, title="")


def relative_difference(value: Any, reference: Any) -> float:
    """‖value − reference‖ / ‖reference‖ of two tensors, in float64."""
    value, reference = value.detach().double(), reference.detach().double()
    return float((value - reference).norm() / reference.norm())


def require_equal(name: str, value: Any, reference: Any, tolerance: float) -> float:
    """The relative difference; RuntimeError where it is above the tolerance: what is not equal must not be timed."""
    difference = relative_difference(value, reference)
    if not difference <= tolerance:
        raise RuntimeError(f"{name}: differs from its reference by {difference:.1e}, more than {tolerance:.0e}")
    return difference


@contextmanager
def threads(count: int) -> Iterator[None]:
    """torch on `count` threads within."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def on_cores(cores: Iterable[int]) -> Iterator[None]:
    """This thread, and those that it starts, on these cores; without effect where the system cannot say so."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def peak_memory(function: str, *arguments: Any) -> int:
    """Bytes that ``module:name`` needs at its peak beyond what its process held before the call, in a fresh process.

    function : "studies.mixer_speed:name"; called as ``prepare = name(*arguments)``, then ``prepare()`` is measured, so
        that imports, weights and inputs are not counted. Arguments are what JSON can hold. Linux only.

    Raises RuntimeError with the process's last line where it failed.
    """
    command = [sys.executable, "-m", "studies.kit.timing", function, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=own_environment())
    if done.returncode:
        raise RuntimeError(f"{function}{arguments}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return int(done.stdout.split()[-1])


def device_peak(call: Callable[[], Any]) -> int:
    """Bytes on the CUDA device at the peak of a second call, beyond those held before it."""
    import torch

    call()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def resident() -> int:
    """Bytes of memory that this process holds. Linux only."""
    return _status("VmRSS")


def _status(name: str) -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(name))


def process_peak(call: Callable[[], Any]) -> int:
    """Bytes that this process holds at the peak of a call beyond those before it. Linux only.

    What an earlier call left allocated is not counted: for a process that has measured before, call it once unmeasured.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc: what was freed before must not be taken again
    if trim is not None:
        trim(0)
    with open("/proc/self/clear_refs", "w") as peaks:
        peaks.write("5")
    before = resident()
    call()
    return max(_status("VmHWM") - before, 0)


if __name__ == "__main__":
    import importlib

    module, _, name = sys.argv[1].partition(":")
    prepared = getattr(importlib.import_module(module), name)(*json.loads(sys.argv[2]))
    print(process_peak(prepared))
