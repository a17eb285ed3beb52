"""Runs a module in a process of its own, or in several under torchrun."""

from __future__ import annotations

import re
import subprocess
import sys

from sciops.commands.packages import own_environment


def launch(module: str, arguments: list[str], *, processes: int = 1) -> str:
    """Runs ``python -m module`` alone, or under torchrun with one thread a process; returns what it printed.

    Raises RuntimeError with what the first process that fails says.
    """
    command = [sys.executable, "-m", module, *arguments]
    if processes > 1:
        torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command = [sys.executable, "-m", *torchrun, "-m", module, *arguments]
    environment = {**own_environment(), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if re.match(r"error:|[\w.]*(Error|Exception|Loss)\b", line)]
        raise RuntimeError(f"{' '.join(command[2:])} failed: {' '.join(lines[:1]) or done.stderr[-2000:]}")
    return done.stdout
