"""Seconds of a training step with and without torch.compile, taken in turn: one process a case, so that nothing warms
another. `studies.distributed_training` runs it."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

# points, batch, modes of an fno of width 32 and depth 4, on nodes (2-D) or a periodic line (1-D)
CASES = {"fno 85×85": ((85, 85), 8, (12, 12)), "fno 256 (1-D)": ((256,), 16, (16,))}


def main(name: str, steps: int) -> dict[str, Any]:
    """Medians over `steps` steps of each kind, the cost of the first compiled one, and the breaks of its graph.

    Raises RuntimeError where compiled losses or gradients differ by more than rounding.
    """
    import torch

    from sciops.grids import Grid
    from sciops.models import build_model
    from sciops.training import TrainConfig
    from sciops.training.setup import OnGrid, compiled

    shape, batch, modes = CASES[name]
    grid = Grid(shape, centering="node" if len(shape) > 1 else "periodic")
    torch.manual_seed(0)
    model = build_model("fno", in_channels=1, out_channels=1, width=32, depth=4, modes=modes, grid=grid)
    x = torch.randn(batch, 1, *shape)
    fronts = {"eager": OnGrid(model), "compiled": compiled(OnGrid(model), TrainConfig(compile=True))}

    def step(kind: str) -> tuple[float, list[torch.Tensor]]:
        model.zero_grad()
        start = time.perf_counter()
        loss = fronts[kind](x, grid).square().mean()
        loss.backward()
        return time.perf_counter() - start, [loss.detach(), *(p.grad.clone() for p in model.parameters())]

    first = step("compiled")[0]
    step("eager")
    times: dict[str, list[float]] = {kind: [] for kind in fronts}
    worst = 0.0
    for _ in range(steps):
        found = {kind: step(kind) for kind in fronts}
        for kind, (seconds, _) in found.items():
            times[kind].append(seconds)
        for a, b in zip(found["eager"][1], found["compiled"][1]):
            worst = max(worst, float((a - b).norm() / a.norm().clamp_min(1e-12)))
    if not worst < 1e-4:
        raise RuntimeError(f"{name}: compiled gradients differ by {worst:.1e}, more than rounding")
    graph = torch._dynamo.explain(OnGrid(model))(x, grid)
    eager, fast = (float(np.median(times[kind])) for kind in fronts)
    return {
        "case": name,
        "eager": eager,
        "compiled": fast,
        "ratio": eager / fast,
        "first": first,
        "graph_breaks": graph.graph_break_count,
        "difference": worst,
        "all": times,
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
