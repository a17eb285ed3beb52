"""Backward time of a GRU over many steps: torch's fused BPTT, a loop over a cell, and Highway-BP."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from sciops.training.gradients import highway_rnn
from studies.kit.timing import require_equal

if TYPE_CHECKING:
    from studies.highway_backprop import Config

FUSED, LOOP = "fused nn.GRU", "loop over GRUCell"


def contestants(rnn: nn.GRU, iterations: tuple[int, ...]) -> dict[str, Callable[[Tensor], Tensor]]:
    """Outputs (steps, batch, hidden) of the same GRU by name; all share its parameters."""

    def loop(x: Tensor) -> Tensor:
        h, outputs = x.new_zeros(x.shape[1], rnn.hidden_size), []
        weights = rnn.weight_ih_l0, rnn.weight_hh_l0, rnn.bias_ih_l0, rnn.bias_hh_l0
        for step in x:
            h = torch.gru_cell(step, h, *weights)
            outputs.append(h)
        return torch.stack(outputs)

    found = {FUSED: lambda x: rnn(x)[0], LOOP: loop}
    return found | {f"k = {k}": lambda x, k=k: highway_rnn(rnn, x, iterations=k)[0] for k in iterations}


def check_equal(hidden: int) -> float:
    """The largest relative difference of gradients between the loop, the fused module and Highway-BP with k = T − 1."""
    steps = 24
    torch.manual_seed(0)
    rnn, x = nn.GRU(hidden, hidden).double(), torch.randn(steps, 4, hidden, dtype=torch.float64)
    weight = torch.randn(steps, 4, hidden, dtype=torch.float64)
    runs = {
        name: torch.cat([g.flatten() for g in torch.autograd.grad((run(x) * weight).sum(), list(rnn.parameters()))])
        for name, run in contestants(rnn, (steps - 1,)).items()
    }
    return max(require_equal(name, value, runs[FUSED], 1e-12) for name, value in runs.items())


def timed(config: Config) -> list[dict[str, Any]]:
    """One row a length and contestant: median milliseconds of forward and backward passes, taken in turns."""
    rows = []
    for steps in tqdm(config.lengths, desc="GRU", unit="length", disable=None, leave=False):
        torch.manual_seed(0)
        rnn = nn.GRU(config.hidden, config.hidden)
        x = torch.randn(steps, config.sequences, config.hidden)
        weight = torch.randn(steps, config.sequences, config.hidden) / steps
        calls = contestants(rnn, config.recurrent_iterations)
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
        gradients = {}
        gc.disable()
        try:
            for number in range(config.rounds + 1):
                for name in list(calls) if number % 2 else list(reversed(calls)):
                    rnn.zero_grad(set_to_none=True)
                    start = time.perf_counter()
                    loss = (calls[name](x) * weight).sum()
                    middle = time.perf_counter()
                    loss.backward()
                    end = time.perf_counter()
                    del loss
                    gradients[name] = torch.cat([p.grad.flatten() for p in rnn.parameters()])
                    if number:  # the first round warms up
                        seconds[name].append((middle - start, end - middle))
                gc.collect()
        finally:
            gc.enable()
        for name, values in seconds.items():
            forward, backward = np.median(np.array(values), axis=0)
            cosine = torch.nn.functional.cosine_similarity(gradients[name].double(), gradients[FUSED].double(), dim=0)
            rows.append(
                {
                    "steps": steps,
                    "how": name,
                    "forward": 1e3 * float(forward),
                    "backward": 1e3 * float(backward),
                    "total": 1e3 * float(np.median(np.sum(values, axis=1))),
                    "cosine": float(cosine),
                }
            )
    return rows
