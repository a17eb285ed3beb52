"""Deflated chunks of HDF5 arrays, measured before HDF5 reads them: it unpacks a stream to its end, however far that is.

A stream of n bytes unpacks to at most 1032 n. Chunks that cannot exceed the budget so are left to HDF5; the others are
unpacked here first, no further than to the size of a chunk, each once.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sciops.files.budget import Budget, Spending, current_budget
from sciops.files.messages import shown
from sciops.files.remote import local_or_remote

_RATIO = 1032  # bytes that a byte of a deflated stream can unpack to
_DEFLATE, _FLETCHER = 1, 3  # numbers of HDF5's filters
_SLACK = 1024  # bytes: a checksum, or what deflating has added to numbers that it could not pack


class Inflation:
    """The deflated chunks of one array that remain to be measured.

    path, name : of the file, and of the array in it
    budget : what opening the file may take; default `current_budget`

    It can be pickled; the file is looked at when numbers are read.
    """

    def __init__(self, path: str | os.PathLike[str], name: str, *, budget: Budget | None = None) -> None:
        self.path, self.name, self.budget = local_or_remote(path), name, budget or current_budget()
        self._left: np.ndarray | None = None  # (chunks, axes): where those to be measured begin

    def check(self, item: Any, key: Sequence[Any] = ()) -> None:
        """Measures the chunks of an open h5py array that ``item[key]`` reads.

        key : numbers, slices and lists of numbers for the first axes; all of the others are read

        Raises ValueError for a chunk that unpacks to more than the numbers of a chunk.
        """
        left = self._left if self._left is not None else self._large(item)
        if len(left):
            read = _touched(key, item.shape, item.chunks, left)
            for offset in left[read]:
                self._measure(item, tuple(int(place) for place in offset))
            left = left[~read]
        self._left = left

    def _large(self, item: Any) -> np.ndarray:
        """Where the chunks begin that could unpack to more than the budget."""
        found: list[tuple[int, ...]] = []
        if item.chunks:
            bound = _RATIO ** _filters(item).count(_DEFLATE)
            most = self.budget.bytes / bound
            if bound > 1 and self.path.stat().st_size > most:
                item.id.chunk_iter(lambda chunk: found.append(chunk.chunk_offset) if chunk.size > most else None)
        return np.array(found, np.int64).reshape(len(found), len(item.shape or ()))

    def _measure(self, item: Any, offset: tuple[int, ...]) -> None:
        filters = _filters(item)
        left = filters.count(_DEFLATE)
        most = math.prod(item.chunks) * item.dtype.itemsize + _SLACK
        skipped, content = item.id.read_direct_chunk(offset)
        for number, kind in reversed(list(enumerate(filters))):  # what was applied last is undone first
            if skipped >> number & 1:
                left -= kind == _DEFLATE
            elif kind == _DEFLATE:
                try:
                    content = zlib.decompressobj().decompress(content, most + 1)
                except zlib.error:  # which HDF5 will say
                    return
                left -= 1
                if len(content) > most:
                    raise ValueError(
                        f"{self.path}: a chunk of {shown(self.name, 60)} unpacks to more than the {most - _SLACK} "
                        "bytes of its numbers: it is damaged; fetch or write the file again"
                    )
            elif kind == _FLETCHER:
                content = content[:-4]
            elif left:
                raise ValueError(
                    f"{self.path} packs {shown(self.name, 60)} by the filters {filters} in this order, which is not "
                    "read: repack the file with h5repack -f SHUF -f GZIP=4"
                )
            if not left:
                return


def check_chunk(path: Path, name: str, item: Any, budget: Budget) -> None:
    """Raises OverBudget for an HDF5 array whose chunks, which are unpacked whole, take more than the budget."""
    if item.chunks and _filters(item):
        size = math.prod(item.chunks) * item.dtype.itemsize
        Spending(path, budget=budget).take(bytes=size, what=f"a chunk of {shown(name, 60)}")


def _filters(item: Any) -> list[int]:
    """The numbers of the filters of an array's chunks, in the order in which they are applied."""
    created = item.id.get_create_plist()
    return [created.get_filter(i)[0] for i in range(created.get_nfilters())]


def _touched(key: Sequence[Any], shape: tuple[int, ...], chunks: tuple[int, ...], offsets: np.ndarray) -> np.ndarray:
    """Which of the chunks that begin at `offsets` hold entries of ``array[key]``."""
    found = np.ones(len(offsets), bool)
    for axis, (part, size, chunk) in enumerate(zip(key, shape, chunks)):
        entries = np.atleast_1d(np.arange(size)[part])
        found &= np.isin(offsets[:, axis] // chunk, np.unique(entries // chunk))
    return found
