"""The Darcy solver's torch form on a device, in large batches, beside the compiled form on one core."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.pde import darcy
from studies.kit.solver_cases import check, fields, matrix_of
from studies.kit.timing import interleaved

if TYPE_CHECKING:
    from studies.solver_speed import Config


def on_device(config: Config) -> list[dict[str, Any]]:
    """Time per sample, iterations and memory for every size of the configuration, a `studies.solver_speed.Config`.

    Raises RuntimeError where a solution is not that of the compiled form, or its residual is above the tolerance.
    """
    import torch

    device = torch.device(config.device)
    rows = []
    for n in config.device_sizes:
        for kind in ("12/3", "100:1"):
            a = fields(kind, n, config.device_samples, config.seed)
            there, few = torch.from_numpy(a).to(device), a[: min(8, len(a))]
            torch.cuda.reset_peak_memory_stats(device)
            solution = darcy.solve(there, tol=config.tol, backend="torch")
            memory = torch.cuda.max_memory_allocated(device)
            reference = darcy.solve(few, tol=config.tol, threads=1).u
            for i, u in enumerate(solution.u[: len(few), 1:-1, 1:-1].cpu().numpy()):
                check(f"torch on {device}", *matrix_of(a[i]), u, reference[i, 1:-1, 1:-1], config.tol)
            calls = {
                "device": functools.partial(darcy.solve, there, tol=config.tol, backend="torch"),
                "compiled": functools.partial(darcy.solve, few, tol=config.tol, threads=1),
            }
            taken = interleaved(
                calls, rounds=max(3, config.repeats), synchronize=functools.partial(torch.cuda.synchronize, device)
            )
            rows.append(
                {
                    "kind": kind,
                    "n": n,
                    "batch": len(a),
                    "seconds": float(np.median(taken["device"])) / len(a),
                    "compiled_seconds": float(np.median(taken["compiled"])) / len(few),
                    "iterations": int(solution.iterations.max()),
                    "bytes_per_unknown": memory / (len(a) * (n - 2) ** 2),
                }
            )
    return rows
