"""Parts made by the workers of a dask cluster, each written by the worker that made it: only its number comes back."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
import os
import platform
import queue
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sciops.datasets.generation.cluster_client import Cluster, connected, interrupts, look, lost, told
from sciops.datasets.generation.part_making import Make, made_parts, storage
from sciops.datasets.native.parts import Plan, claim, is_claimed
from sciops.version import __version__

_SEEN = 90.0  # seconds after which a file of another machine is seen here: network file systems remember absences
_DEATHS = 3  # times that a part is given out before it is blamed for the death of its workers, the last time alone
_MANY = 5  # parts whose workers died again and again, after which they are tried before any other
_disk = threading.Semaphore()
_DECISIVE = ("sciops", "numpy", "scipy", "torch", "numba", "rocket-fft")  # what the bits of a sample may depend on


@functools.cache
def versions() -> Mapping[str, str]:
    """Versions of what samples and files depend on, here."""
    found = {"sciops": __version__, "python": platform.python_version()}
    for name in ("numpy", "scipy", "torch", "numba", "rocket-fft", "h5py", "h5netcdf", "zarr", "xarray"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            if importlib.util.find_spec(name.replace("-", "_")):
                found[name] = importlib.metadata.version(name)
    return MappingProxyType(found)


def make_on(cluster: Cluster, plan: Plan, make: Make, indices: Sequence[int]) -> Iterator[int]:
    """Has the cluster make these parts and yields the number of each as soon as it is on the disk.

    make : as in `sciops.datasets.generation.writer.generate`, of a module that the workers can import

    A part whose worker is lost is given to another, also when it died after making it; one that is there and sound is
    not made again. Leaving early, by
    an error or Ctrl-C, keeps the parts that are there.

    Raises ImportError without dask; OSError when the scheduler does not answer, has no workers, is lost, or a worker
    does not see the folder; ValueError when a worker runs other versions; RuntimeError when a part ends its workers
    again and again; and what `make` raises.
    """
    plan = replace(plan, output=plan.output.absolute())  # workers have another current folder
    begun = claim(plan)
    try:
        with (
            interrupts() as interrupted,
            connected(replace(cluster, workers=min(cluster.workers, len(indices)))) as client,
        ):
            for index in _results(client, cluster, plan, make, indices):
                if interrupted.is_set():
                    raise KeyboardInterrupt
                yield index
        _wait_for_files(plan, indices)
    except BaseException:
        if begun and not any(plan.parts.glob("part-*")):
            shutil.rmtree(plan.parts, ignore_errors=True)
        raise


def _results(client: Any, cluster: Cluster, plan: Plan, make: Make, indices: Sequence[int]) -> Iterator[int]:
    import cloudpickle
    from distributed import KilledWorker

    task = cloudpickle.dumps(
        (plan, make, dict(versions()))
    )  # opaque to the scheduler, which need not import what it names
    done: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
    pending: dict[int, Any] = {}

    def submit(index: int, attempt: int) -> None:
        key = f"sciops-part-{index:06d}-{plan.digest[:12]}-{time.time_ns():x}-{attempt}"
        # what failed is tried again before what was never tried: where every part fails, few workers are lost
        future = client.submit(_part_on_worker, task, index, key=key, pure=False, priority=attempt)
        future.add_done_callback(lambda finished: done.put((index, finished)))
        pending[index] = (attempt, future)

    for index in indices:
        submit(index, 0)
    # a worker dies with the part it makes, that which it writes, and those it was to make next: which one was it?
    suspects: list[int] = []
    guilty: list[int] = []
    held: list[int] = []  # parts that wait until the suspects have been tried
    without: float | None = None  # since when no worker is there
    while pending or suspects or held:
        if not pending and suspects:
            submit(suspects.pop(), _DEATHS - 1)
        elif not pending:
            for index in held:
                submit(index, 0)
            held = []
        try:
            index, future = done.get(timeout=5)
        except queue.Empty:
            without = look(client, cluster, without)
            continue
        attempt, latest = pending.get(index, (0, None))
        if latest is None or future.key != latest.key:
            continue
        if future.status == "finished":
            del pending[index]
            yield index
            continue
        if future.status == "lost" and client.status == "running":  # made, and its worker died before it was asked for
            submit(index, attempt)
            continue
        if future.status in ("cancelled", "lost"):
            raise lost(cluster)
        error = future.exception()
        if not isinstance(error, KilledWorker):
            raise told(error, cluster)
        del pending[index]
        if attempt + 1 == _DEATHS:
            guilty.append(index)
            if held:  # as many more would be
                break
        elif attempt + 2 < _DEATHS:
            submit(index, attempt + 1)
        else:
            suspects.append(index)
            if len(suspects) == _MANY and pending:
                held = list(pending)
                client.cancel([future for _, future in pending.values()])
                pending.clear()
    if guilty:
        first, last = plan.bounds(min(guilty))
        raise RuntimeError(
            f"samples {first} … {last - 1} ended every worker that tried to make them (not enough memory?); make "
            f"smaller parts with --chunk, now {plan.chunk}, or give the workers more; the parts made are kept"
        )


def _part_on_worker(task: bytes, index: int) -> int:
    import cloudpickle

    plan, make, wanted = cloudpickle.loads(task)
    here = versions()
    wrong = [name for name in _DECISIVE if here.get(name) != wanted.get(name)]
    if wrong:
        name = wrong[0]
        raise ValueError(
            f"a worker on {platform.node()} has {name} {here.get(name, 'missing')} and this process "
            f"{wanted.get(name, 'none')}: samples could differ; install the same versions on both"
        )
    if not is_claimed(plan):
        raise OSError(
            f"a worker on {platform.node()} does not see {plan.parts / 'plan.json'}: --output must lie in a folder "
            "that all workers share under the same path"
        )
    if not storage(plan).is_sound(plan, index):
        parts = made_parts(plan, make, [index])
        with _disk:  # one part waits for the disk while the next is made, and no more than one is kept in memory
            _let_the_next_begin()
            storage(plan).write_part(plan, index, parts[index])
    return index


def _let_the_next_begin() -> None:
    from distributed import secede

    with contextlib.suppress(ValueError):  # no worker runs this
        secede()


def _wait_for_files(plan: Plan, indices: Sequence[int]) -> None:
    """Until this machine sees what the others wrote; what stays unseen is told by `pending`."""
    end = time.monotonic() + _SEEN
    while not {plan.part(i).name for i in indices} <= set(os.listdir(plan.parts)) and time.monotonic() < end:
        time.sleep(1.0)
