"""The header of a NetCDF-3 file (classic, 64-bit offset, 64-bit data): which variable lies where, what it says.

Why not `scipy.io.netcdf_file`: it cannot open 64-bit data (CDF-5), and arrays that it maps keep their file open.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sciops.datasets.formats.containers.packing import Packing, packing_of
from sciops.files.budget import Spending, check_rank
from sciops.files.messages import shown

MAGIC = (b"CDF\x01", b"CDF\x02", b"CDF\x05")
_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 10, 11, 12
_TYPES = {1: ">i1", 2: "S1", 3: ">i2", 4: ">i4", 5: ">f4", 6: ">f8", 7: ">u1", 8: ">u2", 9: ">u4", 10: ">i8", 11: ">u8"}
_HEADER_LIMIT = 1 << 26
_COUNT_LIMIT = 1 << 16


@dataclass(frozen=True)
class Variable:
    """Where an array lies: numbers from `offset` on, `strides` bytes apart; records of all variables take turns."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int
    strides: tuple[int, ...]
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def packing(self) -> Packing | None:
        """How the numbers are packed; None where they are stored as they are."""
        return packing_of(self.attrs, self.dtype)

    @property
    def value_dtype(self) -> np.dtype:
        """The type of the values."""
        return self.dtype if self.packing is None else self.packing.dtype


def read_header(path: Path) -> tuple[dict[str, Variable], dict[str, Any]]:
    """(name → variable, attributes of the file); ValueError where the header is damaged or the file ends too early.

    Dimensions, variables and attributes count as objects of the budget.
    """
    size = path.stat().st_size
    with open(path, "rb") as file:
        reader = _Reader(file.read(min(size, _HEADER_LIMIT)), Spending(path))
    version = reader.take(4)[3]
    reader.wide, reader.far = version == 5, version in (2, 5)
    records = reader.count()
    dims = [(reader.name(), reader.count()) for _ in range(reader.elements(_DIMENSIONS))]
    attrs = reader.attributes()
    raw = []
    for _ in range(reader.elements(_VARIABLES)):
        name, rank = reader.name(), reader.list_length()
        check_rank(path, shown(name, 60), rank)
        numbers = [reader.count() for _ in range(rank)]
        if any(number >= len(dims) for number in numbers):
            raise ValueError(f"{name} has a dimension that is not declared")
        own = reader.attributes()
        dtype = reader.type()
        reader.count()  # the size, which is wrong by design for large variables
        raw.append((name, numbers, own, dtype, reader.offset()))
    by_record = [one for one in raw if one[1] and dims[one[1][0]][1] == 0]
    steps = [_padded(one[3].itemsize * _product(dims[d][1] for d in one[1][1:])) for one in by_record]
    # one lone record variable is not padded
    step = sum(steps) if len(by_record) != 1 else _record_bytes(by_record[0], dims)
    if records == (2**64 - 1 if reader.wide else 2**32 - 1):  # a stream: as many as fit
        records = (size - min((one[4] for one in by_record), default=size)) // max(step, 1)
    found = {}
    for name, numbers, own, dtype, offset in raw:
        unlimited = bool(numbers) and dims[numbers[0]][1] == 0
        shape = tuple(records if i == 0 and unlimited else dims[d][1] for i, d in enumerate(numbers))
        inner = [dtype.itemsize * _product(shape[i + 1 :]) for i in range(len(shape))]
        strides = (step, *inner[1:]) if unlimited else tuple(inner)
        end = offset + dtype.itemsize + sum((n - 1) * s for n, s in zip(shape, strides))
        if 0 not in shape and end > size:
            raise ValueError(f"{name} ends at byte {end}, {size} are here")
        found[name] = Variable(tuple(dims[d][0] for d in numbers), shape, dtype, offset, strides, own)
    return found, attrs


class _Reader:
    """Walks through a header; every length is checked against what is left."""

    wide = far = False

    def __init__(self, data: bytes, spent: Spending) -> None:
        self.data, self.place, self.spent = data, 0, spent

    def take(self, length: int) -> bytes:
        if length > len(self.data) - self.place:
            raise ValueError(f"its header ends after {len(self.data)} bytes")
        self.place += length
        return self.data[self.place - length : self.place]

    def count(self) -> int:
        return struct.unpack(">Q", self.take(8))[0] if self.wide else struct.unpack(">I", self.take(4))[0]

    def offset(self) -> int:
        return struct.unpack(">Q", self.take(8))[0] if self.far else struct.unpack(">I", self.take(4))[0]

    def list_length(self) -> int:
        length = self.count()
        if length > _COUNT_LIMIT:
            raise ValueError(f"a list of {length} entries in its header")
        self.spent.take(objects=length, what="its header")
        return length

    def elements(self, tag: int) -> int:
        found = struct.unpack(">I", self.take(4))[0]
        length = self.list_length()
        if found != tag and (found, length) != (0, 0):
            raise ValueError(f"tag {found} in its header, where {tag} belongs")
        return length

    def name(self) -> str:
        return self.padded(self.count()).decode("utf-8")

    def padded(self, length: int) -> bytes:
        return self.take(_padded(length))[:length]

    def type(self) -> np.dtype:
        number = struct.unpack(">I", self.take(4))[0]
        if number not in _TYPES:
            raise ValueError(f"type {number} in its header")
        return np.dtype(_TYPES[number])

    def attributes(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(self.elements(_ATTRIBUTES)):
            name, dtype = self.name(), self.type()
            raw = self.padded(self.count() * dtype.itemsize)
            if dtype.kind == "S":
                found[name] = raw.decode("utf-8", "replace").rstrip("\0")
            else:
                values = np.frombuffer(raw, dtype).astype(dtype.newbyteorder("="))
                found[name] = values[0] if len(values) == 1 else values
        return found


def _record_bytes(variable: Any, dims: list[tuple[str, int]]) -> int:
    return variable[3].itemsize * _product(dims[d][1] for d in variable[1][1:])


def _padded(length: int) -> int:
    return -(-length // 4) * 4


def _product(numbers: Any) -> int:
    total = 1
    for number in numbers:
        total *= int(number)
    return total
