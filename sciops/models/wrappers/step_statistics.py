"""Statistics of the inputs and outputs of a time step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.datasets.fields.normalizers import Normalizer

_POINTS = 2**24  # read at a time


def fitted(sets: Sequence[Any], *, residual: bool) -> tuple[Normalizer, Normalizer]:
    """Normalizers of the input and of the output of a step, over the trajectories of several `TrajectoryDataset`s.

    The data sets have the same variables. The input has the channels window, constants, forcings at both ends, time.
    """
    first = sets[0]
    frames = target = Normalizer.fit(block.flatten(0, 1) for block in _blocks(sets, "trajectories"))
    if residual:
        target = Normalizer.fit(_changes(sets))
    parts = [frames] * first.history
    if first.constant_channels:
        parts.append(Normalizer.fit(_blocks(sets, "constants")))
    if first.forcing_channels:
        parts += [Normalizer.fit(block.flatten(0, 1) for block in _blocks(sets, "known"))] * 2
    if first.time_step:
        took = Normalizer.fit(torch.from_numpy(np.diff(one.clocks, axis=1).reshape(-1, 1)) for one in sets)
        # all steps have one length up to rounding: lengths are then measured in units of it
        took.std.copy_(torch.where(took.std < 1e-3 * took.mean.abs(), took.mean.abs(), took.std))
        parts.append(took)
    seen = Normalizer(sum(len(part.mean) for part in parts))
    for name in ("mean", "std"):
        getattr(seen, name).copy_(torch.cat([getattr(part, name) for part in parts]))
    return seen, target


def _blocks(sets: Sequence[Any], what: str) -> Iterator[Tensor]:
    """The named fields of all trajectories, as many of them at a time as fit."""
    for one in sets:
        read: Callable[[range], Tensor] = getattr(one, what)
        yield from map(read, _parts(one))


def _changes(sets: Sequence[Any]) -> Iterator[Tensor]:
    """u_{k+1} − u_k of all trajectories, per unit of time if the length of a step is an input."""
    for one in sets:
        for part in _parts(one):
            change = one.trajectories(part).diff(dim=1)
            if one.time_step:
                took = torch.from_numpy(np.diff(one.clocks[part], axis=1)).to(change)
                change = change / took.reshape(*took.shape, *(1,) * (change.ndim - 2))
            yield change.flatten(0, 1)


def _parts(one: Any) -> list[range]:
    width = (one.channels + one.forcing_channels) * len(one.times)
    size = max(1, _POINTS // (one.grid.size * width))
    return [range(start, min(start + size, one.count)) for start in range(0, one.count, size)]
