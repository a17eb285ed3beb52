"""Trainings of the study of entity tracking: which tasks, which models, one record a training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sciops.datasets.text.box_world import box_statements, boxes, exact_match
from sciops.datasets.text.sequence_tasks import SequenceTask
from sciops.datasets.text.tracking import block_pointers, overwrite, packed_pointers, pointer_chain
from sciops.evaluation import spread
from studies.kit.cells import kept
from studies.kit.sequence_training import TokenModel, train_tokens

TASKS = {
    "pointers": pointer_chain,
    "packed": packed_pointers,
    "overwrite": overwrite,
    "boxes": boxes,
    "statements": box_statements,
    "crossing": block_pointers,
}
TEST_SEED = 10**9  # far from the seeds of training
VALIDATION_SEED = 10**9 + 1
TUNING_SEED = 1000  # of the trainings that choose a rate, none of which is reported
OFTEN = 30  # answers that tell an accuracy


@dataclass(frozen=True)
class Training:
    """One model on one task: options of `TokenModel`, a name in TASKS and its options, steps and the largest rate."""

    name: str
    model: Mapping[str, Any]
    task: str
    options: Mapping[str, Any]
    steps: int
    rate: float
    tested: int
    batch: int = 32
    block: int | None = None
    """of tokens: accuracy is recorded by the links that leave a block of so many tokens too"""
    gate: float | None = None
    """of block forms at level 1: the bias of the gate ρ at the start of training, −1 by default"""


def resolvent_model(width: int, heads: int = 1, depth: int = 1, **options: Any) -> dict[str, Any]:
    return {"width": width, "depth": depth, "mixer": "resolvent", "mixer_options": {"heads": heads, **options}}


def softmax_model(width: int, depth: int, heads: int = 1, **options: Any) -> dict[str, Any]:
    return {"width": width, "depth": depth, "mixer": "self_attention", "mixer_options": {"heads": heads, **options}}


def block_model(width: int, heads: int = 1, **options: Any) -> dict[str, Any]:
    return resolvent_model(width, heads, summary="learned", **options) | {"mixer": "block_resolvent"}


def trained(arm: Training, seeds: Iterable[int], folder: Path, *, test_seed: int = TEST_SEED) -> list[dict[str, Any]]:
    """The records of `train_tokens` of an arm, one a seed, made or read back; "exact_match" beside them for boxes."""
    maker = partial(TASKS[arm.task], **arm.options)
    test = _test(arm.task, tuple(sorted(arm.options.items())), arm.tested, test_seed)
    test = test if arm.block is None else with_crossings(test, arm.block)
    records = []
    for seed in seeds:
        how = {"steps": arm.steps, "batch": arm.batch, "rate": arm.rate, "seed": seed}
        spec = {"model": arm.model, "task": arm.task, "options": arm.options, "tested": arm.tested, **how}
        spec |= {"block": arm.block, "gate": arm.gate, "test_seed": test_seed}
        records.append(kept(folder, arm.name, spec, partial(_record, arm, maker, test, how)))
    return records


def tuned(
    arm: Training, rates: Iterable[float], seeds: Iterable[int], folder: Path
) -> tuple[Training, list[dict[str, Any]], dict[str, float]]:
    """The arm with the rate, its records, one a seed, and the validation accuracy of every rate.

    The rate is the one with the highest accuracy on validation sequences, of one training a rate with a seed of its
    own; exact match where the task has it. A single rate is taken without training.
    """
    rates, found = list(rates), {}
    for rate in rates if len(rates) > 1 else []:
        record = trained(replace(arm, rate=rate), [TUNING_SEED], folder, test_seed=VALIDATION_SEED)[0]
        found[f"{rate:g}"] = score(record)
    best = rates[0] if not found else max(rates, key=lambda rate: found[f"{rate:g}"])
    arm = replace(arm, rate=best)
    return arm, trained(arm, seeds, folder), found


def score(record: Mapping[str, Any]) -> float:
    """Exact match of a record where it has one, else accuracy."""
    return record["exact_match"]["rate"] if "exact_match" in record else record["accuracy"]


def _record(arm: Training, maker: Any, test: SequenceTask, how: dict[str, Any]) -> dict[str, Any]:
    torch.manual_seed(how["seed"])
    net = TokenModel(test.symbols, answers=test.targets.shape[2] if test.targets.ndim == 3 else 0, **arm.model)
    if arm.gate is not None:
        torch.nn.init.constant_(net.stack.blocks[0].mixer.lift.bias, arm.gate)
    record = train_tokens(net, maker, test, progress=f"{arm.name}, seed {how['seed']}", **how)
    if arm.task == "boxes":
        return record | {"exact_match": exact_match(_said(net, test), test)}
    if arm.task == "statements":
        return record | {"exact_match": _whole_boxes(_said(net, test), test)}
    local = arm.model["mixer"] == "resolvent" and "local" in arm.options
    return record | ({"mass": _mass(net, test)} if local else {})


def _whole_boxes(said: np.ndarray, task: SequenceTask) -> dict[str, Any]:
    """Share of statements with every item of the box right, and by the most links that an item of it takes."""
    right, links = (said == task.targets).all(-1), task.groups["links"].max(-1)
    value, which, count = np.unique(links, return_inverse=True, return_counts=True)
    rate = np.bincount(which.ravel(), weights=right.ravel()) / count
    return {
        "rate": float(right.mean()),
        "last": float(right[:, -1].mean()),
        "links": {"value": value.tolist(), "rate": rate.tolist(), "count": count.tolist()},
    }


def with_crossings(task: SequenceTask, block: int) -> SequenceTask:
    """A task of pointers with the group "crossings": of the links to the root, those to another block of tokens."""
    parents = parents_of(task)
    crossings, rows = np.zeros_like(parents), np.arange(len(parents))
    for t in range(parents.shape[1]):
        before = parents[:, t]
        crossed = crossings[rows, before] + (before // block != t // block)
        crossings[:, t] = np.where(before < 0, 0, crossed)
    return replace(task, groups=task.groups | {"crossings": crossings})


def parents_of(task: SequenceTask) -> np.ndarray:
    """(samples, length) place of every token's parent in a task of pointers, −1 at roots."""
    names, pointed = task.tokens[..., 0], task.tokens[..., 1] - task.tokens.shape[1]
    of_name = np.argsort(names, axis=1)
    found = np.take_along_axis(of_name, pointed.clip(0, names.shape[1] - 1), axis=1)
    return np.where(pointed < names.shape[1], found, -1)


def shared_answers(task: SequenceTask, block: int) -> dict[str, float]:
    """What the best common answer of each block would have right on a task of pointers, chosen with hindsight.

    Tokens outside block c see it through one distribution over its tokens (the note of the page), so that all whose
    root lies there get one answer from it where the largest weight decides. "crossing" is the share of the tokens with
    their root in another block that have the most frequent value of those who ask the same block; "inside", the share
    of all tokens whose root is in their own block; "all", the accuracy where these are right too.
    """
    parents, rows = parents_of(task), np.arange(len(task))
    roots = np.tile(np.arange(parents.shape[1]), (len(task), 1))
    for t in range(parents.shape[1]):
        roots[:, t] = np.where(parents[:, t] < 0, t, roots[rows, parents[:, t]])
    outside = roots // block != np.arange(parents.shape[1]) // block
    sample = np.broadcast_to(rows[:, None], roots.shape)[outside]
    asked = np.stack([sample, (roots // block)[outside], task.targets[outside]], axis=1)
    kinds, counts = np.unique(asked, axis=0, return_counts=True)
    _, which = np.unique(kinds[:, :2], axis=0, return_inverse=True)
    best = np.zeros(which.max(initial=-1) + 1, dtype=np.int64)
    np.maximum.at(best, which.ravel(), counts)
    right, total, every = int(best.sum()), int(outside.sum()), outside.size
    return {
        "crossing": right / max(total, 1),
        "inside": 1 - total / every,
        "all": (every - total + right) / every,
    }


def summary(arm: Training, records: list[dict[str, Any]], group: str = "hop") -> dict[str, Any]:
    """One row: accuracy by seed, its mean and spread, and accuracy by group, the mean over seeds and every seed's.

    "reach" : by seed, the most links up to which every hop has accuracy of at least 0.95, −1 for none; as "worst", by
    seed, among "judged", the numbers of links that occur at least 30 times in the test (all where none does)
    """
    accuracy = [record["accuracy"] for record in records]
    values = records[0]["groups"][group]["value"]
    by_seed = [record["groups"][group]["accuracy"] for record in records]
    counts = records[0]["groups"][group]["count"]
    often = [i for i, count in enumerate(counts) if count >= OFTEN] or list(range(len(counts)))
    crossings = [record["groups"].get("crossings", {"value": [], "accuracy": [], "count": []}) for record in records]
    return {
        "name": arm.name,
        "crossings": {
            "value": crossings[0]["value"],
            "count": crossings[0]["count"],
            "by_seed": [found["accuracy"] for found in crossings],
        },
        "accuracy": float(np.mean(accuracy)),
        "spread": spread(accuracy).deviation,
        "accuracies": accuracy,
        "value": values,
        "by_value": np.mean(by_seed, axis=0).tolist(),
        "by_seed": by_seed,
        "count": counts,
        "judged": [values[i] for i in often],
        "reach": [_reach([(values[i], row[i]) for i in often]) for row in by_seed],
        "worst": [min(row[i] for i in often) for row in by_seed],
        "late_gain": float(np.mean([_late_gain(record["curve"]) for record in records])),
        "steps": arm.steps,
        "batch": arm.batch,
        "rate": arm.rate,
        "parameters": records[0]["parameters"],
        "seconds": float(np.mean([record["seconds"] for record in records])),
    }


def _late_gain(curve: list[dict[str, float]]) -> float:
    """What the last eighth of a training gained; all that there is after a single check."""
    return curve[-1]["accuracy"] - (curve[-2]["accuracy"] if len(curve) > 1 else 0.0)


def _reach(accuracies: list[tuple[int, float]], least: float = 0.95) -> int:
    followed = -1
    for links, accuracy in accuracies:
        if accuracy < least:
            break
        followed = links
    return followed


@lru_cache(maxsize=4)
def _test(task: str, options: tuple[tuple[str, Any], ...], samples: int, seed: int) -> SequenceTask:
    return TASKS[task](samples, seed=seed, **dict(options))


@torch.no_grad()
def _mass(net: TokenModel, task: SequenceTask, blocks: tuple[int, ...] = (8, 16)) -> dict[str, list[float]]:
    """Share of a first layer's attention inside blocks of m tokens, and inside them and the blocks before, by m."""
    block = net.stack.blocks[0]
    q, k, _ = block.mixer._projected(block.norm1(net.embedding(torch.from_numpy(task.tokens[:64])).sum(2)), None)
    at = torch.arange(q.shape[2])
    i, j = at[:, None], at
    A = block.mixer._attention(q, k, i, j, i >= j)
    apart = {m: i // m - j // m for m in blocks}
    return {str(m): [float((A * (apart[m] <= d)).sum(-1).mean()) for d in (0, 1)] for m in blocks}


@torch.no_grad()
def _said(net: torch.nn.Module, task: SequenceTask) -> np.ndarray:
    net.eval()
    return torch.cat([net(torch.from_numpy(part)).argmax(-1) for part in np.array_split(task.tokens, 16)]).numpy()
