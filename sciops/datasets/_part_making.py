"""A part, from the function that makes its samples to the disk: the same on every machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sciops.datasets import _native_parts
from sciops.datasets._native_content import groups_of
from sciops.datasets._native_parts import Plan, read_manifest, write_manifest

Ranges = Sequence[tuple[int, int]]
Arrays = Mapping[str, np.ndarray]
Make = Callable[[Ranges], Arrays]


def storage(plan: Plan) -> Any:
    """The module that writes, reads and checks the plan's parts."""
    if not plan.in_zarr:
        return _native_parts
    from sciops.datasets import _zarr_parts

    return _zarr_parts


def make_parts(plan: Plan, make: Make, indices: Sequence[int]) -> None:
    """Makes the samples of all these parts at once and writes each part; errors as in `made_parts`."""
    for index, arrays in made_parts(plan, make, indices).items():
        storage(plan).write_part(plan, index, arrays)


def made_parts(plan: Plan, make: Make, indices: Sequence[int]) -> dict[int, Arrays]:
    """The arrays of all these parts, their samples made at once.

    Raises ValueError when `make` gave what the plan does not hold; until then no folder of parts is begun.
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
    if read_manifest(plan) is None:  # not before: what `make` refuses must not claim the folder
        write_manifest(plan)
    parts, start = {}, 0
    for index, (first, last) in zip(indices, bounds):
        stop = start + last - first
        parts[index] = {name: values[start:stop] for name, values in made.items()}
        start = stop
    return parts
