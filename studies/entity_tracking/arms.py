"""Trainings of the study of entity tracking: which tasks, which models, one record a training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sciops.datasets.text.box_world import boxes, exact_match
from sciops.datasets.text.sequence_tasks import SequenceTask
from sciops.datasets.text.tracking import overwrite, packed_pointers, pointer_chain
from sciops.evaluation import spread
from studies.kit.cells import kept
from studies.kit.sequence_training import TokenModel, train_tokens

TASKS = {"pointers": pointer_chain, "packed": packed_pointers, "overwrite": overwrite, "boxes": boxes}
TEST_SEED = 10**9  # far from the seeds of training
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


def resolvent_model(width: int, heads: int = 1, depth: int = 1, **options: Any) -> dict[str, Any]:
    return {"width": width, "depth": depth, "mixer": "resolvent", "mixer_options": {"heads": heads, **options}}


def softmax_model(width: int, depth: int, heads: int = 1, **options: Any) -> dict[str, Any]:
    return {"width": width, "depth": depth, "mixer": "self_attention", "mixer_options": {"heads": heads, **options}}


def block_model(width: int, heads: int = 1, **options: Any) -> dict[str, Any]:
    return resolvent_model(width, heads, summary="learned", **options) | {"mixer": "block_resolvent"}


def trained(arm: Training, seeds: Iterable[int], folder: Path) -> list[dict[str, Any]]:
    """The records of `train_tokens` of an arm, one a seed, made or read back; "exact_match" beside them for boxes."""
    maker = partial(TASKS[arm.task], **arm.options)
    test = _test(arm.task, tuple(sorted(arm.options.items())), arm.tested)
    records = []
    for seed in seeds:
        how = {"steps": arm.steps, "batch": arm.batch, "rate": arm.rate, "seed": seed}
        spec = {"model": arm.model, "task": arm.task, "options": arm.options, "tested": arm.tested, **how}
        records.append(kept(folder, arm.name, spec, partial(_record, arm, maker, test, how)))
    return records


def _record(arm: Training, maker: Any, test: SequenceTask, how: dict[str, Any]) -> dict[str, Any]:
    torch.manual_seed(how["seed"])
    net = TokenModel(test.symbols, answers=test.targets.shape[2] if test.targets.ndim == 3 else 0, **arm.model)
    record = train_tokens(net, maker, test, progress=f"{arm.name}, seed {how['seed']}", **how)
    if arm.task == "boxes":
        return record | {"exact_match": exact_match(_said(net, test), test)}
    local = arm.model["mixer"] == "resolvent" and "local" in arm.options
    return record | ({"mass": _mass(net, test)} if local else {})


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
    return {
        "name": arm.name,
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
        "late_gain": float(np.mean([r["curve"][-1]["accuracy"] - r["curve"][-2]["accuracy"] for r in records])),
        "steps": arm.steps,
        "batch": arm.batch,
        "rate": arm.rate,
        "parameters": records[0]["parameters"],
        "seconds": float(np.mean([record["seconds"] for record in records])),
    }


def _reach(accuracies: list[tuple[int, float]], least: float = 0.95) -> int:
    followed = -1
    for links, accuracy in accuracies:
        if accuracy < least:
            break
        followed = links
    return followed


@lru_cache(maxsize=4)
def _test(task: str, options: tuple[tuple[str, Any], ...], samples: int) -> SequenceTask:
    return TASKS[task](samples, seed=TEST_SEED, **dict(options))


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
