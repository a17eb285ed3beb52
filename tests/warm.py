"""Python processes forked from a server that has imported torch and sciops, for tests that need other processes.

A fresh interpreter imports for about five seconds; one that is forked from the server begins with everything imported.
`python` stands for `subprocess.run([sys.executable, ...])`, `Popen` for `subprocess.Popen` of the same, `launch` for
`studies.kit.launch.launch`, that is, for torchrun.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import importlib
import importlib.machinery
import logging
import multiprocessing
import multiprocessing.connection
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

# what the server imports first
IMPORTED = ["torch._dynamo", "torch.distributed.fsdp", "torch.distributed.tensor", "tyro", "h5py"]
IMPORTED += ["neuralop", "matplotlib.pyplot", "xarray"]
IMPORTED += [
    "sciops.training",
    "sciops.models",
    "sciops.datasets",
    "studies.train",
    "data_gen.darcy",
    "distributed",
    "numba",
]
_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(IMPORTED)


def start() -> None:
    """Begins the server as a copy of this process, which imports for it too: at the start of a run of many files."""
    with warnings.catch_warnings(action="ignore"):  # of other packages about each other
        for name in IMPORTED:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    multiprocessing.resource_tracker.ensure_running()  # in an interpreter of its own
    with mock.patch("multiprocessing.util.spawnv_passfds", _copied):
        multiprocessing.forkserver.ensure_running()


def _copied(_: str, arguments: list[str], kept: list[int]) -> int:
    """As `multiprocessing.util.spawnv_passfds`, without a fresh interpreter: ``-c code`` in a fork of this process."""
    with warnings.catch_warnings(action="ignore"):  # of threads, which begin nothing here yet
        pid = os.fork()
    if pid:
        return pid
    try:
        nothing, kept = os.open(os.devnull, os.O_RDWR), {*kept, multiprocessing.resource_tracker.getfd()}
        for number in range(3, 1024):  # what this process has open: its numbers are not given to anything else
            with contextlib.suppress(OSError):
                if number not in kept and os.fstat(number):
                    os.dup2(nothing, number)
        sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))
        for handler in filter(None, (one() for one in logging._handlerList)):
            if type(handler) is logging.StreamHandler:
                handler.setStream(sys.stderr)
        warnings.resetwarnings()
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        gc.freeze()
        exec(arguments[-1], {})
    finally:
        os._exit(0)


def python(
    arguments: list[str], *, timeout: float, processes: int = 1, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess:
    """Runs ``python arguments`` (``-c code`` or ``-m module`` first) in forked processes and captures what they write.

    Parameters
    ----------
    arguments : what follows ``python`` on the command line
    timeout : seconds until the processes are killed
    processes : 1, or the number of gloo ranks that ``torchrun --nproc-per-node`` would start
    env : variables to set besides those of this process

    Returns
    -------
    The exit status of the first rank that fails (0 where none does), and what all ranks wrote, one after the other.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}
    if processes > 1:
        from torch.distributed import TCPStore

        # kept by this process, as by torchrun's agent: the port stays taken until the ranks have ended
        store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
        environment |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "WORLD_SIZE": str(processes)}
        environment |= {"LOCAL_WORLD_SIZE": str(processes), "GLOO_SOCKET_IFNAME": "lo"}  # no name is looked up
    with tempfile.TemporaryDirectory() as folder:
        said, ranks = [Path(folder, str(rank)) for rank in range(processes)], []
        for rank, path in enumerate(said):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank)} if processes > 1 else {}
            ranks.append(_server.Process(target=_main, args=(arguments, environment | own, os.getcwd(), path)))
            ranks[-1].start()
        try:
            codes = _wait(ranks, timeout, arguments)
        except subprocess.TimeoutExpired as late:
            late.add_note("\n".join(path.with_suffix(".err").read_text()[-5000:] for path in said))
            raise
        out, err = ("".join(path.with_suffix(kind).read_text() for path in said) for kind in (".out", ".err"))
    return subprocess.CompletedProcess(arguments, next((code for code in codes if code), 0), out, err)


def imports(code: str, *packages: str) -> subprocess.CompletedProcess:
    """Runs code in a process in which nothing of sciops, nor of the other packages, is imported when it begins."""
    forget = f"""\
import sys
for name in [*sys.modules]:
    if name.split(".")[0] in {("sciops", *packages)}:
        del sys.modules[name]
"""
    return python(["-c", forget + code], timeout=120)


@dataclass(frozen=True)
class Running:
    """A process that `begin` has begun, with what a `subprocess.Popen` has of these names."""

    process: multiprocessing.Process
    said: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self, timeout: float = 60) -> int:
        self.process.join(timeout)
        assert self.process.exitcode is not None, f"it runs on after {timeout} s: {self.stderr}"
        return self.process.exitcode

    def kill(self) -> None:
        self.process.kill()

    @property
    def stdout(self) -> str:
        return self.said.with_suffix(".out").read_text()

    @property
    def stderr(self) -> str:
        return self.said.with_suffix(".err").read_text()


def begin(arguments: list[str], folder: Path, *, env: dict[str, str] | None = None) -> Running:
    """Begins ``python arguments`` (``-c code`` or ``-m module`` first) in `folder`, as a group of processes of its own.

    What it writes goes beside the folder, so that it may list what the folder holds.
    """
    said = Path(tempfile.mkdtemp(dir=folder.parent)) / "process"
    for kind in (".out", ".err"):
        said.with_suffix(kind).touch()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}
    process = _server.Process(target=_main, args=(arguments, environment, str(folder), said, True))
    process.start()
    return Running(process, said)


class Popen:
    """As `subprocess.Popen` of ``[sys.executable, "-m", module, ...]`` or ``"-c", code``, forked from the server.

    Pipes, files and the options below are those of `subprocess.Popen`. A package that the environment's ``PYTHONPATH``
    puts before the one of its name that the server has imported takes its place.
    """

    def __init__(
        self,
        words: list[str],
        *,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        text: bool = False,
        env: dict[str, str] | None = None,
        start_new_session: bool = False,
    ) -> None:
        self.args, theirs = words, []
        for number, (name, asked) in enumerate((("stdin", stdin), ("stdout", stdout), ("stderr", stderr))):
            setattr(self, name, None)
            if asked == subprocess.PIPE:
                read, write = os.pipe()
                end, mine = (read, write) if name == "stdin" else (write, read)
                setattr(self, name, open(mine, ("w" if name == "stdin" else "r") + ("" if text else "b")))
            elif asked == subprocess.DEVNULL:
                end = os.open(os.devnull, os.O_RDWR)
            else:
                same = theirs[1] if asked == subprocess.STDOUT else number if asked is None else asked
                end = os.dup(same if isinstance(same, int) else same.fileno())
            theirs.append(multiprocessing.connection.Connection(end))  # which a process can be given
        environment = os.environ if env is None else env
        arguments = (words[1:], dict(environment), os.getcwd(), theirs, start_new_session)
        self._process = _server.Process(target=_main, args=arguments)
        self._process.start()
        for end in theirs:
            end.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()


@contextlib.contextmanager
def dask_workers() -> Iterator[None]:
    """Workers of clusters that are begun in the context, and those that replace them, are forked from the server."""
    import dask
    import distributed.utils

    distributed.utils._forkserver_preload_set = True  # dask would name other modules for the server to import
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        yield


def _find_anew(package: str) -> None:
    """Forgets an imported package in whose place a fresh interpreter would find another one."""
    sys.path[:0] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path not in ("", *sys.path)]
    imported, found = sys.modules.get(package), importlib.machinery.PathFinder.find_spec(package)
    if imported is not None and found is not None and found.origin != imported.__spec__.origin:
        del sys.modules[package]


@contextlib.contextmanager
def undrawn() -> Iterator[None]:
    """Runs of `studies.train` in the block draw no figures: where nobody looks at them, that is half of their time."""
    from studies import train

    with mock.patch.object(train, "draw_all"):
        yield


_LAUNCHED = """
    import runpy
    import sys
    sys.path.insert(0, {here!r})
    from warm import undrawn
    with undrawn():
        runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""


def launch(module: str, arguments: list[str], *, processes: int = 1) -> str:
    """As `studies.kit.launch.launch`, with ranks of the server, which draw as in `undrawn`; what the module printed."""
    code = _LAUNCHED.format(here=str(Path(__file__).parent), module=module)
    done = python(["-c", code, *arguments], timeout=200, processes=processes, env={"CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def _wait(ranks: list[multiprocessing.Process], timeout: float, arguments: list[str]) -> list[int]:
    """Exit statuses in the order in which the ranks ended; one that fails, and a timeout, ends the others.

    Raises subprocess.TimeoutExpired, after every process that is left has written where it is to its standard error.
    """
    codes, waiting = [], list(ranks)
    while waiting:
        ended = multiprocessing.connection.wait([rank.sentinel for rank in waiting], timeout)
        codes += [rank.exitcode for rank in waiting if rank.sentinel in ended]
        waiting = [rank for rank in waiting if rank.sentinel not in ended]
        if not ended:
            for rank in waiting:
                os.kill(rank.pid, signal.SIGUSR1)
            time.sleep(1)
        if not ended or any(codes):
            for rank in waiting:
                rank.kill()
        if not ended:
            raise subprocess.TimeoutExpired(arguments, timeout)
    return codes


def _main(
    arguments: list[str],
    environment: dict[str, str],
    folder: str,
    said: Path | list[multiprocessing.connection.Connection],
    leads: bool = False,
) -> None:
    import torch

    if leads:
        os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if isinstance(said, Path):
        for number, kind in ((1, ".out"), (2, ".err")):
            os.dup2(os.open(said.with_suffix(kind), os.O_WRONLY | os.O_CREAT), number)
    else:
        for number, stream in enumerate(said):
            os.dup2(stream.fileno(), number)
            stream.close()
        sys.stdin = open(0, closefd=False)
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.register(signal.SIGUSR1, file=2)
    kind, what, *sys.argv[1:] = arguments
    status, kept = 0, {"__name__": "__main__"}
    try:
        if kind == "-m":
            _find_anew(what.partition(".")[0])
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            exec(compile(textwrap.dedent(what), "<string>", "exec"), kept)
    except SystemExit as stop:
        # Kept to the end with all that it refers to: a DistributedDataParallel that goes after its process group waits,
        # with Python's lock, for gloo's threads, which may wait for that lock to free a tensor (torch 2.13).
        kept["stop"] = stop
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
        status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
