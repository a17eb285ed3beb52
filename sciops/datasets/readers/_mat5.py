"""MATLAB v5 files (save -v6 and -v7, SciPy's savemat): which array of numbers lies where, and its values.

After 128 bytes of header come elements: a tag (type and length, or both in the first word and up to four bytes of
content in the second) and its content, filled up to eight bytes. A variable is an element of elements: flags,
dimensions, name, numbers; or one of these packed by zlib. Numbers may be stored in a narrower type than their class.
Every length is compared with what is there; nothing is read but numbers, so that damaged files cannot do more than be
refused. Texts, cells, structures, sparse and complex arrays are passed over.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_MATRIX, _PACKED, _DIMENSIONS, _FLAGS, _NAME = 14, 15, 5, 6, 1
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CLASSES = {6: "double", 7: "single"} | {8 + k: f"{'u' * (k % 2)}int{8 << k // 2}" for k in range(8)}
_KINDS = {"double": "f8", "single": "f4", "logical": "u1"} | {name: name for name in list(_CLASSES.values())[2:]}
_COMPLEX, _LOGICAL = 0x0800, 0x0200
_HEAD = 4096  # bytes that hold a variable's flags, dimensions and name


@dataclass(frozen=True)
class MatArray:
    """One array of numbers.

    kind : MATLAB's name of its class ("double", "single", "int8", …, "logical")
    dtype, stored : numpy types of the class, and of the numbers in the file
    offset : of the first number, in the file or in the unpacked variable
    packed : (offset, length) of the packed variable in the file, or None
    """

    shape: tuple[int, ...]
    kind: str
    dtype: np.dtype
    stored: np.dtype
    offset: int
    packed: tuple[int, int] | None = None


def mat5_arrays(path: Path) -> dict[str, MatArray]:
    """Name → array, in the order of the file; ValueError where lengths and contents contradict each other."""
    size, found = path.stat().st_size, {}
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
                head = zlib.decompressobj().decompress(file.read(min(length, _HEAD)), _HEAD)
                one = _variable(head, order, None)
            elif kind == _MATRIX:
                file.seek(place)
                one = _variable(file.read(min(8 + length, _HEAD)), order, 8 + length)
            else:
                raise ValueError(f"an element of type {kind} at byte {place}, where a variable belongs")
            if one is not None:
                name, shape, kind_of, logical, stored, offset = one
                word = "logical" if logical else kind_of
                packed = (place + 8, length) if kind == _PACKED else None
                start = offset if packed else place + offset
                found[name] = MatArray(shape, word, np.dtype(_KINDS[word]), np.dtype(order + stored), start, packed)
            place += 8 + length
    if place != size:
        raise ValueError(f"{place} bytes were written, {size} are here")
    return found


def mat5_values(path: Path, array: MatArray) -> np.ndarray:
    """The stored numbers, in MATLAB's order of memory: mapped from the disk, or unpacked and checked by their sum."""
    count = math.prod(array.shape)
    if array.packed is None:
        if not count:
            return np.empty(array.shape, array.stored, order="F")
        return np.memmap(path, array.stored, "r", array.offset, array.shape, "F").view(np.ndarray)
    wanted, values, got = array.offset + count * array.stored.itemsize, bytearray(), 0
    start, length = array.packed
    with open(path, "rb") as file:
        file.seek(start)
        unpacker = zlib.decompressobj()
        while not unpacker.eof:
            piece = unpacker.unconsumed_tail or file.read(min(1 << 20, start + length - file.tell()))
            if not piece:
                break
            unpacked = unpacker.decompress(piece, 1 << 24)
            skip = min(max(array.offset - got, 0), len(unpacked))
            values += unpacked[skip : max(wanted - got, 0)]
            got += len(unpacked)
            if got > wanted + 8:
                raise ValueError(f"a packed variable holds more than the {wanted} bytes that its header states")
    if got < wanted:
        raise ValueError(f"a packed variable ends after {got} of {wanted} bytes")
    return np.frombuffer(values, array.stored, count).reshape(array.shape, order="F")


def _variable(head: bytes, order: str, length: int | None) -> Any:
    """(name, shape, class, whether logical, stored type, offset of the numbers), or None where it is no array of real
    numbers; `length` of the whole where it is known better than from its own tag."""
    place, stated = 8, 8 + int(np.frombuffer(head[4:8].ljust(4, b"\0"), order + "u4")[0])
    flags, place = _content(head, place, order, _FLAGS)
    word = int(np.frombuffer(flags[:4].ljust(4, b"\0"), order + "u4")[0])
    lengths, place = _content(head, place, order, _DIMENSIONS)
    name, place = _content(head, place, order, _NAME)
    if word & 0xFF not in _CLASSES or word & _COMPLEX:
        return None
    if len(lengths) % 4 or not 8 <= len(lengths) <= 128:
        raise ValueError(f"dimensions of {len(lengths)} bytes")
    shape = tuple(np.frombuffer(lengths, order + "i4").tolist())
    kind, size, start = _tag(head, place, order)
    if min(shape) < 0 or kind not in _STORED:
        raise ValueError(f"shape {shape}, numbers of type {kind}")
    if size != math.prod(shape) * np.dtype(_STORED[kind]).itemsize:
        raise ValueError(f"{size} bytes for numbers of type {kind} and shape {shape}")
    if start + size > (stated if length is None else length):
        raise ValueError(
            f"numbers that end at byte {start + size} of a variable of {stated if length is None else length}"
        )
    text = name.decode("utf-8", "replace")
    return text, shape, _CLASSES[word & 0xFF], bool(word & _LOGICAL), _STORED[kind], start


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
