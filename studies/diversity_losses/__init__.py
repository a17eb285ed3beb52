"""Losses for precision or recall, and the temperature of sampling: which of them gives the better trade-off?

    python -m studies.diversity_losses
    python -m studies.diversity_losses --preset full

A low temperature makes a model precise, a high one need not make it diverse: what training did not cover is as unlikely
as what is wrong. arXiv:2508.09654 therefore changes the loss. The study computes what each loss converges to on one
categorical law, and the case that temperature cannot help. Then it trains models by the likelihood, and from there by
every loss of `sciops.training.PRECISION_RECALL` for the same steps: factorisations of numbers as text, of which half
are shown; the spelling of the words of a real text; and a surrogate of displaced fields with a head of bins, or
Gaussian. All answers can be listed, so that precision and recall are sums. Options and temperature are chosen on
validation data: the most recall at a wanted precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from studies.diversity_losses.exact import fixed_points, solvable_table
from studies.diversity_losses.report import answer, claims, draw, print_report, summary
from studies.diversity_losses.runs import ARMS, SHUFFLED, Spec, train_once, warm_up
from studies.diversity_losses.selection import best_choice
from studies.kit.choices import require_known
from studies.kit.pool import pool
from studies.kit.study import finished, opened, picked

TASKS = ("multiplication", "words", "bins", "gaussian")
OTHER_ARMS = ("likelihood", "truncation", "TaiLr", "power for precision", "power for recall", "focal", SHUFFLED)


@dataclass(frozen=True)
class Config:
    tasks: tuple[str, ...] = TASKS
    arms: tuple[str, ...] = tuple(ARMS)  # losses on multiplication, by their names in the table
    other_arms: tuple[str, ...] = OTHER_ARMS  # those on the other tasks
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)  # of initial weights and batches
    warmup: tuple[int, int, int, int] = (400, 300, 200, 200)  # steps by the likelihood, by task in the order of TASKS
    steps: tuple[int, int, int, int] = (60, 80, 60, 60)  # steps by the arm's loss, likewise
    batch: int = 64  # samples a step
    warmup_rate: float = 5e-3  # peak learning rate of the warm-up
    rate: float = 1e-3  # and of the arms; the likelihood chooses among 1 and 3 times this
    width: int = 64  # channels of the language models; fields have half of them
    depth: int = 1  # blocks of the models
    words: int = 6000  # words of the text that are shown
    corpus: str = "python"  # the text, a name in sciops.datasets.text.CORPORA
    fields: int = 512  # initial fields that are shown
    temperatures: tuple[float, ...] = tuple(round(1.08**k, 4) for k in range(-30, 10))
    """temperatures to choose from; 1 is among them"""
    lam: float = 0.1  # λ of the recall β_λ
    precisions: tuple[float, ...] = (0.7, 0.8, 0.9)  # wanted, in turn
    level: float = 0.99  # of the intervals: many losses are compared with the likelihood
    workers: int = 2  # processes that train side by side, one thread each; 1: none but this one
    output: Path = Path("runs/diversity_losses")  # folder for the cells, results.json and the figures


PRESETS = {
    "quick": Config(),
    "full": Config(
        seeds=tuple(range(10)),
        warmup=(3000, 3000, 2000, 2000),
        steps=(1000, 1000, 600, 600),
        width=128,
        depth=3,
        words=30_000,
        fields=4096,
        output=Path("runs/diversity_losses_full"),
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Computes, trains, prints, writes results.json and the figures; returns the results.

    Raises ValueError for unknown tasks and arms, and where the likelihood or the temperature 1 is left out.
    """
    _check(config)
    folder = opened(config, seeds=config.seeds, methods=["precision_recall_losses"])
    results: dict[str, Any] = {
        "fixed points": fixed_points(),
        "solvable": solvable_table(),
        "runs": _train(config, folder.path / "cells"),
    }
    results["summary"] = summary(results["runs"], config)
    results["claims"] = claims(results, config)
    return finished(folder, results, draw, print_report, config, answer=answer)


def specs(config: Config, task: str, arm: str, seeds: Iterable[int], choices: Iterable[int]) -> list[Spec]:
    """The trainings of an arm."""
    place = TASKS.index(task)
    shared = picked(config, "batch warmup_rate rate width depth words fields corpus temperatures lam")
    times = {"warmup": config.warmup[place], "steps": config.steps[place]}
    return [Spec(task=task, arm=arm, choice=c, seed=s, **times, **shared) for s in seeds for c in choices]


def arms_of(config: Config, task: str) -> list[str]:
    return list(config.arms if task == "multiplication" else config.other_arms)


def _train(config: Config, folder: Path) -> list[dict[str, Any]]:
    """One record a training: with the first seed under every option, then the other seeds under the best one."""
    first, *others = config.seeds
    plans = [(task, arm) for task in config.tasks for arm in arms_of(config, task)]
    with pool(config.workers, threads=1) as executor, tqdm(unit="training", disable=None) as bar:

        def all_of(call: Callable[..., Any], jobs: Sequence[Spec]) -> list[Any]:
            futures: list[Future] = []
            for job in jobs:
                futures.append(executor.submit(call, job, folder))
                futures[-1].add_done_callback(lambda _: bar.update())
            return [future.result() for future in futures]

        all_of(warm_up, [specs(config, task, "likelihood", [s], [0])[0] for task in config.tasks for s in config.seeds])
        tried = [spec for task, arm in plans for spec in specs(config, task, arm, [first], range(len(ARMS[arm][1])))]
        records = [_record(spec, one) for spec, one in zip(tried, all_of(train_once, tried))]
        best = {}
        for task, arm in plans:
            own = [r for r in records if (r["task"], r["arm"]) == (task, arm)]
            best[task, arm] = best_choice(own, config.precisions)
        for record in records:
            record["chosen"] = record["choice"] == best[record["task"], record["arm"]]
        rest = [spec for (task, arm), c in best.items() for spec in specs(config, task, arm, others, [c])]
        again = [_record(spec, one) | {"chosen": True} for spec, one in zip(rest, all_of(train_once, rest))]
    return [*records, *again]


def _record(spec: Spec, record: dict[str, Any]) -> dict[str, Any]:
    own = {name: getattr(spec, name) for name in ("task", "arm", "choice", "seed")}
    return own | {
        "options": ARMS[spec.arm][1][spec.choice],
        "measured": record["measured"],
        "seconds": record["seconds"],
    }


def _check(config: Config) -> None:
    require_known("--tasks", config.tasks, TASKS)
    require_known("--arms", config.arms, ARMS, some=True)
    require_known("--other-arms", config.other_arms, ARMS, some=True)
    if any("likelihood" not in arms_of(config, task) for task in config.tasks):
        raise ValueError("--arms, --other-arms: expected 'likelihood' among them, which the others are compared with")
    if 1.0 not in config.temperatures:
        raise ValueError(f"--temperatures {' '.join(map(str, config.temperatures))}: expected 1 among them")
    if not config.seeds or not config.precisions:
        raise ValueError("--seeds, --precisions: expected at least one of each")
