"""A variable with its dimensions in another order, read piece by piece as it is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

if TYPE_CHECKING:
    import xarray as xr


def transposed(variable: xr.Variable, dims: tuple[str, ...]) -> Any:
    """The numbers of a variable over `dims`, its own in another order, as the data of an xarray variable."""
    return indexing.LazilyIndexedArray(_Transposed(variable, dims))


class _Transposed(BackendArray):
    def __init__(self, variable: xr.Variable, dims: tuple[str, ...]) -> None:
        self.variable, self.dims, self.dtype = variable, dims, variable.dtype
        self.shape = tuple(variable.sizes[dim] for dim in dims)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        part = self.variable.isel(dict(zip(self.dims, key)))
        return part.transpose(*(dim for dim in self.dims if dim in part.dims)).values
