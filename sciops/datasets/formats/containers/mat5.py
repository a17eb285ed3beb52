"""MATLAB v5 files (save -v6 and -v7, SciPy's savemat): which array of numbers lies where, and its values.

After 128 bytes of header come elements: a tag (type and length, or both in the first word and up to four bytes of
content in the second) and its content, filled up to eight bytes. A variable is an element of elements: flags,
dimensions, name, numbers (of a complex array the real parts, then the imaginary ones); or one of these packed by zlib.
Numbers may be stored in a narrower type than their class. Every length is compared with what is there; nothing is read
but numbers, so that damaged files cannot do more than be refused. Texts, cells, structures and sparse arrays are named
with what they are, and not read.

Why not `scipy.io.loadmat`: damaged files end its process (SIGSEGV), and it reads whole arrays into memory.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sciops.files.budget import Spending

_MATRIX, _PACKED, _DIMENSIONS, _FLAGS, _NAME = 14, 15, 5, 6, 1
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CLASSES = {6: "double", 7: "single"} | {8 + k: f"{'u' * (k % 2)}int{8 << k // 2}" for k in range(8)}
_KINDS = {"double": "f8", "single": "f4", "logical": "u1"} | {name: name for name in list(_CLASSES.values())[2:]}
_OTHERS = {
    1: "a cell array",
    2: "a structure",
    3: "an object",
    4: "a text",
    5: "a sparse matrix",
    16: "a function handle",
    17: "an object",
}
_COMPLEX, _LOGICAL = 0x0800, 0x0200
_HEAD = 4096  # bytes that hold a variable's flags, dimensions and name
_PIECE = 1 << 24  # bytes that are unpacked at a time


@dataclass(frozen=True)
class Stored:
    """Numbers of one kind: their type, and where the first one lies, in the file or in the unpacked variable."""

    dtype: np.dtype
    offset: int


@dataclass(frozen=True)
class MatArray:
    """One array of numbers.

    kind : MATLAB's name of its class ("double", "single", "int8", …, "logical"), "complex double" and the like
    dtype : numpy's type of the values
    parts : the stored numbers; of a complex array the real and the imaginary parts
    packed : (offset, length) of the packed variable in the file, or None
    """

    shape: tuple[int, ...]
    kind: str
    dtype: np.dtype
    parts: tuple[Stored, ...]
    packed: tuple[int, int] | None = None


def mat5_arrays(path: Path) -> dict[str, MatArray]:
    """Name → array, in the order of the file; ValueError where lengths and contents contradict each other."""
    return {name: one for name, one in _variables(path).items() if isinstance(one, MatArray)}


def mat5_others(path: Path) -> dict[str, str]:
    """Name → what it is ("a cell array", "a structure", …), of the variables that are not arrays of numbers."""
    return {name: one for name, one in _variables(path).items() if isinstance(one, str)}


def mat5_values(path: Path, array: MatArray) -> np.ndarray:
    """The stored numbers, in MATLAB's order of memory: mapped from the disk, or unpacked and checked by their sum.

    Complex ones are in memory, and of the array's own type.
    """
    if array.packed is None:
        parts = [_mapped(path, one, array.shape) for one in array.parts]
    else:
        parts = _unpacked(path, array)
    if len(parts) == 1:
        return parts[0]
    values = np.empty(array.shape, array.dtype, order="F")
    values.real, values.imag = parts
    return values


def _mapped(path: Path, one: Stored, shape: tuple[int, ...]) -> np.ndarray:
    if not math.prod(shape):
        return np.empty(shape, one.dtype, order="F")
    return np.memmap(path, one.dtype, "r", one.offset, shape, "F").view(np.ndarray)


def _unpacked(path: Path, array: MatArray) -> list[np.ndarray]:
    count, (start, length) = math.prod(array.shape), array.packed or (0, 0)
    first, last = array.parts[0].offset, array.parts[-1].offset + count * array.parts[-1].dtype.itemsize
    values, got = bytearray(), 0
    with open(path, "rb") as file:
        file.seek(start)
        unpacker = zlib.decompressobj()
        while not unpacker.eof:
            piece = unpacker.unconsumed_tail or file.read(min(1 << 20, start + length - file.tell()))
            if not piece:
                break
            unpacked = unpacker.decompress(piece, _PIECE)
            skip = min(max(first - got, 0), len(unpacked))
            values += unpacked[skip : max(last - got, 0)]
            got += len(unpacked)
            if got > last + 8:
                raise ValueError(f"a packed variable holds more than the {last} bytes that its header states")
    if got < last:
        raise ValueError(f"a packed variable ends after {got} of {last} bytes")
    parts = [np.frombuffer(values, one.dtype, count, one.offset - first) for one in array.parts]
    return [one.reshape(array.shape, order="F") for one in parts]


def _variables(path: Path) -> dict[str, MatArray | str]:
    """Name → array of numbers, or what else the variable is.

    Variables are objects of the budget; packed ones, which are unpacked whole, count with their bytes.
    """
    size, found, spent = path.stat().st_size, {}, Spending(path)
    with open(path, "rb") as file:
        file.seek(126)
        order = "<" if file.read(2) == b"IM" else ">"
        place = 128
        while place < size:
            file.seek(place)
            kind, length = np.frombuffer(file.read(8).ljust(8, b"\0"), order + "u4").tolist()
            if place + 8 + length > size:
                raise ValueError(f"{place + 8 + length} bytes were written, {size} are here")
            if kind == _PACKED:
                head = _Unpacked(file, place + 8, length, spent)
                name, one = _variable(head, order, 0, None, (place + 8, length))
            elif kind == _MATRIX:
                name, one = _variable(_Plain(file, place), order, place, 8 + length, None)
            else:
                raise ValueError(f"an element of type {kind} at byte {place}, where a variable belongs")
            found[name] = one
            spent.take(objects=1, what="its table of contents")
            if kind == _PACKED and isinstance(one, MatArray):
                spent.take(bytes=math.prod(one.shape) * one.dtype.itemsize, what="all that it unpacks to")
            place += 8 + length
    if place != size:
        raise ValueError(f"{place} bytes were written, {size} are here")
    return {name: one for name, one in found.items() if name}  # MATLAB keeps data of its own under an empty name


class _Plain:
    """Bytes of a variable as they lie in the file, from its first one on."""

    def __init__(self, file: Any, start: int) -> None:
        self.file, self.start = file, start

    def __call__(self, place: int, length: int) -> bytes:
        self.file.seek(self.start + place)
        return self.file.read(length)


class _Unpacked:
    """Bytes of a packed variable; those far from its begin are reached by unpacking what lies before them."""

    def __init__(self, file: Any, start: int, length: int, spent: Spending) -> None:
        self.file, self.start, self.length, self.spent = file, start, length, spent
        file.seek(start)
        self.head = zlib.decompressobj().decompress(file.read(min(length, _HEAD)), _HEAD)

    def __call__(self, place: int, length: int) -> bytes:
        if place + length <= len(self.head):
            return self.head[place : place + length]
        self.spent.take(bytes=place, what="all that it unpacks to")  # as many numbers come before this place
        self.file.seek(self.start)
        unpacker, got, kept = zlib.decompressobj(), 0, b""
        while got < place + length and not unpacker.eof:
            left = self.start + self.length - self.file.tell()
            piece = unpacker.unconsumed_tail or self.file.read(min(1 << 20, left))
            if not piece:
                break
            unpacked = unpacker.decompress(piece, _PIECE)
            kept += unpacked[max(place - got, 0) : max(place + length - got, 0)]
            got += len(unpacked)
        return kept


def _variable(
    read: Callable[[int, int], bytes], order: str, start: int, length: int | None, packed: tuple[int, int] | None
) -> tuple[str, MatArray | str]:
    """(name, array of numbers or what else it is) of the variable whose bytes `read(place, count)` gives.

    start : of the variable in the file, where it is not packed
    length : of the whole variable where that is known better than from its own tag
    """
    head = read(0, _HEAD)
    stated = 8 + int(np.frombuffer(head[4:8].ljust(4, b"\0"), order + "u4")[0])
    end = stated if length is None else length
    flags, place = _content(head, 8, order, _FLAGS)
    word = int(np.frombuffer(flags[:4].ljust(4, b"\0"), order + "u4")[0])
    if word & 0xFF == 17:  # an object of MATLAB's own kinds (a table, a string, …) has no dimensions
        return _content(head, place, order, _NAME)[0].decode("utf-8", "replace"), _OTHERS[17]
    lengths, place = _content(head, place, order, _DIMENSIONS)
    name, place = _content(head, place, order, _NAME)
    text = name.decode("utf-8", "replace")
    if word & 0xFF not in _CLASSES:
        return text, _OTHERS.get(word & 0xFF, f"of class {word & 0xFF}")
    if len(lengths) % 4 or not 8 <= len(lengths) <= 128:
        raise ValueError(f"dimensions of {len(lengths)} bytes")
    shape = tuple(np.frombuffer(lengths, order + "i4").tolist())
    if min(shape) < 0:
        raise ValueError(f"shape {shape}")
    parts = []
    for _ in range(2 if word & _COMPLEX else 1):
        kind, size, begin = _tag(read(place, 8), 0, order)
        if kind not in _STORED or size != math.prod(shape) * np.dtype(_STORED[kind]).itemsize:
            raise ValueError(f"{size} bytes for numbers of type {kind} and shape {shape}")
        if place + begin + size > end:
            raise ValueError(f"numbers that end at byte {place + begin + size} of a variable of {end}")
        parts.append(Stored(np.dtype(order + _STORED[kind]), start + place + begin))
        place += 8 if begin == 4 else 8 + -(-size // 8) * 8
    kind_of = "logical" if word & _LOGICAL else _CLASSES[word & 0xFF]
    if len(parts) == 1:
        return text, MatArray(shape, kind_of, np.dtype(_KINDS[kind_of]), tuple(parts), packed)
    dtype = np.dtype("c8" if kind_of == "single" else "c16")
    return text, MatArray(shape, f"complex {kind_of}", dtype, tuple(parts), packed)


def _tag(head: bytes, place: int, order: str) -> tuple[int, int, int]:
    """(type, length, place of the content) of an element."""
    if place + 8 > len(head):
        raise ValueError(f"a variable whose header is longer than {len(head)} bytes")
    first, second = np.frombuffer(head[place : place + 8], order + "u4").tolist()
    if first >> 16:
        return first & 0xFFFF, first >> 16, place + 4
    return first, second, place + 8


def _content(head: bytes, place: int, order: str, expected: int) -> tuple[bytes, int]:
    kind, length, start = _tag(head, place, order)
    small = start == place + 4
    if kind != expected or start + length > len(head) or (small and length > 4):
        raise ValueError(f"an element of type {kind} and {length} bytes, where type {expected} belongs")
    return head[start : start + length], place + 8 if small else start + -(-length // 8) * 8
