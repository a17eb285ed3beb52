"""Matrix products whose last bit depends on how many rows they have, as on processors other than the one at hand.

A library splits a product into blocks of rows and columns; what is left over at the end, and products of few rows, are
summed in another order. Which shapes meet another order differs from processor to processor. Inside `products` the
rows and columns beyond the last whole block of four are summed the other way round, in torch and in numpy, on every
thread of the process: what is promised bit for bit must hold here too. A product with one term stays exact.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

_BLOCK = 4


@contextmanager
def products() -> Iterator[None]:
    """Replaces the products of torch (mm, bmm, addmm, baddbmm, mv, dot, on the CPU) and numpy (@, matmul, dot)."""
    library = torch.library.Library("aten", "IMPL")
    replaced = {
        "mm": _mm,
        "bmm": _bmm,
        "addmm": lambda c, a, b, *, beta=1, alpha=1: beta * c + alpha * _mm(a, b),
        "baddbmm": lambda c, a, b, *, beta=1, alpha=1: beta * c + alpha * _bmm(a, b),
        "mv": lambda a, x: _mm(a, x[:, None])[:, 0],
        "addmv": lambda c, a, x, *, beta=1, alpha=1: beta * c + alpha * _mm(a, x[:, None])[:, 0],
        "dot": lambda x, y: _mm(x[None], y[:, None])[0, 0],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that kernels are replaced, which is the purpose
        for name, product in replaced.items():
            library.impl(name, product, "CPU")
    functions = {"matmul": np.matmul, "dot": np.dot}
    try:
        with _numpy_operator():
            vars(np).update({name: _instead_of(plain) for name, plain in functions.items()})
            yield
    finally:
        vars(np).update(functions)
        library._destroy()


def _mm(a: Tensor, b: Tensor) -> Tensor:
    return _bmm(a[None], b[None])[0]


def _bmm(a: Tensor, b: Tensor) -> Tensor:
    if a.shape[-1] != b.shape[-2] or len(a) != len(b) or not (a.is_floating_point() or a.is_complex()):
        return _torch_bmm(a, b)  # which says what is wrong
    return _mixed(_torch_bmm, lambda x, axis: x.flip(axis), torch.where, a, b, torch.arange)


def _torch_bmm(a: Tensor, b: Tensor) -> Tensor:
    out = a.new_empty(a.shape[0], a.shape[1], b.shape[2])
    return torch.ops.aten.bmm.out(a, b, out=out)


def _mixed(product: Callable, flip: Callable, where: Callable, a: Any, b: Any, arange: Callable) -> Any:
    """The product by blocks, and beyond the last whole block of rows or columns the second half of the sum first."""
    rows, terms, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    forward = product(a, b)
    if terms < 2:
        return forward
    half = terms // 2
    a, b = flip(a, -1), flip(b, -2)
    backward = product(a[..., :half], b[..., :half, :]) + product(a[..., half:], b[..., half:, :])
    left_over = (arange(rows) >= rows // _BLOCK * _BLOCK)[:, None] | (arange(columns) >= columns // _BLOCK * _BLOCK)
    return where(left_over, backward, forward)


def _numpy_product(plain: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    vectors = a.ndim == 1, b.ndim == 1
    a, b = a[None] if vectors[0] else a, b[:, None] if vectors[1] else b
    out = _mixed(plain, np.flip, np.where, a, b, np.arange)
    out = out[..., 0] if vectors[1] else out
    return (out[0] if vectors[1] else out[..., 0, :]) if vectors[0] else out


def _is_product(a: Any, b: Any) -> bool:
    """Whether both are arrays of floating-point numbers with axes that fit."""
    if not all(type(x) is np.ndarray and x.ndim and x.dtype.kind in "fc" for x in (a, b)):
        return False
    batches = a.ndim > 2 and b.ndim > 2 and a.shape[:-2] != b.shape[:-2]
    return a.shape[-1] == b.shape[max(b.ndim - 2, 0)] and not batches


def _instead_of(plain: Callable) -> Callable:
    def function(a: Any, b: Any, out: Any = None, **options: Any) -> Any:
        if options or not _is_product(a, b) or max(a.ndim, b.ndim) > 2:
            return plain(a, b, out=out, **options)
        value = a @ b
        if out is None:
            return value
        out[...] = value
        return out

    return function


@contextmanager
def _numpy_operator() -> Iterator[None]:
    """Replaces ``ndarray @ ndarray``, which no function of numpy replaces: the 35th slot of the type's number
    protocol, whose address stands behind twelve words of the type object."""
    word = ctypes.sizeof(ctypes.c_void_p)
    binary = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object)
    numbers = ctypes.c_void_p.from_address(id(np.ndarray) + 12 * word).value
    slot = ctypes.c_void_p.from_address(numbers + 34 * word)
    before = slot.value
    plain = binary(before)

    @binary
    def replaced(a: Any, b: Any) -> Any:
        if _is_product(a, b):
            return _numpy_product(plain, a, b)
        if type(a) is type(b) is np.ndarray and a.ndim and b.ndim and a.shape[-1] != b.shape[max(b.ndim - 2, 0)]:
            return NotImplemented  # an exception cannot leave a callback
        return plain(a, b)

    slot.value = ctypes.cast(replaced, ctypes.c_void_p).value
    try:
        yield
    finally:
        slot.value = before
