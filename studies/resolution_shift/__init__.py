"""Resolution shift: train on grid s, need the answer on grid S. Run the model there, or run it on s and upsample?

For every training grid, test grid, model and seed, on the same test fields: the model run directly on S; run on s and
upsampled in every way that fits the grid; run on S with the coefficient carried up from s (same function, so that what
changes is the network's own grid dependence); the model trained on S; the true solution upsampled from s (no surrogate
can beat this floor by low + upsampling); and the native solve of the coarse coefficient. Verdicts are paired, sample by
sample, with intervals over seeds and samples.

    python -m studies.resolution_shift --preset quick                    16 → 31 → 61 nodes, minutes
    python -m studies.resolution_shift --preset medium                   22 → 43 nodes, five seeds: chosen rates, layers
    python -m studies.resolution_shift --preset medium-43 --choices FILE     43 → 85 and 211, with those rates
    python -m studies.resolution_shift --preset evening                  43 and 85 → 211, five seeds: hours
    python -m studies.resolution_shift --preset remedies                 dealiasing, two training grids, latent grid
    python -m studies.resolution_shift --preset real16 --data FOLDER     neuraloperator's darcy_*.pt files
    python -m studies.resolution_shift --preset li2020                   43 → 85 and 211 nodes, self-generated
    python -m studies.resolution_shift --preset li2020-85 --data FILE    85 → 211; any dataset that `sciops info` knows

Colagrande et al., Limits of Resolution Equivariance in Fourier Neural Operators, arXiv:2606.00677.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from sciops import reports
from sciops.datasets import Splits
from sciops.files.digest import sealed
from sciops.files.writable import writable_folder
from sciops.training import TrainConfig
from studies.kit.cells import cell_name, data_digest
from studies.kit.choices import require_known
from studies.kit.pool import pool, run_on
from studies.kit.study import opened, picked
from studies.resolution_shift import layers, predictions
from studies.resolution_shift.arms import ARMS, weights_of
from studies.resolution_shift.case import Case, load_case, load_grid
from studies.resolution_shift.choosing import SEED, Choice, choose
from studies.resolution_shift.evaluation import evaluate
from studies.resolution_shift.figures import draw
from studies.resolution_shift.predictions import TASKS
from studies.resolution_shift.report import contents


@dataclass(frozen=True)
class ResolutionShiftConfig:
    """What is trained, on which grids, and where the results go."""

    data: Path | None = None  # file or folder that `sciops info` knows; nothing: generated into the output folder
    generator: str = "li2020"  # preset of data_gen.darcy, where data is not given
    samples: int | None = None  # fields to generate; nothing: the preset's
    recipe: Literal["darcy", "small", "truncated", "truncated-12", "real16"] = "darcy"  # which set of arms
    arms: tuple[str, ...] = ("fno", "fno+instance", "mano", "neuralop:FNO")  # names in that set
    train_grids: tuple[int, ...] = (22,)  # points per axis
    test_grids: tuple[int, ...] = (22, 43, 85)  # points per axis
    train_samples: int | None = None  # number of training fields, the first ones; nothing: all
    test_samples: int | None = None  # number of test fields, the first ones; nothing: all
    hold_out: int | None = None  # training fields held out to choose the epoch, where the file has no validation split
    seeds: int = 2
    epochs: int = 30
    seconds: float | None = (
        None  # training time a model on the first training grid, in proportion to the points on others
    )
    batch_size: int = 8
    gradient_weight: float = 0.0  # of the gradient term in the training loss
    augment: Literal["none", "transpose", "square"] = "transpose"
    rates: tuple[float, ...] = ()  # candidates of every arm, on validation fields; nothing: the arm's own
    decays: tuple[float, ...] = ()  # candidates of the weight decay
    lengths: tuple[int, ...] = ()  # candidates of the number of epochs
    choices: Path | None = None  # results.json of a run whose choices are taken over; nothing: chosen in this run
    band: int | None = None  # waves per extent from which the layers' energy counts as high; nothing: not measured
    predictions: tuple[str, ...] = ()  # tasks whose outcome was named before: names in predictions.TASKS
    prediction_samples: int = 128  # training fields of each of those tasks
    symmetrize: bool = False  # also evaluate the average over a field and its transpose
    workers: int = 2  # models trained at the same time, one thread each
    output: Path = Path("runs/resolution_shift")


_LI2020 = ResolutionShiftConfig(
    arms=("fno", "sine-cosine", "mano", "neuralop:FNO"),
    train_grids=(43,),
    test_grids=(43, 85, 211),
    test_samples=100,
    epochs=100,
    seconds=80.0,
    batch_size=4,
    gradient_weight=0.3,
    augment="square",
    output=Path("runs/resolution_shift_li2020"),
)

_MEDIUM = ResolutionShiftConfig(
    samples=480,
    recipe="truncated",
    arms=(
        "fno",
        "fno+period",
        "fno+dealiased",
        "fno+latent",
        "sine-cosine",
        "neuralop:FNO",
        "neuralop:FNO+period",
    ),
    train_grids=(22,),
    test_grids=(22, 43),
    train_samples=300,
    test_samples=40,
    seeds=5,
    batch_size=8,
    gradient_weight=0.3,
    augment="square",
    rates=(2e-3, 5e-3, 1e-2),
    decays=(1e-3, 1e-1),
    lengths=(4, 16),
    band=6,
    predictions=tuple(TASKS),
    output=Path("runs/resolution_shift_medium"),
)

PRESETS: dict[str, ResolutionShiftConfig] = {
    "quick": ResolutionShiftConfig(
        generator="quick",
        samples=400,
        recipe="small",
        arms=("fno", "fno+latent", "sine+multi", "neuralop:FNO"),
        train_grids=(16,),
        test_grids=(16, 31, 61),
        train_samples=192,
        seeds=5,
        epochs=6,
    ),
    "remedies": ResolutionShiftConfig(
        generator="quick",
        samples=280,
        arms=("fno", "fno+dealias", "fno+multi", "fno+latent"),
        epochs=15,
        output=Path("runs/resolution_shift_remedies"),
    ),
    "real16": ResolutionShiftConfig(
        recipe="real16",
        arms=("fno", "sine", "sine+replicate", "mano", "hybrid", "neuralop:FNO"),
        train_grids=(16,),
        test_grids=(16, 32),
        hold_out=0,
        seeds=5,
        epochs=40,
        batch_size=16,
        symmetrize=True,
        output=Path("runs/resolution_shift_real16"),
    ),
    "li2020": _LI2020,
    "li2020-85": replace(
        _LI2020,
        arms=("fno", "sine-cosine", "neuralop:FNO"),
        train_grids=(85,),
        test_grids=(85, 211),
        seconds=200.0,
        output=Path("runs/resolution_shift_li2020_85"),
    ),
    "medium": _MEDIUM,
    "medium-43": replace(
        _MEDIUM,
        samples=1180,
        train_samples=1000,
        arms=("fno", "fno+period", "sine-cosine", "neuralop:FNO", "neuralop:FNO+period"),
        train_grids=(43,),
        test_grids=(43, 85, 211),
        test_samples=48,
        predictions=(),
        output=Path("runs/resolution_shift_medium_43"),
    ),
    # about 17 CPU-hours: steps of 45 to 120 ms on 43 nodes and 170 to 255 ms on 85
    "evening": replace(
        _MEDIUM,
        samples=None,
        recipe="truncated-12",
        arms=("fno", "fno+period", "fno+latent", "sine-cosine", "neuralop:FNO", "neuralop:FNO+period"),
        train_grids=(43, 85),
        test_grids=(43, 85, 211),
        train_samples=None,
        test_samples=100,
        batch_size=4,
        lengths=(15, 50),
        band=12,
        predictions=(),
        output=Path("runs/resolution_shift_evening"),
    ),
    "full": ResolutionShiftConfig(
        arms=tuple(name for name, arm in ARMS["darcy"].items() if not arm.same_period),
        train_grids=(43, 85, 141),
        test_grids=(43, 85, 141, 211, 421),
        seeds=5,
        epochs=500,
        batch_size=8,
        gradient_weight=0.1,
        augment="square",
        output=Path("runs/resolution_shift_full"),
    ),
}


@dataclass(frozen=True)
class Job:
    """One model to train: an arm, a training grid, a seed, and the folder of the model, named by all that makes it."""

    arm: str
    points: int
    seed: int
    choice: Choice
    folder: str


def run(config: ResolutionShiftConfig) -> dict[str, Any]:
    """Trains, evaluates, prints the tables, draws the figures, writes results.json, report.md and report.html."""
    _check(config)
    writable_folder(config.output)
    if config.data is None:
        config = replace(config, data=_generate(config))
    folder = opened(config, data=config.data, seeds=list(range(config.seeds)))
    case = load_case(config)
    choices, rows = _chosen(config, case)
    jobs, results = _train_and_evaluate(config, case, choices)
    results["choices"] = rows
    if config.band is not None:
        results["layers"] = layers.measure(config, case, jobs)
    if config.predictions:
        results["predictions"] = _predictions(config, choices, results)
    draw(config, case, jobs, results, folder.path / "figures")
    title, answer, sections = contents(config, results, folder.path / "figures")
    results["answer"] = answer
    folder.write_results(results)
    text = reports.write_markdown(folder.path / "report.md", title, answer, sections).read_text()
    print("\n".join(line for line in text.splitlines() if not line.startswith("![")))
    print(f"{answer}\n\nreport with figures: {reports.report(folder.path)}")
    return results


def _train_and_evaluate(
    config: ResolutionShiftConfig, case: Case, choices: Mapping[str, Choice]
) -> tuple[list[Job], dict[str, Any]]:
    """All models of the arms, grids and seeds of a configuration, and their errors."""
    jobs = [
        _job(config, case, arm, n, seed, choices[weights_of(config.recipe, arm)])
        for n in config.train_grids
        for arm in config.arms
        for seed in range(config.seeds)
    ]
    with _workers(config) as executor:
        _train_all(config, jobs, executor)
        return jobs, evaluate(config, case, jobs, executor)


def _chosen(config: ResolutionShiftConfig, case: Case) -> tuple[dict[str, Choice], list[dict[str, Any]]]:
    if config.rates and config.choices is None and case.splits[config.train_grids[0]].validation is None:
        raise ValueError(f"{config.data}: no validation fields to choose rates on; pass --hold-out or no --rates")

    def train(pairs: Iterable[tuple[str, Choice]]) -> list[Path]:
        jobs = [_job(config, case, name, config.train_grids[0], SEED, choice) for name, choice in pairs]
        with _workers(config) as executor:
            _train_all(config, jobs, executor)
        return [config.output / job.folder for job in jobs]

    return choose(config, train)


def _predictions(
    config: ResolutionShiftConfig, choices: Mapping[str, Choice], results: dict[str, Any]
) -> list[dict[str, Any]]:
    """The rows of every task whose outcome was named before; those on Darcy's equation are of the study's own run."""
    rows = []
    for name in config.predictions:
        found = results
        if predictions.TASKS[name].modes is not None:
            own = predictions.own_config(config, name)
            found = _train_and_evaluate(own, load_case(own), choices)[1]
        rows += predictions.judged(name, found)
    return rows


def _check(config: ResolutionShiftConfig) -> None:
    known = ARMS[config.recipe]
    unknown = [name for name in config.arms if name not in known]
    if unknown:
        raise ValueError(f"arms={unknown}: the recipe {config.recipe!r} has {', '.join(known)}")
    if not config.train_grids or not config.test_grids or max(config.train_grids) > max(config.test_grids):
        raise ValueError(
            f"train_grids={config.train_grids}, test_grids={config.test_grids}: expected a test grid at least as fine "
            "as every training grid"
        )
    candidates = (config.rates, config.decays, config.lengths)
    if any(candidates) and not all(candidates):
        raise ValueError(
            f"rates={config.rates}, decays={config.decays}, lengths={config.lengths}: expected candidates of all "
            "three, or of none"
        )
    if config.choices is not None and not config.choices.exists():
        raise FileNotFoundError(f"{config.choices}: no such file; leave --choices out to choose in this run")
    if config.band is not None and len(config.test_grids) < 2:
        raise ValueError(f"band={config.band}, test_grids={config.test_grids}: expected a second, finer test grid")
    require_known("--predictions", config.predictions, predictions.TASKS)
    if config.predictions:
        predictions.check(config)
    if config.data is not None and not config.data.exists():
        raise FileNotFoundError(f"{config.data}: no such file or folder; leave --data out to generate one")


def _job(config: ResolutionShiftConfig, case: Case, arm: str, points: int, seed: int, choice: Choice) -> Job:
    name = weights_of(config.recipe, arm)
    cell = cell_name(f"{name}-{points}-seed{seed}", made_by(config, case, name, points, seed, choice))
    return Job(arm, points, seed, choice, f"models/{cell}")


def made_by(
    config: ResolutionShiftConfig, case: Case, name: str, points: int, seed: int, choice: Choice
) -> dict[str, Any]:
    """All that decides a trained model: its options, its training, and the fields of every grid that it trains on.

    A study may be run again with more arms, grids or seeds, and keeps the models that these leave as they were.
    """
    splits = case.splits[points]
    further = _further_grid(config, name, points)
    return {
        "arm": ARMS[config.recipe][name].trained,
        "training": _training(config, name, points, splits, seed, choice).identity(),
        "keep": "best" if splits.validation is not None else "last",
        "data": data_digest(splits.train, splits.validation),
        "further data": None if further is None else data_digest(case.splits[further].train),
    }


def _further_grid(config: ResolutionShiftConfig, name: str, points: int) -> int | None:
    """Points per axis of the second grid that an arm trains on; None for an arm with one grid."""
    second = ARMS[config.recipe][name].second_grid
    finer = [n for n in config.test_grids if n > points]
    return None if second is None else min(finer, default=None) if second == "next" else max(config.test_grids)


def _training(
    config: ResolutionShiftConfig, name: str, points: int, splits: Splits, seed: int, choice: Choice
) -> TrainConfig:
    """How an arm is trained on a grid; where and with what progress is left to the caller."""
    grid = splits.train.grid
    return TrainConfig(
        epochs=choice.epochs,
        seconds=config.seconds and config.seconds * (points / config.train_grids[0]) ** grid.ndim,
        learning_rate=choice.learning_rate,
        weight_decay=choice.weight_decay,
        **picked(config, "batch_size gradient_weight augment"),
        keep="best" if splits.validation is not None else "last",
        seed=seed,
        resume=True,
        progress=False,
        grid_shares=None if _further_grid(config, name, points) is None else (0.9, 0.1),
    )


def _generate(config: ResolutionShiftConfig) -> Path:
    from data_gen import darcy

    resolutions = tuple(sorted({*config.train_grids, *config.test_grids}, reverse=True))
    preset = darcy.PRESETS[config.generator]
    finest = max(*preset.resolutions, *resolutions)
    return darcy.run(
        replace(
            preset,
            dtype="float32",
            samples=config.samples or preset.samples,
            resolutions=resolutions if finest == resolutions[0] else (finest, *resolutions),
            threads=config.workers,
            output=config.output / "darcy.h5",
        )
    )


def _workers(config: ResolutionShiftConfig) -> AbstractContextManager[Executor]:
    """The processes that train and evaluate, which share the threads of this one."""
    import torch

    return pool(config.workers, threads=max(1, torch.get_num_threads() // max(1, config.workers)))


def _train_all(config: ResolutionShiftConfig, jobs: Iterable[Job], executor: Executor) -> None:
    once = {job.folder: job for job in jobs}.values()
    waiting = [job for job in once if not (config.output / job.folder / "results.json").exists()]
    if waiting:
        run_on(executor, train_one, ((config, job) for job in waiting), desc="training", unit="model")


def train_one(config: ResolutionShiftConfig, job: Job) -> None:
    """Trains one model into its folder; resumes where a stopped run left it."""
    import torch

    from sciops.models import build_model, save_model
    from sciops.runs import RunFolder
    from sciops.training import fit

    arm = ARMS[config.recipe][job.arm]
    splits = load_grid(config, job.points)
    grid, train = splits.train.grid, [splits.train]
    further = _further_grid(config, job.arm, job.points)
    if further is not None:
        train.append(load_grid(config, further).train)
    torch.manual_seed(job.seed)
    options = arm.resolved(grid) | ({} if arm.model.startswith("neuralop:") else {"grid": grid})
    model = build_model(arm.model, in_channels=1, out_channels=1, **options)
    folder = RunFolder(config.output / job.folder)
    training = replace(_training(config, job.arm, job.points, splits, job.seed, job.choice), folder=folder.path)
    folder.describe(training, data=config.data, seeds=[job.seed])
    result = fit(model, replace(splits, train=train), training)
    save_model(result.model, folder.path / "model")
    found = {
        "parameters": result.parameters,
        "seconds": result.seconds,
        "best_epoch": result.best_epoch,
        "validation": result.best,
        "history": result.history,
    }
    folder.write_results(sealed(found))
