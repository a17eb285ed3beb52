"""The real and imaginary parts of complex arrays, as two real fields that models take."""

from __future__ import annotations

from typing import Any

import numpy as np
from xarray.core import indexing

from sciops.datasets.lazy import LazyArray


class PartArray(LazyArray):
    """The real (0) or imaginary (1) part of a lazy array of complex numbers."""

    def __init__(self, array: Any, part: int) -> None:
        self.array, self.part, self.shape = array, part, array.shape
        self.dtype = np.empty(0, array.dtype).real.dtype

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        values = np.asarray(self.array[indexing.OuterIndexer(key)])
        return np.array(values.imag if self.part else values.real)
