"""Samples made by threads, one at a time or in blocks of fixed size, so that their bits are reproducible.

Transforms, products and sums of a library may round differently in another batch, at another place in a batch, with
another number of threads or at another memory alignment. A sample of a generated file has the same bits in any part,
shard, thread or process because all four are fixed: it is solved alone, or as number n mod B of the B samples of its
block, by one thread of torch, from memory that torch aligned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import torch

from sciops.arrays.threads import one_torch_thread

T = TypeVar("T")


def one_by_one(solve: Callable[..., T], *samples: Iterable[Any], threads: int | None) -> list[T]:
    """[solve(a, b, …) for a, b, … in zip(*samples)], `threads` at a time and each on one thread of torch."""
    with one_torch_thread():
        if (threads or 1) == 1:
            return [solve(*sample) for sample in zip(*samples)]
        # a new thread does not inherit the number: MKL would split its transforms over all cores, and round differently
        with ThreadPoolExecutor(threads, initializer=_use_one_torch_thread) as pool:
            return list(pool.map(solve, *samples))


def _use_one_torch_thread() -> None:
    # the first question of a thread sets its number to the one that any thread of the process has set last: asked after
    # `set_num_threads(1)` it would undo it where another computation runs beside this one
    torch.get_num_threads()
    torch.set_num_threads(1)


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
    """make(ranges), made in groups of at most `size` samples by threads that share nothing.

    Parameters
    ----------
    make
        Half-open ranges → name → (samples, …).
    whole
        Whether the groups are the blocks [kB, (k + 1)B) of B = `size` samples, each made as a whole whatever part of it
        is asked for; False where a sample is the same in any batch by construction.
    """
    starts = np.cumsum([0, *(stop - start for start, stop in ranges)])
    groups: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
    for at, (start, stop) in zip(starts.tolist(), ranges):
        origin = start // size * size if whole else start
        for first in range(origin, stop, size):
            last = first + size if whole else min(first + size, stop)
            groups[first, last].append((at - start, max(first, start), min(last, stop)))
    joined: dict[str, np.ndarray] = {}

    def one(group: tuple[int, int]) -> None:
        for name, values in make([group]).items():
            # setdefault is one step of the interpreter: whoever comes first brings the memory that all fill
            array = joined.get(name)
            if array is None:
                array = joined.setdefault(name, np.empty((starts[-1], *values.shape[1:]), values.dtype))
            for offset, start, stop in groups[group]:
                array[offset + start : offset + stop] = values[start - group[0] : stop - group[0]]

    one_by_one(one, groups, threads=threads)
    return joined
