"""Files on a server, read piece by piece where they are: `RemotePath` stands for a path where HDF5 files are opened."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_BLOCK, _BLOCKS = 1 << 20, 64  # bytes that are asked for at once, and how many of these blocks are kept


@dataclass(frozen=True)
class _About:
    """What is known of a file on a server, in the place of `os.stat_result`."""

    st_size: int


class RemotePath:
    """A file that fsspec opens: "https://…", "hf://…", "s3://…", "memory://…", "file://…".

    It is picklable. Each process has one connection, with a cache of 64 MB; only what is read is transferred. A file on
    a server is not checked in a process of its own before it is opened, as one on the disk is: name servers you trust.

    Raises ImportError where fsspec is not installed, OSError in one line where the server does not answer.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._opened: tuple[int, Any] | None = None

    def __str__(self) -> str:
        return self.url.split("?")[0]

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and self.url == other.url

    def __hash__(self) -> int:
        return hash(self.url)

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self.url, "_opened": None}

    @property
    def name(self) -> str:
        return str(self).rsplit("/", 1)[-1]

    def stat(self) -> _About:
        """The size of the file, as its server states it."""
        file = self.open()
        if getattr(file, "size", None) is not None:
            return _About(int(file.size))
        place = file.tell()
        size = file.seek(0, os.SEEK_END)
        file.seek(place)
        return _About(size)

    def open(self) -> Any:
        """The open binary file of this process."""
        if self._opened is None or self._opened[0] != os.getpid():
            with answering(self):
                system, path = file_system(self.url)
                file = system.open(
                    path, "rb", block_size=_BLOCK, cache_type="blockcache", cache_options={"maxblocks": _BLOCKS}
                )
            self._opened = (os.getpid(), file)
        return self._opened[1]

    def open_hdf5(self) -> Any:
        """The h5py file over the connection; closing it leaves the connection open."""
        import h5py

        return h5py.File(self.open(), "r")

    def close(self) -> None:
        """Ends the connection of this process; the next read opens another."""
        if self._opened is not None and self._opened[0] == os.getpid():
            self._opened[1].close()
        self._opened = None


class answering:
    """Around a question to a server: whatever goes wrong is an OSError in one line that names the address."""

    def __init__(self, place: Any) -> None:
        self.place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or not isinstance(error, Exception) or isinstance(error, (ImportError, ValueError)):
            return
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        words = f"{type(error).__name__}: {reason}" if reason != type(error).__name__ else reason
        raise OSError(f"{self.place} cannot be reached ({words})") from None


def file_system(url: str) -> tuple[Any, str]:
    """(the fsspec file system of an address, the path in it)."""
    try:
        import fsspec
    except ImportError:
        raise ImportError("files on a server are read by fsspec: pip install 'sciops[stream]'") from None
    try:
        return fsspec.core.url_to_fs(url)
    except ImportError as error:  # the package of this protocol
        text = " ".join(str(error).split())[:160]
        raise ImportError(f"{url.split('?')[0]}: {text}; pip install 'sciops[stream]'") from None
    except ValueError:
        raise ValueError(f"{url.split('?')[0]}: expected an address such as https://…, hf://… or s3://…") from None


def local_or_remote(path: Any) -> Any:
    """A `RemotePath` for an address ("https://…") and for itself, a `pathlib.Path` for anything else."""
    if isinstance(path, RemotePath):
        return path
    if isinstance(path, str) and "://" in path:
        return RemotePath(path)
    return Path(path)
