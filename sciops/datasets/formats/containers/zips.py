"""Zip archives that others wrote: the directory is measured before it is read, members unpack to what they state."""

from __future__ import annotations

import contextlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

from sciops.files.budget import Spending
from sciops.files.messages import shown

_ENTRY = 256  # bytes of an entry of the directory, its name included
_LEAST = 1 << 17  # bytes that zipfile reads to find the directory


class _Measured(io.FileIO):
    """A file that zipfile opens: it reads the directory in one piece, which is measured first."""

    def __init__(self, path: Path, spent: Spending) -> None:
        super().__init__(path)
        self.spent: Spending | None = spent

    def read(self, size: int | None = -1) -> bytes:
        if self.spent is not None and size is not None and size > _LEAST + _ENTRY * self.spent.budget.objects:
            self.spent.take(objects=size // 46, what="its table of contents")  # bytes of an entry without a name
        return super().read(size)


@contextlib.contextmanager
def unzipped(path: Path, spent: Spending) -> Iterator[zipfile.ZipFile]:
    """The open archive; its members count as objects.

    Raises what zipfile raises, OverBudget, and ValueError for a member in a code whose unpacking has no bound.
    """
    with _Measured(path, spent) as raw, zipfile.ZipFile(raw) as archive:
        raw.spent = None  # members may be of any length
        spent.take(objects=len(archive.filelist), what="its table of contents")
        for info in archive.filelist:
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                kind = getattr(zipfile, "compressor_names", {}).get(info.compress_type, info.compress_type)
                name = shown(info.filename, 60)
                raise ValueError(f"{path} keeps {name} in the code {kind}, which is not read: zip it with deflate")
        yield archive


def whole_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """The content of a member, at most as long as the directory states."""
    with archive.open(name) as file:
        return file.read(archive.getinfo(name).file_size + 1)  # without a length it would be unpacked to its end
