"""Tables of contents of NumPy's .npy and .npz files: shapes, dtypes, where the numbers begin; no pickle is opened."""

from __future__ import annotations

import io
import math
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sciops.datasets.formats.containers.zips import unzipped, whole_member
from sciops.files.budget import Spending, check_rank
from sciops.files.messages import shown

DESCRIPTION = "sciops.json"  # the member of an archive that describes the others
_LONGEST_HEADER = 10_000  # bytes: NumPy believes no longer one, but reads it first


class Unsafe(ValueError):
    """What a file holds is whole, and is not opened since that could run code."""


@dataclass(frozen=True)
class NumpyArray:
    """One stored array.

    offset : of its first number in the file, or None where the member is compressed
    member : name inside the archive; None for a .npy file
    start : bytes before the numbers within the member
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool
    offset: int | None
    member: str | None = None
    start: int = 0

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def npy_array(path: Path) -> NumpyArray:
    """The array of a .npy file; ValueError when the file is shorter than its header says or holds objects."""
    with open(path, "rb") as file:
        shape, fortran, dtype, start = _header(file)
    check_rank(path, "its array", len(shape))
    found = NumpyArray(shape, dtype, fortran, start, start=start)
    size = path.stat().st_size
    if found.start + found.nbytes != size:
        raise ValueError(f"its header states {found.start + found.nbytes} bytes, {size} are here")
    return found


def npz_arrays(path: Path) -> dict[str, NumpyArray]:
    """Name → array of a .npz archive, the description left out.

    Raises ValueError for members whose stated sizes and headers differ or that hold objects, and OverBudget for an
    archive whose compressed members unpack to more than the budget besides its own size.
    """
    found, spent = {}, Spending(path)
    with unzipped(path, spent) as archive:
        members = archive.infolist()
        packed = sum(info.file_size for info in members if info.compress_type != zipfile.ZIP_STORED)
        spent.take(bytes=packed, what="all that it unpacks to")
        for info in members:
            spent.take(what="its table of contents")
            if info.filename in (DESCRIPTION, DESCRIPTION + ".npy"):
                continue
            with archive.open(info) as file:
                shape, fortran, dtype, start = _header(file)
            offset = _data_offset(path, info) + start if info.compress_type == zipfile.ZIP_STORED else None
            one = NumpyArray(shape, dtype, fortran, offset, info.filename, start)
            check_rank(path, shown(info.filename, 60), len(shape))
            _check_sizes(one, info)
            found[info.filename.removesuffix(".npy")] = one
    return found


def npz_description(path: Path) -> str | None:
    """The text of the archive's description: a plain member, or an array of characters or bytes; None without one."""
    with unzipped(path, Spending(path)) as archive:
        names = set(archive.namelist())
        name = next((name for name in (DESCRIPTION, DESCRIPTION + ".npy") if name in names), None)
        if name is None:
            return None
        if archive.getinfo(name).file_size > 1 << 20:
            raise ValueError(f"its description {name} is larger than 1 MB")
        content = whole_member(archive, name)
    if name == DESCRIPTION:
        return content.decode("utf-8")
    _, _, dtype, start = _header(io.BytesIO(content))
    text = content[start:]
    if dtype.kind == "U":  # decoded here: NumPy makes texts of any numbers, which Python does not survive
        order = "be" if dtype.str[0] == ">" else "le"
        return text.decode(f"utf-32-{order}").replace("\0", "")
    return (text if dtype.kind == "u" else b"".join(np.frombuffer(text, dtype))).decode("utf-8")


def unpack(path: Path, array: NumpyArray) -> np.ndarray:
    """The values of a compressed member, checked by the archive's own sum."""
    values = np.empty(array.nbytes, np.uint8)
    with zipfile.ZipFile(path) as archive, archive.open(str(array.member)) as file:
        file.read(array.start)
        view, got = values.data, 0
        while got < array.nbytes:
            piece = file.read(min(1 << 24, array.nbytes - got))
            if not piece:
                raise ValueError(f"{array.member} ends after {got} of {array.nbytes} bytes")
            view[got : got + len(piece)] = piece
            got += len(piece)
        file.read(1)  # the sum is compared at the end
    return values.view(array.dtype).reshape(array.shape, order="F" if array.fortran else "C")


def _header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """(shape, whether in Fortran's order, type, bytes before the numbers)."""
    head = io.BytesIO(file.read(12 + _LONGEST_HEADER))
    version = np.lib.format.read_magic(head)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(head)
    elif version == (2, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(head)
    else:
        raise ValueError(f"NumPy format {version[0]}.{version[1]}, known are 1.0 and 2.0")
    if dtype.hasobject:
        raise Unsafe("holds Python objects, and opening them could run code: save plain arrays instead")
    if any(n < 0 for n in shape):
        raise ValueError(f"its header states the shape {shape}")
    return tuple(int(n) for n in shape), bool(fortran), dtype, head.tell()


def _check_sizes(array: NumpyArray, info: zipfile.ZipInfo) -> None:
    if array.start + array.nbytes != info.file_size:
        raise ValueError(
            f"{info.filename} states {info.file_size} bytes, and its header {array.dtype}{list(array.shape)}, which "
            f"takes {array.start + array.nbytes}"
        )


def _data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    """Where a member's bytes begin: its local header has a name and an extra field of its own lengths."""
    with open(path, "rb") as file:
        file.seek(info.header_offset)
        local = file.read(30)
        if len(local) < 30 or local[:4] != b"PK\x03\x04":
            raise ValueError(f"{info.filename} has no local header")
        start = (
            info.header_offset + 30 + int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        )
        file.seek(0, os.SEEK_END)
        if start + info.file_size > file.tell():
            raise ValueError(f"{info.filename} states {info.file_size} bytes beyond the end of the file")
    return start
