"""One encoder layer with each mixer: checked, and its time and peak memory over the length."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from sciops.mixers import SelfAttention, StateSpaceMixer
from sciops.mixers.sequence.self_attention import projected
from sciops.models.sequences.stack import SequenceBlock
from studies.kit import timing
from studies.kit.cells import kept
from studies.kit.study import picked
from studies.kit.timing import interleaved, peak_memory, require_equal, threads

if TYPE_CHECKING:
    from studies.long_sequences import Config

SSM, FUSED, WRITTEN = "state space", "attention, fused", "attention, written out"
MIXERS = (SSM, FUSED, WRITTEN)
MODES = ("forward", "training")


class WrittenOutAttention(SelfAttention):
    """`SelfAttention` without a mask, with its matrix of weights, (batch, heads, n, n), in memory."""

    def mix(self, x: Tensor, mask: Tensor | None, grid: Any) -> Tensor:
        q, k, v = (z.transpose(1, 2) for z in projected(self, x, None))
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return self._merged((weights @ v).transpose(1, 2))


def layer(name: str, channels: int, state: int, seed: int) -> SequenceBlock:
    """The encoder layer: the mixer and a gated MLP of twice the width, each with its norm and residual."""
    torch.manual_seed(seed)
    mixer = {
        SSM: lambda: StateSpaceMixer(channels, state=state),
        FUSED: lambda: SelfAttention(channels),
        WRITTEN: lambda: WrittenOutAttention(channels),
    }[name]()
    return SequenceBlock(channels, mixer, causal=False)


def step(name: str, mode: str, length: int, channels: int, state: int, seed: int) -> Callable[[], Any]:
    """A call of the layer on one sequence: forward without gradients, or forward and all gradients."""
    block = layer(name, channels, state, seed)
    generator = torch.Generator().manual_seed(seed)
    x, g = (torch.randn(1, length, channels, generator=generator) for _ in range(2))
    parameters = list(block.parameters())
    x.requires_grad_(mode == "training")

    def forward() -> Any:
        with torch.no_grad():
            return block(x)

    return forward if mode == "forward" else lambda: torch.autograd.grad(block(x), [x, *parameters], g)


def prepared(name: str, mode: str, length: int, channels: int, state: int, seed: int) -> Callable[[], Any]:
    """`step` after one on a few tokens, so that what a first call loads is not counted."""
    torch.set_num_threads(1)
    step(name, mode, 16, channels, state, seed)()
    return step(name, mode, length, channels, state, seed)


def checks(channels: int, state: int, seed: int, length: int = 200) -> dict[str, float]:
    """What is timed against what it should be, in float64: the written attention against the fused one, and the state
    space against products with its kernels' Toeplitz matrices. RuntimeError where they differ by more than 1e-11."""
    fused, written, ours = (layer(name, channels, state, seed).double().mixer for name in (FUSED, WRITTEN, SSM))
    x = torch.randn(2, length, channels, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    to, fro = ours.kernel(length, periodic=False, dtype=torch.float64)
    lag = torch.arange(length)[:, None] - torch.arange(length)
    matrix = torch.where(lag >= 0, to[:, lag.clamp(min=0)], 0.0) + torch.where(
        lag <= 0, fro[:, (-lag).clamp(min=0)], 0.0
    )
    y = torch.einsum("cij,bjc->bic", matrix, ours.key(x)) + ours.skip * ours.key(x)
    return {
        WRITTEN: require_equal(WRITTEN, written(x), fused(x), 1e-11),
        SSM: require_equal(SSM, ours(x), ours.out(ours.query(x) * y), 1e-11),
    }


def times(config: Config, folder: Any) -> list[dict[str, Any]]:
    """Rows {"length", "mode", "seconds": {mixer: median}, "all": {mixer: list}}, mixers taking turns at a length."""
    rows = []
    with threads(1):
        for length in config.lengths:
            for mode in MODES:
                names = [name for name in MIXERS if length <= limit(config, name)]
                spec = {"length": length, "mode": mode, "mixers": names, "rounds": rounds(config, length)}
                spec |= {"threads": 1, **picked(config, "channels state seed")}
                rows.append(kept(folder, f"time-{length}-{mode}", spec, lambda: _timed(config, **spec)))  # noqa: B023
    return rows


def _timed(config: Config, length: int, mode: str, mixers: list[str], rounds: int, **_: Any) -> dict[str, Any]:
    calls = {name: step(name, mode, length, config.channels, config.state, config.seed) for name in mixers}
    found = interleaved(calls, rounds=rounds)
    return {
        "length": length,
        "mode": mode,
        "seconds": {name: float(np.median(values)) for name, values in found.items()},
        "all": found,
    }


def memory(config: Config, folder: Any) -> list[dict[str, Any]]:
    """Rows {"length", "mode", "bytes": {mixer: peak beyond weights and input}}, each in a process of its own."""
    rows = []
    for length in config.memory_lengths:
        for mode in config.memory_modes:
            names = [name for name in MIXERS if length <= limit(config, name)]
            spec = {"length": length, "mode": mode, "mixers": names, **picked(config, "channels state seed")}

            def make(spec: dict[str, Any] = spec) -> dict[str, Any]:
                arguments = [spec[key] for key in ("mode", "length", "channels", "state", "seed")]
                found = {name: peak_memory(f"{__name__}:prepared", name, *arguments) for name in spec["mixers"]}
                return {"length": spec["length"], "mode": spec["mode"], "bytes": found}

            rows.append(kept(folder, f"memory-{length}-{mode}", spec, make))
    return rows


def limit(config: Config, name: str) -> float:
    """The longest sequence a mixer is given: written out, its matrices are to stay within `config.written_bytes`."""
    if name == FUSED:
        return config.fused_to
    # scores, weights and their gradients, of 4 heads in float32
    return (config.written_bytes / (4 * 4 * 4)) ** 0.5 if name == WRITTEN else float("inf")


def rounds(config: Config, length: int) -> int:
    """Fewer where a round takes seconds."""
    return max(1, min(config.rounds, round(config.rounds * 2**14 / length)))


def crossover(rows: list[dict[str, Any]], mode: str) -> float | None:
    """The length from which on the state space takes less time than fused attention, at least the shortest that was
    measured; None where it never does."""
    both = [row for row in rows if row["mode"] == mode and FUSED in row["seconds"]]
    lengths = [row["length"] for row in both]
    found = timing.crossover(lengths, *([row["seconds"][name] for row in both] for name in (SSM, FUSED)))
    return max(found, float(lengths[0])) if np.isfinite(found) else None
