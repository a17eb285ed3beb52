"""What a training step of an encoder–decoder costs by the length of its source: time and peak memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from studies.gap_sentences.data import Pair
from studies.gap_sentences.training import Sizes, model_of, token_loss
from studies.kit.timing import interleaved, peak_memory, ratio, threads


def costs(
    encoders: Sequence[str], lengths: Sequence[int], sizes: Sizes, *, symbols: int, rounds: int
) -> list[dict[str, Any]]:
    """One row a length: seconds and peak bytes of forward and backward with one thread and one source of that length by
    encoder, and, with two, the ratio of the second's to the first's."""
    rows = []
    for length in lengths:
        with threads(1):
            steps = {name: step_of(name, length, vars(sizes), symbols) for name in encoders}
            times = interleaved(steps, rounds=rounds)
        row: dict[str, Any] = {
            "length": length,
            "seconds": {name: float(np.median(times[name])) for name in encoders},
            "bytes": {
                name: peak_memory("studies.gap_sentences.cost:step_of", name, length, vars(sizes), symbols)
                for name in encoders
            },
        }
        if len(encoders) == 2:
            row["time ratio"] = ratio(times[encoders[1]], times[encoders[0]])
        rows.append(row)
    return rows


def step_of(encoder: str, length: int, sizes: dict[str, Any], symbols: int) -> Callable[[], Any]:
    """Forward and backward of one source of `length` tokens and one target."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    given = Sizes(**sizes)
    model = model_of(symbols, symbols - 2, 0, encoder, given)
    random = np.random.default_rng(0)

    def step(pair: Pair) -> None:
        loss, count = token_loss(model, [pair], "cpu")
        (loss / count).backward()
        model.zero_grad(set_to_none=True)

    def pair(*sizes: int) -> Pair:
        return tuple(random.integers(1, symbols - 2, size=n) for n in sizes)

    step(pair(8, 8))  # what libraries take at their first call is no part of a step
    return partial(step, pair(length, given.target_length))
