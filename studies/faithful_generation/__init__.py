"""Preference for the input's own facts: do outputs into which a blind prior is mixed teach a model more than its data?

    python -m studies.faithful_generation
    python -m studies.faithful_generation --preset full

SCOPE (arXiv:2502.13674) trains a conditional model in two halves: fine-tuning on the first, and preference training on
the second, where the reference is preferred to an output of the model into which a prior that does not see the input
was mixed at random tokens. The study holds it against plain fine-tuning on the same second half, from the same model,
for as many steps, both with as many candidates of options chosen on validation data.

prior        tables as text; the tables of the training are what the prior expects, those of the test are not
ungrounded   a fourth of the references' values are not the table's
darcy        pressure along a line from its coefficient; the prior is the operator without the coefficient
mislabelled  a fourth of the training solutions are those of another coefficient

Ablations: the share of the prior, 0 being outputs of the model alone; the outputs for another input; negatives that
have nothing to do with the input; without the anchor, the likelihood of the preferred output.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from studies.faithful_generation import fields, text
from studies.faithful_generation.arms import PREFERRED, TUNED, Arm, ablations, candidates
from studies.faithful_generation.fields import FieldSizes
from studies.faithful_generation.report import answer, draw, print_report, summary
from studies.faithful_generation.text import TextSizes
from studies.kit.cells import kept
from studies.kit.choices import require_known
from studies.kit.pool import run_all
from studies.kit.study import finished, opened

TASKS = (*text.TASKS, *fields.TASKS)


@dataclass(frozen=True)
class Config:
    tasks: tuple[str, ...] = TASKS[1:]  # of prior, ungrounded, darcy and mislabelled
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)  # of data, initial weights and negatives
    tuning_seed: int = 100  # of the trainings that choose the options
    text: TextSizes = field(
        default_factory=lambda: TextSizes(
            width=64, depth=2, prior_steps=120, first_steps=200, steps=60, batch=16, half=300, held_out=200
        )
    )
    fields: FieldSizes = field(
        default_factory=lambda: FieldSizes(
            points=65, width=16, depth=2, first_steps=250, steps=80, batch=16, half=300, held_out=192, tiles=6
        )
    )
    text_rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3)  # of fine-tuning on texts, to choose from
    field_rates: tuple[float, ...] = (1e-3, 3e-3, 1e-2)  # likewise on fields
    decays: tuple[float, ...] = (0.0, 0.1)  # weight decays of fine-tuning to choose from
    noisy_text_rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3)  # of preference training on texts, to choose from
    noisy_field_rates: tuple[float, ...] = (1e-3, 3e-3, 1e-2)  # likewise on fields
    anchor: float = 1.0  # weight of the preferred output's likelihood, a token, in the preference loss
    beta: float = 0.1  # of the preference loss
    alphas: tuple[float, ...] = (0.25, 0.5)  # shares of the prior to choose from
    shown_alphas: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75)  # shares of the prior in the ablation
    workers: int = 2  # processes that train side by side, one thread each; 1: none but this one
    output: Path = Path("runs/faithful_generation")  # folder for results.json, the figures and the cells


PRESETS = {
    "quick": Config(),
    "full": Config(
        tasks=TASKS,
        seeds=tuple(range(10)),
        text=TextSizes(
            width=64, depth=2, prior_steps=2000, first_steps=600, steps=400, batch=32, half=1000, held_out=2000
        ),
        fields=FieldSizes(
            points=129, width=48, depth=4, first_steps=3000, steps=1000, batch=32, half=1000, held_out=1024, tiles=8
        ),
        output=Path("runs/faithful_generation_full"),
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Trains what is missing, prints the tables, writes results.json and the figures; returns the results.

    Raises ValueError for unknown tasks, no seeds, and other numbers of candidates for the two arms.
    """
    require_known("--tasks", config.tasks, TASKS, some=True)
    if not config.seeds or config.tuning_seed in config.seeds:
        raise ValueError(
            f"--seeds {config.seeds}, --tuning-seed {config.tuning_seed}: expected at least one seed, and another for "
            "the choice of the options"
        )
    folder = opened(config, seeds=config.seeds, methods=["scope"])
    cells = folder.path / "cells"
    jobs = [(cells, task, config.tuning_seed, _sizes(task, config), _candidates(task, config)) for task in config.tasks]
    tuned = run_all(validated, jobs, workers=config.workers, threads=1, unit="task", desc="choices")
    arms = {task: _chosen(task, one["arms"], config) for task, one in zip(config.tasks, tuned)}
    jobs = [(cells, task, seed, _sizes(task, config), arms[task]) for seed in config.seeds for task in config.tasks]
    found = run_all(tested, jobs, workers=config.workers, threads=1, unit="training", desc="trainings")
    results: dict[str, Any] = {
        "arms": {task: [asdict(arm) for arm in arms[task]] for task in config.tasks},
        "choices": {
            task: [
                asdict(arm) | {"error": score["error"]} for arm, score in zip(_candidates(task, config), one["arms"])
            ]
            for task, one in zip(config.tasks, tuned)
        },
        "runs": [
            {"task": task, "seed": seed, "base": one["base"], "arms": one["arms"]}
            for (_, task, seed, *_), one in zip(jobs, found)
        ],
    }
    results["summary"] = summary(results)
    return finished(folder, results, draw, print_report, answer=answer)


def validated(folder: Path, task: str, seed: int, sizes: Any, arms: list[Arm]) -> dict[str, Any]:
    """The cell in which every candidate is scored on validation data."""
    return _cell(folder, task, seed, sizes, arms, "validation")


def tested(folder: Path, task: str, seed: int, sizes: Any, arms: list[Arm]) -> dict[str, Any]:
    """The cell of one seed: all arms from the same model, scored on test data that all seeds share."""
    return _cell(folder, task, seed, sizes, arms, "test")


def _cell(folder: Path, task: str, seed: int, sizes: Any, arms: list[Arm], split: str) -> dict[str, Any]:
    made = fields.run_fields if task in fields.TASKS else text.run_text
    spec = {"task": task, "seed": seed, "sizes": asdict(sizes), "arms": [asdict(arm) for arm in arms], "split": split}
    return kept(folder, f"{task} {split} {seed}", spec, lambda: made(task, seed, sizes, arms, split))


def _sizes(task: str, config: Config) -> TextSizes | FieldSizes:
    return config.fields if task in fields.TASKS else config.text


def _candidates(task: str, config: Config) -> list[Arm]:
    on_fields = task in fields.TASKS
    return candidates(
        rates=config.field_rates if on_fields else config.text_rates,
        decays=config.decays,
        noisy_rates=config.noisy_field_rates if on_fields else config.noisy_text_rates,
        alphas=config.alphas,
        anchor=config.anchor,
        beta=config.beta,
    )


def _chosen(task: str, scores: list[dict[str, Any]], config: Config) -> list[Arm]:
    """Both arms with the options of the least validation error, and the ablations of the second."""
    best: dict[str, tuple[float, Arm]] = {}
    for arm, score in zip(_candidates(task, config), scores):
        error = score["error"] if score["error"] == score["error"] else float("inf")
        if arm.name not in best or error < best[arm.name][0]:
            best[arm.name] = (error, arm)
    preferred = best[PREFERRED][1]
    return [
        best[TUNED][1],
        replace(preferred, name=PREFERRED),
        *ablations(preferred, config.shown_alphas, fields=task in fields.TASKS),
    ]
