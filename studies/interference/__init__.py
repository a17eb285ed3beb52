"""Who harms whom when one small model learns two tasks: eight languages and eight equations, every pair.

    python -m studies.interference                     # small models, six seeds, minutes on two cores
    python -m studies.interference --preset full       # larger models and texts, ten seeds

The interference matrix (arXiv:2508.02256) compares a model trained on two tasks with the same model trained on one. The
paper finds it asymmetric, and explained by the script of languages rather than by their family. The study measures it
for languages that separate the two (Serbian in two scripts, Kazakh and Russian in one), for synthetic languages in
which grammar and alphabet are crossed, and for evolution equations, in which the law of the initial fields takes the
part of the script and the class of the operator that of the family, with and without channels that name the equation.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studies.interference.analysis import analysed, answer
from studies.interference.equations import EQUATIONS
from studies.interference.figures import draw
from studies.interference.plan import ARMS, jobs, task_sets
from studies.interference.report import print_report
from studies.interference.training import train_once
from studies.kit.choices import require_known
from studies.kit.pool import run_all
from studies.kit.study import finished, opened

LANGUAGES = ("fr", "es", "cs", "sr@latin", "sr", "ru", "kk", "tr")


@dataclass(frozen=True)
class Config:
    arms: tuple[str, ...] = tuple(ARMS)  # names in studies.interference.plan.ARMS
    texts: str = "auto"
    """"catalogues" (translations of installed programs), "synthetic", a folder of NAME.txt; "auto": what is there"""
    languages: tuple[str, ...] = LANGUAGES  # codes of catalogues
    characters: int = 60_000  # of each language, at most
    equations: tuple[str, ...] = tuple(EQUATIONS)  # names in studies.interference.equations.EQUATIONS
    points: int = 64  # of a field
    fields: tuple[int, int] = (256, 128)  # training and test fields of each equation
    seeds: tuple[int, ...] = tuple(range(10))  # of initial weights and the order of examples
    text_steps: int = 600  # of the training of one language alone
    text_batch: int = 240
    text_rate: float = 4e-3  # peak rate of AdamW
    text_width: int = 48  # hidden numbers of a character model
    field_steps: int = 800  # of the training of one equation alone
    field_batch: int = 24
    field_rate: float = 5e-3
    field_width: int = 16  # channels of an FNO
    field_depth: int = 3  # its blocks
    widths: tuple[int, ...] = (
        12,
        192,
    )  # other hidden numbers, for synthetic languages: does harm vanish with capacity?
    total: tuple[str, ...] = (
        "languages",
        "equations",
    )  # arms whose pairs are also trained on as many steps as one task
    mixtures: int = 12  # mixtures of three and four tasks
    wavenumbers: tuple[int, ...] = (1, 2, 3)  # of single waves that two opposite advections shift
    groups: int = 3  # into which tasks are grouped
    permutations: int = 9999  # of the tests
    side_by_side: int = 7  # mixtures that are trained as one, with all their seeds
    workers: int = 2  # trainings at a time
    output: Path = Path("runs/interference")  # folder for the cells, results.json and the figures


PRESETS = {
    "quick": Config(
        seeds=tuple(range(6)),
        points=32,
        text_steps=200,
        field_steps=100,
        field_width=12,
        field_depth=2,
        widths=(12,),
        total=("languages",),
        mixtures=4,
        output=Path("runs/interference_quick"),
    ),
    "medium": Config(),
    "full": Config(
        characters=200_000,
        fields=(1024, 256),
        points=128,
        text_steps=4000,
        text_width=192,
        field_steps=4000,
        field_width=32,
        field_depth=4,
        widths=(12, 48, 768),
        mixtures=24,
        output=Path("runs/interference_full"),
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Trains what is missing, prints the tables, writes results.json and the figures; returns the results.

    Raises ValueError for unknown arms and equations, too few seeds and batches that the mixtures cannot share.
    """
    require_known("--arms", config.arms, ARMS, some=True)
    require_known("--equations", config.equations, EQUATIONS)
    require_known("--total", config.total, ("languages", "grammars", "equations", "equations, not named"))
    for flag, batch in (("--text-batch", config.text_batch), ("--field-batch", config.field_batch)):
        if batch % 12:
            raise ValueError(f"{flag} {batch}: expected a multiple of 12, which 2, 3 and 4 tasks can share")
    if len(set(config.seeds)) < 2 or len(set(config.seeds)) < len(config.seeds):
        raise ValueError(f"--seeds {' '.join(map(str, config.seeds))}: expected at least two that differ")
    folder = opened(config, seeds=config.seeds, methods=["interference"])
    sets = task_sets(config, folder.path / "data")
    planned = jobs(config, sets)
    records = run_all(
        train_once,
        [(spec, sets[ARMS[arm].tasks], folder.path / "cells") for arm, spec in planned],
        workers=config.workers,
        threads=1,
        unit="training",
    )
    results = analysed(planned, records, sets, config)
    return finished(folder, results, draw, print_report, config, answer=answer)
