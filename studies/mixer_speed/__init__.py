"""The spectral mixer and the training of Fourier networks beside neuraloperator, in one run.

    python -m studies.mixer_speed --data folder-with-the-16²-files
    python -m studies.mixer_speed --preset full
    python -m studies.mixer_speed --device cuda --crossing-modes 16 32 64 96 128 192 256

Layers, networks and trainings take turns in one process. A layer is timed after its output and both gradients agree
with neuraloperator's (1e-6, weights copied) and with torch.fft in float64 (1e-12); a network after output and input
gradient agree (1e-5). Any disagreement ends the run. "channels first" is the same layer with the layout of its input,
output and gradients converted for each layer, which networks of this package do once for all their layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sciops.plotting import figure, series
from studies.kit.answers import extent, listed, met, sentence
from studies.kit.limits import Rates, measured_rates
from studies.kit.profiles import print_profiles, profiled
from studies.kit.study import device_name, finished, opened
from studies.kit.tables import grouped, print_table
from studies.kit.timing import print_targets, target, threads
from studies.mixer_speed import epochs, layer, network

LEAST = {16: 3.0, 32: 1.5, 64: 5.0, 85: 7.0, 128: 6.0, 211: 7.0, 421: 15.0}  # by points per axis, forward and backward

# why, where it is missed; the shares are in the profiles below
_STEP = (
    "products of the pointwise maps and of the transforms, GELU and its derivative are most of the step, at the rates "
    "of torch's kernels; a quarter of the batch at a time was tried and is slower"
)
_LAYER = (
    "most of the time goes for products with tables of 18 to 34 rows for each row of the grid, at half the rate of a "
    "large product; the leading axis first in one wide product, with real tables for both signs of a mode, with and "
    "without a transposed copy before the second axis, a convolution in place of the batched product, einsum, and "
    "products from the right were tried and are not faster on all grids"
)
_PROFILED = 128  # points per axis of the layer whose time is told by operations, where it is among the cases


@dataclass(frozen=True)
class Config:
    cases: tuple[tuple[int, int, int, int], ...] = (
        (16, 32, 8, 16),
        (16, 32, 12, 32),
        (16, 32, 12, 64),
        (8, 32, 12, 85),
        (8, 32, 12, 128),
        (4, 64, 16, 211),
        (2, 32, 12, 421),
    )
    """layers: batch, channels, modes, points per axis"""
    memory: tuple[tuple[int, int, int, int], ...] = ((2, 32, 12, 256), (4, 32, 12, 256))
    """layers whose peak memory is measured"""
    processes: int = 3  # of each of these measurements, whose median counts
    network: tuple[int, int, int, int, int] = (32, 4, 12, 85, 8)
    """width, depth, modes, points per axis and batch of the training step"""
    crossing_points: tuple[int, ...] = (512,)  # lengths of the axis on which products and FFTs are compared
    crossing_modes: tuple[int, ...] = (64, 128, 192, 256)  # kept modes there
    data: Path = Path("data")  # folder with darcy_train_16.pt; without it the epochs are left out
    epochs: int = 1  # passes of each training
    batch: int = 16  # fields of each of its steps
    rounds: int = 7
    """in which every contestant takes its turn; of steps a little more than half, of whole trainings a third"""
    threads: int = 0  # of torch; 0: the machine's cores, at most 2
    one_thread: bool = False  # times the layers on one thread too
    compile_theirs: bool = False  # lets torch.compile try neuraloperator's network as well
    device: str = "cpu"
    seed: int = 0
    output: Path = Path("runs/mixer_speed")  # folder for results.json and the figure


PRESETS = {
    "quick": Config(),
    "full": Config(
        crossing_points=(256, 421, 512, 1024, 2048),
        crossing_modes=(32, 64, 96, 128, 160, 192, 224, 256, 320, 384),
        epochs=3,
        rounds=21,
        one_thread=True,
        compile_theirs=True,
    ),
    "gpu": Config(
        cases=((16, 32, 12, 64), (16, 32, 12, 85), (16, 32, 12, 128), (16, 64, 16, 211), (8, 64, 32, 421)),
        memory=((8, 64, 16, 256),),
        network=(64, 4, 16, 128, 16),
        crossing_points=(256, 512),
        rounds=15,
        device="cuda",
        output=Path("runs/mixer_speed_gpu"),
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Measures, checks, prints, and writes results.json and figures/mixer_speed.png; returns the results.

    Raises RuntimeError where a layer, a network or a training is not what it is compared with.
    """
    import os

    if config.device.startswith("cuda"):
        # both sides compute in full precision, as on a CPU: their convolutions would take TF32 otherwise
        torch.backends.cudnn.allow_tf32 = False
    folder = opened(config, seeds=[config.seed])
    count = config.threads or min(2, os.cpu_count() or 1)
    shared = {"count": count, "device": config.device}
    counts = sorted({1, count}) if config.one_thread else [count]
    width, depth, *_ = config.network
    compiled = {"peer_compiled": config.compile_theirs, "seed": config.seed}
    layers = [
        layer.speed(case, rounds=config.rounds, count=n, device=config.device, seed=config.seed)
        for n in counts
        for case in config.cases
    ]
    crossed = {"last": config.crossing_points, "leading": config.crossing_points}
    results = {
        "threads": count,
        "device": device_name(config.device),
        "rates": vars(measured_rates(**shared)),
        "float64": layer.check_float64(device=config.device),
        "layers": layers,
        "memory": [layer.memory(case, repeats=config.processes, **shared) for case in config.memory],
        "crossing": layer.crossing(crossed, config.crossing_modes, rounds=max(3, config.rounds // 3), **shared),
        "step": network.step(*config.network, rounds=config.rounds // 2 + 1, **compiled, **shared),
        "epochs": _epochs(config, width, depth, shared),
    }
    results["profiles"] = _profiles(config, count) | results["step"].pop("profiles")
    results["targets"] = _targets(config, results)
    show = lambda results: _print(config, results)  # noqa: E731
    return finished(folder, results, _draw, show, answer=answer, picture="mixer_speed.png")


def answer(results: dict[str, Any]) -> str:
    """How many times as fast as neuraloperator's the spectral layer, a step and a training are."""
    said = [f"forward and backward of a spectral layer {extent(row['both']['median'] for row in results['layers'])}"]
    for name, part in (("a step of the same network", results["step"]), ("its training", results["epochs"])):
        said += [f"{name} {part['ratio']['same network']['median']:.2f}"] if part else []
    return sentence(f"times as fast as neuraloperator: {listed(said)}", met(results["targets"]))


def _epochs(config: Config, width: int, depth: int, shared: dict[str, Any]) -> dict[str, Any] | None:
    if not (config.data / "darcy_train_16.pt").exists():
        return None
    options = {"batch": config.batch, "passes": config.epochs, "rounds": max(2, config.rounds // 3)}
    return epochs.epochs(config.data, width, depth, seed=config.seed, **options, **shared)


def _profiles(config: Config, count: int) -> dict[str, Any]:
    """Of the spectral layer whose target is missed by most, forward and backward."""
    if config.device != "cpu":
        return {}
    case = next((case for case in config.cases if case[-1] == _PROFILED), config.cases[-1])
    with threads(count):
        return {f"spectral layer, {case[-1]}²": profiled(layer.one_pass("ours", *case, count), count)}


def _targets(config: Config, results: dict[str, Any]) -> list[dict[str, Any]]:
    """On a CPU with the bounds to be met; on a device the same measurements without one."""
    if results["device"] != "cpu":
        return _unbounded(results)
    rates, rows = Rates(**results["rates"]), []
    for row in results["layers"]:
        n = row["case"][-1]
        if row["threads"] == results["threads"] and n in LEAST:
            limit = row["seconds"]["theirs"] / rates.least_seconds(*layer.work(row["case"]))
            what = f"spectral layer, {n}²: forward + backward over ours"
            rows.append(target(what, row["both"]["median"], least=LEAST[n], limit=limit, note=_LAYER))
    step, epochs = results["step"], results["epochs"]
    for row in results["memory"]:
        b, c, _, n = row["case"]
        least = 8 * b * c * n**2 / row["theirs"]
        note = f"output and input gradient, which both sides must return, are {least:.2f} of theirs already"
        what = f"spectral layer, {b} × {c} channels, {n}²: peak memory over theirs"
        rows.append(target(what, row["ratio"], most=0.3, note=note))
    what = f"FNO step, {step['points']}²: theirs over the same network"
    rows.append(target(what, step["ratio"]["same network"]["median"], least=3.0, note=_STEP))
    compiled = step["ratio"]["same network, compiled"]["median"]
    rows.append(target(f"{what}, compiled", compiled, least=4.0, note=_STEP))
    if epochs:
        what = f"epochs on {epochs['points']}²: theirs over the same network by fit"
        rows.append(target(what, epochs["ratio"]["same network"]["median"], least=1.3))
    return rows


def _unbounded(results: dict[str, Any]) -> list[dict[str, Any]]:
    step = results["step"]
    found = [
        (f"spectral layer, {row['case'][-1]}²: forward + backward over ours", row["both"]["median"])
        for row in results["layers"]
    ]
    found += [
        (f"spectral layer, {row['case'][-1]}²: peak memory over theirs", row["ratio"]) for row in results["memory"]
    ]
    for kind in ("same network", "same network, compiled"):
        found.append((f"FNO step, {step['points']}²: theirs over the {kind}", step["ratio"][kind]["median"]))
    return [target(what, value) for what, value in found]


def _print(config: Config, results: dict[str, Any]) -> None:
    print(f"float64 against torch.fft: {results['float64']:.1e}, at most 1e-12; {results['device']}")
    print_table(
        results["layers"],
        ("batch, channels, modes, points", lambda row: "{}, {}, {}, {}²".format(*row["case"])),
        "threads; theirs ms=1e3*seconds.theirs:.2f; ours ms=1e3*seconds.ours:.2f; both=both.median:.2f",
        "forward=forward.median:.2f; channels first=door.median:.2f; equal=difference:.0e",
        title="",
    )
    for row in results["memory"]:
        print(f"peak memory, {row['case']}: {row['theirs'] / 1e6:.0f} MB theirs, {row['ours'] / 1e6:.0f} MB ours")
    print("\ntime by FFT over time by products, forward and inverse transform")
    for axis in ("last", "leading"):
        for n in config.crossing_points:
            found = [r for r in results["crossing"] if (r["axis"], r["points"]) == (axis, n)]
            print(f"  {axis:<8}{n:>6}  " + "  ".join(f"{r['modes']}: {r['ratio']:.2f}" for r in found))
    for title, part in (("training step", results["step"]), ("whole training", results["epochs"])):
        if part is None:
            print(f"\n{title}: left out, no darcy_train_16.pt in {config.data}")
            continue
        title += f", {part['points']}², batch {part['batch']}, {part['threads']} threads"
        rows = {name: {"seconds": s, "ratio": part["ratio"].get(name)} for name, s in part["seconds"].items()}
        columns = "=name; ms=1e3*seconds:.1f; faster=ratio.median:.2f"
        print_table(rows, columns, title=f"{title}, equal to {part['difference']:.0e}")
        if part.get("peer_compiler"):
            print(f"  theirs, compiled: fails, {part['peer_compiler']}")
    print_profiles(results["profiles"])
    print_targets(results["targets"])


def _draw(results: dict[str, Any], path: Path) -> None:
    caption = (
        "Times faster than neuraloperator: one spectral layer by grid, and trainings; in the middle, from which number "
        "of modes an FFT is faster than products with the kept modes."
    )
    with figure(path, 1, 3, width=3.4, height=2.8, caption=caption) as (_, axes):
        layers, crossing, networks = axes[0]
        rows = [row for row in results["layers"] if row["threads"] == results["threads"]]
        points = [row["case"][-1] for row in rows]
        names = {"both": "forward + backward", "forward": "forward", "door": "both, channels first"}
        for (key, name), style in zip(names.items(), series()):
            layers.plot(points, [row[key]["median"] for row in rows], label=name, **style)
        wanted = [n for n in points if n in LEAST]
        layers.plot(wanted, [LEAST[n] for n in wanted], linestyle="none", marker="_", markersize=10, color="black")
        layers.plot([], [], linestyle="none", marker="_", markersize=10, color="black", label="target")
        layers.set(xlabel="points per axis", ylabel="times faster than neuraloperator", title="one spectral layer")
        layers.set_xscale("log", base=2)
        layers.set_ylim(0, 1.5 * layers.get_ylim()[1])
        layers.legend(loc="upper left")
        kinds = grouped(results["crossing"], "axis", "points")
        for ((axis, n), found), style in zip(kinds.items(), series()):
            label = f"{axis} axis, {n}"
            crossing.loglog([row["modes"] for row in found], [row["ratio"] for row in found], label=label, **style)
        crossing.axhline(1.0, color="black", linewidth=0.8)
        crossing.set(xlabel="kept modes", ylabel="time by FFT / time by products", title="where FFTs take over")
        crossing.legend()
        bars = []
        for title, part in (("step", results["step"]), ("epochs", results["epochs"])):
            if part:
                bars += [(f"{title}: {name}", value) for name, value in part["ratio"].items()]
        style = next(series())
        networks.barh([name for name, _ in bars], [v["median"] for _, v in bars], height=0.6, color=style["color"])
        for i, (_, value) in enumerate(bars):
            networks.text(value["median"], i, f" {value['median']:.2f}", va="center")
        networks.axvline(1.0, color="black", linewidth=0.8)
        networks.set(xlabel="times faster than neuraloperator's FNO", title="training")
        networks.set_xlim(right=1.2 * max(v["median"] for _, v in bars))
        networks.invert_yaxis()
        networks.grid(axis="y", visible=False)
