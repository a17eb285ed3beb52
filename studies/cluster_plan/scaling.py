"""Strong and weak scaling on one and two processes, measured by the processes themselves.

torchrun --nproc-per-node 2 -m studies.cluster_plan.scaling '{"n": …}'      prints one line of JSON
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from studies.cluster_plan.costs import averaging_step, solving


def main(options: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows {"work", "scaling", "processes", "seconds", "clock"}: seconds of the slowest process.

    n, samples, modes, seed : Darcy samples on n × n nodes, that all processes (strong) or each (weak) make
    steps, train_n, network, batch : steps of an FNO, with that batch over all processes (strong) or on each (weak),
        gradients averaged by gloo
    """
    torch.set_num_threads(1)
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world > 1:
        dist.init_process_group("gloo")
    rows = []
    try:
        for scaling, share in {"strong": world, "weak": 1}.items():
            count = options["samples"] // share
            work = solving(options["n"], options["modes"], options["seed"], first=rank * count, count=count)
            rows.append({"work": "samples", "scaling": scaling, "processes": world, **_measured(work, world)})
            batch = options["batch"] // share
            step = averaging_step(options["train_n"], options["network"], batch, world)

            def steps(step: Callable[[], Any] = step) -> None:
                for _ in range(options["steps"]):
                    step()

            rows.append({"work": "training", "scaling": scaling, "processes": world, **_measured(steps, world)})
    finally:
        if world > 1:
            dist.destroy_process_group()
    return rows if rank == 0 else []


def _measured(work: Callable[[], Any], world: int) -> dict[str, float]:
    """Seconds of a second call that all processes begin together, of the slowest."""
    work()
    if world > 1:
        dist.barrier()
    busy, clock = time.process_time(), time.perf_counter()
    work()
    taken = torch.tensor([time.process_time() - busy, time.perf_counter() - clock])
    if world > 1:
        dist.all_reduce(taken, op=dist.ReduceOp.MAX)
    return {"seconds": float(taken[0]), "clock": float(taken[1])}


if __name__ == "__main__":
    found = main(json.loads(sys.argv[1]))
    if found:
        print(json.dumps(found))
