"""Reads what is in HDF5 files before anybody else does: a script that `_hdf5_guard` runs in a process of its own.

A line on the standard input is JSON, [path, seconds]; a dot is the answer where this process has survived the file. It
ends by SIGPROF after so many seconds of computing, by whatever damage does to the HDF5 library, or with status 3 for
memory beyond a gigabyte. Only h5py is imported, no package of ours: it must be there at once.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

ROUNDS = 2  # a file that the library has survived once may have left its memory in ruins
_READ = 1 << 24  # bytes of numbers that are read; of larger arrays the first and the last one
_MEMORY = 1 << 30


def visit(path: str) -> None:
    """Every link, attribute and reference, every array's type, filters and index of chunks, and numbers."""
    import h5py

    left = _READ

    def look(name: str | bytes, item: Any) -> None:
        nonlocal left
        for key in item.attrs:
            _try(_follow, item, key)
        if not isinstance(item, h5py.Dataset):
            return
        size = _try(lambda: item.nbytes if item.dtype is not None and item.shape is not None else 0) or 0
        _try(lambda: (item.chunks, item.fillvalue, item.external, item.id.get_storage_size()))
        _try(lambda: (item.is_scale, [(len(axis), axis.label, axis.items()) for axis in item.dims]))
        if size <= left:
            left -= size
            _try(lambda: item[()])
        elif item.shape:
            _try(lambda: item[(0,) * item.ndim])
            _try(lambda: item[tuple(n - 1 for n in item.shape)])

    with h5py.File(path, "r") as file:
        if elsewhere(file) is None:
            look("/", file)
            _try(lambda: [file.get(key) for key in file])
            file.visititems(look)


def elsewhere(file: Any) -> tuple[str, str] | None:
    """(name, other file) of the first link out of an open file; such links are not followed."""
    import h5py

    def outside(name: str | bytes, link: Any) -> tuple[str, str] | None:
        return (str(name), str(link.filename)) if isinstance(link, h5py.ExternalLink) else None

    return file.visititems_links(outside)


def _follow(item: Any, key: str | bytes) -> None:
    """Reads an attribute, and looks up the object that each reference in it points to."""
    import h5py
    import numpy as np

    for one in np.ravel(np.asarray(item.attrs[key], dtype=object))[:64]:
        for reference in np.ravel(np.asarray(one, dtype=object))[:64]:
            if isinstance(reference, h5py.Reference) and reference:
                _try(lambda reference: item.file[reference].name, reference)


def _try(action: Any, *arguments: Any) -> Any:
    """What the library refuses to read it will refuse again; what is looked for here is what it does not survive."""
    try:
        return action(*arguments)
    except MemoryError:
        raise
    except Exception:
        return None


def _limit() -> None:
    import resource

    used = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (1024 * used + _MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    import h5py  # noqa: F401

    try:
        _limit()
    except (ImportError, OSError, ValueError, StopIteration):  # not Linux
        pass
    print("ready", flush=True)
    for line in sys.stdin:
        path, seconds = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            for _ in range(ROUNDS):
                _try(visit, path)
        except MemoryError:
            sys.exit(3)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(".", flush=True)


if __name__ == "__main__":
    main()
