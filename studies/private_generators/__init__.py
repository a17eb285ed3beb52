"""Do private diffusion models leak more about their records than private GANs that spend the same ε?

    python -m studies.private_generators                     # fields and digits, five pools, minutes on two cores
    python -m studies.private_generators --preset full --device cuda

arXiv:2509.03341 says so: ε does not tell how much a generator leaks. Dense generators of both kinds are trained here by
DP-SGD on equal records, batches, steps, clip and noise, eight at a time on random halves of a pool, for coefficient
fields (a Gaussian law that is known) and for 8×8 digits. Every model is attacked once with the others as shadow
models: by samples alone, by the network that one would release, and by all that was trained. Leakage is compared at
equal access and at each family's strongest attack, at the end of training and at equal utility on the way there. Before
all that the attacks and the bounds on ε are checked on mechanisms whose leakage is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studies.kit.choices import require_installed, require_known
from studies.kit.study import finished, opened
from studies.private_generators.analysis import analysed, answer
from studies.private_generators.figures import draw
from studies.private_generators.mechanisms import known_mechanisms
from studies.private_generators.records import DATA
from studies.private_generators.report import print_report
from studies.private_generators.runs import run_all_cells


@dataclass(frozen=True)
class Config:
    data: tuple[str, ...] = tuple(DATA)  # names in studies.private_generators.records.DATA
    noises: tuple[float, ...] = (0.0, 0.3, 1.0, 3.0)  # σ of DP-SGD in units of the clip; 0: without clip too
    pools: tuple[int, ...] = (0, 1, 2, 3, 4)  # seeds: each has records, halves, weights and noise of its own
    models: int = 8  # trained on random halves of a pool; each is the target once, the others are its shadows
    records: int = 128  # n, half of a pool
    points: int = 8  # cells of an axis of a field
    rate: float = 0.25  # q of the Poisson batches
    steps: int = 400  # T, gradient steps on records
    checkpoints: tuple[int, ...] = (25, 75, 200)  # steps at which leakage and utility are measured too
    clip: float = 0.3  # C
    learning_rate: float = 5e-3  # of Adam, diffusion models
    gan_learning_rate: float = 1e-2  # of both networks of a pair
    repeats: int = 4  # K, noise multiplicity of the diffusion models
    discriminator_steps: int = 2  # n_D
    width: int = 48
    depth: int = 2  # hidden layers
    samples: int = 512  # of each model, for nearest samples and utility
    solved: int = 64  # samples of each model whose effective permeability is computed
    delta: float = 1e-5  # δ
    ablated_noise: float = 1.0  # σ at which one option is changed at a time, on fields
    ablated_repeats: tuple[int, ...] = (1,)
    ablated_discriminator_steps: tuple[int, ...] = (8,)
    many_records: int = 1024  # n of a further setting on fields, with an ε near 10 at which models still learn; 0: none
    many_rate: float = 0.0625
    many_noise: float = 1.0
    release_models: int = 128  # of the mean release that the attacks are checked on
    smallest: float = 0.01  # smallest difference of AUC that counts
    level: float = 0.99  # of the intervals of verdicts: there are many
    device: str = "cpu"  # where the generators train
    workers: int = 2  # stacks of models that train at a time
    output: Path = Path("runs/private_generators")  # folder for the cells, results.json and the figures


PRESETS = {
    "quick": Config(),
    "full": Config(
        noises=(0.0, 0.3, 1.0, 3.0, 10.0),
        models=64,
        points=16,
        steps=3000,
        checkpoints=(100, 200, 400, 800, 1600),
        learning_rate=2e-3,
        gan_learning_rate=2e-3,
        discriminator_steps=8,
        repeats=16,
        ablated_repeats=(1, 4, 64),
        ablated_discriminator_steps=(1, 32),
        width=256,
        depth=3,
        samples=2048,
        solved=128,
        many_records=8192,
        many_rate=0.03,
        output=Path("runs/private_generators_full"),
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Trains what is missing, prints the tables, writes results.json and the figures; returns the results.

    Raises ValueError for unknown data, repeated or negative noises, and too few pools or models.
    """
    require_known("--data", config.data, DATA, some=True)
    require_installed({"sklearn": "scikit-learn"} if "digits" in config.data else {})
    if len(set(config.noises)) < max(len(config.noises), 1) or min(config.noises) < 0:
        raise ValueError(f"--noises {' '.join(map(str, config.noises))}: expected numbers of at least 0 that differ")
    if len(set(config.pools)) < max(len(config.pools), 2):
        raise ValueError(
            f"--pools {' '.join(map(str, config.pools))}: expected at least 2 that differ, 5 for a verdict"
        )
    if config.models < 8 or config.models % 2:
        raise ValueError(f"--models {config.models}: expected an even number of at least 8, so that each has shadows")
    if not all(0 < step < config.steps for step in config.checkpoints):
        raise ValueError(f"--checkpoints {' '.join(map(str, config.checkpoints))}: expected steps below --steps")
    folder = opened(config, seeds=config.pools, methods=["private_generators"])
    mechanisms = known_mechanisms(config)
    cells = run_all_cells(config, folder.path / "cells")
    results = {"mechanisms": mechanisms, **analysed(cells, config)}
    return finished(folder, results, draw, print_report, config, answer=answer)
