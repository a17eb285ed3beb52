"""How well a language model predicts a text: nats, perplexity, and bits per byte, whatever the tokenizer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sciops.arrays.kinds import refuse_masked
from sciops.models.apply import evaluating


@dataclass(frozen=True)
class TextScores:
    """The negative log-probability of a text under a model.

    nats : −Σ_t log p(w_t | what came before), over all tokens but the first
    tokens : number of those tokens
    characters, utf8_bytes : of the text they spell, None where it was not given
    """

    nats: float
    tokens: int
    characters: int | None = None
    utf8_bytes: int | None = None

    @property
    def perplexity(self) -> float:
        """exp(nats/tokens), inf where that is beyond all numbers; depends on the tokenizer."""
        return _exp(self.nats / self.tokens)

    @property
    def character_perplexity(self) -> float:
        """exp(nats/characters)."""
        return _exp(self.nats / _known(self.characters))

    @property
    def bits_per_byte(self) -> float:
        """nats/(bytes·ln 2): the same scale whatever the tokenizer, where it can spell the whole text."""
        return self.nats / (_known(self.utf8_bytes) * math.log(2))


def score_text(
    model: nn.Module,
    tokens: Any,
    *,
    context: int,
    stride: int | None = None,
    batch_size: int = 16,
    text: str | None = None,
) -> TextScores:
    """Negative log-probability of a text under a language model.

    −Σ log p over all tokens but the first, each predicted once, from at most `context` tokens before it.

    model : causal, tokens (batch, n) → logits (batch, n, symbols)
    tokens : (count,) whole numbers, at least 2
    context : longest window the model is given
    stride : number of tokens that each window predicts, its last ones: each has at least context − stride tokens before
        it (except in the first window). None is `context`, the fastest, with context/2 tokens before it on average
    text : that the tokens but the first spell, for perplexity a character and bits a byte

    Sums are in float64, of log-softmax in float32 or better. The model is in evaluation mode for the time of the call.

    Raises ValueError for a stride beyond the context, fewer than two tokens, negative tokens (padding, which would
    cost nothing), and a text without a character.
    """
    stride = context if stride is None else stride
    if not 1 <= stride <= context:
        raise ValueError(f"stride={stride}, context={context}: expected 1 ≤ stride ≤ context")
    refuse_masked(tokens, "tokens")
    tokens = np.asarray(tokens) if not isinstance(tokens, np.ndarray) else tokens
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu" or len(tokens) < 2:
        raise ValueError(
            f"tokens of {tokens.dtype} and shape {tokens.shape}: expected at least 2 whole numbers (count,)"
        )
    if tokens.dtype.kind == "i" and tokens.min() < 0:
        raise ValueError(
            f"tokens hold {tokens.min()}: expected numbers of symbols, 0 or more, without marks of padding"
        )
    if text == "":
        raise ValueError("text='': expected what the tokens spell, for costs a character and a byte")
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    total = 0.0
    with torch.no_grad(), evaluating(model):
        for x, y, first in _windows(tokens, context, stride, batch_size):
            logits = model(x.to(device))[:, first:]
            total += _nats(logits, y[:, first:].to(device))
    return TextScores(
        total, len(tokens) - 1, None if text is None else len(text), None if text is None else len(text.encode())
    )


def _windows(tokens: np.ndarray, context: int, stride: int, batch_size: int) -> Iterator[tuple[Tensor, Tensor, int]]:
    """(x, y, first): windows and the token that follows each position; positions from `first` on are new."""
    asked = len(tokens) - 1
    whole = list(range(0, asked - context + 1, stride))
    first, rest = whole[:1], whole[1:]
    if stride == context:
        first, rest = [], whole
    for start in first:
        yield (*_batch(tokens, [start], context), 0)
    for i in range(0, len(rest), batch_size):
        yield (*_batch(tokens, rest[i : i + batch_size], context), context - stride)
    done = whole[-1] + context if whole else 0
    if done < asked:
        start = max(0, asked - context)
        yield (*_batch(tokens, [start], asked - start), done - start)


def _batch(tokens: np.ndarray, starts: list[int], length: int) -> tuple[Tensor, Tensor]:
    at = np.array(starts)[:, None] + np.arange(length + 1)
    found = torch.from_numpy(tokens[at].astype(np.int64))
    return found[:, :-1], found[:, 1:]


def _nats(logits: Tensor, targets: Tensor) -> float:
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    losses = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    return float(losses.double().sum())


def _exp(nats: float) -> float:
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf


def _known(count: int | None) -> int:
    if count is None:
        raise ValueError("the length of the text is not known: pass text to score_text")
    return count
