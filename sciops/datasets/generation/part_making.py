"""A part, from the function that makes its samples to the disk: the same on every machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sciops.datasets.native import parts
from sciops.datasets.native.content import groups_of
from sciops.datasets.native.parts import Plan, claim

Ranges = Sequence[tuple[int, int]]
Arrays = Mapping[str, np.ndarray]
Make = Callable[[Ranges], Arrays]


def storage(plan: Plan) -> Any:
    """The module that writes, reads and checks the plan's parts."""
    if not plan.in_zarr:
        return parts
    from sciops.datasets.native.zarr import parts as zarr_parts

    return zarr_parts


def made_parts(plan: Plan, make: Make, indices: Sequence[int]) -> dict[int, Arrays]:
    """The arrays of all these parts, their samples made at once.

    Raises ValueError when `make` gave what the plan does not hold (until then no folder of parts is begun), or when
    another plan has begun the folder meanwhile.
    """
    bounds = [plan.bounds(index) for index in indices]
    made = make(bounds)
    samples = sum(stop - start for start, stop in bounds)
    if not made:
        raise ValueError(f"made nothing for {samples} samples")
    for name, values in made.items():
        if values.shape[:1] != (samples,):
            raise ValueError(f"made {name} of shape {values.shape} for {samples} samples")
    groups_of(plan, made)
    claim(plan)  # not before: what `make` refuses must not claim the folder
    parts, start = {}, 0
    for index, (first, last) in zip(indices, bounds):
        stop = start + last - first
        parts[index] = {name: values[start:stop] for name, values in made.items()}
        start = stop
    return parts
