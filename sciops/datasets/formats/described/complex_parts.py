"""The real and imaginary parts of complex arrays, as two real fields that models take."""

from __future__ import annotations

from typing import Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing


class PartArray(BackendArray):
    """The real (0) or imaginary (1) part of a lazy array of complex numbers."""

    def __init__(self, array: Any, part: int) -> None:
        self.array, self.part, self.shape = array, part, array.shape
        self.dtype = np.empty(0, array.dtype).real.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        values = np.asarray(self.array[indexing.OuterIndexer(key)])
        return np.array(values.imag if self.part else values.real)
