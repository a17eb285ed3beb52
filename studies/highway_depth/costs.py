"""What one gradient costs by number of sweeps: peak memory in a process of its own, and processor time in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from studies.highway_depth.networks import ConvNet, ResidualNet, Transformer
from studies.highway_depth.training import NETWORKS
from studies.kit.timing import interleaved, peak_memory, threads

SYMBOLS = 64  # of the transformer


def measured(
    networks: Sequence[str], iterations: Sequence[int], *, depth: int, width: int, batch: int, rounds: int
) -> list[dict[str, Any]]:
    """One row a network and number of sweeps (None: backpropagation): bytes at the peak beyond weights and inputs,
    milliseconds of the processor for a forward and a backward pass, both over backpropagation's; bytes of a state."""
    rows = []
    for network in networks:
        arms = [None, *iterations]
        net, inputs, weight = _made(network, depth, width, batch)
        calls = {k: partial(_gradient, net, inputs, weight, k) for k in arms}
        with threads(1):
            times = interleaved(calls, rounds=rounds, clock=time.process_time)
        seconds = {k: float(np.median(values)) for k, values in times.items()}
        peaks = {k: peak_memory("studies.highway_depth.costs:step", network, depth, width, batch, k) for k in arms}
        state = 4 * net.by_member(net.stem(inputs)).numel()
        rows += [
            {
                "network": network,
                "k": k,
                "milliseconds": 1e3 * seconds[k],
                "bytes": peaks[k],
                "time": seconds[k] / seconds[None],
                "memory": peaks[k] / peaks[None],
                "states": (peaks[k] - peaks[None]) / (depth * state),
                "state": state,
            }
            for k in arms
        ]
    return rows


def step(network: str, depth: int, width: int, batch: int, iterations: int | None) -> Callable[[], Any]:
    """A step for `peak_memory`; one with a single sample is made before, so that what torch loads is not counted."""
    torch.set_num_threads(1)
    _gradient(*_made(network, 2, width, 1), iterations)
    return partial(_gradient, *_made(network, depth, width, batch), iterations)


def _made(network: str, depth: int, width: int, batch: int) -> tuple[ResidualNet, Tensor, Tensor]:
    """The network, its inputs, and the weights of the outputs' sum, which stands for a loss."""
    torch.manual_seed(0)
    if network == NETWORKS[2]:
        net: ResidualNet = Transformer(SYMBOLS, length=64, width=width, depth=depth)
        return net, torch.randint(0, SYMBOLS, (1, batch, 64)), torch.randn(1, batch, 64, SYMBOLS)
    net = ConvNet(network.split(", ")[1], width=width, depth=depth)
    return net, torch.randn(batch, 1, 16, 16), torch.randn(batch, 1, 16, 16)


def _gradient(net: ResidualNet, inputs: Tensor, weight: Tensor, iterations: int | None) -> None:
    net.zero_grad(set_to_none=True)
    (net(inputs, iterations=iterations) * weight).sum().backward()
