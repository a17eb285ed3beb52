"""Files that appear under their final name only when whole."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str], temporary: Path | None = None) -> Iterator[Path]:
    """Yields a temporary path; what was written there takes the place of `path` in one step when the block ends well.

    temporary : where to write meanwhile, on the same file system; default a hidden file beside `path`. It is removed
        when the block fails.

    Raises OSError in one line when the disk is full.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary or path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        synchronize(temporary)
        os.replace(temporary, path)
    except OSError as error:
        if is_disk_full(error):
            raise OSError(
                errno.ENOSPC,
                f"no space left on the device for {path}; free some and run the same command again: "
                "nothing half-written is left",
            ) from None
        raise
    finally:
        temporary.unlink(missing_ok=True)
    synchronize(path.parent)


def synchronize(path: Path) -> None:
    """fsync of a file or folder, so that a rename that follows survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_disk_full(error: OSError) -> bool:
    """Whether the error means a full disk or quota; HDF5 tells so only in its text."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT) or f"errno = {errno.ENOSPC}" in str(error)


@contextmanager
def exclusive(path: Path) -> Iterator[bool]:
    """Yields whether this process now holds the lock file; a holder that dies, even by SIGKILL, lets go of it.

    Where the system has no ``fcntl`` there is no lock and every caller holds it.
    """
    try:
        import fcntl
    except ImportError:
        yield True
        return
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except FileNotFoundError:  # the folder went away: whoever held the lock has finished
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)
