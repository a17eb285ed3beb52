"""Whole numbers among the arguments of random fields."""

from __future__ import annotations

from typing import Any

import numpy as np


def check_counts(**counts: tuple[Any, int]) -> None:
    """name=(value, least): ValueError unless it is a whole number of at least that."""
    for name, (value, least) in counts.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise ValueError(f"{name}={value!r}: expected a whole number of at least {least}")
