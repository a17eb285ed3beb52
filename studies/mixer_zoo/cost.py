"""What the mixers of the zoo cost: time and memory of a training step, time and cache of a decoded token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.models.sequences.stack import SequenceStack
from studies.kit.mixers.arms import arm_of
from studies.kit.timing import interleaved, peak_memory, threads
from studies.mixer_zoo.cells import LOCAL


def costs(
    arms: Sequence[str],
    *,
    width: int,
    depth: int,
    length: int,
    batch: int,
    contexts: Sequence[int],
    rounds: int,
    workers: int,
) -> list[dict[str, Any]]:
    """One row an arm, of causal stacks in float32 on one thread.

    step : seconds of a training step (forward, backward) on `batch` sequences of `length` tokens, median of `rounds`;
        memory : bytes at its peak beyond weights and input, of a process of its own
    decode : {context: seconds of one token of one sequence after as many}; cache : {context: numbers kept after as many
        tokens, over layers and channels}
    """
    with threads(1):
        steps = interleaved(
            {name: training_step(name, width, depth, length, batch) for name in arms}, rounds=rounds, warmup=1
        )
        decoding, caches = {}, {}
        for context in contexts:
            calls = {}
            for name in arms:
                calls[name], caches[name, context] = decoder(name, width, depth, context, tokens=8)
            taken = interleaved(calls, rounds=rounds, warmup=1)
            decoding |= {(name, context): float(np.median(seconds)) / 8 for name, seconds in taken.items()}
    with ThreadPoolExecutor(workers) as pool:
        memory = list(
            pool.map(lambda name: peak_memory(f"{__name__}:training_step", name, width, depth, length, batch), arms)
        )
    return [
        {
            "arm": name,
            "step": float(np.median(steps[name])),
            "memory": peak,
            "decode": {str(n): decoding[name, n] for n in contexts},
            "cache": {str(n): caches[name, n] for n in contexts},
        }
        for name, peak in zip(arms, memory)
    ]


def training_step(name: str, width: int, depth: int, length: int, batch: int) -> Callable[[], Any]:
    torch.set_num_threads(1)
    stack = _stack(name, width, depth)

    def step(x: Tensor) -> None:
        stack(x).square().mean().backward()
        stack.zero_grad(set_to_none=True)

    step(_tokens(1, 16, width))  # what libraries take at their first call is no part of a step
    return partial(step, _tokens(batch, length, width))


def decoder(name: str, width: int, depth: int, context: int, *, tokens: int) -> tuple[Callable[[], Tensor], float]:
    """(a call that decodes `tokens` tokens, numbers kept of a context over layers and channels).

    The first call continues the context, the next the first: a copy of the states at every call would weigh
    on those that grow with the context, as would their growing itself, which is left to the first. Returns the last y.
    """
    stack, x = _stack(name, width, depth).eval(), _tokens(1, context + tokens, width)
    with torch.no_grad():
        _, states = stack.prefill(x[:, :context])
    kept = sum(_numbers(state.mixer) for state in states) / (depth * width)

    def decode() -> Tensor:
        nonlocal states
        with torch.no_grad():
            for t in range(context, context + tokens):
                y, states = stack.step(x[:, t], states)
        return y

    return decode, kept


def _stack(name: str, width: int, depth: int) -> SequenceStack:
    arm = arm_of(name)
    torch.manual_seed(0)
    return SequenceStack(width, depth, mixer=arm.mixer, mixer_options=arm.tokens, causal=True, local=LOCAL)


def _tokens(batch: int, length: int, width: int) -> Tensor:
    return torch.randn(batch, length, width, generator=torch.Generator().manual_seed(0))


def _numbers(state: Any) -> int:
    """How many real numbers a state holds; counts and places are not counted."""
    if isinstance(state, Tensor):
        return state.numel() * (2 if state.is_complex() else int(state.is_floating_point()))
    return sum(map(_numbers, state)) if isinstance(state, (list, tuple)) else 0
