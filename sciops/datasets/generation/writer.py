"""A resumable, sharded writer of native files: parts of consecutive samples first, one whole file at the end.

``<output>.parts/`` holds the plan and one file per part; a part is there only when it is whole, and so is the output.
Part boundaries follow from the plan alone, never from workers, batches or shards: a generation that was killed goes on
with the parts it lacks and ends with the same bytes in its fields. Until the parts are removed, right after the output
has taken its name, they and the output lie on the disk together.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from sciops.datasets.generation.cluster import Cluster, make_on
from sciops.datasets.generation.cluster_scratch import scratch_path
from sciops.datasets.generation.part_making import Arrays, Make, Ranges, made_parts, storage
from sciops.datasets.native.assembly import Assembly
from sciops.datasets.native.opening import open_store
from sciops.datasets.native.parts import Plan, first_difference, is_claimed, read_manifest, remove_parts
from sciops.files.locks import Lock
from sciops.files.untrusted import parse_json
from sciops.files.whole_files import remove_abandoned, short_name
from sciops.files.writable import writable_file, writable_folder

__all__ = [
    "Arrays",
    "Cluster",
    "Plan",
    "Ranges",
    "assemble",
    "check_place",
    "finished",
    "generate",
    "pending",
    "read_parts",
    "write_parts",
]


def generate(
    plan: Plan,
    make: Make,
    *,
    check: Callable[[Plan], None] | None = None,
    shard: tuple[int, int] = (0, 1),
    batch: int = 1,
    cluster: Cluster | None = None,
    progress: bool = True,
) -> Path:
    """Makes the parts that are missing, and the output as soon as no part is.

    make : ranges of samples → {"r85/a": (samples, 85, 85), "r85/seed": (samples,), …}, the samples of all ranges one
        after another. A sample must not depend on the ranges it is asked for with
    check : called once before the output is made; what it raises keeps the parts and makes no output
    shard : (i, n): make the parts whose index leaves i when divided by n. Whoever finds all parts there assembles them
    batch : parts given to `make` at once, at most, in this process
    cluster : has dask workers make the parts; `make` must be of a module that they can import, and the folder of the
        output one that they see under the same path
    returns : the output, which is there; only where n > 1, the folder of parts while other shards are at work

    Says so and returns at once when the output is there already. Raises ValueError when the output or the parts were
    made from another plan, naming the first difference, or `make` gave what the plan does not hold; OSError, before
    anything is made, when the output cannot be written or another process is making the same shard, and later when the
    disk is full (finished parts are kept), when parts or the output were removed meanwhile, or when another process is
    writing the output and there are no other shards; and, with a cluster, what
    `sciops.datasets.generation.cluster.make_on` raises.
    """
    lock = Lock(plan.output.with_name(f".{short_name(plan.output)}.{shard[0]}-of-{shard[1]}.lock"))
    if finished(plan):
        lock.clear()
        print(f"{plan.output} is complete already: {plan.samples} samples of the same configuration")
        return plan.output
    check_place(plan)
    plan.output.parent.mkdir(parents=True, exist_ok=True)
    try:
        if not lock.take():
            raise BlockingIOError(
                f"{plan.output} is being made by {lock.holder()}: wait until it ends, or share the work with --shard"
            )
        # whoever held the lock before may have finished
        return plan.output if finished(plan) else _generated(plan, make, check, shard, batch, cluster, progress)
    finally:
        lock.release()


def _generated(
    plan: Plan,
    make: Make,
    check: Callable[[Plan], None] | None,
    shard: tuple[int, int],
    batch: int,
    cluster: Cluster | None,
    progress: bool,
) -> Path:
    with Assembly(plan) as output:
        # whoever makes every part need not read them again, and whoever waits for workers here may begin
        alone = shard[1] == 1 and (cluster is None or cluster.scheduler is None)
        also = output.offer if alone and not plan.in_zarr else None
        write_parts(plan, make, shard=shard, batch=batch, cluster=cluster, progress=progress, also=also)
        mine = output.lock()
        if finished(plan):  # another shard was quicker
            return plan.output
        missing = pending(plan)
        if missing or not mine:
            where = f"{plan.chunks - len(missing)} of {plan.chunks} parts are in {plan.parts}"
            if any(index % shard[1] == shard[0] for index in missing):
                raise FileNotFoundError(f"{where}, others were removed meanwhile: run the same command again")
            who = "the shard that finishes last writes" if missing else "another process is writing"
            if shard[1] == 1:
                raise OSError(f"{where}; {who} {plan.output}, which is not there yet")
            print(f"shard {shard[0]}/{shard[1]} is done; {where}; {who} {plan.output}")
            return plan.parts
        try:
            if check is not None:
                check(plan)
            _complete(plan, output, progress, seen=range(shard[0], plan.chunks, shard[1]))
        except OSError:  # without locks two may be at it, and the quicker one has taken the parts away
            if not finished(plan):
                raise
    return _without_parts(plan)


def finished(plan: Plan) -> bool:
    """Whether the output is there; parts that a kill left behind it are removed, also by one amid their removal.

    Raises ValueError, naming what differs, when a file of another configuration or kind, or a folder, has that name.
    """
    if not plan.output.exists():
        return False
    if plan.output.is_dir() and not plan.in_zarr:
        raise ValueError(f"--output {plan.output} is a folder: name the file to write in it, {plan.output / 'data.h5'}")
    try:
        with contextlib.closing(open_store(plan.output)) as store:
            found = parse_json(store.attrs["config"])
    except (ValueError, OSError, KeyError) as error:
        raise ValueError(
            f"--output {plan.output} is there and is not a file of this generator ({error}); remove it or name another"
        ) from None
    difference = first_difference(found, plan.config)
    if difference:
        raise ValueError(
            f"--output {plan.output} is there with another configuration: {difference}; remove it or name another"
        )
    if plan.parts.is_dir() and read_manifest(plan) in (None, plan.identity):
        remove_parts(plan)
    return True


def check_place(plan: Plan) -> None:
    """Raises OSError, naming the output as it was asked for, where it or the folder of its parts cannot be written."""
    writable_file(plan.output, store=plan.in_zarr)
    writable_folder(plan.parts)


def pending(plan: Plan, among: Sequence[int] | None = None, *, verify: bool = False) -> list[int]:
    """Indices of the parts that are not there; `verify` reads parts through and counts damaged ones too.

    among : the parts to look at; default all

    Raises ValueError, naming what differs, when the folder holds the parts of another plan.
    """
    among = range(plan.chunks) if among is None else among
    if not is_claimed(plan):
        return list(among)
    try:  # network file systems list again, and remember that a file was not there
        there = set(os.listdir(plan.parts))
    except FileNotFoundError:  # whoever had the last part has finished
        there = set()
    return [i for i in among if plan.part(i).name not in there or (verify and not storage(plan).is_sound(plan, i))]


def write_parts(
    plan: Plan,
    make: Make,
    *,
    shard: tuple[int, int] = (0, 1),
    batch: int = 1,
    cluster: Cluster | None = None,
    progress: bool = True,
    also: Callable[[int, Arrays], None] | None = None,
) -> None:
    """Makes every part of the shard that is missing or damaged; arguments and errors as in `generate`.

    also : called with the index and the arrays of each part that this process has written, in another thread, or that
        workers have, read back
    """
    from tqdm.auto import tqdm

    i, n = shard
    if not 0 <= i < n:
        raise ValueError(f"shard={i}/{n}: expected i/n with 0 ≤ i < n, such as 0/4 … 3/4")
    own = list(range(i, plan.chunks, n))
    todo = pending(plan, own, verify=True)
    if todo and finished(plan):  # another shard has finished and taken the parts away
        todo = []
    size = {index: stop - start for index in own for start, stop in [plan.bounds(index)]}
    done = sum(size.values()) - sum(size[index] for index in todo)
    here = cluster is None or not todo
    if cluster is not None and cluster.scheduler is None:
        remove_abandoned(scratch_path())  # of workers whose process was killed
    made = _in_turn(plan, make, todo, batch, also) if here else make_on(cluster, plan, make, todo)
    with (
        tqdm(total=sum(size.values()), initial=done, unit="sample", disable=not progress) as bar,
        contextlib.closing(made),  # an error here must end the cluster too
    ):
        for index in made:
            bar.update(size[index])
            if also is not None and not here:
                also(index, storage(plan).read_part(plan, index))


def _in_turn(
    plan: Plan, make: Make, indices: Sequence[int], batch: int, also: Callable[[int, Arrays], None] | None
) -> Iterator[int]:
    """The parts, one batch being made while the one before is written: a disk keeps nobody busy."""
    batch = max(1, batch)
    with ThreadPoolExecutor(1) as disk:
        written = None
        for first in range(0, len(indices), batch):
            parts = made_parts(plan, make, indices[first : first + batch])
            if written is not None:
                yield from written.result()
            written = disk.submit(_written, plan, parts, also)
        if written is not None:
            yield from written.result()


def _written(plan: Plan, parts: dict[int, Arrays], also: Callable[[int, Arrays], None] | None) -> list[int]:
    for index, arrays in parts.items():
        storage(plan).write_part(plan, index, arrays)
        if also is not None:
            also(index, arrays)
    return list(parts)


def read_parts(plan: Plan, name: str) -> np.ndarray:
    """One variable ("r85/status") of all parts, samples in order."""
    return np.concatenate([storage(plan).read_part(plan, index, [name])[name] for index in range(plan.chunks)])


def assemble(plan: Plan, *, progress: bool = True) -> Path:
    """The output from all its parts, which are removed afterwards.

    Raises OSError when a part is damaged: it is removed, and the same command makes it again.
    """
    with Assembly(plan) as output:
        _complete(plan, output, progress)
    return _without_parts(plan)


def _complete(plan: Plan, output: Assembly, progress: bool, *, seen: Container[int] = ()) -> None:
    if plan.in_zarr:
        storage(plan).assemble(plan, seen=seen)
    else:
        output.finish(progress=progress)


def _without_parts(plan: Plan) -> Path:
    """After the lock is let go: network file systems keep the folder of an open file."""
    if not plan.output.exists():
        raise FileNotFoundError(f"{plan.output} was removed as soon as it was written: run the same command again")
    remove_parts(plan)
    return plan.output
