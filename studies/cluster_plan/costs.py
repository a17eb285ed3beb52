"""What a Darcy sample and a training step cost by grid: processor seconds, stored bytes and peak memory."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from data_gen import darcy
from sciops.grids import Grid
from sciops.models import build_model
from studies.kit.timing import peak_memory

FIELDS = ("a", "u")  # of a sample, each n² values
BATCH_OF_PART = 4  # samples of the part whose memory is measured
STORED = (("float32", None), ("float32", 4), ("float64", None), ("float64", 4))  # dtype, level of gzip


def sample_cost(n: int, *, modes: int, seed: int, least: int, seconds: float) -> dict[str, Any]:
    """Processor seconds of Darcy samples on n × n nodes, one after the other on one thread.

    At least `least` samples, then more until `seconds` have passed; the first, which loads the compiled solver, is
    made before.

    Returns {"n", "samples", "seconds": mean, "spread": standard deviation over mean of single samples, "clock": clock
    over processor seconds, 1 on a machine without other work}.
    """
    config = _law(n, modes, seed)
    darcy.make(config, [(0, 1)])
    taken: list[float] = []
    clock = time.perf_counter()
    while len(taken) < least or sum(taken) < seconds:
        start = time.process_time()
        darcy.make(config, [(len(taken), len(taken) + 1)])
        taken.append(time.process_time() - start)
    clock = time.perf_counter() - clock
    mean = float(np.mean(taken))
    return {
        "n": n,
        "samples": len(taken),
        "seconds": mean,
        "spread": float(np.std(taken) / mean),
        "clock": clock / sum(taken),
    }


def stored_bytes(n: int, folder: Path, *, modes: int, seed: int, samples: int) -> list[dict[str, Any]]:
    """Bytes of the fields of a sample in the HDF5 file, and processor seconds to write it, by type and compression.

    Writing is the whole of `sciops.datasets.generation.writer.generate` with samples made before: parts, checksums,
    assembly.
    """
    from sciops.datasets.generation.writer import Plan, generate

    made = darcy.make(_law(n, modes, seed), [(0, samples)])
    rows = []
    for dtype, level in STORED:
        arrays = {f"r{n}/{name}": made[f"r{n}/{name}"].astype(dtype) for name in FIELDS}
        path = folder / f"{n}-{dtype}-{level}.h5"
        plan = Plan(path, samples, samples, {}, {f"r{n}": Grid((n, n))}, compression=level)
        start = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()):
            generate(plan, lambda ranges, arrays=arrays: arrays, progress=False)
        seconds = time.process_time() - start
        rows.append(
            {
                "n": n,
                "dtype": dtype,
                "gzip": level,
                "bytes": _storage(path, n) / samples,
                "raw": len(FIELDS) * np.dtype(dtype).itemsize * n**2,
                "seconds": seconds / samples,
            }
        )
        path.unlink()
    return rows


def part_peak(n: int, *, modes: int, seed: int) -> int:
    """Bytes at the peak of making a part of `BATCH_OF_PART` samples, beyond what its process held before."""
    return peak_memory("studies.cluster_plan.costs:part", n, BATCH_OF_PART, modes, seed)


def part(n: int, samples: int, modes: int, seed: int) -> Callable[[], Any]:
    """What `part_peak` measures; the compiled solver is loaded before."""
    darcy.make(_law(9, 8, seed), [(0, 1)])
    config = _law(n, modes, seed)
    return lambda: darcy.make(config, [(0, samples)])


def step_cost(n: int, network: dict[str, int], *, batch: int, steps: int) -> dict[str, Any]:
    """Processor seconds and memory of a training step of an FNO on n × n nodes, one thread.

    Memory by the formula: 4 bytes × (gradient + two moments of Adam, 3 P) + what autograd saves for the backward pass,
    counted tensor by tensor; beside it the measured peak beyond weights and batch.

    Returns {"n", "batch", "parameters", "seconds": median, "clock", "saved", "formula", "peak"}.
    """
    prepared = _step(n, network, batch)
    prepared()
    taken, clock = [], time.perf_counter()
    for _ in range(steps):
        start = time.process_time()
        prepared()
        taken.append(time.process_time() - start)
    clock = time.perf_counter() - clock
    parameters, saved = saved_bytes(n, network, batch)
    return {
        "n": n,
        "batch": batch,
        "parameters": parameters,
        "seconds": float(np.median(taken)),
        "clock": clock / sum(taken),
        "saved": saved,
        "formula": 12 * parameters + saved,
        "peak": peak_memory("studies.cluster_plan.costs:step", n, network, batch),
    }


def saved_bytes(n: int, network: dict[str, int], batch: int) -> tuple[int, int]:
    """(real parameters, bytes that autograd saves for the backward pass besides weights), each storage once."""
    model, x, y = _problem(n, network, batch)
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights | {x.untyped_storage().data_ptr()}:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = (model(x) - y).square().mean()
    del loss
    count = sum(p.numel() * (2 if p.is_complex() else 1) for p in model.parameters())
    return count, sum(kept.values())


def step(n: int, network: dict[str, int], batch: int) -> Callable[[], Any]:
    """A step for `peak_memory`; one on a small grid is made before, so that what torch loads is not counted."""
    _step(2 * network["modes"] + 2, network, 1)()
    return _step(n, network, batch)


def solving(n: int, modes: int, seed: int, *, first: int, count: int) -> Callable[[], Any]:
    """A call that makes `count` Darcy samples from the number `first` on, one after the other."""
    config = _law(n, modes, seed)

    def call() -> None:
        for i in range(first, first + count):
            darcy.make(config, [(i, i + 1)])

    return call


def averaging_step(n: int, network: dict[str, int], batch: int, world: int) -> Callable[[], Any]:
    """A training step of which the gradients are averaged over `world` processes, as one message."""

    def average(model: torch.nn.Module) -> None:
        grads = [torch.view_as_real(p.grad) if p.grad.is_complex() else p.grad for p in model.parameters()]
        whole = torch.cat([grad.reshape(-1) for grad in grads])
        torch.distributed.all_reduce(whole)
        for grad, mean in zip(grads, whole.div_(world).split([grad.numel() for grad in grads])):
            grad.copy_(mean.view(grad.shape))

    return _step(n, network, batch, average if world > 1 else None)


def _step(
    n: int, network: dict[str, int], batch: int, average: Callable[[torch.nn.Module], None] | None = None
) -> Callable[[], Any]:
    model, x, y = _problem(n, network, batch)
    optimizer = torch.optim.Adam(model.parameters())

    def call() -> float:
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        if average is not None:
            average(model)
        optimizer.step()
        return float(loss.detach())

    return call


def _problem(n: int, network: dict[str, int], batch: int) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    size = {key: network[key] for key in ("width", "depth")}
    modes = (network["modes"],) * 2
    model = build_model("fno", in_channels=1, out_channels=1, modes=modes, grid=Grid((n, n)), **size)
    return model, torch.rand(batch, 1, n, n), torch.rand(batch, 1, n, n)


def _law(n: int, modes: int, seed: int) -> darcy.DarcyConfig:
    return darcy.DarcyConfig(resolutions=(n,), modes=modes, seed=seed, threads=1, progress=False)


def _storage(path: Path, n: int) -> int:
    import h5py

    with h5py.File(path, "r") as file:
        return sum(file[f"r{n}/{name}"].id.get_storage_size() for name in FIELDS)
