"""Complex numbers in HDF5 files, which hold them as pairs."""

from __future__ import annotations

import numpy as np

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
