"""CPU seconds of each test file, with its processes: ``python tests/time_by_file.py [files or folders]``.

Each file runs alone in a process that is forked after the imports which nearly all files share, so that the seconds are
those which the file adds to a run of all tests. What pytest wrote, and the CPU seconds of the slowest tests (without
those of forked servers), are kept in ``.pytest_cache/times``.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import importlib
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_SHARED = ["scipy.signal", "scipy.sparse.linalg"]
_PR_SET_CHILD_SUBREAPER = 36


def _seconds(*whose: int) -> float:
    spent = [resource.getrusage(who) for who in whose]
    return sum(one.ru_utime + one.ru_stime for one in spent)


class _Slowest:
    """Plugin of pytest: CPU seconds of each test, the largest last in what pytest writes."""

    def __init__(self) -> None:
        self.spent: collections.Counter[str] = collections.Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        both = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
        began = _seconds(*both)
        done = yield
        self.spent[item.nodeid] = _seconds(*both) - began
        return done

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for name, seconds in reversed(self.spent.most_common(25)):
            terminalreporter.write_line(f"{seconds:8.2f} s CPU  {name}")


def cpu_seconds(path: Path, log: Path) -> tuple[float, float, int]:
    """CPU seconds of a test file and all its processes, seconds on the clock, and pytest's exit status."""
    spent, began = _seconds(resource.RUSAGE_CHILDREN), time.perf_counter()
    child = os.fork()
    if not child:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        options = ["--durations=25", "-p", "no:cacheprovider", "-p", "no:xdist"]
        sys.exit(int(pytest.main([str(path), *options], plugins=[_Slowest()])))
    clock, status = 0.0, 0
    while True:  # also for servers and orphans of the file, which are this process's children by now
        try:
            ended, code = os.wait()
        except ChildProcessError:
            return _seconds(resource.RUSAGE_CHILDREN) - spent, clock, status
        if ended == child:
            clock, status = time.perf_counter() - began, os.waitstatus_to_exitcode(code)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, default=[_ROOT / "tests"], help="files or folders")
    files = []
    for path in parser.parse_args().paths:
        files += sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
    folder = _ROOT / ".pytest_cache" / "times"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # as in the workers of a run of all tests
        os.environ.setdefault(name, "1")
    sys.path[:1] = [str(_ROOT), str(_ROOT / "tests")]
    for name in [*_SHARED, *importlib.import_module("warm").IMPORTED]:
        importlib.import_module(name)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    rows = []
    for path in files:
        name = str(path.resolve().relative_to(_ROOT))
        rows.append((*cpu_seconds(path, folder / (name.replace("/", ".") + ".log")), name))
        print(f"{len(rows)}/{len(files)} {rows[-1][0]:8.1f} s  {name}", file=sys.stderr, flush=True)
    print("CPU s   clock s  exit  file")
    for cpu, clock, status, name in sorted(rows, reverse=True):
        print(f"{cpu:7.1f} {clock:7.1f} {status:5d}  {name}")
    print(f"{sum(row[0] for row in rows):7.1f} in all")


if __name__ == "__main__":
    main()
