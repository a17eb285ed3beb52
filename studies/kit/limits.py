"""What the processor allows: no step is faster than its products and its memory, at the rates measured in the same run.

    time ≥ max(operations / rate of products, bytes / rate of memory)

A step reaches it only if every product runs as fast as a large one and nothing else takes time, so that a ratio "at
the limit" is one that no writing of the same sums can pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from studies.kit.timing import interleaved, threads


@dataclass(frozen=True)
class Rates:
    """Of one device: floating-point operations a second in a product of large matrices, bytes a second in a copy."""

    operations: float
    bytes: float

    def least_seconds(self, operations: float, bytes: float) -> float:
        """Seconds below which work of so many operations, on so many bytes read or written, cannot be."""
        return max(operations / self.operations, bytes / self.bytes)


def measured_rates(
    count: int, *, device: str = "cpu", size: int = 1024, megabytes: int = 128, rounds: int = 7
) -> Rates:
    """The rates of float32 on `count` threads: the fastest of the rounds.

    size : rows of the square matrices; megabytes : of the array copied, more than the caches hold
    """
    import torch

    a, b = (torch.ones(size, size, device=device) for _ in range(2))
    product = torch.empty_like(a)
    x = torch.ones(megabytes * 250_000, device=device)
    y = torch.zeros_like(x)
    wait = torch.cuda.synchronize if torch.device(device).type == "cuda" else None
    calls = {"product": lambda: torch.mm(a, b, out=product), "copy": lambda: y.copy_(x)}
    with threads(count):
        seconds = {name: float(np.min(t)) for name, t in interleaved(calls, rounds=rounds, synchronize=wait).items()}
    return Rates(2 * size**3 / seconds["product"], 2 * x.nbytes / seconds["copy"])
