"""Complex numbers in files: HDF5 holds them as pairs, and models take their real and imaginary parts."""

from __future__ import annotations

from typing import Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

_PAIRS = (("real", "imag"), ("re", "im"), ("r", "i"))  # MATLAB, Julia, h5py


def number_type(dtype: np.dtype) -> np.dtype:
    """The complex type of a pair of floats that a program wrote for complex numbers; every other type as it is."""
    if dtype.names not in _PAIRS:
        return dtype
    real, imaginary = (dtype[name] for name in dtype.names)
    if real != imaginary or real.kind != "f" or real.itemsize not in (4, 8):
        return dtype
    return np.dtype(f"c{2 * real.itemsize}")


def as_numbers(values: np.ndarray) -> np.ndarray:
    """Values of a type that `number_type` knows, in that type."""
    dtype = number_type(values.dtype)
    if dtype == values.dtype:
        return values
    result = np.empty(values.shape, dtype)
    result.real, result.imag = (values[name] for name in values.dtype.names or ())
    return result


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
