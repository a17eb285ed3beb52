"""Workers in one process, on a real dask scheduler: they wait as long as samples take, some die, some are slow.

Scheduler, TLS connections, the order of parts, what is done about lost workers, the files of the parts and the assembly
are those of `sciops generate --scheduler`; the solve alone is a wait. All workers share this process and its
interpreter lock, and so the rates here are lower bounds. What belongs to processes of their own is switched off: their
profilers, their system monitors and their event-loop ticks.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sciops.datasets.generation.writer import Cluster, Plan, Ranges, assemble, write_parts
from sciops.datasets.native import content_hash
from sciops.grids import Grid

GRID = Grid((3, 3))  # of the tiny parts
_QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "1h",
    "distributed.admin.tick.interval": "1h",
    "distributed.admin.tick.cycle": "1h",
}


@dataclass(frozen=True)
class Case:
    """One generation by simulated workers.

    parts, samples : number of parts, samples in each
    seconds : mean time of a part
    spread : standard deviation of a part's time over its mean (log-normal)
    failures : share of parts whose worker dies half-way at the first attempt
    stragglers, slower : share of parts that take `slower` times as long
    restart : seconds until a dead worker is replaced
    """

    parts: int
    samples: int
    seconds: float
    spread: float
    failures: float
    stragglers: float
    slower: float
    restart: float
    seed: int = 0

    def durations(self) -> np.ndarray:
        """Seconds of every part, (parts,), drawn; their mean without stragglers is `seconds`."""
        rng = np.random.default_rng([self.seed, 1])
        sigma = np.sqrt(np.log1p(self.spread**2))
        drawn = self.seconds * np.exp(sigma * rng.standard_normal(self.parts) - sigma**2 / 2)
        return drawn * np.where(rng.random(self.parts) < self.stragglers, self.slower, 1.0)

    def doomed(self) -> np.ndarray:
        """Whether the worker of a part dies at the first attempt, (parts,), drawn."""
        return np.random.default_rng([self.seed, 2]).random(self.parts) < self.failures


@dataclass
class _Run:
    """What the workers of a run share: they are threads of this process."""

    case: Case
    durations: np.ndarray
    doomed: np.ndarray
    crew: Any = None
    began: float = 0.0
    attempts: Counter = field(default_factory=Counter)
    made: list[tuple[float, int]] = field(default_factory=list)  # (seconds, part), as each is made
    deaths: list[float] = field(default_factory=list)
    waited: float = 0.0  # seconds of worker time in waits, lost ones included
    lock: threading.Lock = field(default_factory=threading.Lock)


_RUNS: dict[str, _Run] = {}


def values_of(samples: np.ndarray) -> np.ndarray:
    """The field of a sample, (len(samples), 3, 3): known from its number, so that the assembled file can be checked."""
    return samples[:, None, None] + np.arange(9.0).reshape(3, 3) / 16


def make(run: str, ranges: Ranges) -> dict[str, np.ndarray]:
    """Waits for the drawn time of the part and returns its samples; the worker of a doomed part dies half-way.

    Raises RuntimeError on a worker that is dead: nobody listens to it.
    """
    from distributed import get_worker

    state, ((first, last),) = _RUNS[run], ranges
    index = first // state.case.samples
    with contextlib.suppress(ValueError):  # ValueError: made by this process, without workers
        worker = get_worker()
        with state.lock:
            state.attempts[index] += 1
            dies = state.doomed[index] and state.attempts[index] == 1
        seconds = float(state.durations[index]) * (0.5 if dies else 1.0)
        time.sleep(seconds)
        with state.lock:
            state.waited += seconds
            gone = state.crew.gone(worker)
            if dies and not gone:
                state.deaths.append(time.perf_counter() - state.began)
            elif not gone:
                state.made.append((time.perf_counter() - state.began, index))
        if dies and not gone:
            state.crew.lose(worker, state.case.restart)
        if dies or gone:
            raise RuntimeError("this worker is dead")
    return {"r3/u": values_of(np.arange(first, last, dtype=np.float64))}


class Crew:
    """Workers of one thread each in an event loop of their own thread."""

    def __init__(self, address: str, security: Any) -> None:
        self._address, self._security = address, security
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._workers: dict[str, Any] = {}
        self._dead: set[str] = set()

    def _do(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def hire(self, count: int) -> None:
        """Starts workers and waits until the scheduler knows them."""
        self._do(self._hire(count))

    async def _hire(self, count: int) -> None:
        kind = _worker_class()
        shared = {"nthreads": 1, "host": "127.0.0.1", "memory_limit": None, "dashboard": False, "silence_logs": 60}
        new = [kind(self._address, security=self._security, **shared) for _ in range(count)]
        await asyncio.gather(*new)
        self._workers |= {worker.id: worker for worker in new}

    def gone(self, worker: Any) -> bool:
        """Whether the worker is dead."""
        return worker.id in self._dead

    def lose(self, worker: Any, restart: float) -> None:
        """Breaks the worker's connections at once, as its death does; another starts after `restart` seconds."""
        self._dead.add(worker.id)
        asyncio.run_coroutine_threadsafe(self._lose(worker, restart), self._loop)

    async def _lose(self, worker: Any, restart: float) -> None:
        self._workers.pop(worker.id, None)
        worker.batched_stream.abort()
        await asyncio.sleep(restart)
        await self._hire(1)

    def dismiss(self) -> None:
        """Ends all workers and the thread."""

        async def close() -> None:
            await asyncio.gather(*(worker.close() for worker in self._workers.values()), return_exceptions=True)

        self._do(close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)


@functools.cache
def _worker_class() -> type:
    from distributed import Worker

    class WithoutPages(Worker):
        def start_http_server(self, *arguments: Any, **options: Any) -> None:
            """Opens no port."""

    return WithoutPages


@dataclass
class Simulator:
    """A scheduler with simulated workers, and the clock of the scheduler's thread."""

    address: str
    crew: Crew
    workers: int
    clock: int

    def scheduler_seconds(self) -> float:
        """Processor seconds of the scheduler's thread."""
        return time.clock_gettime(self.clock)

    def idle(self, seconds: float) -> float:
        """Processor seconds that the scheduler takes a second while the workers only say that they are there."""
        start = self.scheduler_seconds()
        time.sleep(seconds)
        return (self.scheduler_seconds() - start) / seconds

    def run(self, case: Case, folder: Path) -> dict[str, Any]:
        """Has the workers make all parts of a case, assembles them, and checks the file.

        Raises RuntimeError where the file is not that of one process without workers.
        """
        name = f"{os.getpid()}-{time.monotonic_ns()}"
        state = _RUNS[name] = _Run(case, case.durations(), case.doomed(), self.crew)
        plan = plan_of(case, folder / f"{name}.h5")
        try:
            busy, scheduler = time.process_time(), self.scheduler_seconds()
            state.began = time.perf_counter()
            write_parts(plan, functools.partial(make, name), cluster=Cluster(scheduler=self.address), progress=False)
            seconds = time.perf_counter() - state.began
            busy, scheduler = time.process_time() - busy, self.scheduler_seconds() - scheduler
            assembly, clock = time.process_time(), time.perf_counter()
            assemble(plan, progress=False)
            assembly, clock = time.process_time() - assembly, time.perf_counter() - clock
            equal = content_hash(plan.output) == content_hash(serial(case, folder / f"{name}-serial.h5"))
        finally:
            _RUNS.pop(name)
        if not equal:
            raise RuntimeError(f"{plan.output}: the parts of {self.workers} workers differ from those of one process")
        return {
            "workers": self.workers,
            "parts": case.parts,
            "part_seconds": case.seconds,
            "seconds": seconds,
            "made": state.made,
            "deaths": state.deaths,
            "attempts": sum(state.attempts.values()),
            "most_attempts": max(state.attempts.values()),
            "made_twice": len(state.made) - len({index for _, index in state.made}),
            "asked_rate": self.workers / float(state.durations.mean()),
            "rate": sustained(sorted(when for when, _ in state.made)),
            "busy_share": state.waited / (self.workers * seconds),
            "process_per_part": busy / case.parts,
            "scheduler_per_part": scheduler / case.parts,
            "scheduler_seconds": scheduler,
            "assembly_seconds": assembly,
            "assembly_clock": clock,
            "equal": equal,
        }


def sustained(times: list[float]) -> float:
    """Parts per second between the first tenth and eight tenths of the parts: without the start and the last ones.

    times : ascending seconds at which parts were made
    """
    first, last = len(times) // 10, 8 * len(times) // 10
    return (last - first) / (times[last] - times[first]) if last > first else float("nan")


def plan_of(case: Case, output: Path) -> Plan:
    """The plan of a case: parts of the samples, 3 × 3 values each."""
    return Plan(output, case.parts * case.samples, case.samples, {"seed": case.seed}, {"r3": GRID})


def serial(case: Case, output: Path) -> Path:
    """The file of a case made at once, for comparison."""
    plan = Plan(output, case.parts * case.samples, case.parts * case.samples, {"seed": case.seed}, {"r3": GRID})
    write_parts(plan, lambda ranges: {"r3/u": values_of(np.arange(*ranges[0], dtype=np.float64))}, progress=False)
    return assemble(plan, progress=False)


@contextlib.contextmanager
def simulator(workers: int) -> Iterator[Simulator]:
    """A scheduler on this machine, encrypted as that of ``--workers``, with simulated workers."""
    import dask

    from sciops.datasets.generation.cluster_local import client_certificates, local_cluster

    async def thread() -> int:
        return threading.get_ident()

    with dask.config.set(_QUIET), local_cluster(0) as cluster, dask.config.set(client_certificates(cluster.security)):
        crew = Crew(cluster.scheduler_address, cluster.security)
        clock = time.pthread_getcpuclockid(cluster.sync(thread))
        try:
            crew.hire(workers)
            yield Simulator(cluster.scheduler_address, crew, workers, clock)
        finally:
            crew.dismiss()


def assembly_cost(parts: int, samples: int, n: int, folder: Path) -> dict[str, Any]:
    """Processor and clock seconds of an assembly of `parts` parts with fields (samples, n, n) float64 each."""
    field = np.random.default_rng(0).random((samples, n, n))
    plan = Plan(folder / f"assembly-{parts}-{n}.h5", parts * samples, samples, {}, {f"r{n}": Grid((n, n))})
    write_parts(plan, lambda ranges: {f"r{n}/u": field}, progress=False)
    busy, clock = time.process_time(), time.perf_counter()
    assemble(plan, progress=False).unlink()
    busy, clock = time.process_time() - busy, time.perf_counter() - clock
    return {"parts": parts, "bytes": parts * field.nbytes, "seconds": busy, "clock": clock}


def message_bytes(case: Case, output: Path) -> int:
    """Bytes that the scheduler holds for each part that waits, at least: the plan and the function, pickled."""
    import cloudpickle

    from sciops.datasets.generation.cluster import versions

    return len(cloudpickle.dumps((plan_of(case, output), functools.partial(make, "run"), dict(versions()))))
