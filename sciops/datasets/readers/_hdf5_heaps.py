"""Global heaps of an HDF5 file, where texts of any length lie: the library never comes back from a damaged one.

A heap is a header (``GCOL``, version 1, three zeros, its length) and objects one after another, each with a number, a
length and its content. Number 0 means free space, whose length counts its own header; a length of 0 there, as zeroed
or torn pages leave it, moves the library on by nothing, for ever. So such files are refused before they are read.
"""

from __future__ import annotations

import mmap
from pathlib import Path

_SCANNED = 1 << 28  # bytes looked through; of larger files the first and the last half of it, where metadata lie
_HEADER, _OBJECT = 16, 16
_LEAST = 4096  # bytes, of a heap


def check_heaps(path: Path) -> None:
    """Raises ValueError in one line when a heap of the file would hold up the library for ever."""
    size = path.stat().st_size
    if size < _HEADER:
        return
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        parts = [(0, size)] if size <= _SCANNED else [(0, _SCANNED // 2), (size - _SCANNED // 2, size)]
        for start, stop in parts:
            place = content.find(b"GCOL\x01\x00\x00\x00", start, stop)
            while place >= 0:
                if not _ends(content, place, size):
                    raise ValueError(
                        f"{path} holds a text heap without an end (at byte {place}): it is damaged; fetch or write it "
                        "again and compare its size"
                    )
                place = content.find(b"GCOL\x01\x00\x00\x00", place + _HEADER, stop)


def _ends(content: mmap.mmap, place: int, size: int) -> bool:
    """Whether walking from object to object reaches the heap's end; true as well for what is no heap after all."""
    length = int.from_bytes(content[place + 8 : place + 16], "little")
    if not _LEAST <= length <= size - place:
        return True
    at, end = place + _HEADER, place + length
    while at + _OBJECT <= end:
        number = int.from_bytes(content[at : at + 2], "little")
        held = int.from_bytes(content[at + 8 : at + 16], "little")
        step = held if number == 0 else _OBJECT + (held + 7) // 8 * 8
        if step == 0:
            return False
        at += step
    return True
