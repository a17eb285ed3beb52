"""Bytes that live at once in a stack of encoder layers by the number of tokens: forward, training, recomputed training.

Sparse attention stands for the peers of LOCOST's paper, windows and global tokens: with the scores of all windows in
memory, as LongT5 computes them to add its biases, and by torch's fused kernel, which keeps none.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sciops.mixers import SelfAttention, SparseAttention, StateSpaceMixer
from sciops.models.sequences.stack import SequenceBlock
from studies.kit.cells import kept
from studies.kit.live_bytes import LiveBytes
from studies.kit.study import picked
from studies.kit.timing import threads

if TYPE_CHECKING:
    from studies.long_sequences import Config

SSM, FUSED = "state space", "attention, fused"
SPARSE, FEW, SCORES = "sparse", "sparse, 256 means", "sparse, scores kept"
ARMS = (SSM, FUSED, SPARSE, FEW, SCORES)
FORWARD, TRAINING, RECOMPUTED = "forward", "training", "training, recomputed"
MODES = (FORWARD, TRAINING, RECOMPUTED)
_QUADRATIC = ((SPARSE, TRAINING), (SCORES, TRAINING), (SCORES, FORWARD))  # arms that keep a number for every key
MEANS = 256  # of FEW, whatever the length


class SparseWithScores(SparseAttention):
    """`SparseAttention` with the weights of all windows in memory, (windows, heads, window, 3·window + n/block)."""

    def _pieces(self, x: Tensor, blocks: int, means: int) -> Any:
        yield 0, blocks, False

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        return (q @ k.mT / q.shape[-1] ** 0.5 + bias).softmax(-1) @ v


def mixer(name: str, length: int, channels: int, state: int, again: bool) -> Any:
    """The mixer of an arm; again: with its own recomputation, where it has an option for that."""
    return {
        SSM: lambda: StateSpaceMixer(channels, state=state),
        FUSED: lambda: SelfAttention(channels),
        SPARSE: lambda: SparseAttention(channels, recompute=again),
        FEW: lambda: SparseAttention(channels, block=max(1, length // MEANS), recompute=again),
        SCORES: lambda: SparseWithScores(channels),
    }[name]()


def step(
    name: str, mode: str, length: int, channels: int, state: int, depth: int, seed: int
) -> tuple[Any, list[Tensor]]:
    """A call of the stack on one sequence, and its inputs and weights; recomputed: every layer keeps its input alone
    for the backward pass."""
    torch.manual_seed(seed)
    made = (mixer(name, length, channels, state, mode == RECOMPUTED) for _ in range(depth))
    blocks = [SequenceBlock(channels, one, causal=False) for one in made]
    generator = torch.Generator().manual_seed(seed)
    x, g = (torch.randn(1, length, channels, generator=generator) for _ in range(2))
    x.requires_grad_(mode != FORWARD)
    parameters = [p for block in blocks for p in block.parameters()]

    def stacked() -> Tensor:
        h = x
        for block in blocks:
            h = checkpoint(block, h, use_reentrant=False) if mode == RECOMPUTED else block(h)
        return h

    def forward() -> Tensor:
        with torch.no_grad():
            return stacked()

    call = forward if mode == FORWARD else lambda: torch.autograd.grad(stacked(), [x, *parameters], g)
    return call, [x, g, *parameters]


def memory(config: Config, folder: Any) -> list[dict[str, Any]]:
    """Rows {"arm", "mode", "length", "bytes": peak of tensors beyond weights and input}."""
    rows = []
    longest = {FUSED: config.stack_fused_to, SPARSE: config.stack_sparse_to, SCORES: config.stack_scores_to}
    for name in config.stack_arms:
        for length in config.stack_lengths:
            for mode in MODES:
                if length > longest.get(name, float("inf")) or (name, mode) == (SCORES, RECOMPUTED):
                    continue
                spec = {"arm": name, "mode": mode, "length": length}
                spec |= picked(config, "channels state seed") | {"depth": config.stack_depth}
                how = [spec[key] for key in ("arm", "mode", "length", "channels", "state", "depth", "seed")]
                make = partial(_measured, how)
                rows.append({k: v for k, v in spec.items()} | kept(folder, f"stack-{name}-{length}-{mode}", spec, make))
    return rows


def _measured(how: list[Any]) -> dict[str, int]:
    call, given = step(*how)
    with threads(1), LiveBytes(*given) as live:
        call()
    return {"bytes": live.peak}


def table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows {"length", "mode", "bytes": {arm: …}, "extrapolated": [arms]} of every length and mode.

    Arms that were measured to a smaller length are continued by their law. Fused attention keeps arrays of
    (n, channels) alone, b = a·n from its longest sequence; a sparse one keeps n·(window + n/block) numbers besides,
    b = a·n + c·n² from its two longest, where it keeps them: in training, and in a forward pass with its scores.
    """
    found = []
    for length in sorted({row["length"] for row in rows}):
        for mode in MODES:
            line: dict[str, Any] = {"length": length, "mode": mode, "bytes": {}, "extrapolated": []}
            for name in ARMS:
                own = sorted((r["length"], r["bytes"]) for r in rows if (r["arm"], r["mode"]) == (name, mode))
                measured = dict(own)
                if length in measured:
                    line["bytes"][name] = measured[length]
                elif own and length > own[-1][0] and (name == FUSED or (len(own) > 1 and (name, mode) in _QUADRATIC)):
                    line["bytes"][name] = _continued(own, length, straight=name == FUSED)
                    line["extrapolated"].append(name)
            found.append(line)
    return found


def _continued(own: list[tuple[int, int]], length: int, straight: bool) -> float:
    n, high = own[-1]
    if straight:
        return high * length / n
    m, low = own[-2]
    square = (high / n - low / m) / (n - m)
    return length * (high / n + square * (length - n))


def ratios(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows {"length", "mode", "against", "ratio", "extrapolated"}: the memory of the state space over every other's."""
    return [
        {
            "length": line["length"],
            "mode": line["mode"],
            "against": name,
            "ratio": line["bytes"][SSM] / line["bytes"][name],
            "extrapolated": name in line["extrapolated"],
        }
        for line in lines
        for name in ARMS[1:]
        if SSM in line["bytes"] and line["bytes"].get(name)
    ]
