"""Which mixtures are trained in which arm of the study."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sciops.evaluation import pair_trainings
from studies.interference.tasks import TaskSet, equation_tasks, grammar_tasks, language_tasks, wave_tasks
from studies.interference.training import Spec

if TYPE_CHECKING:
    from studies.interference import Config

GRAMMARS = ("A1", "A2", "B1", "B2", "A1 again")


@dataclass(frozen=True)
class Arm:
    """One matrix of the study.

    tasks : name of the task set. told : whether channels name the equation
    mixtures : whether larger ones are trained too. other_widths : the same matrix is measured for other widths
    pairs : "all", or "opposite", tasks 0 and 1, 2 and 3, …
    """

    tasks: str
    told: bool = True
    mixtures: bool = False
    other_widths: bool = False
    pairs: str = "all"


ARMS = {
    "languages": Arm("languages", mixtures=True),
    "grammars": Arm("grammars", other_widths=True),
    "equations": Arm("equations", mixtures=True),
    "equations, not named": Arm("equations", told=False),
    "waves": Arm("single waves", pairs="opposite"),
    "waves, not named": Arm("single waves", told=False, pairs="opposite"),
}


def task_sets(config: Config, folder: Path) -> dict[str, TaskSet]:
    """Name → task set of the arms that are run."""
    make = {
        "languages": lambda: language_tasks(folder, config.texts, config.languages, config.characters),
        "grammars": lambda: grammar_tasks(folder, "grammars", GRAMMARS, config.characters),
        "equations": lambda: equation_tasks(folder, config.equations, config.points, *config.fields),
        "single waves": lambda: wave_tasks(folder, config.wavenumbers, config.points, *config.fields),
    }
    return {name: make[name]() for name in dict.fromkeys(ARMS[arm].tasks for arm in config.arms)}


def mixtures_of(tasks: TaskSet, count: int) -> list[tuple[str, ...]]:
    """Mixtures of three and of four tasks in turn, drawn once for all runs; fewer where there are fewer."""
    rng, found = np.random.default_rng(8), {}
    sizes = [size for size in (3, 4) if size <= len(tasks.names)]
    for i in range(20 * count if sizes else 0):
        chosen = sorted(rng.permutation(len(tasks.names))[: sizes[i % len(sizes)]].tolist())
        found[tuple(tasks.names[k] for k in chosen)] = None
        if len(found) == count:
            break
    return list(found)[:count]


def jobs(config: Config, sets: dict[str, TaskSet]) -> list[tuple[str, Spec]]:
    """(arm, trainings side by side) of the whole study, without repeats within an arm."""
    return [(arm, spec) for arm in config.arms for spec in _of_arm(arm, sets[ARMS[arm].tasks], config)]


def _of_arm(name: str, tasks: TaskSet, config: Config) -> list[Spec]:
    arm, budgets = ARMS[name], ("per_task", "total") if name in config.total else ("per_task",)
    text = tasks.kind == "text"
    width = config.text_width if text else config.field_width
    if arm.pairs == "opposite":
        asked = [(tasks.names[i : i + 2], 1.0, width) for i in range(0, len(tasks.names), 2)]
    else:
        asked = [(*one, width) for budget in budgets for one in pair_trainings(tasks.names, budget=budget)]
        asked += [(mixture, 1.0, width) for mixture in mixtures_of(tasks, config.mixtures if arm.mixtures else 0)]
        if arm.other_widths:
            asked += [(*one, other) for other in config.widths for one in pair_trainings(tasks.names)]
    alike: dict[tuple[int, float, int], list[tuple[str, ...]]] = {}
    for mixture, share, wide in dict.fromkeys((tuple(m), s, w) for m, s, w in asked):
        alike.setdefault((len(mixture), share, wide), []).append(mixture)
    return [
        Spec(
            data=tasks.digest,
            mixtures=tuple(mixtures[first : first + config.side_by_side]),
            share=share,
            seeds=config.seeds,
            steps=config.text_steps if text else config.field_steps,
            batch=config.text_batch if text else config.field_batch,
            rate=config.text_rate if text else config.field_rate,
            width=wide,
            depth=1 if text else config.field_depth,
            told=arm.told,
        )
        for (_, share, wide), mixtures in alike.items()
        for first in range(0, len(mixtures), config.side_by_side)
    ]
