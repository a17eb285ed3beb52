"""A small language model trained on a real text: the text in tokens, the training, what it says about held-out text."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sciops.datasets import Splits, TokenWindows, encode_documents, load_tokenizer, read_documents, tokenizer_for
from sciops.datasets.text import CORPORA, read_corpus
from sciops.evaluation import score_text
from sciops.models import LanguageModel
from sciops.training import TrainConfig, fit
from studies.kit.cells import cell_name


@dataclass(frozen=True)
class TextData:
    """A text in tokens: `train`, `validation` and `test` follow one another in it. checksum : SHA-256 of its text."""

    name: str
    checksum: str
    tokenizer: Any
    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def text_data(
    corpus: str = "auto", *, kind: str = "bpe", size: int = 1024, held_out: float = 0.05, folder: Path | None = None
) -> TextData:
    """The text by name in `CORPORA`, or of a file or folder of text files; "auto": the first of them that is there.

    The last characters, `held_out` of them, are for the test, as many before them for validation; the tokenizer is
    trained on the others. folder : where it is kept
    """
    return _in_tokens(*_read(corpus), corpus, kind, size, held_out, folder)


@lru_cache(maxsize=2)  # of the text itself, not of its name: a file may change
def _in_tokens(
    name: str, text: str, corpus: str, kind: str, size: int, held_out: float, folder: Path | None
) -> TextData:
    cut = int(len(text) * held_out)
    if cut < 1:
        raise ValueError(f"{corpus}: {len(text)} characters are too few to hold out a share of {held_out}")
    parts = [text[: -2 * cut], text[-2 * cut : -cut], text[-cut:]]
    checksum = hashlib.sha256(text.encode()).hexdigest()
    made_by = {"text": checksum, "kind": kind, "size": size, "held_out": held_out}
    path = None if folder is None else Path(folder) / f"{cell_name(Path(name).stem, made_by)}.json"
    if path is not None and path.exists():
        tokenizer = load_tokenizer(path)
    else:
        tokenizer = tokenizer_for(parts[0], size, kind)
        if path is not None:
            tokenizer.save(path)
    return TextData(name, checksum, tokenizer, *(encode_documents(tokenizer, [part]) for part in parts))


def train_language(
    data: TextData,
    options: Mapping[str, Any],
    *,
    context: int,
    steps: int,
    batch: int,
    rate: float,
    seed: int,
    scored: int = 20_000,
    folder: Path | None = None,
    device: str = "auto",
    progress: bool = False,
) -> tuple[LanguageModel, dict[str, Any]]:
    """(model, record): a `LanguageModel` of these options after about `steps` steps on windows of `context` tokens.

    The windows lie evenly in the training text; where there are fewer than steps·batch, they come again epoch by epoch.
    scored : tokens of the test text, at most, that the record is about, each with context/2 tokens before it or more

    Raises ValueError for a text too short for one window in each part.

    record : plain numbers. perplexity (a token), character_perplexity, bits_per_byte, unigram_perplexity (of the
        training text's frequencies), validation (nats a token), parameters, steps, seconds (of training)
    """
    if min(len(data.train), len(data.validation)) <= context:
        raise ValueError(
            f"{data.name}: {len(data.train):,} tokens to train on and {len(data.validation):,} to validate, expected "
            f"more than context={context} of each; pass a longer text or a smaller context"
        )
    torch.manual_seed(seed)
    model = LanguageModel(len(data.tokenizer), **options)
    needed = steps * batch
    at_once = (len(data.train) - 1) // context
    epochs = max(1, round(needed / at_once))
    stride = max(context, (len(data.train) - 1 - context) // max(1, needed - 1)) if epochs == 1 else context
    few = data.validation[: 64 * context + 1]
    splits = Splits(TokenWindows(data.train, context, stride=stride), TokenWindows(few, context))
    length = {"epochs": epochs, "batch_size": batch, "learning_rate": rate, "keep": "last", "resume": True}
    adamw = {"warmup": 0.1, "weight_decay": 0.1, "betas": (0.9, 0.95)}
    place = {"seed": seed, "device": device, "folder": folder, "progress": progress}
    run = fit(model, splits, TrainConfig(objective="token_cross_entropy", **length, **adamw, **place))
    return run.model, scores(run.model, data, context=context, scored=scored) | {
        "validation": run.history[-1]["validation"],
        "parameters": run.parameters,
        "steps": run.steps,
        "seconds": run.seconds,
    }


def scores(model: LanguageModel, data: TextData, *, context: int, scored: int) -> dict[str, float]:
    """What `train_language` records of a model on the test text."""
    tokens = data.test[: scored + 1]
    text = data.tokenizer.decode(tokens[1:])
    found = score_text(model, tokens, context=context, stride=max(1, context // 2), text=text)
    counts = np.bincount(data.train, minlength=len(data.tokenizer)) + 1.0
    unigram = -np.log(counts / counts.sum())[tokens[1:]].mean()
    return {
        "perplexity": found.perplexity,
        "character_perplexity": found.character_perplexity,
        "bits_per_byte": found.bits_per_byte,
        "unigram_perplexity": math.exp(unigram),
        "scored_tokens": found.tokens,
    }


def _read(corpus: str) -> tuple[str, str]:
    if corpus in CORPORA:
        return corpus, read_corpus(corpus)
    if corpus != "auto":
        if not Path(corpus).exists():
            raise FileNotFoundError(f"corpus {corpus!r}: expected auto, {', '.join(CORPORA)}, a text file or a folder")
        return corpus, "\n".join(read_documents(corpus).values())
    for name in CORPORA:
        try:
            return name, read_corpus(name)
        except FileNotFoundError:
            continue
    raise FileNotFoundError("no text is here: pass a file")
