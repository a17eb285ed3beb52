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

from sciops.plotting import figure, series
from studies.kit import timing
from studies.kit.answers import extent, met, sentence
from studies.kit.figures import ticks
from studies.kit.limits import Rates, measured_rates
from studies.kit.profiles import print_profiles, profiled
from studies.kit.study import device_name, finished, opened
from studies.kit.tables import print_table

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

ONE_LEVEL = 1.5  # of all levels over the finest alone; their cells are 4/3 as many
FULL = {2: (12.0, 50.0), 4: (12.0, 50.0), 8: (10.0, 40.0)}  # by window, at the first and the other full_sizes
MATERIALISED, RECOMPUTING = 20.0, 0.6
GROWTH = 1.1  # the largest exponent of time and memory in the number of points: below linear is no fault

# why, where it is missed; the times are in the profiles below
_LEVELS = (
    "at the limit is the ratio of the operations, of which the learned samplers, 16d² a coarse cell, are a quarter; "
    "the profiles of one level and of all tell where the rest goes. Autograd by bands, batched products for the "
    "scores, samplers in bands, the whole pyramid as one step, bands of its own for each thread, and samplers without "
    "copies (products on strided views) were tried and gave no more than runs differ"
)
_SHORT = (
    "larger windows have w² scores a cell, and at 64² four to five small levels, whose calls cost more than their "
    "sums, as the profile of a pyramid on 16² cells shows; bands of half and of twice as many cells were tried and "
    "changed the time by less than two runs differ"
)


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
    results["targets"] = _targets(config, results)
    return finished(folder, results, _draw, _print, config, answer=answer, picture="attention_cost.png")


def answer(results: dict[str, Any]) -> str:
    """The cost of all levels over one, the powers of the grid size, and full attention over multipole."""
    own = [name for name in results["curve"] if name.startswith("multipole")]
    time, memory = (
        extent(exponent(results[part][name]) for name in own if len(results[part][name]) > 1)
        for part in ("curve", "memory")
    )
    said = [
        f"a step of multipole attention takes {extent(row['over_plain']['median'] for row in results['one_level'])}"
    ]
    said[0] += " times that of plain windows on one level"
    said.append(f"time grows as (points)^p with p of {time} and memory with p of {memory}")
    if results["full"]:
        last = results["full"][-1]
        said.append(f"at {last['n']}² full attention takes {extent(last['over'].values())} times as long")
    return sentence(*said, met(results["targets"]))


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


def operations(n: int, channels: int, window: int, levels: bool = True) -> int:
    """Of forward and backward on n² cells, n = window·2^L: three times the products of the forward pass.

    A cell of a level takes 8d² for queries, keys, values and the projection and 4w²d for scores and sums; a cell of a
    coarser level 16d² for the samplers from and to its four children. `levels`: all, or the finest alone.
    """
    d, each = channels, 8 * channels**2 + 4 * window**2 * channels
    total, n = n * n * each, n // 2
    while levels and n >= window:
        total, n = total + n * n * (each + 16 * d**2), n // 2
    return 3 * total


def exponent(values: dict[str, float]) -> float:
    """p of value ~ cells^p from the smallest to the largest grid."""
    ends = [f(values, key=int) for f in (min, max)]
    return timing.exponent([int(n) ** 2 for n in ends], [values[n] for n in ends])


def _targets(config: Config, results: dict[str, Any]) -> list[dict[str, Any]]:
    curve, memory, rates = results["curve"], results["memory"], Rates(**results["rates"])
    rows = []
    for row in results["one_level"]:
        n, w = row["n"], row["window"]
        finest = operations(n, config.channels, w, levels=False)
        limit = operations(n, config.channels, w) / finest
        what = f"multipole over its finest level alone, w={w}, {n}²"
        rows.append(timing.target(what, row["over_finest"]["median"], most=ONE_LEVEL, limit=limit, note=_LEVELS))
    names = [f"multipole w={w}" for w in config.windows]
    for i, row in enumerate(results["full"]):
        for w, name in zip(config.windows, names):
            least, n = FULL[w][min(i, 1)], row["n"]
            fastest = rates.least_seconds(operations(n, config.channels, w), 4 * 4 * n * n * config.channels)
            limit = row["seconds"]["full, fused"] / fastest
            what = f"full fused over {name}, {n}²"
            rows.append(timing.target(what, row["over"][name], least=least, limit=limit, note=_SHORT))
    span = f"{config.curve[0]}²…{config.curve[-1]}²"
    rows += [timing.target(f"exponent of time, {name}, {span}", exponent(curve[name]), most=GROWTH) for name in names]
    for name in names:
        pairs = (config.curve[0], config.curve[-1]), (config.curve[-1], config.large)
        first, last = ({str(n): memory[name][str(n)] for n in pair} for pair in pairs)
        rows.append(timing.target(f"exponent of memory, {name}, {span}", exponent(first), most=GROWTH))
        ends = f"{config.curve[-1]}²…{config.large}²"
        rows.append(timing.target(f"exponent of memory, {name}, {ends}", exponent(last), most=GROWTH))
    n = str(config.full_sizes[0])
    largest = max(memory[name][n] for name in names)
    value = memory["full, scores materialised"][n] / largest
    rows.append(timing.target(f"memory, scores materialised over multipole, {n}²", value, least=MATERIALISED))
    n = str(config.full_sizes[-1])
    for w in config.windows:
        value = memory[f"multipole w={w}, recompute"][n] / memory["full, fused"][n]
        rows.append(timing.target(f"memory, recomputing w={w} over full fused, {n}²", value, most=RECOMPUTING))
    if config.device != "cpu":  # the bounds are those of a CPU
        return [timing.target(row["what"], row["value"]) for row in rows]
    return rows


def _print(results: dict[str, Any], config: Config) -> None:
    worst = max(row["difference"] for row in results["equality"])
    print(f"{results['device']}, {_threads(results)}; largest difference from direct evaluation {worst:.0e}")
    print_table(
        results["one_level"],
        ("", lambda row: f"{row['n']}² w={row['window']}"),
        "multipole=1e3*seconds.multipole:.1f; plain window=1e3*seconds.plain:.1f; own window=1e3*seconds.own:.1f",
        "recompute=1e3*seconds.recompute:.1f; over plain=over_plain.median:.2f",
        ("(quartiles)", lambda row: "{low:.2f}–{high:.2f}".format(**row["over_plain"])),
        "over own=over_own.median:.2f; over finest level=over_finest.median:.2f",
        title="one step in ms",
    )
    for title, found, scale in (("time in ms", results["curve"], 1e3), ("peak memory in MB", results["memory"], 1e-6)):
        sizes = sorted({n for values in found.values() for n in values}, key=int)
        powers = {name: exponent(values) if len(values) > 1 else None for name, values in found.items()}
        rows = {name: values | {"exponent": powers[name]} for name, values in found.items()}
        print_table(rows, "=name", *(f"{n}²={scale}*{n}:.1f" for n in sizes), "exponent:.2f", title=title)
    first, second = config.curve[:2]
    print(f"\ntime per cell against the mean of {first}² and {second}²")
    for row in results["odd"]:
        print(f"w={row['window']}  {row['sizes'][0]:>4}×{row['sizes'][1]:<4} {row['per_cell']:.2f}")
    print_profiles(results["profiles"])
    timing.print_targets(results["targets"])


def _draw(results: dict[str, Any], config: Config, path: Path) -> None:
    names = [f"multipole w={w}" for w in config.windows]
    names += ["plain window w=8", "full, fused", "full, scores materialised", "spectral"]
    caption = (
        "Time and peak memory of a training step against the number of grid points: multipole attention with windows "
        "of w cells, windows on one level, full attention, a spectral layer."
    )
    with figure(path, 1, 2, width=4.6, height=3.4, caption=caption) as (fig, axes):
        for axis, key, unit, label, title in (
            (axes[0, 0], "curve", 1e-3, "time of a step (ms)", f"{results['device']}, {_threads(results)}"),
            (axes[0, 1], "memory", 1e6, "peak memory of a step (MB)", "beyond weights and input"),
        ):
            sizes: set[int] = set()
            for name, style in zip(names, series()):
                values = {int(n): v / unit for n, v in results[key].get(name, {}).items()}
                sizes |= set(values)
                axis.loglog([n**2 for n in values], list(values.values()), label=name, **style)
            ticks(axis.xaxis, [n**2 for n in sorted(sizes)], lambda cells: f"{cells**0.5:.0f}²")
            axis.set(xlabel="grid points", ylabel=label, title=f"{config.channels} channels, {title}")
        fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)


def _threads(results: Any) -> str:
    return f"{results['threads']} thread{'s' if results['threads'] > 1 else ''}"
