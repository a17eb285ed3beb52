"""Blocks on two processes: the backward pass of Highway-BP against that of a pipeline whose processes wait in turn.

    python -m studies.highway_pipeline
    torchrun --nproc-per-node 2 -m studies.highway_pipeline

Residual layers of an FNO, or pre-norm MLPs, lie half on each process (gloo, one thread each). Forward, the second waits
for the first. Backward by exact backpropagation the second hands its gradient to the first; by Highway-BP both
take their products with Jᵀ at the same time and exchange one sum a sweep. Before anything is timed, gradients are held
against those of one process in float64; unequal ones end the run.

Where a layer's product with Jᵀ costs as much as the one that gives its parameters' gradient, as in large dense layers,
backpropagation takes 2L of them one after another and Highway-BP (k + 1)L/2 on each process: 4, 2, 1.33 and 1 times as
fast for k = 0, 1, 2, 3. Where either alone costs what both do, as in layers that are bound by memory, it is 2, 1, 0.67
and 0.5 times. The share that one costs of both is measured beside, and so is the time that processors worked: the sum
over the processes in turns, the longest of them for Highway-BP, which other load on the machine does not change. Memory
is that of a forward and a backward pass beyond weights and input, of the process that needs most.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sciops.files.writable import writable_folder
from sciops.grids import Grid
from sciops.models import build_model
from sciops.plotting import figure, series
from sciops.training.gradients import highway_stack
from sciops.training.gradients.stacks import Layer, LayerByLayer, layers_of, layers_of_block
from studies.kit.answers import listed, met, sentence
from studies.kit.study import finished, opened
from studies.kit.tables import print_table
from studies.kit.timing import interleaved, print_targets, process_peak, require_equal, target


@dataclass(frozen=True)
class Config:
    stacks: tuple[str, ...] = ("mlp", "fno")
    """kinds of layers: "mlp", pre-norm MLPs, and "fno", the two layers of the spine's blocks by turns"""
    layers: int = 32  # over all processes
    width: int = 24  # channels of the FNO
    modes: int = 8
    points: int = 48  # per axis of the FNO's grid
    batch_size: int = 4
    dense_width: int = 256  # units of the MLPs' states, half of those inside
    rows: int = 256  # states in a batch of the MLPs
    iterations: tuple[int, ...] = (0, 1, 2, 3, 4, 8)  # k of the arms
    rounds: int = 9  # times that each arm is timed
    processes: int = 2
    seed: int = 0
    output: Path = Path("runs/highway_pipeline")  # folder for results.json and the figure


PRESETS = {
    "quick": Config(),
    "full": Config(width=32, points=64, dense_width=512, rows=512, rounds=25, iterations=(0, 1, 2, 3, 4, 6, 8)),
}
_CHECKED = (0, 1, 3, 63)  # k for which gradients are compared


def run(config: Config) -> dict[str, Any]:
    """Starts the processes where torchrun has not, and on the first prints, writes results.json and the figure.

    Raises RuntimeError where the gradients of the processes are not those of one.
    """
    writable_folder(config.output)
    if "RANK" not in os.environ:
        from studies.kit.launch import launch

        flags = [_flag(config, f.name) for f in fields(config)]
        print(launch("studies.highway_pipeline", sum(flags, []), processes=config.processes), end="")
        return _read(config)
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    try:
        _check(config, dist.get_world_size())
        results: dict[str, Any] = {"equal_to": check_equal(config), "layers": config.layers, "stacks": {}}
        for kind in config.stacks:
            rows = timed(kind, config)
            layers, h, _ = stack_of(kind, config, torch.float32)
            # of a few layers of one process, while the others wait
            shares = cost_shares(layers[0][:4], h, config.rounds) if dist.get_rank() == 0 else {}
            dist.barrier()
            results["stacks"][kind] = {"rows": rows, "costs": shares}
        if dist.get_rank() == 0:
            _report(results, config)
        dist.barrier()
    finally:
        dist.destroy_process_group()
    return results


def stack_of(kind: str, config: Config, dtype: torch.dtype) -> tuple[list[list[Layer]], Tensor, Tensor]:
    """Layers by process, the state h_0, and the gradient of the loss with respect to h_L; the same on every process."""
    import torch.distributed as dist

    torch.manual_seed(config.seed)
    if kind == "mlp":
        n = config.dense_width
        layers = layers_of(
            [
                nn.Sequential(nn.LayerNorm(n), nn.Linear(n, 2 * n), nn.GELU(), nn.Linear(2 * n, n)).to(dtype)
                for _ in range(config.layers)
            ]
        )
        shape: tuple[int, ...] = (config.rows, n)
    else:
        options = dict(width=config.width, depth=-(-config.layers // 2), modes=(config.modes,) * 2)
        model, grid = build_model("fno", in_channels=1, out_channels=1, **options).to(dtype), Grid((config.points,) * 2)
        layers = [layer for block in model.blocks for layer in layers_of_block(block, grid, (1, 1))][: config.layers]
        shape = (config.batch_size, *grid.shape, config.width)
    # the two layers of a block share its module: they stay together
    parts = np.array_split(np.arange(config.layers).reshape(-1, 2 if kind == "fno" else 1), dist.get_world_size())
    h, weight = torch.randn(2, *shape, dtype=dtype)
    return [[layers[i] for i in part.flatten()] for part in parts], h, weight


def cost_shares(layers: list[Layer], h: Tensor, rounds: int) -> dict[str, float]:
    """What the product with Jᵀ, and the one for the parameters, cost of a layer's whole backward pass: medians."""
    engine = LayerByLayer(layers)
    parameters = list(dict.fromkeys(p for layer in layers for p in layer.parameters()))
    engine.forward(h, parameters)
    outputs = [z for parts in engine.branches for z in parts]
    weights = [torch.ones_like(z) for z in outputs]

    def call(inputs: list[Tensor]) -> Any:
        return lambda: torch.autograd.grad(outputs, inputs, weights, retain_graph=True, allow_unused=True)

    calls = {"both": call([*engine.inputs, *parameters]), "state": call(engine.inputs), "parameters": call(parameters)}
    seconds = {name: float(np.median(values)) for name, values in interleaved(calls, rounds=rounds).items()}
    return {name: seconds[name] / seconds["both"] for name in ("state", "parameters")}


def check_equal(config: Config) -> float:
    """The largest relative difference from the gradients of one process, over some k, with γ = 0 and 0.3, float64."""
    import torch.distributed as dist

    from sciops.training.gradients import PlacedStack

    small = Config(layers=8, width=6, modes=3, points=8, batch_size=2, dense_width=6, rows=5, seed=config.seed)
    worst = 0.0
    for kind, k, gamma in [(s, k, g) for s in config.stacks for k in (*_CHECKED, None) for g in (0.0, 0.3)]:
        layers, h, weight = stack_of(kind, small, torch.float64)
        whole, own = h.clone().requires_grad_(), h.clone().requires_grad_()
        parameters = [p for part in layers for layer in part for p in layer.parameters()]
        options = dict(iterations=64 if k is None else k, gamma=gamma)
        (highway_stack(sum(layers, []), whole, **options) * weight).sum().backward()
        mine = list(dict.fromkeys(p for layer in layers[dist.get_rank()] for p in layer.parameters()))
        expected = [p.grad.clone() for p in mine]
        for p in parameters:
            p.grad = None
        stack = PlacedStack(layers[dist.get_rank()])
        _backward(stack, stack.forward(own, exact=k is None), weight, k, gamma)
        name = f"{kind}, process {dist.get_rank()}, k = {k}, γ = {gamma}"
        if stack.first:
            worst = max(worst, require_equal(f"{name}, input", own.grad, whole.grad, 1e-12))
        for p, g in zip(mine, expected):
            worst = max(worst, require_equal(name, p.grad, g, 1e-11))
            p.grad = None
    found = torch.tensor(worst)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return float(found)


def timed(kind: str, config: Config) -> list[dict[str, Any]]:
    """Median milliseconds between barriers of the forward and of the backward pass, arms in turns; None is backprop."""
    import torch.distributed as dist

    from sciops.training.gradients import PlacedStack

    layers, h, weight = stack_of(kind, config, torch.float32)
    stack = PlacedStack(layers[dist.get_rank()])
    arms: list[int | None] = [None, *config.iterations]
    seconds: dict[int | None, list[tuple[float, float, float]]] = {k: [] for k in arms}
    gradients: dict[int | None, Tensor] = {}
    for number in range(config.rounds + 1):
        for k in arms if number % 2 else reversed(arms):
            for p in stack.parameters:
                p.grad = None
            dist.barrier()
            start = time.perf_counter()
            output = stack.forward(h, exact=k is None)
            dist.barrier()
            middle, worked = time.perf_counter(), time.process_time()
            _backward(stack, output, weight, k, 0.0)
            worked = time.process_time() - worked
            dist.barrier()
            end = time.perf_counter()
            if number:  # the first round warms up
                seconds[k].append((middle - start, end - middle, worked))
            gradients[k] = torch.cat([p.grad.flatten() for p in stack.parameters])
    peaks = {k: _peak(stack, h, weight, k) for k in arms}
    rows = []
    for k in arms:
        sums = torch.stack(
            [gradients[k] @ gradients[None], gradients[k].square().sum(), gradients[None].square().sum()]
        )
        dist.all_reduce(sums)
        forward, backward, worked = np.median(np.array(seconds[k]), axis=0)
        path = torch.tensor(worked)
        dist.all_reduce(path, dist.ReduceOp.SUM if k is None else dist.ReduceOp.MAX)
        base = np.array(seconds[None])[:, 1]
        low, high = np.quantile(base / np.array(seconds[k])[:, 1], [0.25, 0.75])
        rows.append(
            {
                "k": k,
                "forward": 1e3 * float(forward),
                "backward": 1e3 * float(backward),
                "worked": 1e3 * float(path),
                "speed": float(np.median(base) / backward),
                "speed_low": float(low),
                "speed_high": float(high),
                "cosine": float(sums[0] / (sums[1] * sums[2]).sqrt()),
                "bytes": peaks[k],
                "memory": peaks[k] / peaks[None],
            }
        )
    return rows


def _peak(stack: Any, h: Tensor, weight: Tensor, k: int | None) -> int:
    """Bytes beyond weights and input of the process that needs most for a forward and a backward pass."""
    import torch.distributed as dist

    for p in stack.parameters:
        p.grad = None
    stack.engine = stack.input = stack.graph = stack.output = None
    dist.barrier()
    own = process_peak(lambda: _backward(stack, stack.forward(h, exact=k is None), weight, k, 0.0))
    found = torch.tensor(own)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return int(found)


def _backward(stack: Any, output: Tensor, weight: Tensor, k: int | None, gamma: float) -> None:
    if stack.last:
        (output * weight).sum().backward()
    stack.backward(k, gamma=gamma)


def _check(config: Config, processes: int) -> None:
    unknown = [kind for kind in config.stacks if kind not in ("mlp", "fno")]
    if unknown or config.layers % 2 or config.layers < 2 * processes:
        raise ValueError(
            f"--stacks {' '.join(config.stacks)} --layers {config.layers}: expected mlp or fno, and an even number of "
            f"layers, at least two for each of {processes} processes"
        )


def _report(results: dict[str, Any], config: Config) -> None:
    folder = opened(config, seeds=[config.seed], methods=["highway", "fno"])
    results["targets"] = [
        target(f"{kind}: backward pass of the pipeline / of k = {row['k']}", row["speed"], least=1.0)
        for kind, found in results["stacks"].items()
        for row in found["rows"]
        if row["k"] in (0, 1, 2)
    ]
    show = lambda results: _print(results, config)  # noqa: E731
    finished(folder, results, _draw, show, answer=answer, picture="highway_pipeline.png")


def answer(results: dict[str, Any]) -> str:
    """The speed of the backward pass by number of sweeps, by kind of layers."""
    said = []
    for kind, found in results["stacks"].items():
        speeds = listed(f"{row['speed']:.2f} (k = {row['k']})" for row in found["rows"] if row["k"] is not None)
        said.append(f"{kind}: the backward pass is {speeds} times as fast as backpropagation in turns")
    return sentence(*said, met(results["targets"]))


def _print(results: dict[str, Any], config: Config) -> None:
    print(f"{results['layers']} layers on {config.processes} processes, backward pass; milliseconds, and times as fast")
    print(f"as backpropagation in turns (quartiles); gradients are those of one process to {results['equal_to']:.1e}")
    for kind, found in results["stacks"].items():
        costs = found["costs"]
        print_table(
            [{**row, "by work": found["rows"][0]["worked"] / row["worked"]} for row in found["rows"]],
            ("", lambda row, kind=kind: f"{kind} in turns" if row["k"] is None else f"{kind} k = {row['k']}"),
            "forward:.1f; backward:.1f; times as fast=speed:.2f; low=speed_low:.2f; high=speed_high:.2f",
            "by work:.2f; cosine:.4f",
            ("MB", lambda row: f"{row['bytes'] / 1e6:.0f}"),
            "/ in turns=memory:.2f",
        )
        print(f"of a layer's backward pass alone: Jᵀ {costs['state']:.2f}, parameters {costs['parameters']:.2f}")
    print_targets(results["targets"])


def _draw(results: dict[str, Any], path: Path) -> None:
    kinds = results["stacks"]
    caption = (
        "Speed of the backward pass over processes in a row, median and quartiles, and cosine, by number of sweeps."
    )
    with figure(path, 1, 2, caption=caption) as (_, axes):
        for (kind, found), style in zip(kinds.items(), series()):
            rows = [row for row in found["rows"] if row["k"] is not None]
            k, speed = [row["k"] for row in rows], np.array([row["speed"] for row in rows])
            errors = [speed - [row["speed_low"] for row in rows], [row["speed_high"] for row in rows] - speed]
            axes[0, 0].errorbar(k, speed, np.maximum(errors, 0), label=kind, capsize=3, **style)
            axes[0, 1].plot(k, [row["cosine"] for row in rows], label=kind, **style)
        axes[0, 0].axhline(1.0, color="0.3", linewidth=0.8)
        axes[0, 0].set(
            xlabel="sweeps k", ylabel="times as fast as in turns", title=f"backward, {results['layers']} layers"
        )
        axes[0, 0].set_ylim(bottom=0)
        axes[0, 1].set(xlabel="sweeps k", ylabel="cosine with the true gradient", title="at the start")
        axes[0, 0].legend()
        for axis in axes[0]:
            axis.set_xticks(k)


def _flag(config: Config, name: str) -> list[str]:
    value = getattr(config, name)
    return [f"--{name.replace('_', '-')}", *(map(str, value) if isinstance(value, tuple) else [str(value)])]


def _read(config: Config) -> dict[str, Any]:
    import json

    return json.loads((Path(config.output) / "results.json").read_text())


if __name__ == "__main__":
    from sciops.commands.command_line import command

    command(run, PRESETS)
