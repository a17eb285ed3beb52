"""The arms on tasks that need hidden layers: choices on pilot seeds, whether a task has power, and verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import Verdict, paired_verdict
from studies.forward_only.hard_tasks import HARD, POWER, hard_task
from studies.forward_only.rules import DIRECT, FEEDBACK, FREE, HEAD, LEARNERS, ORTHOGONAL, TAKEN
from studies.forward_only.side_by_side import train
from studies.forward_only.solved_head import solved_head
from studies.kit.cells import kept_arrays
from studies.kit.choices import require_known
from studies.kit.pool import run_all
from studies.kit.tables import grouped

if TYPE_CHECKING:
    from studies.forward_only import Config

NEAR = 0.1  # of the second arm's error: smaller differences are none

COMPARED = (
    # first, second, whether a difference below NEAR counts as none, what is asked
    (ORTHOGONAL, HEAD, False, "backpropagation errs less than the last layer alone"),
    ("FOTON", HEAD, False, "FOTON errs less than the last layer alone"),
    ("FOTON", ORTHOGONAL, True, "FOTON is within 10 % of backpropagation with the same constraint"),
    ("FOTON", "PEPITA", False, "FOTON errs less than PEPITA"),
    ("FOTON", FEEDBACK, False, "FOTON errs less than feedback alignment"),
    ("FOTON", DIRECT, False, "FOTON errs less than direct feedback alignment"),
    (ORTHOGONAL, FREE, True, "the constraint costs backpropagation at most 10 %"),
    ("FOTON", TAKEN[0], False, "FOTON errs less than with a random F"),
    ("FOTON", TAKEN[1], False, "FOTON errs less than without the projection"),
)
"""Named before the trainings were run."""


def compare(config: Config) -> dict[str, Any]:
    """{"rows": by task, depth and arm; "power": by task and depth; "verdicts": by task, depth and question}."""
    jobs = [
        (name, arm, depth, config.pilots, config.seeds, config.angles, Path(config.output) / "cells")
        for depth in sorted(config.hard_depths)
        for name in config.hard
        if depth in hard_task(name).depths
        for arm in LEARNERS + (TAKEN if depth == config.ablation_depth else ())
    ]
    cells = run_all(cell, jobs, workers=config.workers, unit="cell", threads=1)
    place = {name: i for i, name in enumerate(config.hard)}
    order = sorted(range(len(jobs)), key=lambda i: (place[jobs[i][0]], jobs[i][2]))
    found = {(jobs[i][0], jobs[i][2], jobs[i][1]): cells[i] for i in order}
    cases = dict.fromkeys((name, depth) for name, depth, _ in found)
    power = [_power(name, depth, found, _solved(name, depth, config)) for name, depth in cases]
    verdicts = [
        verdict
        for one in power
        for first, second, near, asked in COMPARED
        if (verdict := _verdict(one, first, second, near, asked, found)) is not None
    ]
    return {"rows": [_row(key, one) for key, one in found.items()], "power": power, "verdicts": verdicts}


def options_of(name: str) -> list[tuple[str, float, float]]:
    """(optimiser, rate, share) that every arm of a task chooses from."""
    task = hard_task(name)
    return [(kind, rate, share) for kind, rates in task.rates.items() for rate in rates for share in task.shares]


def cell(
    name: str, arm: str, depth: int, pilots: Sequence[int], seeds: Sequence[int], looks: int, folder: Path
) -> dict[str, np.ndarray]:
    """The pilots' validation errors by option, the one that is best in the mean, and its trainings with the seeds."""
    task, options = hard_task(name), options_of(name)
    made_by = {
        "task": name,
        "arm": arm,
        "depth": depth,
        "pilots": pilots,
        "seeds": seeds,
        "looks": looks,
        "options": options,
        "training": (task.width, task.steps, task.batch, task.modes),
    }

    def make() -> dict[str, np.ndarray]:
        found = []
        for kind in task.rates:
            own = [(rate, share, seed) for k, rate, share in options if k == kind for seed in pilots]
            rates, shares, drawn = zip(*own)
            errors = train(task, arm, depth, kind, drawn, rates, shares)["validation"].mean(1)
            found.append(errors.reshape(-1, len(pilots)))
        pilot = np.concatenate(found)
        best = int(np.argmin(pilot.mean(1)))
        kind, rate, share = options[best]
        alone = {} if arm in (HEAD, ORTHOGONAL, FREE) else {"looks": looks}
        last = train(task, arm, depth, kind, seeds, [rate] * len(seeds), [share] * len(seeds), **alone)
        train_error = last.pop("train").mean(1)
        return {**last, "train": train_error, "pilot": pilot, "best": np.array(best)}

    return kept_arrays(folder, f"{name} {arm} {depth}", made_by, make)


def _row(key: tuple[str, int, str], one: dict[str, np.ndarray]) -> dict[str, Any]:
    name, depth, arm = key
    kind, rate, share = options_of(name)[int(one["best"])]
    task = hard_task(name)
    errors = one["test"].mean(1)
    row = {
        "task": name,
        "depth": depth,
        "arm": arm,
        "optimizer": kind,
        "rate": rate,
        "share": share,
        "edge": rate in (min(task.rates[kind]), max(task.rates[kind])),
        "pilot": float(one["pilot"].mean(1).min()),
        "errors": errors.tolist(),
        "test": float(errors.mean()),
        "train": float(one["train"].mean()),
    }
    if "cosines" in one:
        mean = one["cosines"].mean(2)
        row["cosines"] = {
            where: mean[:, layer].tolist() for where, layer in (("first", 0), ("middle", depth // 2), ("last", -1))
        }
        row["steps"] = one["steps"].tolist()
    return row


def _solved(name: str, depth: int, config: Config) -> dict[str, Any]:
    """Errors of the best last layer on hidden layers as drawn: on validation data with the pilots, on tests by seed."""
    task = hard_task(name)
    pilot = float(solved_head(task, depth, config.pilots)["validation"].mean())
    return {"pilot": pilot, "errors": solved_head(task, depth, config.seeds)["test"].double().mean(1).tolist()}


def _power(
    name: str, depth: int, found: dict[tuple[str, int, str], dict[str, np.ndarray]], solved: dict[str, Any]
) -> dict[str, Any]:
    head, true = (float(found[name, depth, arm]["pilot"].mean(1).min()) for arm in (HEAD, ORTHOGONAL))
    accepted = bool(min(head, solved["pilot"]) >= POWER * true)
    return {"task": name, "depth": depth, "head": head, "solved": solved, "true": true, "accepted": accepted}


def _verdict(
    power: dict[str, Any], first: str, second: str, near: bool, asked: str, found: dict[Any, dict[str, np.ndarray]]
) -> dict[str, Any] | None:
    name, depth = power["task"], power["depth"]
    if (name, depth, second) not in found:
        return None
    a, b = (found[name, depth, arm]["test"] for arm in (first, second))
    row = {"task": name, "depth": depth, "first": first, "second": second, "asked": asked, "power": power["accepted"]}
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return row | {"winner": "a training diverged", "ratio": math.nan, "holds": False}
    mean = float(b.mean())
    verdict: Verdict = paired_verdict(a, b, smallest=NEAR * mean if near else 0.0)
    said = {key: getattr(verdict, key) for key in ("difference", "low", "high", "winner", "seeds", "samples")}
    holds = verdict.high < verdict.smallest if near else verdict.winner == "first"
    return row | said | {"ratio": float(a.mean()) / mean, "holds": holds, "smallest": verdict.smallest}


def tallies(compared: dict[str, Any]) -> list[dict[str, Any]]:
    """By question, where the task has power: the cases where it holds, where its opposite does, and the undecided."""
    rows = []
    usable = [v for v in compared["verdicts"] if v["power"]]
    for asked, own in grouped(usable, "asked").items():
        kinds: dict[str, list[str]] = {"holds": [], "opposite": [], "undecided": []}
        for v in own:
            kind = "holds" if v["holds"] else "opposite" if v["winner"] == "second" else "undecided"
            kinds[kind].append(f"{v['task']} {v['depth']}")
        rows.append({"asked": asked, **kinds})
    return rows


def check(config: Config) -> None:
    """Raises ValueError for unknown tasks and for seeds that choose and are tested."""
    require_known("--hard", config.hard, HARD)
    if config.hard and (not config.pilots or set(config.pilots) & set(config.seeds)):
        raise ValueError(f"--pilots {config.pilots}: expected at least one seed, and none of --seeds {config.seeds}")
