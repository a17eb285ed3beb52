"""How the error of a surrogate falls with the number of fields that it is trained on, up to an endless stream.

    python -m studies.fresh_samples                      # 22 nodes, five seeds: minutes
    python -m studies.fresh_samples --preset medium      # 43 nodes, three seeds: under an hour
    python -m studies.fresh_samples --preset full        # 85 nodes, longer trainings

A data set of Darcy flow has about 1000 fields, by custom. The solver makes a field in the time of a training step, so
that nothing but custom keeps a training from seeing a new one every time. All trainings have the same network, the same
number of steps and the same recipe; what differs is how many fields there are to draw from. The last of them never sees
a field twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studies.fresh_samples.report import answer, draw, print_report, summary
from studies.fresh_samples.training import trained
from studies.kit.pool import run_all
from studies.kit.study import finished, opened


@dataclass(frozen=True)
class Config:
    size: int = 22  # nodes per axis; the equation is solved on these
    modes: int = 64  # cosine modes per axis of the coefficient's law
    counts: tuple[int, ...] = (125, 500, 2000)  # numbers of training fields; the stream is always there
    steps: int = 800  # of every training
    batch_size: int = 8  # fields of a step
    learning_rate: float = 5e-3  # peak rate of AdamW
    network_modes: int = 10  # sine modes per axis of the network
    width: int = 16  # its channels
    depth: int = 3  # its blocks
    fields: tuple[int, int] = (64, 256)  # validation and test fields
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)  # of the initial parameters, and of the order of a fixed number of fields
    data_seed: int = 0  # of the coefficients
    workers: int = 2  # trainings at a time, one thread each
    output: Path = Path("runs/fresh_samples")  # folder for the cells, results.json and the figure


PRESETS = {
    "quick": Config(),
    "medium": Config(
        size=43,
        modes=192,
        counts=(250, 1000, 4000),
        steps=2000,
        network_modes=16,
        width=24,
        depth=4,
        seeds=(0, 1, 2),
        output=Path("runs/fresh_samples_medium"),
    ),
    "full": Config(
        size=85,
        modes=192,
        counts=(250, 1000, 4000, 16000),
        steps=20_000,
        network_modes=24,
        width=32,
        depth=4,
        output=Path("runs/fresh_samples_full"),
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Trains what is missing, prints the tables, writes results.json and a figure; returns the results.

    Raises ValueError for fewer than one field, repeated counts, and fewer than two seeds.
    """
    if not config.counts or min(config.counts) < 1 or len(set(config.counts)) < len(config.counts):
        raise ValueError(f"--counts {' '.join(map(str, config.counts))}: expected different numbers of at least 1")
    if len(set(config.seeds)) < max(2, len(config.seeds)):
        raise ValueError(f"--seeds {' '.join(map(str, config.seeds))}: expected at least two that differ")
    folder = opened(config, seeds=[config.data_seed, *config.seeds], methods=["fno"])
    jobs = [
        (config, count, seed, folder.path / "cells")
        for seed in config.seeds
        for count in (*sorted(config.counts), None)
    ]
    records = run_all(trained, jobs, workers=config.workers, threads=1, unit="training")
    results = {"runs": records, "summary": summary(records)}
    return finished(folder, results, draw, print_report, config, answer=answer, picture="fresh_samples.png")
