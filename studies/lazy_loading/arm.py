"""One training of `studies.lazy_loading` in a process of its own, whose peak memory is its alone.

python -m studies.lazy_loading.arm '{"data": …}'      prints one line of JSON
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any


def main(options: dict[str, Any]) -> dict[str, Any]:
    """Trains an fno as `options` say; returns its losses, seconds per epoch, and the peak memory of it and its workers.

    data, memory_limit : file, and bytes above which it is read on demand
    way : "memory", "thread", or a start method of worker processes
    width, depth, modes, batch_size, epochs, seed, workers : of the model and its training
    """
    import torch

    from sciops.datasets import load_splits
    from sciops.models import build_model
    from sciops.training import TrainConfig, fit

    torch.set_num_threads(1)
    way, before = options["way"], _peak()
    start = time.perf_counter()
    data = load_splits(options["data"], memory_limit=2**62 if way == "memory" else options["memory_limit"])
    opening = time.perf_counter() - start
    if data.train.lazy == (way == "memory"):
        raise RuntimeError(f"the file and memory_limit={options['memory_limit']} do not fit the way {way!r}")
    torch.manual_seed(options["seed"])
    size = {key: options[key] for key in ("width", "depth")}
    modes = (options["modes"],) * data.train.grid.ndim
    model = build_model("fno", in_channels=1, out_channels=1, modes=modes, basis="cosine", grid=data.train.grid, **size)
    processes = {} if way in ("memory", "thread") else {"loader_workers": options["workers"], "start_method": way}
    how = {key: options[key] for key in ("epochs", "batch_size", "seed")}
    config = TrainConfig(device="cpu", progress=False, **how, **processes)
    start = time.perf_counter()
    run = fit(model, data, config)
    wall = time.perf_counter() - start
    marks = [0.0, *(record["seconds"] for record in run.history)]
    return {
        "way": way,
        "opening": opening,
        "wall": wall,
        "epoch_seconds": [b - a for a, b in zip(marks, marks[1:])],
        "loss": [record["loss"] for record in run.history],
        "validation": [record["validation"] for record in run.history],
        "before": before,
        "peak": _peak(),
        "worker_peak": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 if processes else 0,
    }


def _peak() -> int:
    """Most bytes this process ever held; /proc knows it of this program alone, getrusage also of the one that began
    it."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
