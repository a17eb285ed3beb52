"""Data of a file, held in memory or read on demand: one open handle for each process, within the file's budget."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from sciops.datasets.fields.symmetries import Statement
from sciops.datasets.native.rows import NativeRows, native_rows
from sciops.datasets.order import in_order
from sciops.files.budget import Budget, current_budget, opening_within
from sciops.files.messages import shown
from sciops.files.remote import RemotePath, local_or_remote
from sciops.grids import Grid
from sciops.symmetry import Symmetry

if TYPE_CHECKING:
    import xarray as xr


class FileDataset(Dataset):
    """Base class of `FieldDataset` and `TrajectoryDataset`.

    path : of the file; None for data of an opened xarray.Dataset, which is always held in memory
    samples : numbers of the samples in the file
    stored : names of the variables that are read on demand

    Handles are not shared between processes and not pickled: each worker opens the file again.
    """

    samples: np.ndarray
    stored: tuple[str, ...]
    grid: Grid
    _stated: Statement
    _memory: Any = None
    _opened: tuple[int, xr.Dataset | NativeRows] | None = None

    def __init__(self, dataset: Any, resolution: Any, dtype: torch.dtype, budget: Budget | None) -> None:
        self.path = local_or_remote(dataset) if isinstance(dataset, (str, os.PathLike, RemotePath)) else None
        self.resolution, self.dtype = resolution, dtype
        self.budget = current_budget() if budget is None else budget

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {key: value[0] for key, value in self.batch([int(index)]).items()}

    def batch(self, indices: Any) -> dict[str, Tensor]:
        """{"x": (batch, …), "y": (batch, …)} of the items at `indices`, in that order."""
        raise NotImplementedError

    def _place(self) -> str:
        """Where the numbers are and on which grid, for `__repr__`."""
        held = "read on demand" if self.lazy else "in memory"
        source = f", {shown(self.path.name, 60)}" if self.path is not None else ""
        return f"{str(self.dtype).removeprefix('torch.')} {held}, {self.grid!r}{source}"

    @property
    def lazy(self) -> bool:
        return self._memory is None

    @property
    def symmetry(self) -> Symmetry:
        """The symmetries of the problem; where a field that it depends on is not an input, that field is read."""
        with opening_within(self.budget):
            return self._stated.of(self.samples)

    def close(self) -> None:
        """Closes the file where it is read on demand; the next batch opens it again."""
        if self._opened is not None and self._opened[0] == os.getpid():
            self._opened[1].close()
        self._opened = None

    @contextmanager
    def _opening(self, dataset: Any) -> Iterator[xr.Dataset]:
        """The data set while this object is made from it."""
        from sciops.datasets.conventions import at_resolution
        from sciops.datasets.formats import open_dataset

        with opening_within(self.budget):
            if self.path is None:
                source = at_resolution(in_order(dataset), self.resolution)
            else:
                source = open_dataset(self.path, self.resolution)
            try:
                yield source
            finally:
                self.close()
                if self.path is not None:
                    source.close()

    def _fits(self, numbers: int, memory_limit: int) -> bool:
        """Whether as many numbers are to be held in memory."""
        return self.path is None or numbers * self.dtype.itemsize <= memory_limit

    def _rows(self, source: xr.Dataset) -> NativeRows | None:
        """The quick reader of the stored variables, open until `close`; None where xarray has to read them."""
        rows = native_rows(self.path, source, self.stored)
        if rows is not None:
            self._opened = (os.getpid(), rows)
        return rows

    def _source(self) -> xr.Dataset | NativeRows:
        if self._opened is None or self._opened[0] != os.getpid():
            from sciops.datasets.formats import open_dataset

            with opening_within(self.budget):
                source = open_dataset(self.path, self.resolution)
                if self._rows(source) is None:
                    self._opened = (os.getpid(), source)
                else:
                    source.close()
        return self._opened[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


def names_of(names: str | Sequence[str]) -> tuple[str, ...]:
    """One name or several as a tuple."""
    return (names,) if isinstance(names, str) else tuple(names)


def chosen_samples(source: xr.Dataset, split: str | None, samples: Any) -> np.ndarray:
    """Numbers of the samples of a split (None: of all), or those that `samples` counts within it.

    Raises ValueError for a number that is not below the number of samples there are.
    """
    from sciops.datasets.conventions import split_indices

    chosen = np.arange(source.sizes["sample"]) if split is None else split_indices(source, split)
    if samples is None:
        return chosen
    samples = np.asarray(samples, dtype=np.int64).reshape(-1)
    outside = samples[(samples < -len(chosen)) | (samples >= len(chosen))]
    if outside.size:
        raise ValueError(f"samples holds {outside[0]}: expected numbers below {len(chosen)}, the samples there are")
    return chosen[samples]
