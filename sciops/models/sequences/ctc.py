"""CTC decoding: scores of symbols at every time to a sequence of symbols, greedily or by prefix beam search."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

__all__ = ["beam_decode", "collapse", "greedy_decode"]


def collapse(path: Sequence[int], *, blank: int = 0) -> list[int]:
    """The labelling of a path: repeats are merged, then blanks removed (Graves et al. 2006).

    >>> collapse([0, 3, 3, 0, 3, 5, 5])
    [3, 3, 5]
    """
    return [k for i, k in enumerate(path) if k != blank and (i == 0 or path[i - 1] != k)]


def greedy_decode(logits: Tensor, lengths: Tensor | None = None, *, blank: int = 0) -> list[list[int]]:
    """The labelling of each sequence's best path, (batch, n, symbols) → lists of symbols."""
    best = logits.argmax(-1).tolist()
    counts = [logits.shape[1]] * len(best) if lengths is None else lengths.tolist()
    return [collapse(path[:count], blank=blank) for path, count in zip(best, counts)]


def beam_decode(
    logits: Tensor, lengths: Tensor | None = None, *, beam: int = 16, blank: int = 0, most: int = 1
) -> list[list[tuple[list[int], float]]]:
    """The `most` likeliest labellings of each sequence with their log probabilities, likeliest first.

    log P(l) = log Σ_{paths that collapse to l} Π_t p_t(path_t), summed over the paths that stay among the `beam`
    likeliest prefixes at every time (Hannun et al., arXiv:1408.2873): exact if the beam holds all prefixes, otherwise a
    lower bound. logits : (batch, n, symbols), before the softmax.

    Raises ValueError for a beam below `most` or 1.
    """
    if not 1 <= most <= beam:
        raise ValueError(f"beam={beam}, most={most}: expected 1 ≤ most ≤ beam")
    log_p = logits.detach().double().log_softmax(-1).cpu()
    counts = [log_p.shape[1]] * len(log_p) if lengths is None else lengths.tolist()
    return [_beam(one[:count].tolist(), beam, blank)[:most] for one, count in zip(log_p, counts)]


def _beam(log_p: list[list[float]], beam: int, blank: int) -> list[tuple[list[int], float]]:
    never = -math.inf
    # prefix → log probability of its paths that end with a blank, and of those that do not
    beams: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, never)}
    for scores in log_p:
        after: dict[tuple[int, ...], list[float]] = {}
        for prefix, (ended, open_) in beams.items():
            total = _add(ended, open_)
            stays = after.setdefault(prefix, [never, never])
            stays[0] = _add(stays[0], total + scores[blank])
            if prefix:
                stays[1] = _add(stays[1], open_ + scores[prefix[-1]])
            for k, score in enumerate(scores):
                if k == blank:
                    continue
                # a repeated symbol is a new one only after a blank
                grown = after.setdefault((*prefix, k), [never, never])
                grown[1] = _add(grown[1], (ended if prefix and prefix[-1] == k else total) + score)
        possible = [(prefix, of) for prefix, of in after.items() if max(of) > never]
        kept = sorted(possible, key=lambda item: -_add(*item[1]))[:beam]
        beams = {prefix: (of[0], of[1]) for prefix, of in kept}
    return [(list(prefix), _add(*of)) for prefix, of in sorted(beams.items(), key=lambda item: -_add(*item[1]))]


def _add(a: float, b: float) -> float:
    """log(eᵃ + eᵇ)."""
    if a < b:
        a, b = b, a
    return a if b == -math.inf else a + math.log1p(math.exp(b - a))
