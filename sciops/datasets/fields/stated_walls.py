"""What the attributes of a data set say of each side of its box."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sciops.datasets.conventions import SPACE
from sciops.files.untrusted import parse_json
from sciops.grids import Grid

_NUMBERS = ("values", "flux", "transfer")


def sides_of(attrs: Mapping[str, Any], grid: Grid) -> tuple[dict[str, tuple[Any, Any]], bool]:
    """(axis → what its low and its high end say, whether some side is not stated).

    ``walls`` (JSON: boundary, values, flux, transfer, as `sciops.pde.darcy.solve` takes them) goes before ``boundary``
    (JSON, axis → kind) and ``wall`` (the condition of its walls). A kind "wall-open" is that of the low and high end.
    """
    axes = SPACE[: grid.ndim]
    if "walls" in attrs:
        stated = attrs["walls"]
        stated = parse_json(stated) if isinstance(stated, str) else dict(stated)
        kinds = _pairs(stated.get("boundary", "dirichlet"), axes, "dirichlet")
        numbers = {name: _pairs(stated.get(name, 0.0), axes, 0.0) for name in _NUMBERS}
        return {
            axis: tuple(
                (
                    kinds[axis][end],
                    *((name, numbers[name][axis][end]) for name in _NUMBERS if np.any(numbers[name][axis][end])),
                )
                for end in (0, 1)
            )
            for axis in axes
        }, False
    boundary = attrs.get("boundary")
    boundary = parse_json(boundary) if isinstance(boundary, str) else dict(boundary or {})
    found = {}
    for axis in axes:
        if axis in boundary:
            low, _, high = str(boundary[axis]).partition("-")
            about = attrs.get("wall", "")
            found[axis] = tuple(f"{kind}, {about}" if about and kind == "wall" else kind for kind in (low, high or low))
    return found, len(found) < len(axes)


def _pairs(stated: Any, axes: tuple[str, ...], otherwise: Any) -> dict[str, tuple[Any, Any]]:
    """axis → (low, high) of one entry for all sides, or one for each axis, each for both ends or a pair."""
    if isinstance(stated, Mapping):
        entries = [stated.get(axis, otherwise) for axis in axes]
    elif isinstance(stated, (list, tuple)) and len(stated) == len(axes):
        entries = list(stated)
    else:
        entries = [stated] * len(axes)
    return {
        axis: tuple(entry) if isinstance(entry, (list, tuple)) and len(entry) == 2 else (entry, entry)
        for axis, entry in zip(axes, entries)
    }
