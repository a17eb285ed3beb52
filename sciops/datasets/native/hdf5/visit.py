"""Reads what is in HDF5 files before anybody else does: a script that `guard` runs in a process of its own.

A line on the standard input is JSON, [places where it is, seconds, budget of seconds, of objects, of bytes]; a dot is
the answer where this process has survived the file. It ends by SIGPROF after so many seconds of computing and some more
for each object in it, by SIGXCPU where these pass the budget, by whatever damage does to the HDF5 library, or with the
`status` of what it refuses: more memory or objects than the budget, attributes that cannot be listed, deeply nested
groups. Only h5py is imported, no package of ours: it must be there soon.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import sys
import time
from typing import Any

_QUICK = 0.1  # seconds
_READ = 1 << 24  # bytes of numbers that are read; of larger arrays the first and the last one
_ROWS = 64
_SCALES = 100  # dimensions that are attached to an axis; a damaged number asks for billions, which reads other memory
PER_OBJECT = 0.005  # seconds of computing that each object adds to what the file may take
_LIBRARY = 1 << 26  # bytes for what the library keeps of its own
DEEPEST = 100  # groups in groups: every look-up walks through all of them
_NO_MEMORY = re.compile("memory allocation|unable to allocate|can't allocate|no space available", re.IGNORECASE)


class Refused(Exception):
    """A file that is not opened; each kind has a status of its own with which the process ends."""

    status = 0


class TooMuchMemory(Refused):
    """The HDF5 library asks for more memory than the budget has."""

    status = 3


class Unlisted(Refused):
    """An object whose attributes cannot be listed."""

    status = 4


class TooManyObjects(Refused):
    """More links and attributes than the budget has objects."""

    status = 5


class Misattached(Refused):
    """An array whose list of attached dimensions cannot be read, or is longer than `_SCALES`."""

    status = 7


class TooDeep(Refused):
    """Groups nested more than `DEEPEST` deep."""

    status = 6


def visit(path: str, objects: float = math.inf) -> None:
    """Every link, attribute and reference, every array's type, filters and index of chunks, and numbers."""
    import h5py

    left = _READ

    def look(name: str | bytes, item: Any) -> None:
        nonlocal left, objects
        remaining, _ = signal.getitimer(signal.ITIMER_PROF)
        if remaining:
            signal.setitimer(signal.ITIMER_PROF, remaining + PER_OBJECT)
        objects -= _try(len, item.attrs) or 0
        if objects < 0:
            raise TooManyObjects
        try:
            keys = list(item.attrs)
        except Exception as error:
            raise Unlisted from error  # they would be read by name all the same, and nobody has looked at them
        for key in keys:
            _try(_follow, item, key)
        if not isinstance(item, h5py.Dataset):
            return
        if stored_elsewhere(item) is not None:
            return
        size = _try(lambda: item.nbytes if item.dtype is not None and item.shape is not None else 0) or 0
        _try(lambda: (item.chunks, item.fillvalue, item.external, item.id.get_storage_size()))
        _try(lambda: item.is_scale)
        _look_at_dimensions(item)
        if size <= left:
            left -= size
            if _try(lambda: item[()]) is None and item.shape:
                # what was refused once can be what is not survived a second time
                for row in range(min(item.shape[0], _ROWS)):
                    _try(lambda row: item[row], row)
        elif item.shape:
            _try(lambda: item[(0,) * item.ndim])
            _try(lambda: item[tuple(n - 1 for n in item.shape)])

    with h5py.File(path, "r") as file:
        outside, links = survey(file, objects)
        objects -= links
        if outside is None:
            look("/", file)
            _try(lambda: [file.get(key) for key in file])
            file.visititems(look)


def _reopen(path: str) -> None:
    import h5py

    with h5py.File(path, "r") as file:
        dict(file.attrs)


def survey(file: Any, objects: float = math.inf) -> tuple[tuple[str, str] | None, int]:
    """((name, other file) of the first link out of an open file, or None; number of links until there).

    Links out of the file are not followed. Raises TooManyObjects or TooDeep.
    """
    import h5py

    links = 0

    def look(name: bytes, about: Any) -> tuple[str, str] | type[Refused] | None:
        nonlocal links
        links += 1
        if links > objects:
            return TooManyObjects
        if name.count(b"/") >= DEEPEST:
            return TooDeep
        if about.type != h5py.h5l.TYPE_EXTERNAL:
            return None
        return name.decode("utf-8", "replace"), os.fsdecode(file.id.links.get_val(name)[0])

    found = file.id.links.visit(look, info=True)
    if isinstance(found, type):
        raise found
    return found, links


def stored_elsewhere(item: Any) -> str | None:
    """The first other file that holds numbers of an array, by storage of its own or as the source of a virtual one."""
    if item.external:
        return str(item.external[0][0])
    sources = [source.file_name for source in item.virtual_sources()] if item.is_virtual else []
    return next((name for name in sources if name != "."), None)


def _look_at_dimensions(item: Any) -> None:
    """The dimensions attached to each axis of an array, each call on its own: one that fails must not hide the next."""
    import h5py

    if not any(h5py.h5a.exists(item.id, name) for name in (b"DIMENSION_LIST", b"DIMENSION_LABELS")):
        return
    for axis in item.dims:
        count = _try(len, axis)
        if count is None or count > _SCALES:
            raise Misattached
        _try(lambda axis: axis.label, axis)
        _try(lambda axis: axis.items(), axis)
        if count:
            _try(lambda axis: axis[0].name, axis)


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
    except Refused:
        raise
    except MemoryError:
        raise TooMuchMemory from None
    except Exception as error:
        if _NO_MEMORY.search(str(error)):
            raise TooMuchMemory from None
        return None


def _limit(path: str, seconds: float, memory: float) -> None:
    """More memory than this, and the library is told that there is none; more computing, and the process ends."""
    try:
        import resource

        with open("/proc/self/status") as status:
            used = next(int(line.split()[1]) for line in status if line.startswith("VmData"))
        _lower(resource.RLIMIT_DATA, 1024 * used + _LIBRARY + memory + os.path.getsize(path))
        _lower(resource.RLIMIT_CPU, time.process_time() + seconds)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError, StopIteration):  # not Linux, or bounded from outside
        pass


def _lower(limit: int, most: float) -> None:
    import resource

    hard = resource.getrlimit(limit)[1]
    resource.setrlimit(limit, (hard if most >= sys.maxsize else math.ceil(most), hard))


def main() -> None:
    """Answers line after line, until there are no more or a file is refused."""
    import h5py  # noqa: F401

    print("ready", flush=True)
    for line in sys.stdin:
        places, seconds, budget, objects, memory = json.loads(line)
        path = next((place for place in places if os.access(place, os.R_OK)), places[-1])
        _limit(path, budget, memory)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            began = time.process_time()
            _try(visit, path, objects)
            # a file that was survived once may have left the memory in ruins, and it will be opened many times
            again, times = (visit, 1) if time.process_time() - began < _QUICK else (_reopen, 3)
            for _ in range(times):
                _try(again, path)
        except Refused as refused:
            sys.exit(refused.status)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _limit(path, math.inf, memory)
        print(".", flush=True)


if __name__ == "__main__":
    main()
