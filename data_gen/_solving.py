"""Samples made by threads, one at a time or a few that fit into cache together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch

T = TypeVar("T")


def one_by_one(solve: Callable[..., T], *samples: Iterable[Any], threads: int | None) -> list[T]:
    """[solve(a, b, …) for a, b, … in zip(*samples)], `threads` at a time and each on one thread of torch.

    A transform or a sum over a batch, or split over threads, may round differently from one sample alone: so a sample
    has the same bits in any part, shard or process.
    """
    with _one_thread_each():
        if (threads or 1) == 1:
            return [solve(*sample) for sample in zip(*samples)]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(solve, *samples))


def in_groups(
    make: Callable[[Sequence[tuple[int, int]]], Mapping[str, np.ndarray]],
    ranges: Sequence[tuple[int, int]],
    size: int,
    threads: int | None,
) -> dict[str, np.ndarray]:
    """make(ranges), made `size` samples at a time by threads that share nothing, each from the draw to the last array.

    make : half-open ranges → name → (samples, …), a sample being the same in any range
    """
    starts = np.cumsum([0, *(stop - start for start, stop in ranges)])
    groups = [
        (int(at) + first - start, first, min(first + size, stop))
        for at, (start, stop) in zip(starts, ranges)
        for first in range(start, stop, size)
    ]
    joined: dict[str, np.ndarray] = {}

    def one(group: tuple[int, int, int]) -> None:
        at, first, last = group
        for name, values in make([(first, last)]).items():
            # setdefault is one step of the interpreter: whoever comes first brings the memory that all fill
            whole = joined.get(name)
            if whole is None:
                whole = joined.setdefault(name, np.empty((starts[-1], *values.shape[1:]), values.dtype))
            whole[at : at + last - first] = values

    one_by_one(one, groups, threads=threads)
    return joined


@contextmanager
def _one_thread_each() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
