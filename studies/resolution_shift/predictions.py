"""Tasks whose outcome was named before they were run: one that direct inference should win, two that it should not."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from studies.resolution_shift import ResolutionShiftConfig

AGAINST = "low + sine"


@dataclass(frozen=True)
class Task:
    """A task and what was expected of it.

    arms : names in the recipe of the study
    modes : half-waves per axis of the source of −ℓ²Δu + u + u³ = f; None for the study's own Darcy data
    expected : which has the smaller error on the fine grid, "direct" or "low + sine"
    why : the reason, written before the run
    """

    arms: tuple[str, ...]
    modes: int | None
    expected: Literal["direct", "low + sine"]
    why: str


TRAIN, TEST = 22, 43  # nodes per axis; 22 hold 20 half-waves that vanish on the walls
ARMS = ("fno", "neuralop:FNO")

TASKS = {
    "reaction, 40 half-waves": Task(
        ARMS,
        40,
        "direct",
        "u follows f almost pointwise, and f has content that 22 nodes cannot hold: only direct reads it, through "
        "skips and pointwise maps; what is carried up from 22 nodes cannot be below its floor",
    ),
    "reaction, 8 half-waves": Task(
        ARMS,
        8,
        "low + sine",
        "the same equation, but 22 nodes hold all of f and, but for weak third harmonics, u: nothing is gained on 43 "
        "nodes, and the network's own dependence on the grid is paid",
    ),
    "Darcy, two phases": Task(
        ARMS,
        None,
        "low + sine",
        "the finer interface carries information, but Fourier modes of n points have another period on every grid, and "
        "a jump aliases differently on each",
    ),
}


def check(config: ResolutionShiftConfig) -> None:
    """Raises ValueError where the study does not train the arms of its tasks, or not on their grids."""
    lacking = [arm for name in config.predictions for arm in TASKS[name].arms if arm not in config.arms]
    if lacking or config.recipe != "truncated":
        raise ValueError(f"predictions={config.predictions}: expected --recipe truncated with --arms {' '.join(ARMS)}")
    if TRAIN not in config.train_grids or TEST not in config.test_grids:
        raise ValueError(
            f"predictions={config.predictions}, train_grids={config.train_grids}, test_grids={config.test_grids}: "
            f"the tasks go from {TRAIN} to {TEST} points"
        )


def data_of(config: ResolutionShiftConfig, name: str) -> Path:
    """The file of a task of its own, written where it is not there."""
    from studies.resolution_shift.reaction import write_fields

    count, modes = config.prediction_samples, TASKS[name].modes or 0
    path = folder_of(config, name) / f"fields-{modes}-{count}.h5"
    if not path.exists():
        sizes = (count, max(16, count // 4), 64)
        write_fields(path, (85, TEST, TRAIN), modes=modes, samples=sizes, seed=0)
    return path


def folder_of(config: ResolutionShiftConfig, name: str) -> Path:
    """Where a task of its own lies in the folder of the study."""
    return config.output / "predictions" / name.replace(", ", "-").replace(" ", "-")


def own_config(config: ResolutionShiftConfig, name: str) -> ResolutionShiftConfig:
    """The study's configuration with the data, arms and grids of a task."""
    return replace(
        config,
        data=data_of(config, name),
        arms=TASKS[name].arms,
        train_grids=(TRAIN,),
        test_grids=(TRAIN, TEST),
        train_samples=None,
        test_samples=None,
        output=folder_of(config, name),
    )


def judged(name: str, results: dict[str, Any]) -> list[dict[str, Any]]:
    """A row per arm: errors both ways, floor, verdict, and whether the prediction held.

    held : True where the verdict names the expected way, False where it names the other, None where it names neither
    """
    task, rows = TASKS[name], []
    errors = {(r["arm"], r["train"], r["test"], r["way"]): r["relative_l2"] for r in results["errors"]}
    for v in results["verdicts"]:
        if (v["train"], v["test"], v["against"]) != (TRAIN, TEST, AGAINST) or v["arm"] not in task.arms:
            continue
        found = {"first": "direct", "second": AGAINST}.get(v["winner"])
        rows.append(
            {
                "task": name,
                **{key: value for key, value in asdict(task).items() if key in ("expected", "why", "modes")},
                "arm": v["arm"],
                "same_grid": errors[v["arm"], TRAIN, TRAIN, "direct"],
                "direct": errors[v["arm"], TRAIN, TEST, "direct"],
                "low": errors[v["arm"], TRAIN, TEST, AGAINST],
                "floor": errors["reference", TRAIN, TEST, f"truth + {AGAINST.removeprefix('low + ')}"],
                "verdict": v,
                "held": None if found is None else found == task.expected,
            }
        )
    return rows
