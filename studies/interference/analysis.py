"""What the trainings say: the matrices and their tests, mixtures, groups, and the exactly solved case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import sin
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import (
    InterferenceMatrix,
    Verdict,
    additive_model,
    asymmetry,
    best_groups,
    group_tasks,
    interference_matrix,
    mantel,
    matrix_regression,
    measure_interference,
    mixture_scores,
    spread,
)
from sciops.evaluation.interference.grouping import MOST_SEARCHED
from studies.interference.equations import TIME
from studies.interference.plan import ARMS, mixtures_of
from studies.interference.tasks import TaskSet
from studies.interference.training import Spec
from studies.kit.answers import sentence
from studies.kit.verdicts import seed_verdict

if TYPE_CHECKING:
    from studies.interference import Config

Losses = dict[tuple[tuple[str, ...], float, int], dict[str, list[float]]]


def analysed(
    planned: Sequence[tuple[str, Spec]], records: Sequence[dict[str, Any]], sets: dict[str, TaskSet], config: Config
) -> dict[str, Any]:
    """Everything that results.json holds: by arm its matrix and what follows from it."""
    by_arm: dict[str, Losses] = {arm: {} for arm in config.arms}
    for (arm, spec), record in zip(planned, records):
        for mixture, losses in zip(spec.mixtures, record["losses"]):
            by_arm[arm][mixture, spec.share, spec.width] = losses
    results: dict[str, Any] = {"arms": {}, "sources": {name: tasks.source for name, tasks in sets.items()}}
    matrices: dict[str, InterferenceMatrix] = {}
    for arm, found in by_arm.items():
        tasks = sets[ARMS[arm].tasks]
        if ARMS[arm].pairs == "opposite":
            results["arms"][arm] = _waves(found)
            continue
        matrices[arm] = _matrix(found, tasks, config)
        results["arms"][arm] = _one_arm(arm, matrices[arm], found, tasks, config)
    if {"equations", "equations, not named"} <= matrices.keys():
        results["naming"] = asdict(_verdict(matrices["equations"], matrices["equations, not named"]))
    results["cpu seconds"] = sum(record["cpu seconds"] for record in records)
    results["parameters"] = {arm: record["parameters"] for (arm, _), record in reversed(list(zip(planned, records)))}
    return results


def _one_arm(arm: str, matrix: InterferenceMatrix, losses: Losses, tasks: TaskSet, config: Config) -> dict[str, Any]:
    rng = np.random.default_rng(9)
    how = {"rng": rng, "permutations": config.permutations}
    width = _width(tasks, config)
    entries = ~np.eye(len(tasks.names), dtype=bool)
    alone = {name: losses[(name,), 1.0, width][name] for name in tasks.names}
    predictors = {name: np.array(values) for name, values in tasks.predictors.items()}
    predictors = {name: values for name, values in predictors.items() if np.ptp(values[entries]) > 0}
    labels = {name: values for name, values in predictors.items() if name.startswith("same")}
    model = additive_model(matrix)
    found: dict[str, Any] = {
        "tasks": list(tasks.names),
        "score": matrix.score,
        "values": matrix.values.tolist(),
        "errors": matrix.errors.tolist(),
        "decided": float(matrix.decided()[entries].mean()),
        "harmed": float((matrix.decided() & (matrix.values > 0))[entries].mean()),
        "alone": {name: asdict(spread(values)) for name, values in alone.items()},
        "vulnerability": matrix.vulnerability.tolist(),
        "aggressiveness": matrix.aggressiveness.tolist(),
        "mean": asdict(_verdict(matrix)),
        "asymmetry": asdict(asymmetry(matrix, **how)),
        "additive": {key: getattr(model, key) for key in ("mean", "explained", "adjusted", "noise")},
        "mantel": {name: asdict(mantel(matrix, values, **how)) for name, values in predictors.items()},
        "regression": asdict(matrix_regression(matrix, labels, **how)) if _differ(labels) else {},
        "over seeds": {name: asdict(_same_or_not(matrix, values == 1)) for name, values in labels.items()},
        "groups": _groups(matrix, config.groups),
    }
    if arm in config.total:
        found["total"] = _total(losses, matrix, tasks, width)
    if ARMS[arm].mixtures and (mixed := mixtures_of(tasks, config.mixtures)):
        measured = {mixture: losses[mixture, 1.0, width] for mixture in mixed}
        found["mixtures"] = _mixtures(matrix, alone, measured)
    if ARMS[arm].other_widths:
        found["widths"] = {
            wide: asdict(_verdict(_matrix(losses, tasks, config, width=wide)))
            for wide in sorted({width, *config.widths})
        }
    if "A1 again" in tasks.names:
        pair = [tasks.names.index(name) for name in ("A1", "A1 again")]
        found["same language twice"] = asdict(spread(matrix.scores[:, pair, pair[::-1]].mean(1)))
    return found


def _matrix(
    losses: Losses, tasks: TaskSet, config: Config, *, budget: Any = "per_task", width: int | None = None
) -> InterferenceMatrix:
    """From the losses of trainings that are done, of one width."""
    wide = _width(tasks, config) if width is None else width

    def trained(mixture: tuple[str, ...], seed: int, share: float) -> dict[str, float]:
        return {name: values[seed] for name, values in losses[mixture, share, wide].items()}

    score: Any = "relative" if tasks.kind == "text" else "log_ratio"
    seeds = range(len(config.seeds))
    return measure_interference(trained, tasks.names, seeds=seeds, score=score, budget=budget)


def _width(tasks: TaskSet, config: Config) -> int:
    return config.text_width if tasks.kind == "text" else config.field_width


def _means(matrix: InterferenceMatrix, where: np.ndarray | None = None) -> np.ndarray:
    """(seeds,) mean over the entries off the diagonal, or over some of them."""
    entries = ~np.eye(len(matrix.tasks), dtype=bool)
    return np.asarray(matrix.scores[:, entries if where is None else where & entries].mean(1))


def _verdict(matrix: InterferenceMatrix, other: InterferenceMatrix | None = None) -> Verdict:
    """The mean interference over seeds, against 0 or another matrix's: "second" where it is larger."""
    first = _means(matrix)
    return seed_verdict(first, 0 * first if other is None else _means(other))  # type: ignore[return-value]


def _differ(labels: dict[str, np.ndarray]) -> bool:
    """Whether there are several labels of pairs, none of them a sum of others."""
    if len(labels) < 2:
        return False
    entries = ~np.eye(len(next(iter(labels.values()))), dtype=bool)
    columns = np.stack([np.ones(entries.sum()), *(values[entries] for values in labels.values())])
    return int(np.linalg.matrix_rank(columns)) == len(columns)


def _same_or_not(matrix: InterferenceMatrix, same: np.ndarray) -> Verdict:
    """Pairs that have something in common against the others: "second" where they harm each other more."""
    return seed_verdict(_means(matrix, same), _means(matrix, ~same))  # type: ignore[return-value]


def _groups(matrix: InterferenceMatrix, count: int) -> dict[str, Any]:
    count = min(count, len(matrix.tasks))
    merged = group_tasks(matrix, count)
    found = {"groups": merged.groups, "cost": merged.cost, "tree": merged.tree, "base": merged.base}
    if len(matrix.tasks) <= MOST_SEARCHED:
        best = best_groups(matrix, count)
        found |= {"best groups": best.groups, "best cost": best.cost}
    return found


def _total(losses: Losses, matrix: InterferenceMatrix, tasks: TaskSet, width: int) -> dict[str, Any]:
    """The budget "total", its dilution, and what is left without it."""
    names = tasks.names
    alone, half = (np.array([losses[(n,), share, width][n] for n in names]).T for share in (1.0, 0.5))
    together = np.full((*alone.shape, len(names)), np.nan)
    for i, first in enumerate(names):
        for j, second in enumerate(names[i + 1 :], i + 1):
            pair = losses[(first, second), 0.5, width]
            together[:, i, j], together[:, j, i] = pair[first], pair[second]
    how: dict[str, Any] = {"tasks": names, "score": matrix.score, "budget": "total", "shorter": half}
    total = interference_matrix(alone, together, **how)
    entries = ~np.eye(len(names), dtype=bool)
    return {
        "mean": asdict(_verdict(total)),
        "dilution": total.dilution.mean(0).tolist(),  # type: ignore[union-attr]
        "net": asdict(_verdict(total.net)),
        "correlation": float(np.corrcoef(total.net.values[entries], matrix.values[entries])[0, 1]),
    }


def _mixtures(
    matrix: InterferenceMatrix, alone: dict[str, list[float]], measured: dict[tuple[str, ...], dict[str, list[float]]]
) -> dict[str, Any]:
    """Predictions from the pairs, from the victims' means alone, and from one number for all."""
    model, entries = additive_model(matrix), ~np.eye(len(matrix.tasks), dtype=bool)
    victims = np.where(entries, matrix.vulnerability[:, None], 0.0)
    simpler = {"victim's mean": victims, "row and column effects": model.fitted, "one number": entries * model.mean}
    given: dict[str, Any] = {"tasks": matrix.tasks, "score": matrix.score}
    kinds = {"sum of pairs": matrix.values, **simpler}
    found = {name: mixture_scores(values, alone, measured, **given) for name, values in kinds.items()}
    found["mean of pairs"] = mixture_scores(matrix, alone, measured, how="mean")
    compared = {name: {"rank": one.rank_correlation, "error": one.error} for name, one in found.items()}
    return {"rows": found["sum of pairs"].rows(), "compared": compared}


def _waves(losses: Losses) -> dict[str, Any]:
    """By wavenumber: mean error of both directions by seed, and |sin kT|, the error of their mean."""
    found = {}
    for (mixture, _, _), by_task in losses.items():
        k = int(mixture[0][1:])
        errors = np.mean([by_task[name] for name in mixture], axis=0)
        found[k] = {"error": asdict(spread(errors)), "floor": abs(sin(k * TIME))}
    return {"waves": found}


def answer(results: dict[str, Any]) -> str:
    """What the study found, in one sentence."""
    parts = []
    for arm, labels in (("languages", ("same script", "same family")), ("equations", ("same inputs", "same class"))):
        found = results["arms"].get(arm)
        if found and all(label in found["regression"].get("p", {}) for label in labels):
            slopes = [100 * found["regression"]["slopes"][label] for label in labels]
            said = " and ".join(
                f"{label} {slope:+.1f} % (p {found['regression']['p'][label]:.2g})"
                for label, slope in zip(labels, slopes)
            )
            mean = 100 * np.expm1(found["mean"]["difference"])
            parts.append(f"{arm} lose {mean:+.1f} % of their loss by a partner on average; {said}")
    if "naming" in results:
        untold = results["arms"]["equations, not named"]["mean"]["difference"]
        parts.append(f"equations that are not named lose {100 * np.expm1(untold):+.0f} %")
    return sentence(*parts)
