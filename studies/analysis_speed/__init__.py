"""What looking at fields costs, in one run: spectra against their FFT, reading against bare h5py, start against torch.

    python -m studies.analysis_speed
    python -m studies.analysis_speed --preset full

Everything takes turns in one process, or in fresh interpreters where it is their start that counts. Shells are compared
with counted bins of a float64 FFT, batches with h5py's arrays to the bit, and the modules of a fresh interpreter with
the list of those that must not be loaded; any disagreement ends the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sciops.plotting import figure, series
from studies.analysis_speed import reading, spectra, start
from studies.kit.answers import extent, met, sentence
from studies.kit.study import finished, opened
from studies.kit.tables import print_table
from studies.kit.timing import print_targets, target, threads


@dataclass(frozen=True)
class Config:
    points: int = 421  # per axis of the plane fields, those of the file too
    batch: int = 64  # plane fields whose spectrum is taken
    cube: int = 256  # points per axis of the fields in space
    channels: int = 4  # fields in space
    samples: int = 96  # of the file; a sample is two fields
    read: int = 16  # samples of a batch that is read
    rounds: int = 7  # in which every contestant takes its turn
    threads: int = 2  # of torch
    seed: int = 0
    output: Path = Path("runs/analysis_speed")  # folder for results.json and the figure


PRESETS = {"quick": Config(), "full": Config(samples=384, rounds=21)}


def run(config: Config) -> dict[str, Any]:
    """Measures, checks, prints, and writes results.json and figures/analysis_speed.png; returns the results.

    Raises RuntimeError where a spectrum, a batch or the modules of a fresh interpreter are not what they must be.
    """
    folder = opened(config, seeds=[config.seed])
    plane, space = (config.points,) * 2, (config.cube,) * 3
    with threads(config.threads):
        equalities = spectra.equalities(config.seed)
        options = {"rounds": config.rounds, "seed": config.seed}
        speeds = {
            "plane": spectra.speed(plane, leading=(config.batch, 1), **options),
            "space": spectra.speed(space, leading=(config.channels,), **options),
        }
        files = reading.measure(folder.path, points=config.points, samples=config.samples, batch=config.read, **options)
    results = {
        "equalities": equalities,
        "spectra": speeds,
        "memory": spectra.memory(config.cube, config.channels, config.threads),
        "reading": files,
        "start": start.measure(config.rounds),
    }
    results["targets"] = _targets(config, results)
    return finished(folder, results, _draw, _print, config, answer=answer, picture="analysis_speed.png")


def answer(results: dict[str, Any]) -> str:
    """What a spectrum, a batch and the start of a process cost, over what they are compared with."""
    spectra = extent(row["ratio"]["median"] for row in results["spectra"].values())
    rates = extent(row["ratio"]["median"] for row in results["reading"]["orders"].values())
    start = results["start"]["ratio"]["import sciops"]["median"]
    return sentence(
        f"a spectrum takes {spectra} times its FFT, batches are read at {rates} of h5py's rate, and importing sciops "
        f"takes {start:.2f} times importing torch",
        met(results["targets"]),
    )


def _targets(config: Config, results: dict[str, Any]) -> list[dict[str, Any]]:
    orders = results["reading"]["orders"]
    n, cube = config.points, f"{config.cube}³ × {config.channels}"
    return [
        target(
            f"spectrum of ({config.batch}, 1, {n}, {n}): time over its FFT's",
            results["spectra"]["plane"]["ratio"]["median"],
            most=1.5,
        ),
        target(f"spectrum of {cube}: peak memory over the input's, which counts", results["memory"]["share"], most=3),
        *(
            target(f"batches of a {n}² file {order}: rate over h5py's", row["ratio"]["median"], least=0.8)
            for order, row in orders.items()
        ),
        target("import sciops: time over import torch", results["start"]["ratio"]["import sciops"]["median"], most=1.3),
    ]


def _print(results: dict[str, Any], config: Config) -> None:
    columns = "=what; error:.1e; at most=most:.0e"
    print_table(results["equalities"], columns, title="spectra: largest relative error of a shell")
    columns = "=what; FFT ms=1e3*seconds.fft:.1f; spectrum ms=1e3*seconds.spectrum:.1f; ratio=ratio.median:.2f"
    print_table(results["spectra"].values(), columns, title=f"spectra, {config.threads} threads")
    memory = results["memory"]
    held, more = memory["input_bytes"] / 2**20, memory["peak"] / 2**20
    print(f"  {memory['points']}³ × {memory['channels']}: {held:.0f} MiB, its spectrum {more:.0f} MiB more at its peak")
    reading = results["reading"]
    rates = {f"{order}, {name}": r for order, row in reading["orders"].items() for name, r in row["rate"].items()}
    title = f"reading {reading['bytes'] / 1e6:.0f} MB, cached, in batches of {config.read}; bit-equal"
    print_table(rates, "=name; MB/s=1e-6*value:.0f", title=title)
    print(f"  opening, the file looked through beforehand: {reading['opening']:.2f} s, once")
    rows = {name: {"s": s, **results["start"]["ratio"][name]} for name, s in results["start"]["seconds"].items()}
    print_table(rows, "=name; s:.3f; over torch=median:.2f", title="fresh interpreters, whole process")
    print_targets(results["targets"])


def _draw(results: dict[str, Any], config: Config, path: Path) -> None:
    caption = (
        "Time of a spectrum beside its FFT, rate of reading batches beside bare h5py, and time of fresh interpreters "
        "that import sciops or torch alone."
    )
    with figure(path, 1, 3, width=3.3, height=2.6, caption=caption) as (_, axes):
        spectra, reading, start = axes[0]
        ours, other = (style["color"] for style, _ in zip(series(), range(2)))
        names = (f"{config.batch} × {config.points}²", f"{config.channels} × {config.cube}³")
        for i, row in enumerate(results["spectra"].values()):
            for shift, key, color in ((-0.2, "spectrum", ours), (0.2, "fft", other)):
                label = {"spectrum": "spectrum", "fft": "its FFT alone"}[key] if i == 0 else None
                spectra.barh(i + shift, 1e3 * row["seconds"][key], 0.38, color=color, label=label)
            spectra.text(1e3 * row["seconds"]["spectrum"], i - 0.2, f" {row['ratio']['median']:.2f}×", va="center")
        spectra.set_yticks(range(len(names)), names)
        spectra.set(xlabel="time (ms)", title=f"spectra, float32, {config.threads} threads")
        spectra.set_xlim(right=1.25 * spectra.get_xlim()[1])
        spectra.set_ylim(-0.9, 1.45)  # room for the names
        rows = [
            (f"{order}, {name}", rate / 1e6, ours if name == "sciops" else other)
            for order, row in results["reading"]["orders"].items()
            for name, rate in row["rate"].items()
        ]
        reading.barh([r[0] for r in rows], [r[1] for r in rows], 0.6, color=[r[2] for r in rows])
        reading.set(xlabel="rate (MB/s)", title=f"batches of {config.read} from a {config.points}² file")
        seconds = results["start"]["seconds"]
        colors = [other if name == "import torch" else ours for name in seconds]
        start.barh(list(seconds), list(seconds.values()), 0.6, color=colors)
        start.set(xlabel="process time (s)", title="fresh interpreters")
        for axis in axes[0]:
            axis.invert_yaxis()
            axis.grid(axis="y", visible=False)
        spectra.legend(loc="upper right", ncols=2, columnspacing=1.0)
