"""What pdearena's files share: a group named after the split, and numbers of each sample."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from sciops.datasets.conventions import SPLIT_ATTRS
from sciops.datasets.formats.containers.sniff import Probe
from sciops.datasets.formats.shared.axes import numbers

MODES = ("train", "valid", "test")


def mode_of(probe: Probe, names: Iterable[str]) -> str | None:
    """The first group of train, valid and test that holds all these arrays."""
    return next((mode for mode in MODES if probe.stored(*(f"{mode}/{name}" for name in names))), None)


def split_variable(mode: str, samples: int) -> dict[str, Any]:
    """Every sample belongs to the split its group is named after."""
    return {"split": (("sample",), np.full(samples, MODES.index(mode), np.int8), dict(SPLIT_ATTRS))}


def per_sample(
    probe: Probe, stored: str, name: str, words: str, samples: int
) -> tuple[dict[str, float], dict[str, Any]]:
    """(constant where all samples agree, variable over sample where they do not) of a number a sample."""
    values = numbers(probe, stored)
    if values is None or values.shape != (samples,) or not np.isfinite(values).all():
        return {}, {}
    if (values == values[0]).all():
        return {name: float(values[0])}, {}
    about = {"units": "1", "long_name": words, "stored_as": stored}
    return {}, {name: (("sample",), values.astype(np.float64), about)}
