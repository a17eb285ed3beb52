"""Threads of torch: one where the bits of a result must not depend on their number, one each for tasks side by side."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Sets torch to one thread in the calling thread: an operation split over threads may round differently."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def one_torch_thread_each(count: int) -> Iterator[ThreadPoolExecutor]:
    """An executor of `count` threads, in each of which torch uses one, as it does in the calling thread meanwhile."""
    # a new thread does not inherit the number: MKL would split its transforms over all cores, and round differently
    with one_torch_thread(), ThreadPoolExecutor(count, initializer=_use_one_torch_thread) as pool:
        yield pool


def _use_one_torch_thread() -> None:
    # the first question of a thread sets its number to the one that any thread of the process has set last: asked after
    # `set_num_threads(1)` it would undo it where another computation runs beside this one
    torch.get_num_threads()
    torch.set_num_threads(1)
