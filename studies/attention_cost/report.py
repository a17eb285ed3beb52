"""What the study of attention's cost found: targets with the limits of the operations, tables, the figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciops.plotting import figure, series
from studies.kit import timing
from studies.kit.answers import extent, met, sentence
from studies.kit.figures import ticks
from studies.kit.limits import Rates
from studies.kit.profiles import print_profiles
from studies.kit.tables import print_table

if TYPE_CHECKING:
    from studies.attention_cost import Config

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


def targets(config: Config, results: dict[str, Any]) -> list[dict[str, Any]]:
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


def print_report(results: dict[str, Any], config: Config) -> None:
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


def draw(results: dict[str, Any], config: Config, path: Path) -> None:
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
