"""What the CPU kernels share: how large a band is, memory that is used again, derivatives of higher order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_CELLS_IN_CACHE = 2048  # of a core


def cells_in_cache() -> int:
    """Cells of a band: as many as make the overhead of the calls small, and no more than the caches hold."""
    return _CELLS_IN_CACHE * torch.get_num_threads()


def contiguous(fields: Sequence[Tensor]) -> list[Tensor]:
    """The fields in the memory order that bands are views of."""
    return [x.contiguous() for x in fields]


class Scratch:
    """Memory by name that is used again and again: fresh memory has to be fetched from the system, and is cold."""

    def __init__(self, like: Tensor) -> None:
        self._like, self._pool = like, dict[str, Tensor]()

    def take(self, name: str, *shape: int) -> Tensor:
        size = math.prod(shape)
        if name not in self._pool or self._pool[name].numel() < size:
            self._pool[name] = self._like.new_empty(size)
        return self._pool[name][:size].view(shape)


def recorded_gradient(
    call: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor | None], gradients: Sequence[Tensor]
) -> list[Tensor | None]:
    """The gradients of call(*inputs), themselves differentiable."""
    wanted = {i: x for i, x in enumerate(inputs) if x is not None and x.requires_grad}
    found = torch.autograd.grad(call(*inputs), list(wanted.values()), gradients, create_graph=True)
    result: list[Tensor | None] = [None] * len(inputs)
    for i, g in zip(wanted, found):
        result[i] = g
    return result
