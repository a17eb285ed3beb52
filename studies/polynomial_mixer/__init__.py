"""The polynomial mixer beside softmax attention: time and memory by length, error on Burgers, recall where it is weak.

    python -m studies.polynomial_mixer
    python -m studies.polynomial_mixer --preset medium --output runs/polynomial_mixer_medium
    python -m studies.polynomial_mixer --preset full --output runs/polynomial_mixer_full

Cost: one layer of 64 channels on one sequence, on one thread, forward alone and with the backward pass; attention is
torch's fused kernel, which keeps no matrix of scores, and, up to shorter lengths, attention that does. Exponents of
time over the longest lengths, the length from which the mixer is faster beside the one from which it takes fewer
products, and the peak memory of a training pass. Quality: networks for Burgers' equation in which the mixer alone
differs, trained from several seeds and evaluated on a grid of half the spacing as well. Negative control: recall of
values by keys, for which one mean a layer is not made. Trainings and measurements are kept in the output folder and
read back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from sciops.datasets.text.sequence_tasks import mqar
from studies.kit.cells import kept
from studies.kit.choices import require_known
from studies.kit.mixers.burgers import burgers_error
from studies.kit.sequence_training import train_tokens
from studies.kit.study import finished, opened
from studies.polynomial_mixer.cost import LAYERS, check_layers, memory, times
from studies.polynomial_mixer.report import answer, claims, draw, print_report, summaries

_WINDOW = {"window": 16, "positions": "rope"}
FIELD_ARMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "none": ("none", {}),
    "mean pool": ("mean_pool", {}),
    "polynomial V1": ("polynomial", {}),
    "polynomial V1, 4d²": ("polynomial", {"expansion": 2 / 3}),
    "polynomial V2": ("polynomial", {"variant": "coefficients"}),
    "attention": ("self_attention", {}),
    "hybrid": (("polynomial", "self_attention"), {"polynomial": {}, "self_attention": {"window": 33}}),
}
RECALL_ARMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "none": ("none", {}),
    "polynomial V1": ("polynomial", {}),
    "polynomial V2": ("polynomial", {"variant": "coefficients"}),
    "hybrid": (("polynomial", "self_attention"), {"polynomial": {}, "self_attention": _WINDOW}),
    "attention": ("self_attention", {"positions": "rope"}),
}


@dataclass(frozen=True)
class Config:
    lengths: tuple[int, ...] = (128, 512, 2048, 8192, 16384, 32768, 65536)
    """tokens at which layers are timed; empty: not at all"""
    memory_lengths: tuple[int, ...] = (2048, 8192, 16384)  # tokens at which the peak memory is measured
    attention_to: int = 8192  # longest sequence on which attention is timed
    attention_memory_to: int = 16384  # longest sequence on which its memory is measured
    unfused_to: int = 2048  # longest sequence for attention with its matrix of scores
    causal: tuple[bool, ...] = (False,)  # whether layers are causal; several are measured in turn
    layer_width: int = 64  # channels of the layer
    heads: int = 1  # heads of attention there; one is the cheapest for it on a CPU
    rounds: int = 3  # calls of each layer, whose median counts
    field_arms: tuple[str, ...] = ("none", "mean pool", "polynomial V1", "attention", "hybrid")
    """mixers for Burgers, of `FIELD_ARMS`; empty: none"""
    points: int = 128  # grid points of training; twice as many in the second evaluation
    fields: tuple[int, int] = (128, 32)  # training and test functions
    field_steps: int = 60  # optimiser steps
    field_batch: int = 16  # functions a step
    field_width: int = 48  # channels of the networks, of four blocks
    field_rate: float = 3e-3  # peak learning rate
    recall_arms: tuple[str, ...] = ("polynomial V1", "hybrid", "attention")
    """mixers for recall, of `RECALL_ARMS`; empty: none"""
    recall_length: int = 32  # tokens of a sequence
    recall_pairs: int = 4  # keys with a value
    recall_symbols: int = 40  # half of them keys, half values
    recall_steps: int = 150  # optimiser steps, of fresh sequences
    recall_batch: int = 32  # sequences a step
    recall_width: int = 32  # channels of the models, of two blocks with a causal convolution of three taps
    recall_rate: float = 3e-3  # peak learning rate
    seeds: tuple[int, ...] = (0, 1)  # of initial weights and batches
    output: Path = Path("runs/polynomial_mixer")  # folder for results.json, the figures, the data and the trainings


_MEDIUM = Config(
    lengths=(64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536),
    memory_lengths=(1024, 4096, 16384, 32768, 65536),
    attention_to=32768,
    attention_memory_to=65536,
    unfused_to=8192,
    causal=(False, True),
    field_arms=tuple(FIELD_ARMS),
    points=256,
    fields=(512, 128),
    field_steps=800,
    field_batch=8,
    recall_arms=tuple(RECALL_ARMS),
    recall_length=64,
    recall_pairs=8,
    recall_symbols=72,
    recall_steps=800,
    recall_width=64,
    seeds=(0, 1, 2),
)
PRESETS = {
    "quick": Config(),
    "medium": _MEDIUM,
    "full": replace(
        _MEDIUM,
        attention_to=65536,
        unfused_to=16384,
        rounds=7,
        fields=(2048, 256),
        field_steps=20_000,
        field_batch=16,
        recall_symbols=128,
        recall_steps=20_000,
        recall_batch=64,
        seeds=(0, 1, 2, 3, 4),
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Measures, trains, prints, writes results.json and the figures, and returns the results.

    Raises ValueError for unknown arms; RuntimeError where a layer that is to be timed is not its formula.
    """
    _check(config)
    folder = opened(config, methods=["polynomial_speech"], seeds=config.seeds)
    torch.set_num_threads(1)
    timed, peaks = [], []
    layer = dict(width=config.layer_width, heads=config.heads)
    for causal in config.causal:
        check_layers(causal=causal, **layer)
        timed += _measured(config, "times", times, config.lengths, "attention_to", causal=causal, rounds=config.rounds)
        peaks += _measured(config, "memory", memory, config.memory_lengths, "attention_memory_to", causal=causal)
    results: dict[str, Any] = {
        "times": timed,
        "memory": peaks,
        "fields": _fields(config),
        "recall": _recall(config),
        "width": config.layer_width,
    }
    results["summary"] = summaries(results)
    results["claims"] = claims(results)
    return finished(folder, results, draw, print_report, answer=answer)


def _measured(
    config: Config, name: str, measure: Any, lengths: tuple[int, ...], longest: str, **how: Any
) -> list[dict[str, Any]]:
    """The rows of `times` or `memory`, kept as trainings are: a resumed run must not mix times of different loads."""
    how |= {"width": config.layer_width, "heads": config.heads}
    most = _most(config, longest)
    spec = {"lengths": lengths, "most": most, "threads": torch.get_num_threads(), **how}
    make = lambda: {"rows": measure(lengths, most, **how)}  # noqa: E731
    return kept(config.output / "trainings", f"{name}{' causal' if how['causal'] else ''}", spec, make)["rows"]


def _fields(config: Config) -> list[dict[str, Any]]:
    """One record a mixer and seed on Burgers."""
    train, test = config.fields
    data = {"points": config.points, "train": train, "test": test}
    how = {"steps": config.field_steps, "batch": config.field_batch}
    how |= {"width": config.field_width, "rate": config.field_rate}
    cases = [(seed, arm) for seed in config.seeds for arm in config.field_arms]
    records = []
    for seed, arm in tqdm(cases, unit="training", desc="Burgers"):
        mixer, options = FIELD_ARMS[arm]
        spec = {"mixer": mixer, "options": options, "seed": seed, "data": data, **how}
        folder = config.output / "data"
        make = partial(burgers_error, mixer, options, seed=seed, data=data, folder=folder, **how)
        records.append({"arm": arm, **kept(config.output / "trainings", f"burgers {arm} {seed}", spec, make)})
    return records


def _recall(config: Config) -> list[dict[str, Any]]:
    """One record a mixer and seed on recall."""
    task = {"length": config.recall_length, "pairs": config.recall_pairs, "symbols": config.recall_symbols}
    how = {"steps": config.recall_steps, "batch": config.recall_batch, "rate": config.recall_rate}
    cases = [(seed, arm) for seed in config.seeds for arm in config.recall_arms]
    if not cases:
        return []
    test = mqar(1024, seed=2**31, **task)
    records = []
    for seed, arm in tqdm(cases, unit="training", desc="recall"):
        mixer, options = RECALL_ARMS[arm]
        model = {"width": config.recall_width, "depth": 2, "local": 3, "mixer": mixer, "mixer_options": options}
        spec = {"model": model, "seed": seed, "task": task, **how}
        make = partial(train_tokens, model, partial(mqar, **task), test, seed=seed, **how)
        records.append({"arm": arm, **kept(config.output / "trainings", f"recall {arm} {seed}", spec, make)})
    return records


def _most(config: Config, attention: str) -> dict[str, int]:
    """The longest length of each layer."""
    longest = max((*config.lengths, *config.memory_lengths), default=0)
    return dict(zip(LAYERS, (longest, longest, getattr(config, attention), config.unfused_to)))


def _check(config: Config) -> None:
    for name, values, known in (
        ("field-arms", config.field_arms, FIELD_ARMS),
        ("recall-arms", config.recall_arms, RECALL_ARMS),
    ):
        require_known(f"--{name}", values, known)
    if not config.seeds or config.rounds < 1:
        raise ValueError(f"--seeds {config.seeds} --rounds {config.rounds}: expected at least one of each")
