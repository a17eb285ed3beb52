"""What multipole attention costs: against windows on one level, against full attention, and over the grid size.

    python -m studies.attention_cost
    python -m studies.attention_cost --preset full --device cuda

A step is the forward pass and the gradients of the input and of all parameters for a random cotangent, one sample. The
single-level layer it is held against is plain: raster windows, torch's modules and fused kernel; the package's own
`WindowAttention`, which works in bands as the multipole layer does, stands beside it. Memory is the peak of a process
of its own beyond weights and input. Layers that differ from a direct float64 evaluation end the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from studies.attention_cost.report import answer, draw, print_report, targets
from studies.kit import timing
from studies.kit.limits import measured_rates
from studies.kit.profiles import profiled
from studies.kit.study import device_name, finished, opened

Sizes = tuple[int, int]


@dataclass(frozen=True)
class Config:
    channels: int = 64  # of every layer; 4 heads
    windows: tuple[int, ...] = (2, 4, 8)  # cells per axis of a window; 2, 4 or 8
    ratio_sizes: tuple[int, ...] = (128, 256)  # cells per axis for the comparison with one level
    curve: tuple[int, ...] = (64, 128, 256)
    """cells per axis for the cost over the grid; exponents are taken from the first to the last"""
    large: int = 512
    """cells per axis of one more measurement of the memory, where the bands' fixed workspace no longer shows"""
    full_sizes: tuple[int, ...] = (64, 128)
    """cells per axis for full attention: `rounds` at the first, `slow_rounds` at the others"""
    odd_grids: tuple[Sizes, ...] = ((85, 85), (96, 160), (100, 37))  # grids that are not square or no power of two
    rounds: int = 5  # in which every contestant takes its turn
    slow_rounds: int = 2  # the same for full attention on large grids
    threads: int | None = None  # of torch; the machine's unless given, at most 2
    device: str = "cpu"  # where the layers run
    seed: int = 0  # of weights, inputs and cotangents
    output: Path = Path("runs/attention_cost")  # folder for results.json and the figure


PRESETS = {
    "quick": Config(),
    "full": Config(rounds=21, slow_rounds=5, curve=(32, 64, 128, 256, 512), large=1024),
    "gpu": Config(rounds=11, slow_rounds=5, device="cuda", output=Path("runs/attention_cost_gpu")),
}


def run(config: Config) -> dict[str, Any]:
    """Checks, measures, prints, and writes results.json and figures/attention_cost.png; returns the results."""
    import torch

    count = min(2, config.threads or torch.get_num_threads())
    folder = opened(config, seeds=[config.seed])
    with timing.threads(count):
        results = {
            "threads": count,
            "device": device_name(config.device),
            "rates": vars(measured_rates(count, device=config.device)),
            "equality": _equality(config),
            "one_level": _one_level(config),
            "full": _full(config),
            "curve": _curve(config),
            "odd": _odd(config),
            "memory": _memory(config, count),
            "profiles": _profiles(config, count),
        }
    for row in results["full"]:
        for name in [name for name in row["seconds"] if name.startswith("full")]:
            results["curve"].setdefault(name, {})[str(row["n"])] = row["seconds"][name]
    results["targets"] = targets(config, results)
    return finished(folder, results, draw, print_report, config, answer=answer, picture="attention_cost.png")


def _layer(config: Config, name: str) -> Any:
    import torch

    from studies.attention_cost.arms import ARMS

    torch.manual_seed(config.seed)
    return ARMS[name](config.channels).to(config.device)


def _step(config: Config, name: str, sizes: Sizes) -> Callable[[], Any]:
    from studies.attention_cost.arms import step

    return step(_layer(config, name), sizes, config.seed, config.device)


def _timed(config: Config, steps: dict[str, Callable], rounds: int, warmup: int = 2) -> dict[str, list[float]]:
    import torch

    wait = torch.cuda.synchronize if config.device.startswith("cuda") else None
    return timing.interleaved(steps, rounds=rounds, warmup=warmup, synchronize=wait)


def _equality(config: Config) -> list[dict[str, Any]]:
    """Results and gradients against direct evaluations with the same weights, in float64."""

    from studies.attention_cost.arms import multipole_reference

    rows = []
    grids = [(config.curve[0],) * 2, *config.odd_grids]
    for name, reference in [(f"multipole w={w}", multipole_reference) for w in config.windows] + [
        (f"multipole w={w}, recompute", multipole_reference) for w in config.windows
    ]:
        layer = _layer(config, name).double()
        for sizes in grids:
            difference = compare(name, layer, lambda x: reference(layer, x), sizes, config)  # noqa: B023
            rows.append({"arm": name, "sizes": sizes, "difference": difference})
    for w in config.windows:
        plain, ours = (_layer(config, f"{kind} w={w}").double() for kind in ("plain window", "WindowAttention"))
        ours.load_state_dict(plain.state_dict())
        difference = compare(f"WindowAttention w={w}", ours, plain, grids[0], config, list(plain.parameters()))
        rows.append({"arm": f"WindowAttention w={w}", "sizes": grids[0], "difference": difference})
    fused, scores = (_layer(config, name).double() for name in ("full, fused", "full, scores materialised"))
    scores.load_state_dict(fused.state_dict())
    small = (min(32, config.curve[0]),) * 2
    difference = compare("full, fused", fused, scores, small, config, list(scores.parameters()))
    rows.append({"arm": "full, fused", "sizes": small, "difference": difference})
    return rows


def compare(
    name: str, layer: Any, reference: Callable, sizes: Sizes, config: Config, parameters: list | None = None
) -> float:
    """The largest relative difference of result and gradients; RuntimeError above 1e-11.

    parameters : of the reference, those of the layer unless given
    """
    import torch

    generator = torch.Generator().manual_seed(config.seed)
    x, g = (torch.randn(1, *sizes, config.channels, generator=generator, dtype=torch.float64) for _ in range(2))
    x, g = x.to(config.device).requires_grad_(), g.to(config.device)
    ours, theirs = layer(x), reference(x)
    pairs = [(ours, theirs)]
    pairs += zip(
        torch.autograd.grad(ours, [x, *layer.parameters()], g),
        torch.autograd.grad(theirs, [x, *(parameters or layer.parameters())], g),
    )
    return max(timing.require_equal(f"{name} on {sizes[0]}×{sizes[1]}", a, b, 1e-11) for a, b in pairs)


def _one_level(config: Config) -> list[dict[str, Any]]:
    rows = []
    for n in config.ratio_sizes:
        for w in config.windows:
            kinds = {"multipole": "multipole", "plain": "plain window", "own": "WindowAttention"}
            kinds["finest"] = "finest level"
            steps = {kind: _step(config, f"{name} w={w}", (n, n)) for kind, name in kinds.items()}
            steps["recompute"] = _step(config, f"multipole w={w}, recompute", (n, n))
            seconds = _timed(config, steps, config.rounds)
            rows.append(
                {
                    "n": n,
                    "window": w,
                    "seconds": {kind: float(np.median(s)) for kind, s in seconds.items()},
                    "over_plain": timing.ratio(seconds["multipole"], seconds["plain"]),
                    "over_own": timing.ratio(seconds["multipole"], seconds["own"]),
                    "over_finest": timing.ratio(seconds["multipole"], seconds["finest"]),
                    "recompute": timing.ratio(seconds["recompute"], seconds["multipole"]),
                }
            )
    return rows


def _full(config: Config) -> list[dict[str, Any]]:
    """Full fused attention beside the multipole layers, and the matrix of scores by itself at the first size."""
    rows = []
    for i, n in enumerate(config.full_sizes):
        names = ["full, fused", *(f"multipole w={w}" for w in config.windows)]
        steps = {name: _step(config, name, (n, n)) for name in names}
        seconds = _timed(config, steps, config.slow_rounds if i else config.rounds, warmup=1)
        over = {name: timing.ratio(seconds["full, fused"], seconds[name])["median"] for name in names[1:]}
        if i == 0:
            name = "full, scores materialised"
            seconds |= _timed(config, {name: _step(config, name, (n, n))}, config.slow_rounds, warmup=1)
        medians = {name: float(np.median(values)) for name, values in seconds.items()}
        rows.append({"n": n, "seconds": medians, "over": over})
    return rows


def _curve(config: Config) -> dict[str, dict[str, float]]:
    """Seconds by arm and cells per axis."""
    names = [f"multipole w={w}" for w in config.windows] + ["plain window w=8", "spectral"]
    table: dict[str, dict[str, float]] = {name: {} for name in names}
    for n in config.curve:
        seconds = _timed(config, {name: _step(config, name, (n, n)) for name in names}, config.rounds)
        for name, values in seconds.items():
            table[name][str(n)] = float(np.median(values))
    return table


def _odd(config: Config) -> list[dict[str, Any]]:
    """Seconds per cell on other grids, in units of the mean of those on the first two squares of the curve."""
    rows = []
    squares = [(n, n) for n in config.curve[:2]]
    for w in config.windows:
        steps = {sizes: _step(config, f"multipole w={w}", sizes) for sizes in [*squares, *config.odd_grids]}
        seconds = _timed(config, steps, config.rounds)
        each = {sizes: float(np.median(s)) / (sizes[0] * sizes[1]) for sizes, s in seconds.items()}
        usual = float(np.mean([each[sizes] for sizes in squares]))
        rows += [{"window": w, "sizes": sizes, "per_cell": each[sizes] / usual} for sizes in config.odd_grids]
    return rows


def _memory(config: Config, count: int) -> dict[str, dict[str, int]]:
    """Bytes at the peak of a step by arm and cells per axis."""
    sizes = sorted({*config.curve, config.large})
    wanted = [(f"multipole w={w}", n) for w in config.windows for n in sizes]
    wanted += [(name, n) for name in ("plain window w=8", "spectral") for n in config.curve]
    wanted += [(f"multipole w={w}, recompute", n) for w in config.windows for n in config.full_sizes]
    wanted += [("full, fused", n) for n in config.full_sizes]
    wanted += [("full, scores materialised", n) for n in config.full_sizes[:1]]
    table: dict[str, dict[str, int]] = {}
    for name, n in wanted:
        if config.device.startswith("cuda"):
            value = timing.device_peak(_step(config, name, (n, n)))
        else:
            arguments = (name, config.channels, (n, n), count, config.seed)
            value = timing.peak_memory("studies.attention_cost.arms:prepared", *arguments)
        table.setdefault(name, {})[str(n)] = value
    return table


def _profiles(config: Config, count: int) -> dict[str, Any]:
    """Of the multipole layers on the first grid that full attention is compared on, and of what the notes name: a small
    pyramid, and all levels beside the finest alone."""
    if config.device != "cpu" or not config.full_sizes:
        return {}
    n, windows = config.full_sizes[0], config.windows[:2]
    steps = [(f"multipole w={w}", n) for w in windows] + [(f"multipole w={windows[0]}", 16)]
    steps += [(f"{kind} w={windows[-1]}", config.ratio_sizes[0]) for kind in ("finest level", "multipole")]
    return {f"{name}, {n}²": profiled(_step(config, name, (n, n)), count) for name, n in dict.fromkeys(steps)}
