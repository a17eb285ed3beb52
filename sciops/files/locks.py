"""Locks that end with the process that holds them, even by SIGKILL, so that two runs never write into one folder."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sciops.files.whole_files import runs
from sciops.files.writable import refusal

_OPEN = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_ORPHANS = 20.0  # seconds; torch's workers look every five whether their parent is there
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)


class Lock:
    """A file that one process at a time holds, by ``flock``; it names its holder, and is removed when it is released.

    Where the system has no ``fcntl``, or the file system no locks (Lustre and NFS are often mounted without), every
    caller holds it: what it guards must end well when two do it at once, if only with an error for one of them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._owner = os.getpid()

    def take(self) -> bool:
        """Whether this object now holds the lock; False as well where its folder is not there (any more).

        Raises OSError, naming the path, for a link or anything else in its place.
        """
        try:
            import fcntl
        except ImportError:
            return True
        while self._descriptor is None:
            try:
                descriptor = os.open(self.path, _OPEN, 0o666)
            except FileNotFoundError:
                return False
            except OSError as error:
                raise refusal(error, self.path) from None
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    os.close(descriptor)
                    if isinstance(error, BlockingIOError):
                        return False
                    raise refusal(error, self.path) from None
            if _is_at(descriptor, self.path):
                self._descriptor = descriptor
            else:  # whoever held it before removed it meanwhile
                os.close(descriptor)
        with contextlib.suppress(OSError):  # a full disk: the lock holds without its note
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, _me().encode(), 0)
        return True

    def release(self) -> None:
        """Removes the file and lets go of it; a forked process only forgets it."""
        if self._descriptor is None:
            return
        try:
            if os.getpid() == self._owner and _is_at(self._descriptor, self.path):
                with contextlib.suppress(OSError):
                    self.path.unlink()
        finally:
            os.close(self._descriptor)
            self._descriptor = None

    def clear(self) -> None:
        """Removes the file that a killed process left."""
        with contextlib.suppress(OSError):
            if os.path.lexists(self.path):
                self.take()
                self.release()

    def holder(self) -> str:
        """Who holds it, "process 123 of host" or "another process"."""
        with contextlib.suppress(OSError, ValueError):
            return self.path.read_text()[:200].strip() or "another process"
        return "another process"


@contextmanager
def exclusive(path: Path) -> Iterator[bool]:
    """Yields whether this process now holds the lock file, until the block ends; see `Lock`."""
    lock = Lock(path)
    try:
        yield lock.take()
    finally:
        lock.release()


def occupy(folder: Path) -> Lock:
    """The lock of a run's folder, which is made where it is not there. To be released by the caller.

    A process that holds the folder already, such as a study whose training goes into the same one, may write in it.

    Raises OSError, naming the other process, where that is at work in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock, end = Lock(folder / ".lock"), time.monotonic() + _ORPHANS
    while not lock.take() and (holder := lock.holder()) != _me():
        if not _was_killed(holder) or time.monotonic() > end:
            raise BlockingIOError(f"{folder} is in use by {holder}: wait until it ends, or name another folder")
        time.sleep(0.1)
    return lock


@contextmanager
def occupied(folder: Path) -> Iterator[None]:
    """`occupy` for the length of a block."""
    lock = occupy(folder)
    try:
        yield
    finally:
        lock.release()


def _was_killed(holder: str) -> bool:
    """Whether the process that a lock names was of this machine and has ended: processes that it forked, such as those
    that read its data, hold the lock until they notice."""
    found = re.fullmatch(rf"process (\d+) of {re.escape(platform.node())}", holder)
    return found is not None and not runs(int(found[1]))


def _me() -> str:
    return f"process {os.getpid()} of {platform.node()}"


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False
