"""Fields in pieces that fit into memory: a few samples at once or, of a sample that is larger, a few of its times."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

BLOCK = 1 << 26  # bytes of a piece


def pieces(shape: Sequence[int], itemsize: int, *, whole_samples: bool = False) -> Iterator[tuple[slice, ...]]:
    """Indices of consecutive pieces of at most `BLOCK` bytes, in C order: (samples,) or (one sample, times).

    itemsize : bytes of an entry, of all fields together that are read in step
    whole_samples : whether a sample stays in one piece whatever its size
    """
    if not shape:
        yield ()
        return
    sample = itemsize * math.prod(shape[1:])
    if sample <= BLOCK or len(shape) < 3 or whole_samples:
        step = max(1, BLOCK // max(1, sample))
        for start in range(0, shape[0], step):
            yield (slice(start, min(start + step, shape[0])),)
        return
    step = max(1, BLOCK // max(1, itemsize * math.prod(shape[2:])))
    for i in range(shape[0]):
        for start in range(0, shape[1], step):
            yield slice(i, i + 1), slice(start, min(start + step, shape[1]))
