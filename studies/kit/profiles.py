"""Where the time of a step goes: torch's operations by kind, with the rate of the matrix products.

The profiler sees what the calling thread waits for. What is left of the time, between operations, is Python and
autograd; it is measured without the profiler, which slows both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from studies.kit.tables import print_table
from studies.kit.timing import interleaved, threads

PRODUCTS = ("mm", "addmm", "addmm_", "bmm", "baddbmm", "baddbmm_", "linear")
KINDS: dict[str, tuple[str, ...]] = {
    "matrix products": PRODUCTS,
    "attention kernels": ("_scaled_dot_product",),
    "copies and filling": ("copy_", "fill_", "zero_", "cat", "clone", "index", "roll", "flip"),
    "activations": ("gelu", "silu", "relu", "tanh", "sigmoid"),
    "normalisation and softmax": ("native_layer_norm", "_softmax", "rms_norm"),
    "Fourier transforms": ("_fft",),
    "optimizer": ("_fused_adam", "_foreach"),
}
OTHER, BETWEEN = "other operations", "between operations: Python, autograd"


def kind_of(operation: str) -> str:
    """The kind of an operation of aten, by how its name begins; matrix products by the whole name."""
    name = operation.removeprefix("aten::")
    if name in PRODUCTS:
        return "matrix products"
    return next(
        (kind for kind, starts in KINDS.items() if starts is not PRODUCTS and name.startswith(starts)),
        OTHER,
    )


def profiled(call: Callable[[], Any], count: int, *, repeats: int = 10) -> dict[str, Any]:
    """{"seconds" of a call, "kinds": kind → seconds, "calls" of operations, "rate" of matrix products in operations a
    second}, on `count` threads.

    The seconds of the kinds are those under the profiler, scaled down together where they are more than a call takes
    without it.
    """
    from torch.profiler import ProfilerActivity, profile

    with threads(count):
        seconds = float(np.median(interleaved({"": call}, rounds=repeats, warmup=3)[""]))
        with profile(activities=[ProfilerActivity.CPU], with_flops=True, record_shapes=True) as seen:
            for _ in range(repeats):
                call()
    kinds: dict[str, float] = {}
    operations, calls = 0.0, 0
    for event in seen.key_averages():
        if event.key.startswith("aten::"):
            kind = kind_of(event.key)
            kinds[kind] = kinds.get(kind, 0.0) + 1e-6 * event.self_cpu_time_total / repeats
            calls += event.count
            if kind == "matrix products":
                operations += event.flops / repeats
    product_seconds = kinds.get("matrix products", 0.0)
    scale = min(1.0, seconds / sum(kinds.values())) if kinds else 1.0
    kinds = {kind: scale * value for kind, value in sorted(kinds.items(), key=lambda item: -item[1])}
    kinds[BETWEEN] = max(0.0, seconds - sum(kinds.values()))
    return {
        "seconds": seconds,
        "threads": count,
        "kinds": kinds,
        "calls": round(calls / repeats),
        "rate": operations / product_seconds if product_seconds else 0.0,
    }


def rows_of(profile: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows {"kind", "milliseconds", "share"} of a profile for a table."""
    return [
        {"kind": kind, "milliseconds": 1e3 * value, "share": value / profile["seconds"]}
        for kind, value in profile["kinds"].items()
    ]


def print_profiles(profiles: Mapping[str, Mapping[str, Any]]) -> None:
    """A table for each, with the calls of a step and the rate of its products."""
    for what, one in profiles.items():
        title = (
            f"{what}: {1e3 * one['seconds']:.1f} ms on {one['threads']} threads, {one['calls']} operations, products "
            f"at {1e-9 * one['rate']:.0f} GFLOP/s"
        )
        print_table(rows_of(one), "=kind; ms=milliseconds:.2f; share:.0%", title=title)
