"""Checks of single options, each one line that says what was got and what was expected."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any, NamedTuple


class Check(NamedTuple):
    """``check(name, value)`` raises ValueError unless the value is what is expected."""

    expected: str
    holds: Callable[[Any], bool]

    def __call__(self, name: str, value: Any) -> None:
        if not self.holds(value):
            raise ValueError(f"{name}={value!r}: expected {self.expected}")


def one_of(names: Collection[str]) -> Check:
    """The value is one of these."""
    return Check(f"one of {', '.join(names)}", lambda value: value in names)


WHOLE = Check("a whole number of at least 1", lambda value: int(value) == value and value >= 1)
COUNT = Check("a whole number of at least 0", lambda value: int(value) == value and value >= 0)
POSITIVE = Check("a positive number", lambda value: value > 0 and math.isfinite(value))
NONNEGATIVE = Check("a number of at least 0", lambda value: value >= 0 and math.isfinite(value))
SHARE = Check("a share in [0, 1)", lambda value: 0 <= value < 1)
