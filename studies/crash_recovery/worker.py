"""A process that runs commands of sciops and, at a stated moment, kills them or tells them that the disk is full.

It has imported what they need, and forks a child for each: a moment falls into the work of a command and not into the
seconds that Python takes to start. One request a line of JSON, one answer a line; see `attempt`.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import glob
import importlib
import itertools
import json
import os
import runpy
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

OPERATIONS = ("fsync", "link", "mkdir", "open", "remove", "rename", "replace", "rmdir", "unlink")
"""functions of `os` that are counted; `shutil`, `pathlib` and `tempfile` call them too"""

_WATCH = "SCIOPS_CRASH_WATCH"  # what a worker process that a command spawns is to do, as JSON
_KILLED, _FULL = "killed", "disk full"
_FAILED, _MOVES = "failed", ("link", "rename", "replace")
_NEED_SPACE = ("fsync", "link", "mkdir", "open", "rename", "replace")
_PAUSE = 0.0005
_PATIENCE = 300.0  # seconds after which a command hangs
_LAST = 30.0  # seconds that processes may outlive their command


def watch(log: str, group: int, kill: Mapping[str, Any] | None) -> None:
    """Notes every file operation of this process in `log`, and kills the group of processes at the one asked for.

    kill : {"operation": number from 0, "after": whether it has been done, "alone": whether this process alone ends}, or
        {"operation": number, "full": True}: the disk has no room for this operation and all later ones that need some
    """
    full = kill is not None and kill.get("full", False)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    numbers = itertools.count()

    def note(name: str, target: Any = "") -> None:
        os.write(descriptor, f"{os.getpid()}\t{name}\t{time.perf_counter()}\t{target}\n".encode())

    def end() -> None:
        note(_KILLED)
        (os.kill if kill["alone"] else os.killpg)(os.getpid() if kill["alone"] else group, signal.SIGKILL)
        time.sleep(10)  # until it has come

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def operation(*arguments: Any, **options: Any) -> Any:
            if name == "open" and not arguments[1] & os.O_CREAT:
                return function(*arguments, **options)
            number = next(numbers)
            mine = kill is not None and not full and number == kill["operation"]
            if full and number >= kill["operation"] and name in _NEED_SPACE:
                note(_FULL)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *(a for a in arguments[:1] if name != "fsync"))
            if mine and not kill["after"]:
                end()
            done = False
            try:
                result = function(*arguments, **options)
                done = True
                return result
            finally:  # a removal of what is not there fails, and counts
                note(name if done else _FAILED, arguments[1] if name in _MOVES else arguments[0])
                if mine:
                    end()

        return operation

    for name in OPERATIONS:
        setattr(os, name, counted(name, getattr(os, name)))


def attempt(
    folder: str,
    commands: Sequence[Sequence[str]],
    kill: Mapping[str, Any] | None = None,
    since: str | None = None,
    earlier: Sequence[int] = (),
) -> dict[str, Any]:
    """Runs the commands at once, one process group of theirs, in `folder`, until they end or are killed.

    kill : None; as in `watch`, for the first process that comes to that operation; or {"seconds": s, "alone": …}, after
        s seconds, of the whole group or of the first command's process alone
    since : a pattern of files: seconds count from when one of them is there; default from the start
    earlier : groups of processes that were killed here before, and must be gone when these commands have ended well
    returns : "group", the number of the group; "statuses" of the commands; "killed" and "full", whether the moment has
        come; "seconds" from `since` to the last operation; "operations", the most of any process; "replaced", the names
        of files that took their place by a rename or a link; "processes", those that outlived the commands; "said", the
        last line of the output; "traceback", whether there is one in it

    Temporary files go to ``folder/tmp`` and the output to ``folder/said``.
    """
    folder, log = Path(folder), Path(f"{folder}.operations")
    log.unlink(missing_ok=True)
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    at_operation = kill if kill is not None and "operation" in kill else None
    processes: list[int] = []
    for words in commands:
        process = os.fork()
        if process == 0:
            _become(folder, log, processes[0] if processes else 0, at_operation)
            sys.argv = ["sciops", *words]
            runpy.run_module("sciops", run_name="__main__")
            sys.exit(0)
        processes.append(process)
        with contextlib.suppress(OSError):  # as the child does itself: whoever comes first
            os.setpgid(process, processes[0])
    statuses, killed, began = _wait(processes, folder, kill, since)
    operations, replaced, marks, last = _read(log)
    text = (folder / "said").read_text(errors="replace").strip()
    ended = all(status == 0 for status in statuses)
    left = sum(_outliving(group) for group in (*earlier, processes[0])) if ended else 0
    return {
        "group": processes[0],
        "statuses": statuses,
        "killed": killed or _KILLED in marks,
        "full": _FULL in marks,
        "seconds": max(0.0, last - began),
        "operations": operations,
        "replaced": replaced,
        "processes": left,
        "said": (text.splitlines() or [""])[-1][:300],
        "traceback": "Traceback (most recent call last)" in text,
    }


def _become(folder: Path, log: Path, group: int, kill: Mapping[str, Any] | None) -> None:
    """What a child is before it runs its command: in its group, with an output and a temporary folder of its own."""
    with contextlib.suppress(OSError):
        os.setpgid(0, group)
    os.chdir(folder)
    os.environ["TMPDIR"] = str(folder / "tmp")
    importlib.import_module("tempfile").tempdir = None
    output = os.open(folder / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for stream, target in ((0, nothing), (1, output), (2, output)):
        os.dup2(target, stream)
    how = {"log": str(log), "group": group or os.getpid(), "kill": kill}
    os.environ[_WATCH] = json.dumps(how)
    watch(**how)


def _wait(
    processes: Sequence[int], folder: Path, kill: Mapping[str, Any] | None, since: str | None
) -> tuple[list[int | None], bool, float]:
    """(statuses, whether they were killed here, when the clock began)."""
    statuses: dict[int, int | None] = {}
    killed, started = False, time.perf_counter()
    began = None if since else started
    while len(statuses) < len(processes):
        for process in processes:
            if process not in statuses:
                ended, status = os.waitpid(process, os.WNOHANG)
                if ended:
                    statuses[process] = os.waitstatus_to_exitcode(status)
        now = time.perf_counter()
        if began is None and glob.glob(str(folder / since)):
            began = now
        due = kill is not None and "seconds" in kill and began is not None and now - began >= kill["seconds"]
        if (due and not killed and len(statuses) < len(processes)) or now - started > _PATIENCE:
            killed = due
            with contextlib.suppress(ProcessLookupError):
                if due and kill["alone"]:
                    os.kill(processes[0], signal.SIGKILL)
                else:
                    os.killpg(processes[0], signal.SIGKILL)
            if not due:
                return [None] * len(processes), False, began or started
        time.sleep(_PAUSE)
    return [statuses[p] for p in processes], killed, began or started


def _outliving(group: int) -> int:
    """Processes of the group that have not ended after a while, which are ended then."""
    end = time.monotonic() + _LAST
    while (members := _members(group)) and time.monotonic() < end:
        time.sleep(0.02)
    if members:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    return members


def _members(group: int) -> int:
    count = 0
    for status in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its_group = Path(status).read_text().rsplit(")", 1)[1].split()[:3]
            count += int(its_group) == group and state not in "ZX"
    return count


def _read(log: Path) -> tuple[int, list[str], set[str], float]:
    """(most operations of any process, names of the files that were put in their place, what `watch` did besides, the
    time of the last operation) of a log of `watch`."""
    counts: dict[str, int] = {}
    replaced, marks, last = [], set(), 0.0
    for line in log.read_text(errors="replace").splitlines() if log.exists() else ():
        process, name, moment, target = line.split("\t", 3)
        if name in (_KILLED, _FULL):
            marks.add(name)
            continue
        counts[process] = counts.get(process, 0) + 1
        last = max(last, float(moment))
        if name in _MOVES:
            replaced.append(Path(target).name)
    return max(counts.values(), default=0), replaced, marks, last


def main() -> None:
    """Answers requests until there are no more, in the server; in its children the command runs to its end.

    The process's arguments are the modules to import beforehand.
    """
    for name in ("sciops.commands.command_line", "typeguard", *sys.argv[1:]):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)
    print(json.dumps({"ready": True}), flush=True)
    while line := sys.stdin.readline():
        print(json.dumps(attempt(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
elif __name__ == "__mp_main__" and _WATCH in os.environ:  # a worker that a command of this process spawned
    shutil.rmtree  # noqa: B018  (it looks once whether `os` has what it needs, before the functions are replaced)
    watch(**json.loads(os.environ[_WATCH]))
