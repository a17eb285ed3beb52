"""Which Darcy regimes a neural operator serves badly, from which layer on, and what helps.

    python -m studies.operator_fairness                     # three models, five seeds, minutes on two cores
    python -m studies.operator_fairness --preset full       # larger models, more fields, ten seeds

An FNO, a MANO and the FNO of neuraloperator learn Darcy flow in all regimes of boundary × contrast × roughness at
once. The test fields are solved in every regime, with one set of random numbers, so that regimes are compared within a
field. The study asks: which levels have larger errors, with the others held; what a test set in which factors go
together would say; from which layer on the regime can be read; whether errors are bias or variance over seeds; and
whether the advice that follows (an ensemble, or more samples of the worst regime) holds on test fields.

Methods: the joint regression of arXiv:2605.10615, probes by layer of arXiv:2604.18249, the split into bias and variance
of arXiv:2604.22631, all of them stated there for speech.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studies.kit.choices import require_known
from studies.kit.study import finished, opened
from studies.operator_fairness.analysis import analysed, answer
from studies.operator_fairness.figures import draw
from studies.operator_fairness.networks import ARMS
from studies.operator_fairness.problems import BOUNDARIES
from studies.operator_fairness.report import print_report
from studies.operator_fairness.runs import run_all_arms


@dataclass(frozen=True)
class Config:
    arms: tuple[str, ...] = tuple(ARMS)  # names in studies.operator_fairness.networks.ARMS
    boundaries: tuple[str, ...] = tuple(BOUNDARIES)  # names in studies.operator_fairness.problems.BOUNDARIES
    contrasts: tuple[int, ...] = (4, 12, 100)  # largest over smallest coefficient
    roughness: tuple[float, ...] = (3.0, 7.0, 15.0)  # τ, inverse correlation length of the Gaussian field
    points: int = 24  # cells of an axis; the finer grid has twice as many
    train: int = 576  # training samples, equally many of each regime, every one with a field of its own
    validation: int = 12  # fields that are solved in every regime, for every choice
    test: int = 20  # fields that are solved in every regime, for every number
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)  # of the weights and the order of the samples
    rates: tuple[float, ...] = (1e-2, 2e-2, 4e-2, 8e-2)  # peak rates of AdamW, for each model chosen on validation
    steps: int = 220
    batch: int = 8
    width: int = 12
    depth: int = 3
    modes: int = 6
    extra: int = 96  # samples that are added for further training, of the worst regime or of all
    extra_steps: int = 40  # steps of further training
    smallest: float = 1.1  # smallest ratio of errors that counts
    workers: int = 2  # trainings at a time
    output: Path = Path("runs/operator_fairness")  # folder for the cells, results.json and the figures


PRESETS = {
    "quick": Config(),
    "full": Config(
        points=64,
        train=7200,
        validation=20,
        test=60,
        seeds=tuple(range(10)),
        rates=(1e-3, 2e-3, 5e-3, 1e-2),
        steps=20_000,
        batch=16,
        width=32,
        depth=4,
        modes=12,
        extra=1000,
        extra_steps=4000,
        output=Path("runs/operator_fairness_full"),
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Trains what is missing, prints the tables, writes results.json and the figures; returns the results.

    Raises ValueError for unknown arms and boundaries, too few seeds, fields or levels, and repeated levels.
    """
    require_known("--arms", config.arms, ARMS, some=True)
    require_known("--boundaries", config.boundaries, BOUNDARIES)
    for flag, levels, fewest in (
        ("--boundaries", config.boundaries, 2),
        ("--contrasts", config.contrasts, 2),
        ("--roughness", config.roughness, 2),
        ("--seeds", config.seeds, 2),
        ("--rates", config.rates, 1),
    ):
        if len(set(levels)) < max(fewest, len(levels)):
            raise ValueError(f"{flag} {' '.join(map(str, levels))}: expected at least {fewest} that differ")
    for flag, fields in (("--validation", config.validation), ("--test", config.test)):
        if fields < 2:
            raise ValueError(f"{flag} {fields}: expected at least 2 fields, better 20 for the test")
    folder = opened(config, seeds=config.seeds, methods=["regime_errors", "fno", "mano", "neuralop:FNO"])
    found = run_all_arms(config, folder.path)
    results = analysed(found, config)
    return finished(folder, results, draw, print_report, config, answer=answer)
