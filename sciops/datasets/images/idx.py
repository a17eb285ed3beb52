"""The IDX format of MNIST and its kin: one array a file, compressed by gzip or not."""

from __future__ import annotations

import gzip
import math
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from sciops.files.budget import Budget, Spending, check_rank
from sciops.files.untrusted import check_regular
from sciops.files.whole_files import replacing

_KINDS: dict[int, np.dtype] = {
    0x08: np.dtype("u1"),
    0x09: np.dtype("i1"),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"),
    0x0E: np.dtype(">f8"),
}
_PIECE = 2**20


def read_idx(
    path: str | os.PathLike, *, dtype: str | None = None, ndim: int | None = None, budget: Budget | None = None
) -> np.ndarray:
    """The array of an IDX file: bytes 0, 0, kind, number of axes; the axes as big-endian uint32; the values, row-major.

    path : a file, compressed by gzip where its first two bytes say so, whatever its name
    dtype, ndim : what is expected, such as "uint8" and 3 for images; None accepts anything
    budget : of opening the file, as in `sciops.open_dataset`
    returns : array in the byte order of the machine, its own memory

    Nothing is taken on trust: the magic number, the kind, the sizes, the number of bytes and the gzip checksum are
    checked, and no more memory is taken than the file has content for.

    Raises FileNotFoundError, and ValueError in one line for a file that is none of this, is cut short, goes on after
    its last value, or holds another kind or number of axes than expected.
    Source: http://yann.lecun.com/exdb/mnist (the format's description).
    """
    path = _regular(path)
    return read_within(Spending(path, budget=budget), path, dtype=dtype, ndim=ndim)


def read_within(spent: Spending, path: str | os.PathLike, *, dtype: str | None, ndim: int | None) -> np.ndarray:
    """`read_idx` of a file that shares its budget with others."""
    path = _regular(path)
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    opened = gzip.open(path, "rb") if packed else open(path, "rb")
    with opened as file:
        try:
            return _array(file, path, dtype, ndim, spent, None if packed else path.stat().st_size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{path} is damaged: {error}; get the file again") from None


def write_idx(path: str | os.PathLike, values: np.ndarray) -> Path:
    """Writes what `read_idx` reads, compressed where the name ends in .gz; ValueError for a dtype IDX does not have."""
    path, values = Path(path), np.asarray(values)
    kind = next((code for code, known in _KINDS.items() if known == values.dtype.newbyteorder(">")), None)
    if kind is None:
        raise ValueError(
            f"dtype {values.dtype}: IDX holds {', '.join(str(k.newbyteorder('=')) for k in _KINDS.values())}"
        )
    header = bytes([0, 0, kind, values.ndim]) + np.asarray(values.shape, ">u4").tobytes()
    content = header + np.ascontiguousarray(values, _KINDS[kind]).tobytes()
    with replacing(path) as temporary:
        temporary.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return path


def _regular(path: str | os.PathLike) -> Path:
    return check_regular(path, missing=": no such file; expected an IDX file, such as train-images-idx3-ubyte.gz")


def _array(
    file: Any, path: Path, dtype: str | None, ndim: int | None, spent: Spending, stored: int | None
) -> np.ndarray:
    """stored : bytes of the file, where it is not compressed"""
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _KINDS or magic[3] == 0:
        raise ValueError(
            f"{path} is not an IDX file: it begins with {magic.hex(' ') or 'nothing'}, expected 00 00, kind, axes"
        )
    kind, axes = _KINDS[magic[2]], magic[3]
    name = kind.newbyteorder("=").name
    if dtype is not None and np.dtype(dtype) != kind.newbyteorder("="):
        raise ValueError(f"{path} holds {name} values, expected {dtype}")
    if ndim is not None and axes != ndim:
        raise ValueError(f"{path} holds an array of {axes} axes, expected {ndim}: images have 3, labels 1")
    sizes = file.read(4 * axes)
    if len(sizes) < 4 * axes:
        raise ValueError(f"{path} is cut short: it ends within its {axes} sizes")
    check_rank(path, "its array", axes)
    shape = tuple(int(n) for n in np.frombuffer(sizes, ">u4"))
    wanted = math.prod(shape) * kind.itemsize
    held = wanted if stored is None else stored - 4 - len(sizes)
    content = bytearray()
    if held >= wanted:
        whole = math.prod(n or 1 for n in shape) * kind.itemsize  # an axis of length 0 hides no others
        spent.take(bytes=whole, what=f"{path.name}, {'×'.join(map(str, shape))} {name} values,")
        while len(content) < wanted and (piece := file.read(min(_PIECE, wanted - len(content)))):
            content += piece
            spent.take(what=path.name)
        held = len(content)
    if held < wanted:
        raise ValueError(
            f"{path} is cut short: {'×'.join(map(str, shape))} {name} values are {wanted} bytes, it has {held}"
        )
    if file.read(1):
        raise ValueError(f"{path} continues after its {wanted} bytes of values; get the file again")
    values = np.frombuffer(content, kind)
    return (values if kind.isnative else values.byteswap(inplace=True)).view(kind.newbyteorder("=")).reshape(shape)
