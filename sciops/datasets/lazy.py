"""Arrays that are read part by part when xarray asks for their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from sciops.files.messages import reading

if TYPE_CHECKING:
    import xarray as xr


class LazyArray(BackendArray):
    """Base class of lazy arrays, which define `shape`, `dtype` and ``_read(key)``.

    path : the file, for messages
    key : for each axis a number, a slice or an array of numbers (`supports`; the rest is done by xarray's adapter)
    """

    supports = indexing.IndexingSupport.OUTER

    path: Any = "the file of this array"

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        with reading(self.path):
            return indexing.explicit_indexing_adapter(key, self.shape, self.supports, self._read)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        raise NotImplementedError


def lazy(array: BackendArray) -> Any:
    """The array as the data of an xarray variable."""
    return indexing.LazilyIndexedArray(array)


class TransposedArray(LazyArray):
    """A variable with its dimensions in the order `dims`, read piece by piece as it is stored."""

    def __init__(self, variable: xr.Variable, dims: tuple[str, ...]) -> None:
        self.variable, self.dims, self.dtype = variable, dims, variable.dtype
        self.shape = tuple(variable.sizes[dim] for dim in dims)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        part = self.variable.isel(dict(zip(self.dims, key)))
        return part.transpose(*(dim for dim in self.dims if dim in part.dims)).values
