"""Time and memory of one layer by length: the polynomial mixer beside softmax attention, fused and not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from sciops.mixers import PolynomialMixer, SelfAttention
from studies.kit import timing
from studies.kit.tables import grouped
from studies.kit.timing import exponent, interleaved, peak_memory, require_equal, threads

LAYERS = ("V1", "V2", "attention", "unfused attention")
LONGEST_SLOPES = 3  # lengths, the longest, that a slope is fitted to
LINEAR = (0.85, 1.15)  # slopes that count as linear


class Unfused(nn.Module):
    """Softmax attention with the parameters of a `SelfAttention`, its matrix of scores written out."""

    def __init__(self, attention: SelfAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.attention.qkv(x).unflatten(-1, (3, self.attention.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if self.attention.causal:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(later, -torch.inf)
        return self.attention.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(-2))


def layer(name: str, width: int, heads: int, causal: bool) -> nn.Module:
    """The layer of a name in `LAYERS`, degree and expansion 2, weights from seed 0."""
    torch.manual_seed(0)
    if name in ("V1", "V2"):
        return PolynomialMixer(width, variant="branch" if name == "V1" else "coefficients", causal=causal)
    attention = SelfAttention(width, heads=heads, causal=causal)
    return attention if name == "attention" else Unfused(attention)


def break_even(name: str, width: int, causal: bool) -> float:
    """Length above which a layer of degree and expansion 2 takes fewer products than attention, 4d² + 2nd a token, or,
    of causal fused attention, which leaves out the later half, 4d² + nd."""
    return width * (3 * (4 if name == "V1" else 2) - 4) / (1 if causal else 2)


def check_layers(width: int, heads: int, causal: bool) -> None:
    """RuntimeError where a layer that is timed is not its formula, or the two forms of attention differ."""
    x = torch.randn(1, 600, width, generator=torch.Generator().manual_seed(1))
    for name in ("V1", "V2"):
        mixer = layer(name, width, heads, causal)
        mixer.chunk = 256  # several segments, as in the layers that are timed
        f = mixer.polynomial.combined(mixer.polynomial.powers(x))
        h = f.cumsum(1) / torch.arange(1, 601)[:, None] if causal else f.mean(1, keepdim=True)
        require_equal(name, mixer(x), mixer.out(torch.sigmoid(mixer.to_gate(x)) * h), 1e-4)
    fused, unfused = (layer(name, width, heads, causal)(x) for name in ("attention", "unfused attention"))
    require_equal("unfused attention", unfused, fused, 1e-4)


def both_ways(module: nn.Module, x: Tensor, g: Tensor) -> None:
    torch.autograd.grad(module(x), [x, *module.parameters()], g)


def forward_only(module: nn.Module, x: Tensor) -> None:
    with torch.no_grad():
        module(x)


def times(
    lengths: Sequence[int], most: Mapping[str, int], *, width: int, heads: int, causal: bool, rounds: int
) -> list[dict[str, Any]]:
    """One row a layer and length: seconds of a forward pass, and of a forward and backward pass, batch 1, one thread.

    most : the longest length of a layer
    """
    rows = []
    with threads(1):
        for n in tqdm(lengths, unit="length", desc="time" + (", causal" if causal else "")):
            generator = torch.Generator().manual_seed(n)
            x = torch.randn(1, n, width, generator=generator).requires_grad_()
            g = torch.randn(1, n, width, generator=generator)
            here = [name for name in LAYERS if n <= most[name]]
            layers = {name: layer(name, width, heads, causal) for name in here}
            calls: dict[str, Callable[[], Any]] = {}
            for name, module in layers.items():
                calls[f"{name} forward"] = partial(forward_only, module, x)
                calls[f"{name} both"] = partial(both_ways, module, x, g)
            seconds = interleaved(calls, rounds=rounds)
            for name in here:
                row = {"layer": name, "causal": causal, "n": n}
                for way in ("forward", "both"):
                    values = seconds[f"{name} {way}"]
                    row |= {way: float(np.median(values)), f"{way}_all": values}
                rows.append(row)
    return rows


def slopes(rows: Sequence[Mapping[str, Any]], key: str) -> dict[str, float]:
    """Exponent p of row[key] ~ n^p over the longest lengths, by layer."""
    found = {}
    for name, own in grouped(rows, "layer").items():
        found[name] = exponent(*zip(*sorted((row["n"], row[key]) for row in own)[-LONGEST_SLOPES:]))
    return found


def crossover(rows: Sequence[Mapping[str, Any]], name: str, key: str, other: str = "attention") -> float:
    """Length from which `name` stays faster than `other`, of those of both; see `studies.kit.timing.crossover`."""
    by_length: dict[int, dict[str, float]] = {}
    for row in rows:
        by_length.setdefault(row["n"], {})[row["layer"]] = row[key]
    common = sorted(n for n, both in by_length.items() if {name, other} <= both.keys())
    return timing.crossover(common, *([by_length[n][one] for n in common] for one in (name, other)))


def one_pass(name: str, n: int, width: int, heads: int, causal: bool) -> Callable[[], None]:
    """What `memory` measures: one forward and backward pass, weights and inputs made beforehand."""
    torch.set_num_threads(1)
    module = layer(name, width, heads, causal)

    def tensors(length: int) -> tuple[Tensor, Tensor]:
        return torch.randn(1, length, width).requires_grad_(), torch.randn(1, length, width)

    both_ways(module, *tensors(64))  # what libraries take at their first call is no part of it
    x, g = tensors(n)
    return lambda: both_ways(module, x, g)


def memory(
    lengths: Sequence[int], most: Mapping[str, int], *, width: int, heads: int, causal: bool
) -> list[dict[str, Any]]:
    """One row a layer and length: peak bytes of one training pass beyond input and weights, in a process each."""
    cases = [(name, n) for n in lengths for name in LAYERS if n <= most[name]]
    function = "studies.polynomial_mixer.cost:one_pass"
    bar = tqdm(cases, unit="process", desc="memory" + (", causal" if causal else ""))
    return [
        {"layer": name, "causal": causal, "n": n, "bytes": peak_memory(function, name, n, width, heads, causal)}
        for name, n in bar
    ]
