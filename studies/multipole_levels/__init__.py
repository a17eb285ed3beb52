"""Which parts of a multipole pyramid pay: levels, kernels, samplers, attention, and ties to a reference grid.

    python -m studies.multipole_levels                                       # 22 nodes and digits, minutes
    python -m studies.multipole_levels --preset screen                       # 22 nodes, all combinations, one seed
    python -m studies.multipole_levels --preset medium --data FOLDER         # the four cases, an hour of one core
    python -m studies.multipole_levels --preset full --data FOLDER           # all combinations, a day

One network, in which the mixer alone differs: the pyramid of MANO as published (`paper`); with a depthwise kernel on
every level (`+ kernels`); with mean and cell-centred linear interpolation as samplers and attention that starts at zero
(`smooth`), from level 0, 1 or 2 on; without attention (`linear pyramid`); with one level alone; and a spectral mixer.
Darcy flow of the li2020 law on 22 nodes, neuraloperator's 16-node files, digits, and a time step of Navier–Stokes.

Every arm of a case gets the same time: that of a number of steps of the spectral mixer, in processor time of one
thread, measured side by side before the trainings. Of several learning rates (`rates`) each arm gets the one that
validates best with the first seed. The parameters of the best validation are tested. Trained models are also run on
finer grids, where the levels are tied to the grid of training or count cells, and compared with the same model on its
own grid and upsampled.

Trainings run in `workers` processes of one thread; finished ones are read back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from sciops.files.json_files import plain
from studies.kit.choices import require_known
from studies.kit.pool import run_all
from studies.kit.study import finished, opened, picked
from studies.multipole_levels.arms import ARMS
from studies.multipole_levels.cases import CASES, known, load_case
from studies.multipole_levels.figures import draw
from studies.multipole_levels.report import answer, print_report, summary, targets, verdicts
from studies.multipole_levels.runs import REFERENCE, cell, step_times, steps_of


@dataclass(frozen=True)
class Config:
    cases: tuple[str, ...] = ("darcy", "digits")  # which of darcy, files, digits, flow
    arms: tuple[str, ...] = ("paper", "linear pyramid", "kernels, one level", "smooth from 2")
    """mixers besides the spectral one, by their names in `studies.multipole_levels.arms.ARMS`; none: all"""
    elsewhere: tuple[str, ...] = ()  # mixers on files and flow; none: those of `arms`
    images: tuple[str, ...] = ()  # mixers on digits; none: those of `arms`
    steps: tuple[int, ...] = (80, 80)  # of the spectral mixer, by case; all others get the same time
    rates: tuple[float, ...] = (1.0,)
    """factors of a case's learning rate; of several, each arm gets the one that validates best with the first seed"""
    seeds: int = 5  # of initial parameters and batches
    samples: tuple[int, int, int] = (200, 40, 60)
    """training, validation and test fields of darcy; flow has an eighth as many trajectories of four steps"""
    shifted: int = 40  # test samples, the first ones, on which finer grids are tried; a multiple of 4
    sizes: tuple[int, ...] = (22, 43)  # nodes per axis of darcy, the first for training; each nests in 421
    wall: Literal["none", "zero"] = "none"
    """of the networks of darcy; zero: their output is set to 0 on the walls, so that it is not trained there"""
    data: Path | None = None  # folder with neuraloperator's darcy_*.pt files, for the case files
    rounds: int = 5  # turns in which a step of every arm is timed
    workers: int = 2  # processes that train at a time
    output: Path = Path("runs/multipole_levels")  # folder for the data, the cells, results.json and the figures


_MEDIUM = Config(
    cases=CASES,
    arms=("paper", "paper + kernels", "smooth from 2", "linear pyramid", "kernels, one level"),
    elsewhere=("paper + local", "smooth from 2", "linear pyramid", "hybrid, linear"),
    images=("paper", "smooth from 0", "smooth from 2", "linear pyramid", "kernels, one level"),
    steps=(800, 500, 250, 80),
    samples=(600, 60, 100),
    shifted=20,
    sizes=(22, 43, 85),
    rounds=7,
    output=Path("runs/multipole_levels_medium"),
)
PRESETS = {
    "quick": Config(),
    "screen": replace(
        _MEDIUM, cases=("darcy",), arms=(), steps=(250,), seeds=1, output=Path("runs/multipole_levels_screen")
    ),
    "medium": _MEDIUM,
    "full": replace(
        _MEDIUM,
        arms=(),
        elsewhere=(),
        images=(),
        rates=(0.5, 1.0, 2.0),
        steps=(4000, 4000, 2000, 2000),
        samples=(1000, 100, 200),
        output=Path("runs/multipole_levels_full"),
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Times, trains, tests and prints, writes results.json and the figures, and returns the results.

    Raises ValueError for unknown cases and arms, for a number of steps that is not one a case, and for the case files
    without its folder.
    """
    require_known("--cases", config.cases, CASES, some=True)
    require_known("--arms", (*config.arms, *config.elsewhere, *config.images), ARMS)
    if len(config.steps) != len(config.cases) or min(config.steps) < 1:
        raise ValueError(f"--steps {config.steps}: expected a positive number for each of {len(config.cases)} cases")
    if "files" in config.cases and config.data is None:
        raise ValueError("--cases files needs --data, the folder with darcy_train_16.pt, darcy_test_16.pt, …")
    if config.shifted < 4 or config.shifted % 4:
        raise ValueError(f"--shifted {config.shifted}: expected a multiple of 4, the steps of a trajectory of flow")
    if any(n < 2 or 420 % (n - 1) for n in config.sizes):
        raise ValueError(f"--sizes {config.sizes}: expected numbers of nodes that nest in 421, such as 22 43 85")
    folder = opened(config, data=config.data, seeds=range(config.seeds))
    given = picked(config, "data samples sizes wall")
    times: dict[str, dict[str, float]] = {}
    budgets: dict[tuple[str, str], int] = {}
    for case, steps in zip(config.cases, config.steps):
        names = arms_of(config, case)
        times[case] = step_times(load_case(case, folder.path, **given), names, config.rounds, folder.path)
        budgets |= {(case, name): count for name, count in steps_of(times[case], steps).items()}
    trained = partial(_trained, config, budgets, str(folder.path), given)
    first = trained([(case, name, 0, factor) for case, name in budgets for factor in config.rates])
    best: dict[tuple[str, str], Mapping[str, Any]] = {}
    for one in first:
        key = (one["case"], one["arm"])
        best[key] = min(best.get(key, one), one, key=lambda record: record["validation"])
    wanted = [(*key, seed, best[key]["factor"]) for key in budgets for seed in range(1, config.seeds)]
    cells = [*best.values(), *trained(sorted(wanted, key=lambda job: (config.cases.index(job[0]), job[2])))]
    results: dict[str, Any] = {"times": times, "cells": plain(cells), "rates": plain(first)}
    results["rows"] = summary(results["cells"], times)
    results["verdicts"] = verdicts(results["cells"])
    results["targets"] = targets(results)
    return finished(folder, results, draw, print_report, config, answer=answer)


def _trained(
    config: Config,
    budgets: Mapping[tuple[str, str], int],
    folder: str,
    given: Mapping[str, Any],
    wanted: Sequence[tuple[str, str, int, float]],
) -> list[dict[str, Any]]:
    """The records of trainings (case, arm, seed, factor of the rate)."""
    jobs = (
        (name, case, seed, factor, budgets[case, name], config.shifted, folder, given)
        for case, name, seed, factor in wanted
    )
    return run_all(cell, jobs, workers=config.workers, threads=1, unit="training")


def arms_of(config: Config, case: str) -> list[str]:
    """The arms of a case, the spectral mixer first."""
    own = {"darcy": (), "digits": config.images}.get(case, config.elsewhere)
    names = dict.fromkeys((REFERENCE, *(own or config.arms or ARMS)))
    return [name for name in names if known(case, ARMS[name])]
