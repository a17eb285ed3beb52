"""A process that opens files, watched: it is ended when a file takes too long, restarted when it has died."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from sciops.commands.packages import own_environment
from studies.kit.fuzzing.worker import opened_in_every_way, waited


class Worker:
    """A process that opens files; it is killed when a file takes too long, and restarted when it has died.

    What a file takes is the time from question to answer without that which the process, and those it has started,
    stood in the queue for a processor, so that a busy machine makes no hangs, and one that computes, sleeps or waits
    for a pipe is one. Where the system does not count the queue, all time counts; and 50 times `seconds` are a hang
    whatever was counted.
    """

    def __init__(self, seconds: float, megabytes: float = 1024.0, module: str = "studies.kit.fuzzing.worker") -> None:
        self.seconds, self.megabytes, self.module, self.process = seconds, megabytes, module, None

    def attempt(self, path: Path, reader: str | None = None) -> dict[str, Any]:
        process = self._running()
        began, before = time.perf_counter(), waited(process.pid)
        queued = dict(before)
        # what is opened by all verbs is opened five times; the file itself is held to `seconds` by the worker's clock
        allowed = 0.5 + self.seconds * (5 if opened_in_every_way(path) else 1)
        process.stdin.write(json.dumps({"path": str(path), "layout": reader}) + "\n")
        process.stdin.flush()
        while True:
            said = self._answer(process, self.seconds / 10)
            wall = time.perf_counter() - began
            queued |= waited(process.pid)  # what has ended keeps the last that was seen of it
            took = wall - sum(seconds - before.get(number, 0.0) for number, seconds in queued.items())
            if said is not None:
                said["seconds"] = min(said["seconds"], took)
                if said["seconds"] > self.seconds:
                    said |= {"outcome": "hang", "detail": f"{said['seconds']:.1f} s"}
                return said
            ended = process.poll()
            if ended is not None or took > allowed or wall > 50 * self.seconds:
                self.close()
                outcome = "hang" if ended is None else "death"
                detail = f"no answer in {took:.1f} s" if ended is None else f"the process ended with status {ended}"
                return {"outcome": outcome, "detail": detail, "seconds": took, "megabytes": 0.0}

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None

    def _running(self) -> subprocess.Popen:
        if self.process is None or self.process.poll() is not None:
            self.close()
            self.process = subprocess.Popen(
                [sys.executable, "-m", self.module, str(4 * self.megabytes)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**own_environment(), "OMP_NUM_THREADS": "1", "HDF5_USE_FILE_LOCKING": "FALSE"},
            )
            if self._answer(self.process, 300.0) is None:
                raise RuntimeError("the process that opens the files did not start: python -m " + self.module)
        return self.process

    @staticmethod
    def _answer(process: subprocess.Popen, seconds: float) -> dict[str, Any] | None:
        ready, _, _ = select.select([process.stdout], [], [], seconds)
        line = process.stdout.readline() if ready else ""
        return json.loads(line) if line else None
