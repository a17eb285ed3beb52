"""Text generation from a language model with states: `generate` samples, `beam_search` finds likely continuations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sciops.mixers.sequence import selected
from sciops.models.apply import evaluating
from sciops.values import check_whole


class Generated(NamedTuple):
    """Continuations of prompts.

    tokens : (batch, tokens) int64, without the prompt; for a beam search (batch, beams, tokens), the likeliest first.
        Zeros after a `stop` token, which is included
    lengths : (batch,) or (batch, beams), number of generated tokens
    log_probabilities : same shape as tokens, log p of each under the model itself, before temperature and filters; 0
        after the end
    """

    tokens: Tensor
    lengths: Tensor
    log_probabilities: Tensor


def generate(
    model: Any,
    prompt: Tensor | Sequence[Sequence[int]],
    *,
    tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop: int | Sequence[int] | None = None,
    mask: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Generated:
    """Samples a continuation of each prompt, w_{t+1} ~ softmax(filter(z_t/temperature)).

    z_t are the logits after the prompt and w_1 … w_t; temperature 0 takes argmax z_t.

    Parameters
    ----------
    model : nn.Module
        A model with `prefill` and `step`, such as `LanguageModel`; in evaluation mode during the call.
    prompt : Tensor or list of sequences
        Tokens (batch, n), with `mask` (batch, n) where they are padded at the end; or a list of prompts of any lengths
        of at least 1.
    tokens : int
        Largest number of tokens generated for each prompt.
    temperature, top_k, top_p
        See `filtered`; the temperature is applied first, then top_k, then top_p.
    stop : int or sequence of int, optional
        Tokens that end a sequence; ended sequences are removed from the batch.
    generator : torch.Generator, optional
        Random generator on the model's device; torch's global one by default.

    Raises
    ------
    ValueError
        For an empty prompt, numbers out of range, and a model that returns NaN.
    """
    if not isinstance(temperature, Real) or not 0 <= temperature < math.inf:
        raise ValueError(f"temperature={temperature!r}: expected a finite number of at least 0; 0 takes the likeliest")
    _check_filters(top_k, top_p)
    prompt, mask = _padded(prompt, mask, model)
    check_whole(tokens=tokens)
    ends = _ends(stop, prompt.device)
    made = torch.zeros(len(prompt), tokens, dtype=torch.int64, device=prompt.device)
    lengths = torch.full((len(prompt),), tokens, device=prompt.device)
    rows = torch.arange(len(prompt), device=prompt.device)  # sequences that have not ended
    with torch.no_grad(), evaluating(model):
        logits, states = model.prefill(prompt, mask=mask, last=True)
        scores = _log_softmax(logits).new_zeros(made.shape)
        for t in range(tokens):
            if t:
                logits, states = model.step(made[rows, t - 1], states)
            log_p = _log_softmax(logits)
            if temperature == 0:
                drawn = log_p.argmax(-1)
            else:
                kept = filtered(_tempered(log_p, temperature), top_k=top_k, top_p=top_p).softmax(-1)
                drawn = torch.multinomial(kept, 1, generator=generator).squeeze(1)
            made[rows, t] = drawn
            scores[rows, t] = log_p.gather(1, drawn[:, None]).squeeze(1)
            if ends is not None:
                ended = torch.isin(drawn, ends)
                if ended.any():
                    lengths[rows[ended]] = t + 1
                    left = (~ended).nonzero().squeeze(1)
                    if not len(left):
                        break
                    rows, states = rows[left], selected(states, left)
    return Generated(made, lengths, _defined(scores))


def filtered(logits: Tensor, *, top_k: int | None = None, top_p: float | None = None) -> Tensor:
    """Logits (…, symbols) with −∞ for symbols that are excluded from sampling.

    Symbols with equal logits are kept or dropped individually.

    Parameters
    ----------
    logits : Tensor
        (…, symbols).
    top_k : int, optional
        Keeps the k likeliest symbols (arXiv:1805.04833).
    top_p : float, optional
        Keeps the likeliest symbols up to and including the one with which they reach the probability p
        (arXiv:1904.09751).

    Raises
    ------
    ValueError
        For k below 1 and p outside 0 < p ≤ 1.
    """
    _check_filters(top_k, top_p)
    if top_k is not None and top_k < logits.shape[-1]:
        best = logits.topk(top_k, dim=-1)
        logits = torch.full_like(logits, -torch.inf).scatter(-1, best.indices, best.values)
    if top_p is not None and top_p < 1:
        ordered, order = logits.sort(dim=-1, descending=True, stable=True)
        p = ordered.softmax(-1)
        beyond = p.cumsum(-1) - p >= top_p  # those before it reach p already
        beyond[..., 0] = False
        logits = torch.empty_like(logits).scatter(-1, order, ordered.masked_fill(beyond, -torch.inf))
    return logits


def beam_search(
    model: Any,
    prompt: Tensor | Sequence[Sequence[int]],
    *,
    tokens: int,
    beams: int = 4,
    stop: int | Sequence[int] | None = None,
    length_power: float = 0.0,
    mask: Tensor | None = None,
) -> Generated:
    """Beam search for the continuations of largest Σ_t log p(w_t | …)/length^{length_power}.

    At every token the `beams` likeliest of all continuations of the kept ones are kept; a continuation that ended with
    a `stop` token is not extended. The search is exact if beams ≥ symbols^tokens. If there are fewer continuations than
    beams, the last ones have log-probabilities −∞.

    Parameters
    ----------
    model, prompt, tokens, mask, stop
        As in `generate`.
    beams : int
        Number of continuations that are kept and returned.
    length_power : float
        0 compares sums, 1 means of log-probabilities, which does not prefer short sequences (arXiv:1609.08144 uses 0.6
        with another offset).
    """
    prompt, mask = _padded(prompt, mask, model)
    check_whole(tokens=tokens, beams=beams)
    ends, batch, device = _ends(stop, prompt.device), len(prompt), prompt.device
    made = torch.zeros(batch, beams, 0, dtype=torch.int64, device=device)
    lengths = torch.zeros(batch, beams, dtype=torch.int64, device=device)
    ended = torch.zeros(batch, beams, dtype=torch.bool, device=device)
    first = torch.arange(batch, device=device)[:, None] * beams
    with torch.no_grad(), evaluating(model):
        logits, states = model.prefill(prompt, mask=mask, last=True)
        states = selected(states, torch.arange(batch, device=device).repeat_interleave(beams))
        logits = logits.repeat_interleave(beams, 0)
        scores = _log_softmax(logits).new_zeros(made.shape)
        for t in range(tokens):
            if t:
                logits, states = model.step(made[..., -1].flatten(), states)
            log_p = _log_softmax(logits).view(batch, beams, -1)
            if t == 0:  # all beams are equal
                log_p[:, 1:] = -torch.inf
            # an ended continuation has one successor, the token 0 with log-probability 0
            only = torch.full_like(log_p, -torch.inf)
            only[..., 0] = 0.0
            log_p = torch.where(ended[..., None], only, log_p)
            long = (lengths + ~ended).double()
            total = (scores.double().sum(-1)[..., None] + log_p) / long[..., None] ** length_power
            best = total.flatten(1).topk(beams, dim=1).indices
            parent, drawn = best // log_p.shape[-1], best % log_p.shape[-1]
            new = log_p.flatten(1).gather(1, best)
            made = torch.cat([made.gather(1, parent[..., None].expand(-1, -1, t)), drawn[..., None]], -1)
            scores = torch.cat([scores.gather(1, parent[..., None].expand(-1, -1, t)), new[..., None]], -1)
            ended = ended.gather(1, parent)
            lengths = lengths.gather(1, parent) + ~ended
            if ends is not None:
                ended = ended | torch.isin(drawn, ends)
            if ended.all():
                break
            states = selected(states, (first + parent).flatten())
    left = (0, tokens - made.shape[-1])
    return Generated(nn.functional.pad(made, left), lengths, nn.functional.pad(_defined(scores), left))


def _log_softmax(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)


def _tempered(log_p: Tensor, temperature: float) -> Tensor:
    """log p/temperature with 0 for the likeliest, so that no temperature above 0 overflows: −∞ is the smallest."""
    least = torch.finfo(log_p.dtype).tiny
    return (log_p - log_p.amax(-1, keepdim=True)) / max(temperature, least)


def _defined(scores: Tensor) -> Tensor:
    """The log-probabilities; raises ValueError where they are NaN, as of a model whose logits are."""
    bad = scores.isnan()
    if bool(bad.any()):
        token = int(bad.nonzero()[:, -1].min()) + 1
        raise ValueError(f"the model's probabilities of token {token} are NaN: check its weights and states")
    return scores


def _padded(
    prompt: Tensor | Sequence[Sequence[int]], mask: Tensor | None, model: nn.Module
) -> tuple[Tensor, Tensor | None]:
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    if not isinstance(prompt, Tensor):
        if mask is not None:
            raise ValueError("mask is for prompts that are one tensor; a list of prompts has its own lengths")
        rows = [_whole(row) for row in prompt]
        if not rows:
            raise ValueError("no prompts: expected at least one")
        lengths = torch.tensor([len(row) for row in rows])
        prompt = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        if len(set(lengths.tolist())) > 1:
            mask = torch.arange(prompt.shape[1]) < lengths[:, None]
    if prompt.ndim != 2 or prompt.shape[0] < 1:
        raise ValueError(f"prompt has shape {tuple(prompt.shape)}: expected (batch, n), or a list of prompts")
    counts = torch.full((len(prompt),), prompt.shape[1]) if mask is None else mask.sum(1)
    if (counts < 1).any():
        raise ValueError(
            f"prompt {int((counts < 1).nonzero()[0])} is empty: begin with one token, such as the tokenizer's end"
        )
    return prompt.to(device), None if mask is None else mask.to(device)


def _whole(row: Any) -> Tensor:
    """One prompt, (n,) int64 on the CPU."""
    row = row.cpu().numpy() if isinstance(row, Tensor) else np.asarray(row)
    if row.ndim != 1 or (row.size and row.dtype.kind not in "iu"):
        raise ValueError(
            f"a prompt of {row.dtype} and shape {row.shape}: expected a list of prompts, each (n,) whole numbers; "
            "[prompt] for one alone"
        )
    return torch.from_numpy(row.astype(np.int64))


def _ends(stop: int | Sequence[int] | None, device: torch.device) -> Tensor | None:
    if stop is None:
        return None
    return torch.as_tensor(stop, dtype=torch.int64, device=device).reshape(-1)


def _check_filters(top_k: int | None, top_p: float | None) -> None:
    if top_k is not None:
        check_whole(top_k=top_k)
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p={top_p!r}: expected a probability in 0 < p ≤ 1")
