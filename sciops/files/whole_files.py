"""Files that appear under their final name only when whole."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import platform
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sciops.files.writable import is_disk_full, refusal, writable_file

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def replacing(
    path: str | os.PathLike[str], *, beside: Path | None = None, size: int = 0, last: bool = True, alone: bool = True
) -> Iterator[Path]:
    """Yields an empty temporary file; what was written there takes the place of `path` when the block ends well.

    The file is new and has a name that nobody can foresee, so that a link planted by a neighbour is never followed;
    `path` gets the mode that the umask gives a new file, whatever a library did to it. It is removed when the block
    fails; where a process was killed, the next one that writes `path` on the same machine removes it.

    beside : the file beside which to write meanwhile, on the same file system; default `path`
    size : bytes that must be free before anything is written. HDF5 meets a full disk with pages of messages and may
        bring the process down, so its writers ask first.
    last : whether the new name must survive a power cut at once; False for one of many files whose folder is
        synchronized afterwards
    alone : False in a folder of very many files, which then is not looked through for what killed processes left

    Raises OSError in one line, naming `path`, when it cannot be written or the disk is full.
    """
    path = writable_file(path, store=is_store(path), probe=False)
    beside = beside or path
    temporary = hidden(beside, "tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if alone:
            remove_abandoned(beside)
        _ask_for_space(beside.parent, size)
        mode = create_new(temporary)
        yield temporary
        _give_mode(temporary, mode)
        synchronize(temporary)
        os.replace(temporary, path)
        if last:
            synchronize(path.parent)
    except OSError as error:
        if is_disk_full(error) or error.errno == errno.EFBIG or _is_about(error, temporary, path):
            raise refusal(error, path) from None
        raise  # of another file, such as one that was read meanwhile
    finally:
        temporary.unlink(missing_ok=True)


def _is_about(error: OSError, temporary: Path, path: Path) -> bool:
    """Whether the error came from writing `path`; HDF5 names the file only in its text."""
    named = {str(name) for name in (error.filename, error.filename2) if name is not None}
    return temporary.name in str(error) or bool(named & {str(p) for p in (path, path.parent, *path.parent.parents)})


def create_new(temporary: Path) -> int:
    """Makes an empty file where nothing may be, not even a link to nothing; returns its mode."""
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o666)
    try:
        return stat.S_IMODE(os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)


def open_here(path: str | os.PathLike[str], flags: int) -> int:
    """For ``open(path, mode, opener=open_here)``: writes to the file of that name or to a new one, through no link.

    Nor does it wait for the reader of a pipe that was put there. Raises OSError in one line.
    """
    try:
        return os.open(path, flags | _NO_LINK | getattr(os, "O_NONBLOCK", 0), 0o666)
    except OSError as error:
        raise refusal(error, path) from None


def _give_mode(temporary: Path, mode: int) -> None:
    """Some libraries put a file of their own in its place, which its owner alone may read."""
    descriptor = os.open(temporary, os.O_RDONLY | _NO_LINK)
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
            os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def _ask_for_space(folder: Path, size: int) -> None:
    """Raises OSError unless `size` bytes can be had in `folder`, quotas included where the system can tell."""
    if hasattr(os, "posix_fallocate") and size:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:  # without a name: a kill leaves nothing behind
            os.posix_fallocate(file.fileno(), 0, size)
    elif shutil.disk_usage(folder).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def hidden(path: Path, ending: str) -> Path:
    """A name beside `path` that nobody can foresee, and that says which process on which machine uses it; never longer
    than a name may be."""
    return path.with_name(f".{short_name(path)}.{_machine()}.{os.getpid()}.{secrets.token_hex(8)}.{ending}")


def short_name(path: Path) -> str:
    """The name of a file, or its hash where the name is so long that nothing could be added to it."""
    return path.name if len(os.fsencode(path.name)) < 160 else hashlib.sha256(os.fsencode(path.name)).hexdigest()


def remove_abandoned(path: Path) -> None:
    """Removes what processes of this machine that are no more left `hidden` beside `path`, such as a killed conversion.

    What replaced files were set aside as (".old") stays where `path` itself is not there. Names of earlier versions,
    which ended in ``.HOST.PID.tmp`` or ``.PID.partial``, count too.
    """
    endings = "tmp|scratch|old" if path.exists() else "tmp|scratch"
    ours = re.compile(
        rf"\.{re.escape(short_name(path))}\."
        rf"(?:{re.escape(_machine())}\.(\d+)(?:\.[0-9a-f]{{16}})?\.(?:{endings})|(\d+)\.partial)"
    )
    for name in os.listdir(path.parent) if path.parent.is_dir() else ():
        found = ours.fullmatch(name)
        if found and not runs(int(found[1] or found[2])):
            left = path.with_name(name)
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):  # of another user, or removed by another process
                    left.unlink()


def _machine() -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", platform.node())[:40] or "-"


def runs(pid: int) -> bool:
    """Whether there is a process of that number on this machine."""
    if os.name != "posix":  # where signal 0 would end the process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's
        pass
    return True


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is one Zarr v3 store, which counts as a file here."""
    return (Path(path) / "zarr.json").is_file()


def bytes_on_disk(path: str | os.PathLike[str]) -> int:
    """The size of a file, or of all files of a store."""
    path = Path(path)
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file()) if path.is_dir() else path.stat().st_size


def synchronize(path: Path) -> None:
    """fsync of a file or folder, so that a rename that follows survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
