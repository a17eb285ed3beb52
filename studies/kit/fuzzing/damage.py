"""Random damage to the bytes of sound files."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence

import numpy as np

__all__ = ["damaged", "lookup3", "seals"]

_MARKS = (
    b"OHDR",
    b"OCHK",
    b"GCOL",
    b"TREE",
    b"SNOD",
    b"HEAP",
    b"FRHP",
    b"BTHD",
    b"PK\x01\x02",
    b"PK\x03\x04",
    b"PK\x05",
)
_SEALED = (
    b"\x89HDF\r\n\x1a\n\x02",
    b"\x89HDF\r\n\x1a\n\x03",
    b"OHDR",
    b"OCHK",
    b"FRHP",
    b"FHDB",
    b"FHIB",
    b"BTHD",
    b"BTLF",
)
_LONGEST_BLOCK = 4096
_WORD = 2**32 - 1


def damaged(
    content: bytes, random: np.random.Generator, other: bytes = b"", sealed: Sequence[tuple[int, int]] = ()
) -> bytes:
    """`content` with one to six injuries.

    Bits flipped, bytes replaced, runs zeroed, the end cut off, blocks moved, removed, doubled or taken from `other`,
    numbers set to extremes: at the ends, where formats keep their structure, beside the words that mark such
    structure, or anywhere.

    sealed : (start, end) of blocks whose checksums are mostly made right again, or the library would look no further
    """
    data = bytearray(content)
    sealed = sealed if random.random() < 0.8 else ()
    marks = [at for mark in _MARKS for at in _found(content, mark)]
    for _ in range(int(random.integers(1, 7))):
        if len(data) < 16:
            break
        place = _place(len(data), marks, random)
        length = int(min(random.integers(1, 65), len(data) - place))
        kind = int(random.choice([0, 1, 2, 4, 7, 8, 9] if sealed else 10))  # sealed blocks keep their places
        if kind == 0:
            data[place] ^= 1 << int(random.integers(8))
        elif kind == 1:
            data[place : place + length] = random.bytes(length)
        elif kind == 2:
            data[place : place + length] = bytes(length)
        elif kind == 3:
            del data[place + 1 :]
        elif kind == 4:
            source = int(random.integers(len(data) - length + 1))
            data[place : place + length] = data[source : source + length]
        elif kind == 5:
            del data[place : place + length]
        elif kind == 6:
            data[place:place] = data[place : place + length]
        elif kind == 7 and len(other) > length:
            source = int(random.integers(len(other) - length))
            data[place : place + length] = other[source : source + length]
        else:
            width = int(min(random.choice([1, 2, 4, 8]), len(data) - place))
            value = int(random.choice([0, 1, 2, 2**7, 2**15 - 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**62]))
            packed = (value % 2 ** (8 * width)).to_bytes(width, "little" if random.random() < 0.8 else "big")
            data[place : place + width] = packed
    for start, end in sealed:
        data[end : end + 4] = struct.pack("<I", lookup3(bytes(data[start:end])))
    return bytes(data)


def _place(size: int, marks: list[int], random: np.random.Generator) -> int:
    kind = random.random()
    if marks and kind < 0.4:
        return min(size - 1, marks[int(random.integers(len(marks)))] + int(random.integers(160)))
    if kind < 0.7:
        near = min(size, int(random.choice([64, 512, 4096])))
        return int(random.integers(near)) if random.random() < 0.7 else size - 1 - int(random.integers(near))
    return int(random.integers(size))


def _found(content: bytes, mark: bytes) -> list[int]:
    places, at = [], content.find(mark)
    while at >= 0 and len(places) < 200:
        places.append(at)
        at = content.find(mark, at + 1)
    return places


def seals(content: bytes) -> list[tuple[int, int]]:
    """(start, end) of the blocks of an HDF5 file that are followed by their own checksum, found by comparing it."""
    found = []
    for start in sorted(at for mark in _SEALED for at in _found(content, mark)):
        length = _sealed_length(content[start : start + _LONGEST_BLOCK])
        if length:
            found.append((start, start + length))
    return found


@functools.lru_cache(maxsize=4096)
def _sealed_length(block: bytes) -> int:
    """The length of the part of `block` whose checksum follows it, or 0."""
    for length in range(8, len(block) - 3):
        if lookup3(block[:length]) == int.from_bytes(block[length : length + 4], "little"):
            return length
    return 0


def lookup3(data: bytes) -> int:
    """Bob Jenkins' hash of HDF5's metadata (hashlittle of lookup3.c, public domain, start value 0).

    >>> hex(lookup3(b"Four score and seven years ago"))
    '0x17770551'
    """

    def turn(x: int, k: int) -> int:
        return (x << k | x >> (32 - k)) & _WORD

    a = b = c = (0xDEADBEEF + len(data)) & _WORD
    if not data:
        return c
    words = struct.unpack(f"<{-(-len(data) // 12) * 3}I", data.ljust(-(-len(data) // 12) * 12, b"\0"))
    for i in range(0, len(words) - 3, 3):
        a, b, c = (a + words[i]) & _WORD, (b + words[i + 1]) & _WORD, (c + words[i + 2]) & _WORD
        a, c = (a - c & _WORD) ^ turn(c, 4), (c + b) & _WORD
        b, a = (b - a & _WORD) ^ turn(a, 6), (a + c) & _WORD
        c, b = (c - b & _WORD) ^ turn(b, 8), (b + a) & _WORD
        a, c = (a - c & _WORD) ^ turn(c, 16), (c + b) & _WORD
        b, a = (b - a & _WORD) ^ turn(a, 19), (a + c) & _WORD
        c, b = (c - b & _WORD) ^ turn(b, 4), (b + a) & _WORD
    a, b, c = (a + words[-3]) & _WORD, (b + words[-2]) & _WORD, (c + words[-1]) & _WORD
    for x, y, z, k in (
        (2, 1, 1, 14),
        (0, 2, 2, 11),
        (1, 0, 0, 25),
        (2, 1, 1, 16),
        (0, 2, 2, 4),
        (1, 0, 0, 14),
        (2, 1, 1, 24),
    ):
        values = [a, b, c]
        values[x] = ((values[x] ^ values[y]) - turn(values[z], k)) & _WORD
        a, b, c = values
    return c
