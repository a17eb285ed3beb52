"""Samples solved one at a time by threads, so that a sample has the same bits in any part, shard or process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

T = TypeVar("T")


def one_by_one(solve: Callable[..., T], *samples: Iterable[Any], threads: int | None) -> list[T]:
    """[solve(a, b, …) for a, b, … in zip(*samples)], `threads` at a time and each on one thread of torch.

    A transform or a sum over a batch, or split over threads, may round differently from one sample alone.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        if (threads or 1) == 1:
            return [solve(*sample) for sample in zip(*samples)]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(solve, *samples))
    finally:
        torch.set_num_threads(before)
