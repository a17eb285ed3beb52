"""A Markov chain with forbidden transitions and a language model of it, with exact probabilities of all strings."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.datasets import encode_documents, tokenizer_for
from sciops.evaluation import divergence_curve, pr_curve, spread
from sciops.models import LanguageModel
from studies.kit.cells import kept
from studies.kit.text_training import TextData, train_language
from studies.precision_recall.scoring import ANGLES

SYMBOLS = "abcd"
LENGTH = 60_000  # characters of the text
PROMPT = 8  # characters, of which the chain sees the last two
MODEL = dict(width=32, depth=2, mixer="self_attention", mixer_options={"positions": "rope", "heads": 2}, local=2)


def chain_cell(folder: Path, seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """The record of one seed: by temperature exact scores and curves, and scores of samples with their ceiling."""
    made_by = dict(options, seed=seed, model=MODEL, length=LENGTH)
    return kept(folder / "cells", f"chain-{seed}", made_by, lambda: _measured(seed, options))


def _measured(seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(1)
    chain = transitions(0)
    text = drawn(chain, LENGTH, seed=0)
    data = text_of_chain(text)
    model, record = train_language(
        data, MODEL, context=32, steps=options["chain_steps"], batch=16, rate=3e-3, seed=seed, scored=4000, device="cpu"
    )
    random = np.random.default_rng([seed, 2])
    starts = random.integers(0, len(text) - PROMPT, options["chain_contexts"])
    prompts = [text[start : start + PROMPT] for start in starts]
    length = options["chain_length"]
    p = chain_probabilities(chain, prompts, length).ravel()
    logits = string_logits(model, data, prompts, length)
    n, rows = options["samples"], {}
    halves = [_scores(*_sampled(p, p, n, random))[0] for _ in range(options["splits"])]
    for temperature in options["temperatures"]:
        q = string_probabilities(logits, length, temperature)
        # what the model says outside of the alphabet has a bin of its own
        whole = np.append(p, 0.0), np.append(q.ravel(), max(0.0, 1 - q.sum()))
        exact, curve = _scores(*whole)
        sampled = _scores(*_sampled(*whole, n, random))[0]
        rows[str(temperature)] = exact | {"sampled": sampled, "curve": curve}
    ceiling = {name: asdict(spread(one[name] for one in halves)) for name in halves[0]}
    return {"temperatures": rows, "ceiling": ceiling, "samples": n, "perplexity": record["perplexity"]}


def transitions(seed: int) -> np.ndarray:
    """(4, 4, 4): probabilities of the next symbol after two; two of the four are possible after each pair."""
    random = np.random.default_rng(seed)
    size = len(SYMBOLS)
    found = np.zeros((size, size, size))
    for i in range(size):
        for j in range(size):
            weight = random.uniform(0.2, 0.8)
            found[i, j, random.permutation(size)[:2]] = weight, 1 - weight
    return found


def drawn(chain: np.ndarray, length: int, *, seed: int) -> str:
    """A text of the chain."""
    uniform = np.random.default_rng([seed, 1]).uniform(size=length)
    limits = chain.cumsum(-1).tolist()
    i, j, symbols = 0, 1, []
    for value in uniform.tolist():
        row = limits[i][j]
        k = next((k for k in range(len(SYMBOLS)) if value < row[k]), int(np.flatnonzero(chain[i, j])[-1]))
        symbols.append(SYMBOLS[k])
        i, j = j, k
    return "".join(symbols)


def text_of_chain(text: str) -> TextData:
    """The text in tokens of one symbol."""
    cut = len(text) // 20
    parts = [text[: -2 * cut], text[-2 * cut : -cut], text[-cut:]]
    tokenizer = tokenizer_for(SYMBOLS, len(SYMBOLS) + 2, "characters")
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return TextData("chain", checksum, tokenizer, *(encode_documents(tokenizer, [part]) for part in parts))


def strings(length: int) -> np.ndarray:
    """(4^length, length): all strings, in numbers of `SYMBOLS`."""
    return np.stack(np.meshgrid(*[np.arange(len(SYMBOLS))] * length, indexing="ij"), -1).reshape(-1, length)


def chain_probabilities(chain: np.ndarray, prompts: list[str], length: int) -> np.ndarray:
    """(prompts, 4^length): joint probability of a prompt, all alike, and of the string after it."""
    every = strings(length)
    found = np.empty((len(prompts), len(every)))
    for row, prompt in zip(found, prompts):
        i, j = (np.full(len(every), SYMBOLS.index(c)) for c in prompt[-2:])
        row[:] = 1 / len(prompts)
        for k in every.T:
            row *= chain[i, j, k]
            i, j = j, k
    return found


@torch.no_grad()
def string_logits(model: LanguageModel, data: TextData, prompts: list[str], length: int) -> Tensor:
    """(prompts, 4^length, length, symbols) float64: the model's logits of every symbol of every string."""
    numbers = np.asarray(data.tokenizer.encode(SYMBOLS))
    after = torch.from_numpy(numbers[strings(length)])
    found = []
    for prompt in prompts:
        before = torch.from_numpy(np.asarray(data.tokenizer.encode(prompt))).expand(len(after), -1)
        logits = model.eval()(torch.cat([before, after], 1))
        found.append(logits[:, PROMPT - 1 : -1].double())
    return torch.stack(found)


def string_probabilities(logits: Tensor, length: int, temperature: float) -> np.ndarray:
    """(prompts, 4^length): as `chain_probabilities`, of the model at a temperature."""
    numbers = torch.from_numpy(strings(length)) + 1  # of the tokenizer, after the end
    steps = (logits / temperature).log_softmax(-1)
    chosen = steps.gather(-1, numbers.expand(len(logits), -1, -1)[..., None]).squeeze(-1)
    return (chosen.sum(-1).exp() / len(logits)).numpy()


def _scores(p: np.ndarray, q: np.ndarray) -> tuple[dict[str, float], dict[str, list[float]]]:
    curve = pr_curve(p, q, angles=1000)
    scores = {
        "possible": curve.support_precision,
        "precision": curve.f_score(1 / 8),
        "recall": curve.f_score(8.0),
        "area": divergence_curve(p, q).area,
    }
    short = pr_curve(p, q, angles=ANGLES)
    return scores, {"precision": short.precision.tolist(), "recall": short.recall.tolist()}


def _sampled(p: np.ndarray, q: np.ndarray, n: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    first, second = (random.multinomial(n, v / v.sum()).astype(float) for v in (p, q))
    return first, second
