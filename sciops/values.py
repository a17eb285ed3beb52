"""Checks of single options, each one line that says what was got and what was expected."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection
from typing import Any, NamedTuple


class Check(NamedTuple):
    """``check(name, value)`` raises ValueError unless the value is what is expected.

    remedy : what the line says besides, of a value that does not hold
    """

    expected: str
    holds: Callable[[Any], bool]
    remedy: Callable[[Any], str] = lambda value: ""

    def __call__(self, name: str, value: Any) -> None:
        if not self.holds(value):
            raise ValueError(f"{name}={value!r}: expected {self.expected}{self.remedy(value)}")


def one_of(names: Collection[str]) -> Check:
    """The value is one of these."""
    return Check(f"one of {', '.join(names)}", lambda value: value in names)


def whole(least: int) -> Check:
    """The value is an integer, of Python or numpy, of at least `least`; True, False and 2.0 are none."""
    return Check(
        f"a whole number of at least {least}",
        lambda value: _is_whole(value) and value >= least,
        lambda value: f", such as {value:.0f}" if _has_point(value) and value >= least else "",
    )


def check_whole(least: int = 1, **numbers: Any) -> None:
    """Raises ValueError, naming the argument, for what is not a whole number of at least `least`."""
    for name, value in numbers.items():
        whole(least)(name, value)


def _has_point(value: Any) -> bool:
    """Whether it is a float without a fraction, such as 2.0."""
    return isinstance(value, float) and value.is_integer()


def _is_whole(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return not isinstance(value, bool)


WHOLE = whole(1)
COUNT = whole(0)
POSITIVE = Check("a positive number", lambda value: value > 0 and math.isfinite(value))
NONNEGATIVE = Check("a number of at least 0", lambda value: value >= 0 and math.isfinite(value))
SHARE = Check("a share in [0, 1)", lambda value: 0 <= value < 1)
