"""One cell of the zoo: a mixer trained on a task, at the parameters of attention; what the cell records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sciops.datasets.text.sequence_tasks import SequenceTask, copy, mqar
from sciops.datasets.text.tracking import pointer_chain
from sciops.models import LanguageModel
from studies.kit.cells import kept
from studies.kit.mixers.arms import Arm, arm_of, matched_ratio
from studies.kit.mixers.burgers import burgers_error, burgers_task
from studies.kit.mixers.fields import FieldNet
from studies.kit.sequence_training import TokenModel, train_tokens
from studies.kit.text_training import text_data, train_language
from studies.mixer_zoo.darcy import darcy_error, darcy_task

REFERENCE = "attention"  # whose parameters the others are given
FIELDS = {"burgers": (burgers_error, burgers_task), "darcy": (darcy_error, darcy_task)}
SYMBOLS: dict[str, Callable[..., SequenceTask]] = {"copy": copy, "mqar": mqar, "tracking": pointer_chain}
TASKS = (*FIELDS, *SYMBOLS, "text")
LOCAL = 4  # taps of the short causal convolution of every block of tokens, the only order that some mixers know

SCORES = {
    "burgers": "relative L² error",
    "darcy": "relative L² error",
    "copy": "accuracy",
    "mqar": "accuracy",
    "tracking": "accuracy",
    "text": "perplexity a token",
}


def cell(task: str, arm: str, seed: int, spec: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """The record of a cell, read back from the folder where it is there.

    spec : {"task": options of the task, "model": width and depth, "training": steps, batch, rate}; see `mixer_zoo`

    returns : {"name", "spec", "task", "arm", "seed", "score", "parameters", "reference_parameters", "seconds", "steps"}
        and for fields "input_error", "mean_error", "error_fine"; tracking "by_hop"; text "bits_per_byte",
        "unigram_perplexity"
    """
    data = Path(folder) / "data"
    whole = {"task": task, "arm": arm, "seed": seed, **spec, "options": described(arm), "local": LOCAL}
    whole["reference"] = described(REFERENCE)  # its parameters decide the width of the others
    if task == "text":  # a corpus is known by name, and files of one name may hold different texts
        whole["text"] = text_data(**spec["task"], folder=data).checksum
    make = _field_cell if task in FIELDS else _text_cell if task == "text" else _symbol_cell
    return kept(Path(folder) / "cells", f"{task}-{arm}-{seed}", whole, lambda: make(task, arm, seed, spec, data))


def _field_cell(task: str, name: str, seed: int, spec: Mapping[str, Any], data: Path) -> dict[str, Any]:
    train, make_task = FIELDS[task]
    arm, size = arm_of(name), dict(spec["model"])
    problem = make_task(folder=data, **spec["task"])

    def network(of: Arm, ratio: float) -> FieldNet:
        return FieldNet(problem, of.mixer, of.fields, mlp_ratio=ratio, **size)

    ratio, counts = _equal(network, arm, size)
    found = train(
        arm.mixer, arm.fields, seed=seed, data=spec["task"], folder=data, mlp_ratio=ratio, **size, **spec["training"]
    )
    also = {key: found[key] for key in ("input_error", "mean_error", "error_fine", "loss")}
    return _record(task, name, seed, found["error"], counts, found) | also


def _symbol_cell(task: str, name: str, seed: int, spec: Mapping[str, Any], data: Path) -> dict[str, Any]:
    arm, size = arm_of(name), dict(spec["model"])
    training = dict(spec["training"])
    make = partial(SYMBOLS[task], **spec["task"])
    test = make(training.pop("tested"), seed=2**31 + 1)

    def options(of: Arm, ratio: float) -> dict[str, Any]:
        return dict(mixer=of.mixer, mixer_options=of.tokens, mlp_ratio=ratio, local=LOCAL, **size)

    ratio, counts = _equal(lambda of, r: TokenModel(test.symbols, **options(of, r)), arm, size)
    found = train_tokens(options(arm, ratio), make, test, seed=seed, checks=4, **training)
    also = {"loss": found["loss"]}
    if "hop" in found["groups"]:
        also["by_hop"] = found["groups"]["hop"]
    return _record(task, name, seed, found["accuracy"], counts, found) | also


def _text_cell(task: str, name: str, seed: int, spec: Mapping[str, Any], data: Path) -> dict[str, Any]:
    arm, size = arm_of(name), dict(spec["model"])
    text = text_data(**spec["task"], folder=data)

    def options(of: Arm, ratio: float) -> dict[str, Any]:
        return dict(mixer=of.mixer, mixer_options=of.tokens, mlp_ratio=ratio, local=LOCAL, **size)

    ratio, counts = _equal(lambda of, r: LanguageModel(len(text.tokenizer), **options(of, r)), arm, size)
    _, found = train_language(text, options(arm, ratio), seed=seed, device="cpu", **spec["training"])
    also = {key: found[key] for key in ("bits_per_byte", "unigram_perplexity", "validation")}
    return _record(task, name, seed, found["perplexity"], counts, found) | also | {"text": text.name}


def _equal(make: Callable[[Arm, float], Any], arm: Arm, size: Mapping[str, int]) -> tuple[float, dict[str, int]]:
    """The ratio of the arm's hidden width that gives it as many parameters as the reference has at 2."""
    wanted = sum(p.numel() for p in make(arm_of(REFERENCE), 2.0).parameters())
    ratio = matched_ratio(lambda r: make(arm, r), wanted, width=size["width"], depth=size["depth"])
    return ratio, {"reference_parameters": wanted, "mlp_ratio": ratio}


def _record(
    task: str, arm: str, seed: int, score: float, counts: Mapping[str, Any], found: Mapping[str, Any]
) -> dict[str, Any]:
    of_run = {key: found[key] for key in ("parameters", "seconds", "steps")}
    return {"task": task, "arm": arm, "seed": seed, "score": float(score), **counts, **of_run}


def described(name: str) -> dict[str, Any]:
    """Which mixer and options an arm's name stands for: another one is another cell."""
    arm = arm_of(name)
    return {"mixer": arm.mixer, "tokens": dict(arm.tokens), "fields": dict(arm.fields)}
