"""Samples made by threads, one at a time or in blocks of fixed size, so that their bits do not depend on the company.

Transforms, products and sums of a library may round differently in another batch, at another place in a batch, with
another number of threads or at another memory alignment. A sample of a generated file has the same bits in any part,
shard, thread or process because all four are fixed: it is solved alone, or as number n mod B of the B samples of its
block, by one thread of torch, from memory that torch aligned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import torch

from sciops.random_fields import one_torch_thread

T = TypeVar("T")


def one_by_one(solve: Callable[..., T], *samples: Iterable[Any], threads: int | None) -> list[T]:
    """[solve(a, b, …) for a, b, … in zip(*samples)], `threads` at a time and each on one thread of torch."""
    with one_torch_thread():
        if (threads or 1) == 1:
            return [solve(*sample) for sample in zip(*samples)]
        # a new thread does not inherit the number: MKL would split its transforms over all cores, and round differently
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(solve, *samples))


def aligned(sample: np.ndarray) -> torch.Tensor:
    """A copy in memory of torch's own, which is always aligned in the same way; a row of a numpy array is not."""
    return torch.tensor(sample)


def in_groups(
    make: Callable[[Sequence[tuple[int, int]]], Mapping[str, np.ndarray]],
    ranges: Sequence[tuple[int, int]],
    size: int,
    threads: int | None,
    *,
    whole: bool = True,
) -> dict[str, np.ndarray]:
    """make(ranges), made in groups of at most `size` samples by threads that share nothing, each from the draw to the
    last array.

    make : half-open ranges → name → (samples, …)
    whole : the groups are the blocks [kB, (k + 1)B) of B = `size` samples, each made as a whole whatever part of it is
        asked for; False where a sample is the same in any batch by construction
    """
    starts = np.cumsum([0, *(stop - start for start, stop in ranges)])
    groups = []
    for at, (start, stop) in zip(starts.tolist(), ranges):
        origin = start // size * size if whole else start
        for first in range(origin, stop, size):
            last = first + size if whole else min(first + size, stop)
            groups.append((at - start, first, last, max(first, start), min(last, stop)))
    joined: dict[str, np.ndarray] = {}

    def one(group: tuple[int, int, int, int, int]) -> None:
        offset, first, last, start, stop = group
        for name, values in make([(first, last)]).items():
            # setdefault is one step of the interpreter: whoever comes first brings the memory that all fill
            array = joined.get(name)
            if array is None:
                array = joined.setdefault(name, np.empty((starts[-1], *values.shape[1:]), values.dtype))
            array[offset + start : offset + stop] = values[start - first : stop - first]

    one_by_one(one, groups, threads=threads)
    return joined
