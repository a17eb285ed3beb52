"""Learning by two forward passes against backpropagation, from 4 to 50 layers: errors, angles, and what carries them.

    python -m studies.forward_only                       # digits and Burgers' equation, 4 and 10 layers
    python -m studies.forward_only --preset medium       # 4 to 50 layers: what the page shows
    python -m studies.forward_only --preset easy         # tasks that the last layer alone nearly solves; convolutions
    python -m studies.forward_only --preset fashion      # convolutions on 28×28 images; see data_gen.fashion_mnist

FOTON (arXiv:2512.20668) makes the perturbed pass of PEPITA (arXiv:2201.11665) carry the error of backpropagation: its
projection is the transposed network, and its hidden layers are orthogonal. Does it train hidden layers at any depth,
does it keep up with backpropagation, and does it beat the other rules without a backward pass through the weights?

The first part takes narrow networks on tasks where training the last layer alone errs at least twice as much as
backpropagation (`hard_tasks`): digits through eight numbers, a checkerboard, Burgers' equation by unitary spectral
layers. FOTON, backpropagation with the same constraint and without, PEPITA, feedback alignment and its direct form have
one grid of optimisers, rates and shares of the rate for hidden layers, from which each takes what validates best over
pilot seeds; other seeds are tested (`comparison`). The second part (`--tasks`, `--images`) has the tasks without that
power: Darcy coefficients to 16 principal components of the pressure, digits by 64 numbers, orthogonal convolutions; its
choices are made with the first seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tqdm.auto import tqdm

from studies.forward_only.comparison import check, compare
from studies.forward_only.report import answer, claims, draw, print_report, summary
from studies.forward_only.runs import ABLATIONS, ARMS, RANDOM, Spec, linear_difference, task_of, train_once
from studies.kit.choices import require_known
from studies.kit.pool import pool
from studies.kit.study import finished, opened, picked


@dataclass(frozen=True)
class Config:
    hard: tuple[str, ...] = ("digits", "checkerboard", "burgers")  # tasks that need hidden layers
    hard_depths: tuple[int, ...] = (4, 10)  # hidden layers there; digits alone have 30 and 50
    pilots: tuple[int, ...] = (100, 101)  # seeds with which rates are chosen there, and whether a task has power
    tasks: tuple[str, ...] = ()  # further ones: "darcy", or "dense:" and a name or folder of images
    depths: tuple[int, ...] = (3, 10, 30)  # hidden layers of the dense networks
    arms: tuple[str, ...] = ARMS  # ways to train
    ablations: tuple[str, ...] = ABLATIONS  # what is taken from FOTON in turn
    ablation_depth: int = 10  # hidden layers there
    images: str = ""  # images of the convolutional networks, a name or folder; empty: none
    image_depths: tuple[int, ...] = (2, 6)  # their hidden layers
    image_samples: tuple[int, int, int] = (1257, 180, 360)
    """training, validation and test images, of dense networks too"""
    fields: tuple[int, int, int] = (800, 100, 200)  # training, validation and test fields of "darcy"
    width: int = 64  # numbers in a hidden layer
    activation: str = "tanh"  # of hidden layers: a name in sciops.models.orthogonal.ACTIVATIONS
    steps: int = 160  # of the optimiser, with a cosine decay of the rate
    batch: int = 50  # samples a step
    optimizer: Literal["sgd", "adam"] = "sgd"  # plain SGD, or Adam
    rates: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    """peak rates to choose from, from the middle outwards"""
    scales: tuple[float, ...] = (0.0005, 0.005, 0.05)  # deviations of a random matrix to choose from
    hidden: tuple[float, ...] = (0.01, 0.1, 1.0)
    """rates of hidden layers to choose from, times the last layer's; for arms without a random matrix"""
    angles: int = 9  # how often in a training the gradient is compared with the true one
    seeds: tuple[int, ...] = (
        0,
        1,
        2,
        3,
        4,
    )  # of the initial weights, the order of the samples, and the random matrices
    workers: int = 2  # processes that train side by side, one thread each; 1: none but this one
    output: Path = Path("runs/forward_only")  # folder for results.json and the figures


PRESETS = {
    "quick": Config(hard=("digits", "burgers"), pilots=(100,)),
    "medium": Config(hard_depths=(4, 10, 30, 50), output=Path("runs/forward_only_medium")),
    "easy": Config(
        hard=(),
        tasks=("darcy", "dense:digits"),
        images="digits",
        seeds=(0, 1, 2),
        output=Path("runs/forward_only_easy"),
    ),
    "fashion": Config(
        hard=(),
        ablations=(),
        images="fashion-mnist",
        image_depths=(2, 8),
        image_samples=(4000, 1000, 4000),
        steps=400,
        seeds=(0, 1, 2),
        output=Path("runs/forward_only_fashion"),
    ),
    "full": Config(
        hard_depths=(4, 10, 30, 50),
        pilots=(100, 101, 102, 103, 104),
        seeds=tuple(range(10)),
        tasks=("darcy", "dense:digits"),
        depths=(3, 10, 30, 50),
        images="fashion-mnist",
        image_depths=(2, 8, 20),
        steps=600,
        angles=21,
        output=Path("runs/forward_only_full"),
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Trains, prints the tables, writes results.json and the figures; returns the results.

    Figures: hard.png and hard_cosines.png of the tasks that need hidden layers, errors.png and cosines.png of others.
    Trainings of the former are kept in the folder ``cells``, from which a stopped run resumes.

    Raises ValueError for unknown arms and tasks; FileNotFoundError for images that are not there.
    """
    _check(config)
    folder = opened(
        config, seeds=config.seeds, methods=["foton", "pepita", "feedback_alignment", "direct_feedback_alignment"]
    )
    compared = compare(config) if config.hard else {"rows": [], "power": [], "verdicts": []}
    cases = [(task, arm, depth) for task in config.tasks for depth in config.depths for arm in config.arms]
    cases += [(task, arm, config.ablation_depth) for task in config.tasks for arm in config.ablations]
    if config.images:
        task = f"convolution:{config.images}"
        cases += [(task, arm, depth) for depth in config.image_depths for arm in config.arms]
    cases = list(dict.fromkeys(cases))
    references = {task: task_of(task, _samples(task, config)).reference for task in dict.fromkeys(c[0] for c in cases)}
    runs = _train(cases, config)
    kinds = ("dense", "convolution", "spectral")
    depths = {row["depth"] for row in compared["rows"]}
    depths |= {*(config.depths if config.tasks else ()), *(config.image_depths if config.images else ())}
    results: dict[str, Any] = {
        "hard": compared,
        "references": references,
        "linear": {kind: {str(depth): linear_difference(kind, depth) for depth in sorted(depths)} for kind in kinds},
        "runs": runs,
    }
    results["summary"] = summary(runs, config)
    results["claims"] = claims(results, config)
    return finished(folder, results, draw, print_report, config, answer=answer)


def _train(cases: Sequence[tuple[str, str, int]], config: Config) -> list[dict[str, Any]]:
    """One record a training: with the first seed at the rates that the choice needs, then the other seeds at the best.

    Each case, and option, starts in the middle of the rates and continues with the neighbours of its best one, until
    both are worse or missing.
    """
    first, *others = config.seeds
    ladder = sorted(config.rates)
    middle = len(ladder) // 2
    found: dict[Spec, dict[str, Any]] = {}
    plans = [_specs(case, option, first, config) for case in cases for option in _options(case, config)]
    with pool(config.workers) as executor, tqdm(unit="run", disable=None) as bar:
        call = partial(executor.submit, train_once)
        wanted = {plan[i] for plan in plans for i in {max(middle - 1, 0), middle}}
        while wanted:
            found |= zip(wanted, _all([*wanted], call, bar.update))
            near = ((plan, _best(plan, found)) for plan in plans)
            wanted = {plan[j] for plan, i in near for j in (i - 1, i + 1) if 0 <= j < len(ladder)} - found.keys()
        records = {spec: _record(spec, one) for spec, one in found.items()}
        best: dict[tuple, Spec] = {}
        for spec in records:
            case = (spec.task, spec.arm, spec.depth)
            if case not in best or _order(found[spec]) < _order(found[best[case]]):
                best[case] = spec
        for spec in best.values():
            records[spec]["chosen"] = True
        rest = [replace(spec, seed=seed) for spec in best.values() for seed in others]
        again = _all(rest, call, bar.update)
    every = [*records.values(), *(_record(spec, one) | {"chosen": True} for spec, one in zip(rest, again))]
    place = {case: i for i, case in enumerate(cases)}
    return sorted(
        every, key=lambda r: (place[r["task"], r["arm"], r["depth"]], r["seed"], r["hidden"], r["scale"], r["rate"])
    )


def _best(plan: Sequence[Spec], found: dict[Spec, dict[str, Any]]) -> int:
    return min((i for i, spec in enumerate(plan) if spec in found), key=lambda i: _order(found[plan[i]]))


def _all(specs: Sequence[Spec], call: Callable[[Spec], Future], done: Callable[[], Any]) -> list[dict[str, Any]]:
    """The records of the specs, in their order; the deepest go first, so that none is left alone at the end."""
    waiting: dict[int, Future] = {}
    for i in sorted(range(len(specs)), key=lambda i: -specs[i].depth):
        waiting[i] = call(specs[i])
        waiting[i].add_done_callback(lambda _: done())
    return [waiting[i].result() for i in range(len(specs))]


def _specs(case: tuple[str, str, int], option: dict[str, float], seed: int, config: Config) -> list[Spec]:
    """The trainings of a case by rate, the lowest first."""
    task, arm, depth = case
    return [
        Spec(
            task=task,
            arm=arm,
            depth=depth,
            rate=rate,
            seed=seed,
            samples=_samples(task, config),
            angles=0 if arm == "head alone" else config.angles,
            **picked(config, "steps batch width activation optimizer"),
            **option,
        )
        for rate in sorted(config.rates)
    ]


def _options(case: tuple[str, str, int], config: Config) -> list[dict[str, float]]:
    """What is chosen besides the rate: how fast hidden layers learn, by their own rate or through a random matrix."""
    if case[1] == "head alone":
        return [{}]
    if case[1] in RANDOM:
        return [{"scale": scale} for scale in config.scales]
    return [{"hidden": share} for share in config.hidden]


def _record(spec: Spec, record: dict[str, Any]) -> dict[str, Any]:
    own = {name: getattr(spec, name) for name in ("task", "arm", "depth", "rate", "hidden", "scale", "seed")}
    return own | {"chosen": False} | record


def _order(record: dict[str, Any]) -> tuple[float, float]:
    """Least validation error first; among equal ones the least loss. What is not a number comes last."""
    return tuple(value if value == value else float("inf") for value in (record["validation"], record["loss"]))


def _samples(task: str, config: Config) -> tuple[int, int, int]:
    return config.fields if task == "darcy" else config.image_samples


def _check(config: Config) -> None:
    require_known("--arms", config.arms, ARMS)
    require_known("--ablations", config.ablations, ABLATIONS)
    for task in config.tasks:
        if task != "darcy" and not task.startswith("dense:"):
            raise ValueError(f"--tasks {task!r}: expected 'darcy', or 'dense:' and the name of images")
    check(config)
    if not (config.seeds and config.rates and config.scales and config.hidden):
        raise ValueError("--seeds, --rates, --scales, --hidden: expected at least one of each")
    if not (config.hard or config.tasks or config.images):
        raise ValueError("--hard, --tasks, --images: expected at least one task")
