"""The tasks and mixers of the study of token mixing, one training, and the counts of one decoded token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sciops.datasets.text.sequence_tasks import SequenceTask, copy, mqar
from sciops.datasets.text.tracking import pointer_chain
from sciops.mixers import MIXERS, SelfAttention, StructuredRecurrence
from studies.kit.cells import kept
from studies.kit.sequence_training import train_tokens
from studies.kit.study import picked

TASKS = ("copy", "recall", "multi-hop")
MIXERS_OF = {
    "attention": ("self_attention", dict(positions="rope")),
    "local attention": ("self_attention", dict(positions="rope", window=0)),
    "first order": ("recurrence", dict(pattern="first_order")),
    "order k": ("recurrence", dict(pattern="order", order=0)),
    "dense recurrence": ("recurrence", dict(pattern="dense")),
    "2^k": ("recurrence", dict(pattern="powers")),
    "2^k, pruned": ("recurrence", dict(pattern="powers", cache_efficient=True)),
    "k²+1": ("recurrence", dict(pattern="squares")),
    "k²+1, pruned": ("recurrence", dict(pattern="squares", cache_efficient=True)),
}
"""Name → (mixer, options); a window or order of 0 stands for that of the study."""

PAPER = {
    "attention": (100.00, 100.00, 39.21),
    "local attention": (23.75, 26.20, 23.59),
    "first order": (42.98, 32.53, 27.17),
    "order k": (74.66, 41.12, 39.08),
    "dense recurrence": (100.00, 99.99, 99.80),
    "2^k": (92.63, 49.03, 34.85),
    "2^k, pruned": (75.47, 52.59, 38.63),
    "k²+1": (99.66, 53.61, 35.68),
    "k²+1, pruned": (91.59, 54.56, 38.02),
}
"""Accuracies of arXiv:2605.31367 in percent, by task in the order of TASKS; its sizes are not published with them."""

GROWTHS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "constant": np.zeros_like,
    "log n": np.log2,
    "√n": np.sqrt,
    "n": lambda n: n,
}
EXPECTED = {  # of (links, cache) per decoded token
    "attention": ("n", "n"),
    "local attention": ("constant", "constant"),
    "first order": ("constant", "constant"),
    "order k": ("constant", "constant"),
    "dense recurrence": ("n", "n"),
    "2^k": ("log n", "n"),
    "2^k, pruned": ("log n", "log n"),
    "k²+1": ("√n", "n"),
    "k²+1, pruned": ("√n", "√n"),
}


@dataclass(frozen=True)
class Spec:
    """What decides one training."""

    task: str
    sizes: dict[str, int]
    arm: str
    reach: int
    width: int
    heads: int
    depth: int
    steps: int
    batch: int
    rate: float
    samples: int
    seed: int


def options_of(arm: str, reach: int) -> tuple[str, dict[str, Any]]:
    name, options = MIXERS_OF[arm]
    return name, {key: reach if value == 0 and key in ("window", "order") else value for key, value in options.items()}


def maker(task: str, sizes: dict[str, int]) -> Callable[..., SequenceTask]:
    return partial({"copy": copy, "recall": mqar, "multi-hop": pointer_chain}[task], **sizes)


def score(task: str, record: dict[str, Any]) -> float:
    """Accuracy in percent; of "multi-hop" over questions of two links and more, which one look-up cannot answer."""
    if task != "multi-hop":
        return 100 * record["accuracy"]
    group = record["groups"]["hop"]
    far = np.array(group["value"]) >= 2
    return float(100 * np.average(np.array(group["accuracy"])[far], weights=np.array(group["count"])[far]))


def chance(task: str, sizes: dict[str, int]) -> float:
    """What guessing gives, in percent: one of the symbols, of the pairs' values, or of the roots' values."""
    if task == "multi-hop":  # another root may have the same value
        return 100 / sizes["chains"] + (100 - 100 / sizes["chains"]) / sizes["values"]
    return 100 / sizes["alphabet" if task == "copy" else "pairs"]


def train_once(spec: Spec, folder: Path) -> dict[str, Any]:
    """The record of a training, read back where there is one."""
    torch.set_num_threads(1)
    made = maker(spec.task, spec.sizes)
    name, options = options_of(spec.arm, spec.reach)
    model = dict(width=spec.width, depth=spec.depth, mixer=name, mixer_options={"heads": spec.heads, **options})
    label, how = f"{spec.task} {spec.arm} {spec.seed}", picked(spec, "steps batch rate seed")
    make = lambda: train_tokens(model, made, made(spec.samples, seed=10**9), **how)  # noqa: E731
    return kept(folder, label, {**vars(spec), "model": model}, make)


def counts(arm: str, reach: int, lengths: tuple[int, ...]) -> dict[str, list[float]]:
    """Links and cached tokens of a decoded token by length: means over the tokens n/2 … n − 1, and the largest."""
    rows: dict[str, list[float]] = {"links": [], "cache": [], "most links": [], "most cache": []}
    name, options = options_of(arm, reach)
    for n in lengths:
        seen = torch.arange(n // 2, n)
        if name == "self_attention":  # keys of the tokens it sees, without its own
            links = seen.clamp(max=reach - 1) if "window" in options else seen
            cache = links
        else:
            pattern = StructuredRecurrence(4, heads=1, causal=True, **options).links
            links = seen if pattern.pattern == "dense" else (pattern.table(seen, n) >= 0).sum(-1)
            held = pattern.kept(seen, n)
            cache = seen if held is None else (held >= 0).sum(-1)
        for key, values in (("links", links), ("cache", cache)):
            rows[key].append(float(values.double().mean()))
            rows[f"most {key}"].append(float(values.max()))
    return rows


@torch.no_grad()
def live_cache(arm: str, reach: int, n: int) -> tuple[int, int]:
    """(tokens that a state really holds after n tokens, tokens that it should hold)."""
    torch.manual_seed(0)
    name, options = options_of(arm, reach)
    mixer = MIXERS[name](4, heads=1, causal=True, **options)
    _, state = mixer.prefill(torch.randn(1, n, 4))
    if isinstance(mixer, SelfAttention):
        window = options.get("window")
        return state.keys.shape[1], n if window is None else window - 1
    held = state.count if state.at is None else (state.at >= 0).sum()
    return int(held), mixer.decode_cost(n).kept


def growth(lengths: tuple[int, ...], values: list[float]) -> dict[str, Any]:
    """{"best": name in GROWTHS, "R2": {name: R²}} of the fits y = c·g(n) + d by least squares.

    Values that do not change are constant; else the growth of the largest R² is the best.
    """
    n, y = np.array(lengths, dtype=float), np.array(values)
    spread = ((y - y.mean()) ** 2).sum()
    if spread <= 1e-12 * max(1.0, (y**2).sum()):
        return {"best": "constant", "R2": {"constant": 1.0}}
    found = {}
    for name, g in GROWTHS.items():
        if name != "constant":
            basis = np.stack([g(n), np.ones_like(n)], 1)
            residual = y - basis @ np.linalg.lstsq(basis, y, rcond=None)[0]
            found[name] = float(1 - (residual**2).sum() / spread)
    return {"best": max(found, key=found.get), "R2": found}
