"""How accurate each operator gets in the same training time, beside the solver on the same coarse coefficient.

    python -m studies.accuracy_for_time                      # minutes: small data, seconds a run
    python -m studies.accuracy_for_time --preset minute      # 43 and 85 nodes, 1000 fields, 60 s a run: two hours
    python -m studies.accuracy_for_time --preset evening     # 85 nodes, 1000 fields, 150 s a run, one seed
    python -m studies.accuracy_for_time --preset full        # 43 and 85 nodes, 600 s a run, five seeds: 22 hours

Darcy flow of the li2020 law (a = 3 or 12, u = 0 on the wall, f = 1), solved on 421² nodes; coefficient and solution are
then taken at 43² or 85² of them, so that what lies between is lost to everyone. An endless arm draws and solves a new
field for every sample while it trains. Every run has the same seconds of training on the same threads, the parameters
are those of its best validation, and the test fields are looked at once.
A solver needs no training: its row is what any network has to beat. Two solves are also extrapolated by Richardson's
rule, and weighted by two numbers that are fitted to training fields.

Runs that are there already are not repeated; a study that was stopped resumes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from studies.accuracy_for_time.arms import ARMS, VARIANTS
from studies.accuracy_for_time.case import trained_and_tested
from studies.accuracy_for_time.report import answer, draw, print_report, summary, targets
from studies.accuracy_for_time.solves import solver_rows
from studies.kit.cells import data_digest, kept
from studies.kit.choices import require_known
from studies.kit.fields.darcy import darcy_splits
from studies.kit.study import finished, opened, picked
from studies.kit.timing import threads


@dataclass(frozen=True)
class Config:
    sizes: tuple[int, ...] = (43,)  # nodes per axis that the operators see; each divides the finest grid
    finest: int = 421  # nodes per axis on which the equation is solved
    samples: tuple[int, int, int] = (300, 50, 100)  # training, validation and test fields
    seconds: float = 6.0  # of training, each run
    seeds: tuple[int, ...] = (0,)  # of the initial parameters and the order of the fields
    arms: tuple[str, ...] = tuple(name for name in ARMS if name not in VARIANTS)  # names in `arms.ARMS`
    validate_every: int = 4  # epochs between two validations, which the seconds do not count
    threads: int = 2  # of torch and of the solver
    device: str = "cpu"  # where the networks train; solves in float64 run there too
    data_seed: int = 0  # of the coefficients
    output: Path = Path("runs/accuracy_for_time")  # folder for the fields, a record a run, results.json and the figure


PRESETS = {
    "quick": Config(),
    "minute": Config(
        sizes=(43, 85),
        samples=(1000, 100, 200),
        seconds=60.0,
        seeds=(0, 1, 2),
        output=Path("runs/accuracy_for_time_minute"),
    ),
    "evening": Config(sizes=(85,), samples=(1000, 100, 200), seconds=150.0),
    "full": Config(sizes=(43, 85), samples=(1000, 100, 200), seconds=600.0, seeds=(0, 1, 2, 3, 4)),
}


def run(config: Config) -> dict[str, Any]:
    """Trains and tests what is missing, prints the tables, writes results.json and a figure; returns the results.

    Raises ValueError for unknown arms and sizes that do not nest in the finest grid.
    """
    require_known("--arms", config.arms, ARMS)
    for n in config.sizes:
        if n < 5 or (config.finest - 1) % (n - 1) or n % 2 == 0:
            raise ValueError(f"--sizes {n}: expected an odd number of nodes that nest in {config.finest}")
    folder = opened(config, seeds=[config.data_seed, *config.seeds])
    halves = {(n + 1) // 2 for n in config.sizes if any(ARMS[name].coarse_share for name in config.arms)}
    with threads(config.threads):
        sizes = tuple(sorted(halves | set(config.sizes)))
        fields, generation = darcy_splits(
            config.output, sizes, config.samples, finest=config.finest, seed=config.data_seed
        )
        runs = [(n, seed, name) for n in config.sizes for seed in config.seeds for name in config.arms]
        solver = {n: solver_rows(fields[n]) for n in config.sizes}
        records: dict[int, dict[str, list[dict[str, Any]]]] = {n: {} for n in config.sizes}
        with tqdm(runs, unit="run", disable=None) as bar:
            for n, seed, name in bar:
                bar.set_postfix_str(f"{name} {n}² seed {seed}")
                records[n].setdefault(name, []).append(_record(name, n, seed, fields, config))
    results: dict[str, Any] = {"solver": solver, "runs": records, "generation": generation}
    results["summary"] = summary(records, solver, generation)
    results["targets"] = targets(results["summary"], config)
    return finished(folder, results, draw, print_report, config, answer=answer, picture="accuracy_for_time.png")


def _record(name: str, size: int, seed: int, fields: dict[int, Any], config: Config) -> dict[str, Any]:
    """The run's record, from disk where the same run was made before, on the same fields."""
    arm = ARMS[name]
    here = fields[size]
    made_by = {
        "arm": vars(arm),
        "size": size,
        "seed": seed,
        "data": data_digest(here.train, here.validation, here.test),
        "coarse": data_digest(fields[(size + 1) // 2].train) if arm.coarse_share else None,
        "stream": {"finest": config.finest, "seed": config.data_seed} if arm.endless else None,
        **picked(config, "seconds validate_every threads device"),
    }
    make = lambda: trained_and_tested(arm, size, seed, fields, config)  # noqa: E731
    return kept(Path(config.output) / "records", f"{name}_{size}_{seed}", made_by, make)
