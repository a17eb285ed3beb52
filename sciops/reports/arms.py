"""What makes runs comparable: trainings of one model by their seeds, their test errors, and the same test fields."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sciops.reports.parts import text_of
from sciops.reports.run_files import RunFiles
from sciops.reports.training import test_errors

ASIDE = ("folder", "resume", "progress")  # options that are not compared
# options that do not change what is learned
FREE = (
    *ASIDE,
    *"track loader_workers start_method checkpoint_every memory_limit test_resolutions stop_after compile".split(),
    *"device strategy accumulate on_nonfinite".split(),
)
# options that say which fields are tested
PICKS = (
    "task equation inputs parameters forcings state history start stop stride unroll train_samples validation_samples "
    "test_samples precision kinds"
).split()


@dataclass(frozen=True)
class Score:
    """A test error of a run: its mean, and the errors of the single samples, empty where they are not stored."""

    mean: float
    of_samples: tuple[float, ...]


@dataclass(frozen=True)
class Arm:
    """Runs that differ in their seed alone.

    name : for tables
    runs : one a seed, by seed
    """

    name: str
    runs: tuple[RunFiles, ...]


def scores(run: RunFiles) -> dict[str, Score]:
    """The test errors of a run by name: relative L2 on every test grid, and over whole rollouts."""
    found = {}
    for error in test_errors(run.results):
        mean = error.row.get("relative_l2")
        if isinstance(mean, (int, float)) or mean in ("inf", "nan"):
            label = error.grid if error.kind == "model" else f"{error.grid} {error.kind}"
            found[label] = Score(float(mean), error.of_samples)
    evolution = run.results.get("evolution") if isinstance(run.results, Mapping) else None
    for grid, row in (evolution or {}).items() if isinstance(evolution, Mapping) else ():
        model = row.get("model") if isinstance(row, Mapping) else None
        if isinstance(model, Mapping) and isinstance(model.get("whole"), (int, float)):
            values = model.get("whole_of_samples")
            values = values if isinstance(values, list) and all(isinstance(v, (int, float)) for v in values) else []
            found[f"rollout {grid}"] = Score(float(model["whole"]), tuple(map(float, values)))
    return found


def _options(run: RunFiles) -> dict[str, Any]:
    return {name: value for name, value in run.config.items() if name not in ASIDE}


def differing(runs: Sequence[RunFiles], without: Iterable[str] = ()) -> list[str]:
    """Options that do not have one value in all of these runs."""
    names = dict.fromkeys(name for run in runs for name in _options(run) if name not in without)
    return [name for name in names if len({_frozen(_options(run).get(name)) for run in runs}) > 1]


def _frozen(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def arms_of(runs: Sequence[RunFiles], names: Sequence[str]) -> tuple[list[Arm], dict[Path, str]]:
    """Runs by all of their configuration but the seed, and by the content of their data; and the folders of those that
    repeat another training, which say nothing new, with the name of that one."""
    repeated: dict[Path, str] = {}
    grouped: dict[str, list[tuple[Any, str, RunFiles]]] = {}
    for run, name in zip(runs, names):
        options = {key: value for key, value in run.config.items() if key not in ("seed", "data", *FREE)}
        key = _frozen([options, sorted(run.data.values()) or str(run.config.get("data"))])
        seed, members = run.config.get("seed"), grouped.setdefault(key, [])
        first = next((other for known, other, _ in members if known == seed), None)
        if first is None:
            members.append((seed, name, run))
        else:
            repeated[run.path] = first
    firsts = [members[0][2] for members in grouped.values()]
    changed = differing(firsts, ("seed", *FREE))
    arms = []
    for members in grouped.values():
        members.sort(key=lambda one: (str(type(one[0])), one[0]))
        config = members[0][2].config
        label = ", ".join(text_of(config.get(n)) if n == "model" else f"{n}={text_of(config.get(n))}" for n in changed)
        given = {name for _, name, _ in members}
        plain = len(given) == 1 or not label or len(label) > 60
        arms.append(Arm(members[0][1] if plain else label, tuple(run for *_, run in members)))
    return arms, repeated


def mean_of(arm: Arm, score: str) -> float:
    """Mean of a score over the runs that have it; infinite where it is not finite, so that such an arm sorts last."""
    found = [scores(run)[score].mean for run in arm.runs if score in scores(run)]
    mean = sum(found) / len(found)
    return mean if math.isfinite(mean) else math.inf


def why_not(first: Arm, second: Arm, score: str) -> str:
    """Why the errors of two arms cannot be paired; empty where they can."""
    a, b = first.runs[0], second.runs[0]
    if not (a.data and b.data):
        return "not comparable: a run has no hash of its data"
    if sorted(a.data.values()) != sorted(b.data.values()):
        hashes = " and ".join(min(run.data.values())[:8] for run in (a, b))
        return f"not comparable: other data (SHA-256 {hashes})"
    for name in PICKS:
        if _frozen(a.config.get(name)) != _frozen(b.config.get(name)):
            values = " and ".join(text_of(run.config.get(name)) for run in (a, b))
            return f"not comparable: other test fields ({name}: {values})"
    found = [scores(run).get(score) for arm in (first, second) for run in arm.runs]
    if any(one is None or not one.of_samples for one in found):
        return "not comparable: no errors of single samples are stored"
    if len({len(one.of_samples) for one in found if one}) > 1:
        return "not comparable: other numbers of test samples"
    if not all(math.isfinite(value) for one in found if one for value in one.of_samples):
        return "not comparable: an error is not finite"
    return ""
