"""Trains one operator on one dataset and says how well it does on test fields, on its own grid and on others.

python -m studies.train --preset real16 --data FOLDER
python -m studies.train --preset quick --data darcy.h5 --model mano --epochs 20
python -m studies.train --preset quick --data darcy.h5 --mixer polynomial --options mixer_options='{"degree": 3}'
python -m studies.train --preset burgers16 --data FOLDER
python -m studies.train --from runs/train --data darcy421.h5 --learning-rate 5e-4 --folder runs/finer
torchrun --nproc-per-node 2 -m studies.train --preset darcy --data darcy.h5 --resolution 85

Tasks: steady (a ↦ u), and of trajectories step (one time step, run on its own predictions when tested), trajectory
(first frames ↦ all later ones, as channels), space-time (the same on the grid of time and space), final (↦ last frame).

The run's folder holds the config, the environment, the log, checkpoints, the model with its normalisers (for
sciops.load_model), results.json, a learning curve, a prediction beside the truth, and for trajectories the error
against time and frames. The same command resumes where it stopped.

--from RUN begins with the weights of another run, whose architecture the new one has: fine-tuning on another grid or,
with new first and last layers, on another equation.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro
from torch import nn

from sciops.datasets.fields.torch_data import MEMORY_LIMIT
from sciops.grids import Grid
from sciops.metrics import metric_of
from sciops.training import TrainConfig
from studies.train.mixers import mixer_options, with_mixer
from studies.train.report import EVOLVING, draw_all, results_of, table
from studies.train.tasks import channels_of, check_symmetrize, load_parts, notes_on, resolved, strides_of, wrapped
from studies.train.warm_start import beginning


@dataclass(frozen=True)
class TrainStudyConfig(TrainConfig):
    """What is trained on which fields, and how: the fields of `TrainConfig` besides its own."""

    data: Path | None = None  # a file or folder of any layout that `sciops info` knows
    task: Literal["auto", "steady", "step", "trajectory", "space-time", "final"] = "auto"  # auto: steady or step
    equation: str | None = None  # in a folder of several
    inputs: tuple[str, ...] = ()  # steady: fields in (none: a, or f); else fields that stay the same, such as a mask
    parameters: tuple[str, ...] = ()  # constants of each trajectory that the model is told, such as viscosity
    forcings: tuple[str, ...] = ()  # fields that change in time and are known at every time
    time_step: bool = False  # task step: the model is told how long each step takes
    state: tuple[str, ...] = ()  # variables that evolve; none: those the data names
    kinds: tuple[
        str, ...
    ] = ()  # what variables are, for symmetries of files that do not say it: u=scalar vx=velocity:x
    history: int = 1  # frames that are given
    start: int = 0  # first stored frame of a trajectory that is used
    stop: int | None = None  # stored frame to stop before
    stride: tuple[int, ...] = (1,)  # stored frames in a step of time; several train together, with time_step
    residual: bool = True  # task step: the model gives the increment, with statistics of its own
    unroll: int = 1  # task step: steps that are trained on at once; 1 is teacher forcing
    through: Literal["full", "pushforward", "random", "detached"] = "full"  # gradient of unrolled steps: models.Stepper
    noise: float = 0.0  # task step: on the frames seen in training, in standard deviations
    memory_limit: int = MEMORY_LIMIT  # bytes of a part above which it is read from the file batch by batch
    resolution: tuple[int, ...] = ()  # points per axis of the training fields; several train together; none: the file's
    test_resolutions: tuple[int, ...] = ()  # further grids to test on
    train_samples: int | None = None  # number of training fields, the first ones; None: all
    validation_samples: int | None = None  # held out to choose the epoch, where the file has no validation fields
    test_samples: int | None = None  # held out to test, where there are no test fields
    model: str = "fno"
    """a name in sciops.models.MODELS, such as fno, mano, hybrid or neuralop:FNO; for a distribution of fields
    quantized:, quantiles:, dropout:, flow: or ensemble: before it"""
    mixer: tuple[str, ...] = ()  # of sciops.mixers.MIXERS, several alternate: the model is then the spine `operator`
    width: int = 32  # channels inside
    depth: int = 4  # blocks
    modes: int = 12  # per axis, lowered to what the coarsest training grid holds; for models that have modes
    options: tuple[str, ...] = ()  # further options of the model, as name=value: basis=sine local=true window=4
    rule_options: tuple[str, ...] = ()  # options of the rule for gradients, as name=value: iterations=2
    metrics: tuple[str, ...] = ()
    """further test errors: names in sciops.metrics.METRICS, or module:function of (prediction, target, grid)"""
    symmetrize: bool = False  # also test the average over the exchange of the axes, where the problem has it
    # begin with the weights and the architecture of another run, the folder of a model, or a checkpoint
    start_from: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    start_digest: str | None = None  # SHA-256 of those weights: others are refused; config.json records it
    seed: int = 0  # of the model's initial parameters, the order of the fields, augmentation and dropout
    folder: Annotated[Path, tyro.conf.arg(aliases=("--output",))] = Path("runs/train")  # where everything goes
    resume: bool = True  # resume the run in the folder


PRESETS = {
    "quick": TrainStudyConfig(epochs=10, batch_size=8, learning_rate=5e-3, width=24, depth=3),
    # neuraloperator's 16-grid Darcy files
    "real16": TrainStudyConfig(
        resolution=(16,),
        test_resolutions=(32,),
        validation_samples=100,
        epochs=40,
        batch_size=16,
        learning_rate=7e-3,
        augment="transpose",
        modes=8,
        options=("weights=diagonal", "local=true", "coordinates=linear"),
        symmetrize=True,
        folder=Path("runs/train_real16"),
    ),
    # two-phase fields with u = 0 on walls that are nodes of the grid
    "darcy": TrainStudyConfig(
        epochs=30,
        batch_size=4,
        learning_rate=4e-3,
        gradient_weight=0.3,
        augment="square",
        modes=16,
        options=("basis=sine-cosine", "wall=zero"),
        folder=Path("runs/train_darcy"),
    ),
    # any trajectories: one step learned, run on its own predictions when tested
    "step": TrainStudyConfig(task="step", epochs=20, batch_size=32, learning_rate=3e-3, folder=Path("runs/train_step")),
    # neuraloperator's Burgers files: the first frame ↦ the 16 later ones
    "burgers16": TrainStudyConfig(
        task="trajectory",
        equation="burgers",
        validation_samples=80,
        epochs=120,
        batch_size=16,
        learning_rate=1e-2,
        modes=8,
        folder=Path("runs/train_burgers16"),
    ),
    # the same on the grid of time and space, the form that neuraloperator's own script learns
    "burgers16-space-time": TrainStudyConfig(
        task="space-time",
        equation="burgers",
        validation_samples=80,
        epochs=30,
        batch_size=16,
        learning_rate=1e-2,
        width=24,
        depth=3,
        modes=8,
        folder=Path("runs/train_burgers16_space_time"),
    ),
    # the same files, one step of time
    "burgers16-step": TrainStudyConfig(
        task="step",
        equation="burgers",
        validation_samples=80,
        epochs=20,
        batch_size=64,
        learning_rate=1e-2,
        modes=8,
        folder=Path("runs/train_burgers16_step"),
    ),
    # Navier–Stokes of Li et al. (arXiv:2010.08895): ten frames ↦ the next one, ν = 1e-3 … 1e-5, 64²
    "ns": TrainStudyConfig(
        task="step",
        equation="navier_stokes",
        history=10,
        epochs=50,
        batch_size=20,
        learning_rate=2e-3,
        width=20,
        modes=12,
        residual=True,
        folder=Path("runs/train_ns"),
    ),
}


def run(config: TrainStudyConfig) -> dict[str, Any]:
    """Trains, tests, writes the run's folder, prints the table; returns what results.json holds."""
    from sciops.files.writable import writable_folder
    from sciops.models import save_model
    from sciops.runs import RunFolder
    from sciops.training import fit

    if config.data is None:
        raise ValueError("data: which fields? pass --data FILE; `sciops generate darcy --preset quick` makes some")
    for name in config.metrics:
        metric_of(name)  # an unknown one is refused before the training
    writable_folder(config.folder)  # data that will not do must leave no folder behind
    begun = beginning(config) if config.start_from is not None else None
    config, task = with_mixer(config), resolved(config)
    asked = {"train": config.train_samples, "validation": config.validation_samples, "test": config.test_samples}
    asked = {part: count for part, count in asked.items() if count is not None}
    parts = [load_parts(config, task, n, s, **asked) for n in config.resolution or (None,) for s in strides_of(config)]
    tests = _tests(config, task, parts)
    data = _Data([p.train for p in parts], [p.validation for p in parts if p.validation is not None])
    if any(part is None for part in data.train):
        raise ValueError(f"{config.data}: no training fields at the resolution asked for; see sciops info")
    core = _build(config, task, data.train) if begun is None else begun.build(config, task, data.train[0])
    model = wrapped(core, config, task, data.train)
    folder, first = RunFolder(config.folder), os.environ.get("RANK", "0") == "0"
    check_symmetrize(config, tests)
    _try(model, tests)
    used = core.config["options"].get("modes")
    asked_for = begun is None and not any(o.startswith("modes=") for o in config.options)
    if first and asked_for and used and min(used) < config.modes:
        print(f"modes: {'×'.join(map(str, used))}, all that the coarsest training grid holds, for {config.modes}")
    methods = _methods(config, task)
    if begun is not None:
        config = replace(config, start_digest=begun.digest)
        if first:
            print(begun.line(core))

    for note in notes_on(config, task, data.train, core) if first else ():
        print(note)

    def describe() -> None:
        folder.describe(config, data=config.data, seeds=[config.seed], methods=methods)

    # a folder that holds another run must not be described anew before fit has had the chance to refuse it
    if first and not (folder.path / "last.safetensors").exists():
        describe()
    trained = fit(model, data, _train_config(config))
    results = results_of(config, task, trained, tests)
    if first:
        describe()
        save_model(
            trained.model, folder.path / "model", extra={"validation": trained.best, "epoch": trained.best_epoch}
        )
        folder.write_results(results)
        draw_all(task, trained, tests, results, folder.figures, _shown(tests, data))
        print(table(config, results))
    return results


@dataclass(frozen=True)
class _Data:
    train: list[Any]
    validation: list[Any]


def _shown(tests: list[Any], data: _Data) -> tuple[str, Any]:
    """(name, data set) whose first sample is drawn: of the test fields, else of what there is."""
    parts = (("test", tests), ("validation", data.validation), ("training", data.train))
    return next((name, found[0]) for name, found in parts if found)


def _tests(config: TrainStudyConfig, task: str, parts: list[Any]) -> list[Any]:
    """Test data of every training grid, then of the further ones; each grid once."""
    found = [part.test for part in parts]
    for points in config.test_resolutions:
        if points not in config.resolution:
            # as many as on the training grid, so that none of them was trained on there
            count = {} if config.test_samples is None else {"test": config.test_samples}
            found += [load_parts(config, task, points, stride, **count).test for stride in strides_of(config)]
    return [dataset for dataset in found if dataset is not None]


def _try(model: nn.Module, tests: list[Any]) -> None:
    """What does not fit a test grid is said before the training, not after it."""
    from sciops.models import apply_model

    with torch.no_grad():
        for dataset in tests:
            apply_model(model.eval(), dataset.batch([0])["x"].float(), dataset.grid)


def _build(config: TrainStudyConfig, task: str, train: list[Any]) -> nn.Module:
    """The model with the first training grid as its reference, its initial parameters drawn from the seed."""
    from sciops.models import build_model, network_in

    network = network_in(config.model)
    options: dict[str, Any] = {"width": config.width, "depth": config.depth}
    options |= dict(_option(text, "options") for text in config.options)
    grid: Grid = train[0].grid
    periodic = options.get("basis", "fourier") == "fourier"
    coarsest = map(min, zip(*(dataset.grid.shape for dataset in train)))
    most = [n // 2 if periodic else n - 2 for n in coarsest]
    if network in ("fno", "hybrid") or network.startswith("neuralop:"):
        options.setdefault("modes", tuple(min(config.modes, k) for k in most))
    if config.mixer:
        options |= mixer_options(config, options, grid, most)
    if not network.startswith("neuralop:"):
        options["grid"] = grid
        if task == "space-time":  # the input holds the time, and a period has no place of its own
            options.setdefault("coordinates", "none")
    channels = channels_of(task, train[0])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return build_model(config.model, **channels, **options)


def _option(text: str, where: str) -> tuple[str, Any]:
    """("local", True) from "local=true": the value is JSON where it can be read as such, text otherwise."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{where} has {text!r}: expected name=value, such as basis=sine or local=true")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def _train_config(config: TrainStudyConfig) -> TrainConfig:
    asked = {f.name: getattr(config, f.name) for f in fields(TrainConfig)}
    asked["gradient_options"] = {
        **config.gradient_options,
        **dict(_option(o, "rule_options") for o in config.rule_options),
    }
    return TrainConfig(**asked)


def _methods(config: TrainStudyConfig, task: str) -> list[str]:
    """What of the run has papers to cite."""
    from sciops.models import network_in
    from sciops.runs import CITATIONS

    through = "pushforward" if config.through == "random" else config.through
    kind, inside = config.model.partition(":")[0], network_in(config.model)
    named = (*dict.fromkeys((kind, inside)), *config.mixer, config.gradients, "adamw", config.schedule, through)
    return [name for name in (*named, "correlation_time" if task in EVOLVING else "") if name in CITATIONS]
