"""numpy in, numpy out; torch in, torch out: the one place where the two meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.arrays.dimensions import by_name

_LONG = {"g": np.float64, "G": np.complex128}  # numpy's codes of long doubles


def as_tensor(x: Any, name: str = "input") -> tuple[Tensor, Callable[[Tensor], Any]]:
    """(x as a tensor, how to hand a tensor back in the caller's kind).

    numpy arrays, lists and scalars become tensors that share memory where they can (read-only arrays are copied) and
    are handed back as numpy; tensors pass through with their device, dtype and graph. Booleans and integers become
    float64, and so do long doubles. Labelled arrays (xarray's) are taken by the names of their dimensions, (sample,
    time, …, x, y, z).

    Raises TypeError when x holds no numbers, ValueError when some of them are masked (`refuse_masked`).
    """
    x = by_name(x)
    if isinstance(x, Tensor):
        return _floating(x), lambda t: t
    refuse_masked(x, name)
    array = np.asarray(x)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"{name}: got {type(x).__name__} of dtype {array.dtype}; expected an array of numbers")
    return _floating(torch.from_numpy(for_torch(array))), _to_numpy


def for_torch(array: np.ndarray) -> np.ndarray:
    """The numbers as `torch.from_numpy` takes them: writable, in C order and in this machine's order of bytes.

    Long doubles, which torch does not have, become float64, and complex ones complex128. What fits already is returned
    as it is, sharing its memory.
    """
    dtype = array.dtype.newbyteorder("=")
    if dtype.char in _LONG:
        dtype = np.dtype(_LONG[dtype.char])
    return np.require(array, dtype, ["C", "W"])


def refuse_masked(value: Any, name: str) -> None:
    """Raises ValueError when `value`, or an array in a list of them, is a numpy masked array with a masked entry.

    ``np.asarray`` drops the mask and keeps the numbers under it, fill values such as 1e20 among them. NaN marks a gap
    in a way that arithmetic respects.
    """
    if isinstance(value, np.ma.MaskedArray):
        masked = np.ma.count_masked(value)
        if masked:
            raise ValueError(
                f"{name}: {masked} of {value.size} values are masked, and the numbers under a mask are not data; "
                f"pass {name}.filled(np.nan), or an array without gaps"
            )
    elif isinstance(value, (list, tuple)):
        for part in value:
            if isinstance(part, (list, tuple, np.ma.MaskedArray)):
                refuse_masked(part, name)


def like(reference: Any, tensor: Tensor) -> Any:
    """A tensor handed back in the kind of `reference`: numpy when that is not a tensor."""
    return tensor if isinstance(reference, Tensor) else _to_numpy(tensor)


def refuse_complex(value: Any, name: str) -> None:
    """Raises ValueError when `value` holds complex numbers: casting them to a real type keeps the real parts alone."""
    dtype = getattr(value, "dtype", None)
    dtype = np.asarray(value).dtype if dtype is None else dtype
    if dtype.is_complex if isinstance(dtype, torch.dtype) else np.dtype(dtype).kind == "c":
        raise ValueError(
            f"{name} is {str(dtype).removeprefix('torch.')}: expected real numbers; give the real and imaginary parts "
            f"as two channels, {name}.real and {name}.imag"
        )


def _floating(tensor: Tensor) -> Tensor:
    if tensor.is_floating_point() or tensor.is_complex():
        return tensor
    return tensor.to(torch.float64)


def _to_numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()
