"""Resolution shift: train on grid s, need the answer on grid S. Run the model there, or run it on s and upsample?

For every training grid, test grid, model and seed, on the same test fields: the model run directly on S; run on s and
upsampled in every way that fits the grid; run on S with the coefficient carried up from s (same function, so that what
changes is the network's own grid dependence); the model trained on S; the true solution upsampled from s (no surrogate
can beat this floor by low + upsampling); and the native solve of the coarse coefficient. Verdicts are paired, sample by
sample, with intervals over seeds and samples.

    python -m studies.resolution_shift --preset quick                    16 → 31 → 61 nodes, minutes
    python -m studies.resolution_shift --preset remedies                 dealiasing, two training grids, latent grid
    python -m studies.resolution_shift --preset real16 --data FOLDER     neuraloperator's darcy_*.pt files
    python -m studies.resolution_shift --preset li2020                   43 → 85 and 211 nodes, self-generated
    python -m studies.resolution_shift --preset li2020-85 --data FILE    85 → 211; any dataset that `sciops info` knows

Colagrande et al., Limits of Resolution Equivariance in Fourier Neural Operators, arXiv:2606.00677.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from sciops import reports
from sciops.datasets import Splits
from sciops.files.digest import sealed
from sciops.files.writable import writable_folder
from sciops.training import TrainConfig
from studies.kit.cells import cell_name, data_digest
from studies.kit.pool import run_all
from studies.kit.study import opened, picked
from studies.resolution_shift.arms import ARMS, weights_of
from studies.resolution_shift.case import Case, load_case, load_grid
from studies.resolution_shift.evaluation import evaluate
from studies.resolution_shift.figures import draw
from studies.resolution_shift.report import contents


@dataclass(frozen=True)
class ResolutionShiftConfig:
    """What is trained, on which grids, and where the results go."""

    data: Path | None = None  # file or folder that `sciops info` knows; nothing: generated into the output folder
    generator: str = "li2020"  # preset of data_gen.darcy, where data is not given
    samples: int | None = None  # fields to generate; nothing: the preset's
    recipe: Literal["darcy", "small", "real16"] = "darcy"  # which set of arms
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
    "full": ResolutionShiftConfig(
        arms=tuple(ARMS["darcy"]),
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
    folder: str


def run(config: ResolutionShiftConfig) -> dict[str, Any]:
    """Trains, evaluates, prints the tables, draws the figures, writes results.json, report.md and report.html."""
    _check(config)
    writable_folder(config.output)
    if config.data is None:
        config = replace(config, data=_generate(config))
    folder = opened(config, data=config.data, seeds=list(range(config.seeds)))
    case = load_case(config)
    jobs = [
        Job(arm, n, seed, _model_folder(config, case, weights_of(config.recipe, arm), n, seed))
        for n in config.train_grids
        for arm in config.arms
        for seed in range(config.seeds)
    ]
    _train_all(config, jobs)
    results = evaluate(config, case, jobs)
    draw(config, case, jobs, results, folder.path / "figures")
    title, answer, sections = contents(config, results, folder.path / "figures")
    results["answer"] = answer
    folder.write_results(results)
    text = reports.write_markdown(folder.path / "report.md", title, answer, sections).read_text()
    print("\n".join(line for line in text.splitlines() if not line.startswith("![")))
    print(f"{answer}\n\nreport with figures: {reports.report(folder.path)}")
    return results


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
    if config.data is not None and not config.data.exists():
        raise FileNotFoundError(f"{config.data}: no such file or folder; leave --data out to generate one")


def _model_folder(config: ResolutionShiftConfig, case: Case, name: str, points: int, seed: int) -> str:
    return f"models/{cell_name(f'{name}-{points}-seed{seed}', made_by(config, case, name, points, seed))}"


def made_by(config: ResolutionShiftConfig, case: Case, name: str, points: int, seed: int) -> dict[str, Any]:
    """All that decides a trained model: its options, its training, and the fields of every grid that it trains on.

    A study may be run again with more arms, grids or seeds, and keeps the models that these leave as they were.
    """
    splits = case.splits[points]
    further = _further_grid(config, name, points)
    return {
        "arm": ARMS[config.recipe][name].trained,
        "training": _training(config, name, points, splits, seed).identity(),
        "keep": "best" if splits.validation is not None else "last",
        "data": data_digest(splits.train, splits.validation),
        "further data": None if further is None else data_digest(case.splits[further].train),
    }


def _further_grid(config: ResolutionShiftConfig, name: str, points: int) -> int | None:
    """Points per axis of the second grid that an arm trains on; None for an arm with one grid."""
    second = ARMS[config.recipe][name].second_grid
    finer = [n for n in config.test_grids if n > points]
    return None if second is None else min(finer, default=None) if second == "next" else max(config.test_grids)


def _training(config: ResolutionShiftConfig, name: str, points: int, splits: Splits, seed: int) -> TrainConfig:
    """How an arm is trained on a grid; where and with what progress is left to the caller."""
    arm, grid = ARMS[config.recipe][name], splits.train.grid
    return TrainConfig(
        epochs=arm.epochs or config.epochs,
        seconds=config.seconds and config.seconds * (points / config.train_grids[0]) ** grid.ndim,
        learning_rate=arm.learning_rate,
        weight_decay=arm.weight_decay,
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


def _train_all(config: ResolutionShiftConfig, jobs: Iterable[Job]) -> None:
    once = {job.folder: job for job in jobs}.values()
    waiting = [job for job in once if not (config.output / job.folder / "results.json").exists()]
    if waiting:
        run_all(train_one, ((config, job) for job in waiting), workers=config.workers, desc="training", unit="model")


def train_one(config: ResolutionShiftConfig, job: Job) -> None:
    """Trains one model into its folder; resumes where a stopped run left it."""
    import torch

    from sciops.models import build_model, save_model
    from sciops.runs import RunFolder
    from sciops.training import fit

    torch.set_num_threads(max(1, torch.get_num_threads() // max(1, config.workers)))
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
    training = replace(_training(config, job.arm, job.points, splits, job.seed), folder=folder.path)
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
