"""Whether a file or a folder can be written where it is asked for, found out before the work and not after it."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

_LONGEST_NAME = 255  # bytes, of all file systems in use


def writable_file(path: str | os.PathLike[str], *, store: bool = False, probe: bool = True) -> Path:
    """`path`, where a file of that name can be written. Nothing is left behind; missing folders are not made yet.

    store : whether `path` may be a folder that is there, since it is a Zarr store, which is replaced like a file
    probe : whether to write one byte into a nameless file beside it, which finds rights, quotas, full disks and
        read-only file systems; False for one of many files in one folder

    Raises OSError, naming the path as it was given and what stands in the way.
    """
    given, path = os.fspath(path) or ".", Path(path)
    if len(os.fsencode(path.name)) > _LONGEST_NAME:
        raise OSError(f"{path.name[:40]}… is a name of {len(os.fsencode(path.name))} bytes, {_LONGEST_NAME} at most")
    if not path.name or given.endswith(("/", os.sep)) or (path.is_dir() and not store):
        raise IsADirectoryError(f"{given} is a folder: name the file to write in it")
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(f"{given} is not a file that could be replaced: name another")
    folder = _nearest(path.parent, given)
    if probe:
        _probe(folder, given)
    return path


def writable_folder(path: str | os.PathLike[str]) -> Path:
    """`path`, where it is or can become a folder that takes files. Nothing is left behind, and no folder made.

    Raises OSError, naming the path as it was given and what stands in the way.
    """
    given, path = os.fspath(path), Path(path)
    if os.path.lexists(path) and not path.is_dir():
        what = "a link to nothing" if not path.exists() else "a file"
        raise FileExistsError(f"{given} is {what}, a folder is needed: pass another name")
    _probe(_nearest(path, given), given)
    return path


def refusal(error: OSError, path: str | os.PathLike[str]) -> OSError:
    """The error in one line that names `path`, the output as it was asked for, in place of a temporary file."""
    if is_disk_full(error):
        return OSError(
            errno.ENOSPC,
            f"no space left on the device for {path}; free some and run the same command again: nothing half-written "
            "is left",
        )
    if error.errno == errno.EFBIG:
        return OSError(errno.EFBIG, f"{path} may not grow as large as it must: see `ulimit -f`")
    why = os.strerror(error.errno) if error.errno else str(error)
    return type(error)(f"{path} cannot be written ({why}): name another place")


def is_disk_full(error: OSError) -> bool:
    """Whether the error means a full disk or quota; HDF5 tells so only in its text."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT) or f"errno = {errno.ENOSPC}" in str(error)


def _nearest(folder: Path, given: str) -> Path:
    """`folder`, or the last one above it that is there."""
    there = next(one for one in (folder, *folder.parents) if os.path.lexists(one))
    if not there.is_dir():
        raise NotADirectoryError(f"{given} cannot be written: {there} is not a folder; name another place")
    return there


def _probe(folder: Path, given: str) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(b"\0")
    except OSError as error:
        raise refusal(error, given) from None
