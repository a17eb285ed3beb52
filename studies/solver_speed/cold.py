"""What the first Darcy solve of a machine costs: processor seconds with an empty cache of numba, and afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

from studies.kit.tables import print_table

_FIRST_SOLVE = """
import json, time
import numpy as np
from numba.core import event
from sciops.pde import darcy

begun, found = [], {}

class Compilations(event.Listener):
    def on_start(self, event):
        begun.append(time.process_time())

    def on_end(self, event):
        name = event.data["dispatcher"].py_func.__name__
        found[name] = found.get(name, 0.0) + time.process_time() - begun.pop()

start = time.process_time(), time.perf_counter()
with event.install_listener("numba:compile", Compilations()):
    darcy.solve(np.ones((1, 64, 64)), threads=1, backend="numba")
taken = {"cpu_seconds": time.process_time() - start[0], "seconds": time.perf_counter() - start[1]}
print(json.dumps(taken | {"functions": found}))
"""


def first_solves(repeats: int = 3) -> dict[str, Any]:
    """The first solve, 64², of fresh processes: {"compiled": of an empty cache, "cached": the median of later ones}.

    Each has cpu_seconds and seconds of that solve, numba's import included; "functions" of the compiled one are the
    processor seconds for each function, what it calls included.
    """
    with tempfile.TemporaryDirectory() as place:
        compiled = _first(place)
        later = [_first(place) for _ in range(repeats)]
    if not compiled["functions"] or any(one["functions"] for one in later):
        raise RuntimeError("numba did not keep the solver on disk: later processes compile it again")
    cached = {name: float(np.median([one[name] for one in later])) for name in ("cpu_seconds", "seconds")}
    return {"compiled": compiled, "cached": cached}


def _first(place: str) -> dict[str, Any]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": place, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _FIRST_SOLVE], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the first solve failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return json.loads(done.stdout)


def show(found: dict[str, Any]) -> None:
    """The two kinds of first solves, and the functions that take longest to compile."""
    rows = [{"process": name, **found[name]} for name in ("compiled", "cached")]
    print_table(rows, "first solve=process; CPU seconds=cpu_seconds:.2f; seconds:.2f", title="first solve of a process")
    longest = sorted(found["compiled"]["functions"].items(), key=lambda item: -item[1])[:8]
    print("compiled, with what they call: " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in longest))
