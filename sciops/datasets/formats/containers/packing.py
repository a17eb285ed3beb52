"""Numbers that a file keeps packed, or marks as missing, by attributes of the CF conventions (chapters 2.5 and 8.1).

    value = stored · scale_factor + add_offset;   NaN where stored is _FillValue or one of missing_value

``_Unsigned`` "true" says that signed integers mean unsigned ones. ``valid_min``, ``valid_max`` and ``valid_range``
change no number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

_MOST_MARKS = 16  # numbers that mean a missing one: each is compared with all numbers
ATTRIBUTES = ("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned")


@dataclass(frozen=True)
class Packing:
    """stored : type of the numbers in the file, unsigned where it says so; dtype : that of the values."""

    stored: np.dtype
    dtype: np.dtype
    scale: float | None
    offset: float | None
    missing: tuple[Any, ...]

    def unpacked(self, numbers: np.ndarray) -> np.ndarray:
        """The values of numbers as they are stored, of any shape."""
        numbers = np.asarray(numbers)
        numbers = numbers.astype(numbers.dtype.newbyteorder("="), copy=False)
        numbers = numbers.view(self.stored) if numbers.dtype != self.stored else numbers
        gaps = np.any([numbers == mark for mark in self.missing], axis=0) if self.missing else None
        values = numbers.astype(self.dtype)
        if self.scale is not None:
            values = values * self.dtype.type(self.scale)
        if self.offset is not None:
            values = values + self.dtype.type(self.offset)
        if gaps is not None:
            values = np.where(gaps, self.dtype.type(np.nan), values)
        return values


def packing_of(attrs: Mapping[str, Any], dtype: Any) -> Packing | None:
    """How numbers of this type are packed by the attributes of their variable; None where that changes none of them.

    The values have the type of scale_factor and add_offset, in double precision where that is no float or the integers
    have more than 16 bits. Raises ValueError for an attribute that is not what it should be.
    """
    dtype = np.dtype(dtype).newbyteorder("=")
    if dtype.kind not in "iuf":
        return None
    unsigned = str(_text(attrs.get("_Unsigned", ""))).lower() == "true" and dtype.kind == "i"
    stored = np.dtype(f"u{dtype.itemsize}") if unsigned else dtype
    scale, offset = (_number(attrs, name) for name in ("scale_factor", "add_offset"))
    stated = {name: np.ravel(attrs[name]) for name in ("_FillValue", "missing_value") if name in attrs}
    for name, one in stated.items():
        if one.size > _MOST_MARKS:
            raise ValueError(f"attribute {name} holds {one.size} numbers, at most {_MOST_MARKS} are expected")
    numbers = [one for one in stated.values() if one.dtype.kind in "iuf"]
    marks = [mark for one in numbers for mark in _like(one, stored) if not np.isnan(mark)]
    if scale is None and offset is None and not marks:
        return None if not unsigned else Packing(stored, stored, None, None, ())
    floats = [np.dtype(type(one)) for one in (scale, offset) if one is not None]
    wide = not all(one.kind == "f" for one in floats) or (stored.kind != "f" and stored.itemsize > 2)
    narrow = np.result_type(np.float32, *floats, *([stored] if stored.kind == "f" else []))
    return Packing(stored, np.dtype(np.float64) if wide else narrow, scale, offset, tuple(marks))


def _like(marks: np.ndarray, stored: np.dtype) -> np.ndarray:
    """Marks in the type of the numbers, as they would be stored; signed ones that mean unsigned are read so."""
    if stored.kind == "u" and marks.dtype.kind == "i" and marks.dtype.itemsize == stored.itemsize:
        return marks.astype(marks.dtype.newbyteorder("=")).view(stored)
    with np.errstate(all="ignore"):
        cast = marks.astype(stored)
        return cast[np.isfinite(cast) == np.isfinite(marks)] if stored.kind == "f" else cast[cast == marks]


def _number(attrs: Mapping[str, Any], name: str) -> Any:
    """A scale or offset as a NumPy scalar; None where there is none."""
    if name not in attrs:
        return None
    value = np.asarray(attrs[name])
    if value.size != 1 or value.dtype.kind not in "iuf" or not np.isfinite(value).all():
        raise ValueError(f"attribute {name} is {_text(attrs[name])!r}: one finite number is expected")
    return value.astype(value.dtype.newbyteorder("=")).reshape(-1)[0]


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
