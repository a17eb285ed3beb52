"""One process pool for studies: spawned workers, or this process where there is one worker."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any

from tqdm.auto import tqdm

from sciops.processes import end_with_parent


def run_all(
    function: Callable[..., Any],
    jobs: Iterable[tuple],
    *,
    workers: int,
    unit: str,
    threads: int | None = None,
    desc: str | None = None,
) -> list[Any]:
    """What ``function(*job)`` returns for every job, in the order of the jobs, with a progress bar.

    The first job that fails ends the run: those that have not begun are cancelled. See `pool` for workers and threads.
    """
    with pool(workers, threads=threads) as executor:
        return run_on(executor, function, jobs, unit=unit, desc=desc)


def run_on(
    executor: Executor, function: Callable[..., Any], jobs: Iterable[tuple], *, unit: str, desc: str | None = None
) -> list[Any]:
    """`run_all` on the executor of a `pool` that serves several rounds: its processes have imported everything."""
    jobs = list(jobs)
    with tqdm(total=len(jobs), unit=unit, desc=desc, disable=None) as bar:
        futures = []
        for job in jobs:
            futures.append(executor.submit(function, *job))
            futures[-1].add_done_callback(lambda _: bar.update())
        for future in as_completed(futures):
            future.result()
        return [future.result() for future in futures]


class _Here(Executor):
    """Runs what is submitted at once, in this process; an error is raised by ``submit`` itself."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future:
        done: Future = Future()
        done.set_result(function(*arguments, **options))
        return done


@contextmanager
def pool(workers: int, *, threads: int | None = None) -> Iterator[Executor]:
    """An executor for functions of modules; a block that ends by an error cancels what has not begun.

    Processes are spawned, not forked: the parent has run threaded kernels, which a forked child cannot. They import the
    module of the function that they are given, so that the parent may be a notebook or a script on standard input, and
    end with the parent, however that ends.

    Parameters
    ----------
    workers : int
        Number of processes; one means this process, in which each call ends before the next is submitted.
    threads : int, optional
        Threads of torch and of OpenMP in each spawned process; by default those of the environment.

    Yields
    ------
    concurrent.futures.Executor

    Examples
    --------
    >>> from operator import neg
    >>> with pool(1) as executor:
    ...     list(executor.map(neg, [1, 2]))
    [-1, -2]
    """
    if workers <= 1:
        yield _Here()
        return
    context = multiprocessing.get_context("spawn")
    start = {"mp_context": context, "initializer": _begin, "initargs": (threads,)}
    with _importable_main(), ProcessPoolExecutor(workers, **start) as executor:
        try:
            yield executor
        except BaseException:
            executor.shutdown(cancel_futures=True)
            raise


@contextmanager
def _importable_main() -> Iterator[None]:
    """A main module that came from standard input names a file that is not there, which workers would try to run."""
    main = sys.modules["__main__"]
    named = getattr(main, "__file__", None)
    if named is None or getattr(main, "__spec__", None) is not None or os.path.exists(named):
        yield
        return
    del main.__file__
    try:
        yield
    finally:
        main.__file__ = named


def _begin(threads: int | None) -> None:
    end_with_parent()
    if threads is not None:
        import torch

        os.environ["OMP_NUM_THREADS"] = str(threads)
        torch.set_num_threads(threads)
