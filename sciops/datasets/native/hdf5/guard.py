"""Checks HDF5 files in a separate process, since damaged ones can crash the HDF5 library or make it hang.

The process starts with the first file (0.15 s), checks each further file in some milliseconds, remembers those it has
seen, and ends with this process. Guaranteed is that the library has survived the links, attributes, types and chunk
indices of every file that is opened here, and its numbers up to 16 MB; of larger files the first and last numbers of
each array. The file that is opened is the one that was checked, even if another takes its name meanwhile. Where no
process can be started, and on systems other than POSIX, files are opened unchecked.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, ClassVar

from sciops.datasets.native.hdf5.visit import (
    DEEPEST,
    PER_OBJECT,
    Misattached,
    TooDeep,
    TooManyObjects,
    TooMuchMemory,
    Unlisted,
)
from sciops.files.budget import Budget, current_budget, over_budget
from sciops.files.messages import shown
from sciops.files.remote import RemotePath

# of computing that a file may take, by its size; its objects add to it; its budget bounds them all
_SECONDS, _PER_BYTE = 0.75, 3e-7
_PATIENCE, _SILENT = 60.0, 256  # seconds that disks may take; the status of a process that waits for longer
# glibc's allocator that ends a process which has written over its ends; other systems know neither word
_CHECKED = {"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_CHECK_": "3"}
_VISIT = Path(__file__).with_name("visit.py")


def open_survivable(path: Path | RemotePath) -> Any:
    """The h5py file, opened for reading once a process has survived it, if it is still that file.

    Raises ValueError in one line for a file that ends the HDF5 library or holds it up, or changes meanwhile, OverBudget
    for one that takes more than its budget, and what h5py raises. A file on a server is opened unchecked.
    """
    import h5py

    if isinstance(path, RemotePath):
        return path.open_hdf5()
    if os.name != "posix":
        return h5py.File(path, "r")
    looked_at = _of_process(os.getpid()).check(path)
    file = h5py.File(path, "r")
    try:
        same = _identity(os.fstat(file.id.get_vfd_handle())) == looked_at
    except OSError:
        same = False
    if not same:
        file.close()
        raise ValueError(f"{shown(str(path))} changed while it was opened: open it again when it is written")
    return file


def _identity(about: os.stat_result) -> tuple[int, ...]:
    """Which file it is, and in which state."""
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def refusal(path: Path, status: int, budget: Budget) -> ValueError:
    """The error of a file that a process has refused with this status, or that has ended it so."""
    about = path.stat()
    name, seconds = shown(str(path)), _allowed(about.st_size)
    limits = {-signal.SIGXCPU: "seconds", TooMuchMemory.status: "bytes", TooManyObjects.status: "objects"}
    if seconds >= budget.seconds:
        limits[-signal.SIGPROF] = "seconds"
    if status in limits:
        return over_budget(name, limits[status], None, budget, "opening it")
    if status == TooDeep.status:
        return ValueError(
            f"{name} has groups nested more than {DEEPEST} deep, which are not read: nest them less deeply"
        )
    allowed = f"{seconds:.2g} s of computing, {1e3 * PER_OBJECT:g} ms an object"
    what = {
        -signal.SIGPROF: f"holds the HDF5 library up (more than {allowed})",
        Misattached.status: "attaches dimensions to an array that the HDF5 library cannot list",
        Unlisted.status: "has attributes that the HDF5 library cannot list",
        _SILENT: f"keeps the HDF5 library waiting (for more than {_PATIENCE:.0f} s)",
    }
    why = what.get(status, f"ends the HDF5 library ({_words(status)})")
    return ValueError(f"{name} is an HDF5 file that {why}: it is damaged; fetch or write it again and compare sizes")


def _allowed(size: int) -> float:
    return _SECONDS + _PER_BYTE * size


@functools.cache
def _of_process(pid: int) -> Guard:
    """One guard a process: a forked one must not talk to its parent's."""
    return Guard()


class Guard:
    """The process that looks at files; it is started again when a file has ended it.

    seen : (file, budget) → status. Of all guards, since it says what is in files: a forked process knows it too
    """

    seen: ClassVar[dict[tuple[tuple[int, ...], Budget], int | None]] = {}

    def __init__(self) -> None:
        self.owner, self.lock = os.getpid(), threading.Lock()
        self.process: Any = None
        self.possible = True
        atexit.register(self.close)

    def check(self, path: Path) -> tuple[int, ...]:
        """The identity of the file that was survived."""
        budget, descriptor = current_budget(), os.open(path, os.O_RDONLY)
        try:
            about = os.fstat(descriptor)
            key = (_identity(about), budget)
            with self.lock:
                if key not in self.seen:
                    # the first is this file, whatever has its name by then; not all systems have such places
                    places = [f"/proc/{os.getpid()}/fd/{descriptor}", str(path.absolute())]
                    self.seen[key] = self._status(places, _allowed(about.st_size), budget) if self.possible else None
                status = self.seen[key]
        finally:
            os.close(descriptor)
        if status is not None:
            raise refusal(path, status, budget)
        return key[0]

    def _status(self, places: list[str], seconds: float, budget: Budget) -> int | None:
        """None where the process survives the file, else how it ended."""
        question = [places, min(seconds, budget.seconds), budget.seconds, budget.objects, budget.bytes]
        for _ in range(2):  # it may have been ended from outside since the last file
            process = self._running()
            if process is None:
                return None
            try:
                process.stdin.write(json.dumps(question) + "\n")
                process.stdin.flush()
            except OSError:
                self.close()
                continue
            with selectors.DefaultSelector() as answer:  # select.select knows 1024 descriptors alone
                answer.register(process.stdout, selectors.EVENT_READ)
                ready = answer.select(_PATIENCE + 2 * budget.seconds)
            if ready and process.stdout.readline() == ".\n":
                return None
            status = process.wait() if ready else _SILENT
            self.close()
            if status not in (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP):
                return status
        return None

    def _running(self) -> Any:
        if self.process is None:
            try:
                self.process = subprocess.Popen(
                    [sys.executable, "-P", str(_VISIT)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    start_new_session=True,
                    env=os.environ | _CHECKED,
                )
                self.possible = self.process.stdout.readline() == "ready\n"
            except (OSError, TypeError):
                self.possible = False
            if not self.possible:
                self.close()
        return self.process

    def close(self) -> None:
        if self.process is not None and self.owner == os.getpid():
            process, self.process = self.process, None
            for pipe in (process.stdin, process.stdout):
                try:
                    pipe.close()
                except OSError:
                    pass
            process.kill()
            process.wait()


def _words(status: int) -> str:
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"status {status}"
