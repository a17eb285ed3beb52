"""A native file that is open for reading, as HDF5 or as Zarr: one protocol, so that nothing else asks which it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Stored:
    """One array of a group: the names of its dimensions, its shape, its type as stored, its attributes."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype
    attrs: dict[str, Any]


class Store(Protocol):
    """A native file, opened once in each process that reads it; it can be pickled and forked.

    path : as it was given
    attrs : attributes of the root
    shapes : name of a resolution's group → shape of its grid, finest first
    """

    path: Path
    attrs: dict[str, Any]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]: ...

    def groups(self) -> list[str]:
        """The names of all groups, sorted."""

    def arrays(self, group: str, *, strict: bool = False) -> tuple[dict[str, Any], dict[str, Stored]]:
        """(attributes, name → array) of a group, every array of which can be read.

        strict : a group inside the group is an error
        """

    def read(self, key: str, index: tuple[Any, ...]) -> np.ndarray:
        """Entries of the array ``group/name``; numbers, slices and at most one ascending list of numbers select them.

        Raises OSError in one line where they are damaged.
        """

    def close(self) -> None:
        """Closes the file; the next read opens it again."""
