"""A character model of a real text, sampled at several temperatures, read by another model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sciops.evaluation import text_features
from sciops.models import LanguageModel, generate, load_model, save_model
from studies.kit.cells import cell_name, kept
from studies.kit.text_training import TextData, text_data, train_language
from studies.precision_recall.scoring import ablated, compared

CONTEXT = 96
FEATURES = ("last state", "mean state", "trigrams", "untrained reader")
PREPARED: dict[str, dict[str, Any]] = {
    "last state": {"normalize": "l2"},
    "mean state": {"normalize": "l2"},
    "trigrams": {"normalize": "l2"},
    "untrained reader": {"normalize": "l2"},
}
BUCKETS = 509  # of hashed trigrams
READER = 1000  # seed of the reader, which no judged model has


def text_cell(folder: Path, seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """The record of one seed: scores by temperature and features, and the ablations at temperature 1."""
    data = corpus_of(options)
    made_by = dict(options, seed=seed, text=data.checksum, prepared=PREPARED, context=CONTEXT, buckets=BUCKETS)
    return kept(folder / "cells", f"text-{seed}", made_by, lambda: _measured(folder, data, seed, options))


def corpus_of(options: Mapping[str, Any]) -> TextData:
    """The text in characters, a quarter of it for the test."""
    return text_data(options["corpus"], kind="characters", size=96, held_out=0.25)


def reader_of(folder: Path, options: Mapping[str, Any]) -> LanguageModel:
    """The reader, trained once for all seeds and read back from the folder of the study.

    Raises RuntimeError where the text is too short for the study.
    """
    data = corpus_of(options)
    windows(data, options["text_prompt"] + options["text_length"], 3 * options["samples"], 0)
    training = {"text": data.checksum, "steps": options["text_steps"], "context": CONTEXT, **_model(options)}
    path = folder / "data" / cell_name("reader", training)
    if not path.exists():
        save_model(_trained(data, READER, options)[0], path)
    return load_model(path)


def _measured(folder: Path, data: TextData, seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(1)
    n, before, length = options["samples"], options["text_prompt"], options["text_length"]
    pieces = windows(data, before + length, 3 * n, seed)
    reference, prompts = pieces[: 2 * n, before:], pieces[2 * n :, :before]
    model, record = _trained(data, seed, options)
    torch.manual_seed(READER)
    untrained = LanguageModel(len(data.tokenizer), **_model(options))
    readers = {"last state": reader_of(folder, options), "untrained reader": untrained}
    real = features(readers, reference, len(data.tokenizer))
    rows: dict[str, Any] = {}
    for temperature in options["temperatures"]:
        random = torch.Generator().manual_seed(1 + seed)
        made = generate(model, torch.from_numpy(prompts), tokens=length, temperature=temperature, generator=random)
        own = features(readers, made.tokens.numpy(), len(data.tokenizer))
        rows[str(temperature)] = {
            name: compared(real[name], own[name], options, seed=seed, **how) for name, how in PREPARED.items()
        }
        rows[str(temperature)]["nats"] = -float(made.log_probabilities.double().mean())
        if temperature == 1.0:
            rows["1.0"]["ablation"] = ablated(real["last state"], own["last state"], options, normalize="l2")
        rows[str(temperature)]["sample"] = data.tokenizer.decode(made.tokens[0])
    return {"temperatures": rows, "corpus": data.name, "bits_per_byte": record["bits_per_byte"]}


def windows(data: TextData, size: int, count: int, seed: int) -> np.ndarray:
    """(count, size) tokens of pieces of the test text that do not overlap, in a drawn order."""
    there = len(data.test) // size
    if there < count:
        raise RuntimeError(
            f"{data.name}: its test text has {there} pieces of {size} tokens, the study needs {count}; "
            "pass a longer text or fewer --samples"
        )
    pieces = data.test[: there * size].reshape(there, size).astype(np.int64)
    return pieces[np.random.default_rng([seed, 3]).permutation(there)[:count]]


def features(readers: Mapping[str, LanguageModel], tokens: np.ndarray, symbols: int) -> dict[str, np.ndarray]:
    """Feature vectors of texts, by the names in `FEATURES`, in float64."""
    found = {
        "last state": text_features(readers["last state"], tokens),
        "mean state": text_features(readers["last state"], tokens, pool="mean"),
        "trigrams": trigrams(tokens, symbols),
        "untrained reader": text_features(readers["untrained reader"], tokens),
    }
    return {name: np.asarray(value, dtype=np.float64) for name, value in found.items()}


def trigrams(tokens: np.ndarray, symbols: int) -> np.ndarray:
    """(samples, BUCKETS): square roots of the counts of hashed groups of three tokens."""
    hashed = ((tokens[:, :-2] * symbols + tokens[:, 1:-1]) * symbols + tokens[:, 2:]) % BUCKETS
    counts = np.zeros((len(tokens), BUCKETS))
    np.add.at(counts, (np.arange(len(tokens))[:, None], hashed), 1.0)
    return np.sqrt(counts)


def _trained(data: TextData, seed: int, options: Mapping[str, Any]) -> tuple[LanguageModel, dict[str, Any]]:
    size = {"context": CONTEXT, "steps": options["text_steps"], "batch": 16, "rate": 3e-3, "scored": 2000}
    return train_language(data, _model(options), seed=seed, device="cpu", **size)


def _model(options: Mapping[str, Any]) -> dict[str, Any]:
    attention = {"positions": "rope", "heads": 4}
    return dict(width=options["text_width"], depth=2, mixer="self_attention", mixer_options=attention, local=4)
