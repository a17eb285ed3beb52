"""Padding: amounts per side, and the norm of the pad map."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

MODES = ("zeros", "circular", "reflect", "replicate")
Pads = tuple[tuple[int, int], ...]


def per_axis(value: int | Sequence[int], axes: int, name: str, least: int) -> tuple[int, ...]:
    """One whole number per axis. Raises ValueError for anything else."""
    values = (value,) * axes if isinstance(value, int) else tuple(value)
    if len(values) != axes or any(int(v) != v or v < least for v in values):
        raise ValueError(f"{name}={value!r}: expected one whole number ≥ {least} per axis, {axes} in all")
    return tuple(int(v) for v in values)


def pad_amounts(padding: int | str | Sequence[int], kernel: Sequence[int], dilation: Sequence[int]) -> Pads:
    """(before, after) per axis; ``same`` adds dilation·(k − 1) in all, the odd one after, as torch does."""
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding == "same":
        spans = [d * (k - 1) for k, d in zip(kernel, dilation)]
        return tuple((span // 2, span - span // 2) for span in spans)
    if isinstance(padding, str):
        raise ValueError(f"padding={padding!r}: expected 'same', 'valid' or whole numbers")
    return tuple((p, p) for p in per_axis(padding, len(kernel), "padding", 0))


def pad_map_norm(grid: Sequence[int] | None, pads: Pads, mode: str) -> float:
    """The norm of the pad map: √(the most copies that it makes of one point), a product over the axes.

    The columns of the map are orthogonal, so that this is its norm, not only a bound. Without a grid it is the largest
    over all grids that torch pads: 3 copies where mirror images from both sides meet, 2p + 1 of a single point.
    """
    copies = 1
    for axis, (before, after) in enumerate(pads):
        if not before and not after:
            continue
        if grid is None:
            copies *= 3 if mode == "reflect" else before + after + 1
            continue
        n = grid[axis]
        if mode == "reflect" and max(before, after) >= n:
            raise ValueError(f"reflect padding of {max(before, after)} needs more than {n} points along axis {axis}")
        how: Any = {"reflect": "reflect", "circular": "wrap"}.get(mode, "edge")
        index = np.pad(np.arange(n), (before, after), mode=how)
        copies *= int(np.bincount(index).max())
    return math.sqrt(copies) * (1 + 4e-16)
