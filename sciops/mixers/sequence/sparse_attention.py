"""`SparseAttention`: softmax attention to a window of tokens and to the means of all blocks, as in LongT5."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.arrays.compiling import symbolic
from sciops.mixers.bounds import SCORES
from sciops.mixers.checks import check_choice
from sciops.mixers.padding import padded
from sciops.mixers.precision import working_dtype
from sciops.mixers.sequence.base import SequenceMixer
from sciops.mixers.sequence.self_attention import check_positions, projected, rotated
from sciops.mixers.softmax_attention import LARGEST_BATCH, attended

# keys that are copied at a time, in numbers; small enough for the cache of a CPU, large enough to fill a GPU
_AT_ONCE = {"cpu": 2**20, "cuda": 2**25}


class SparseAttention(SequenceMixer):
    """Local and global softmax attention: every token reads a window of tokens and the means of all blocks.

    y_i = W_o Σ_{j ∈ N(i) ∪ G} softmax_j(q_i·k_j/√d) v_j; N(i) are the tokens with |i − j| < window, G the tokens
    g_s = RMSNorm(mean of the x_j of block s), with the same maps to keys and values. x : (batch, n, channels) → same,
    in O(n·(window + n/block)) time.

    Parameters
    ----------
    channels : int
        Number of channels, a multiple of `heads`; d = channels / heads.
    heads : int
        Number of heads.
    causal : False
        The means hold later tokens, so there is no causal form.
    window : int
        Tokens on each side that a token reads, itself included; 128 is LongT5's local radius of 127.
    block : int
        Tokens of a block; 16 as published. The last block may be shorter.
    positions : {"none", "rope"}
        "rope": queries and keys are rotated by angles proportional to their position, a mean's that of its tokens.
    recompute : bool
        Keeps the keys, values and weights of no window for the backward pass and computes them again there: memory
        O(n) instead of O(n·(window + n/block)), somewhat more time.

    Raises
    ------
    ValueError
        When heads do not divide channels, for an odd d with "rope", a window or block below 1, and causal=True.

    Notes
    -----
    LongT5 has relative-position biases in the place of "rope", and leaves what does not fill a block to the last one.
    In the backward pass the keys of neighbouring windows are copies of one another.

    References
    ----------
    Transient global attention, LongT5, arXiv:2112.07916; windows and global tokens, Longformer, arXiv:2004.05150.
    """

    lipschitz_rule = SCORES

    def __init__(
        self,
        channels: int,
        *,
        heads: int = 4,
        causal: bool = False,
        window: int = 128,
        block: int = 16,
        positions: Literal["none", "rope"] = "none",
        recompute: bool = False,
    ) -> None:
        if causal:
            raise ValueError("causal=True: means of blocks hold later tokens; use self_attention with a window")
        super().__init__(channels)
        check_choice("positions", positions, Literal["none", "rope"])
        check_positions(channels, heads, positions)
        if window < 1 or block < 1:
            raise ValueError(f"window={window}, block={block}: expected at least 1 token each")
        self.heads, self.window, self.block, self.positions = heads, window, block, positions
        self.recompute = recompute
        self.qkv = nn.Linear(channels, 3 * channels, bias=False)
        self.out = nn.Linear(channels, channels)
        self.summary = nn.Parameter(torch.ones(channels))

    def mix(self, x: Tensor, mask: Tensor | None, grid: Any) -> Tensor:
        n, w = x.shape[1], self.window
        q, k, v = projected(self, x, None)
        if not symbolic() and not x.numel():
            return self.out(v.flatten(-2))
        means = self._means(x, mask)
        blocks = -(-n // w)
        after = blocks * w - n
        q = padded(q, (0, 0, 0, 0, 0, after))
        # a window of zeros before the first block and after the last, so that every block has two neighbours
        k, v = (padded(z, (0, 0, 0, 0, w, w + after)) for z in (k, v))
        there = torch.arange(-w, (blocks + 1) * w, device=x.device)
        there = ((there >= 0) & (there < n)).unsqueeze(0)
        if mask is not None:
            there = there & padded(mask, (w, w + after), False)
        parts = []
        for first, last, inner in self._pieces(x, blocks, means[0].shape[1]):
            own, near = slice(first * w, last * w), slice(first * w, (last + 2) * w)
            exist = None if inner and mask is None else there[:, near]
            inputs = (q[:, own], k[:, near], v[:, near], exist, *means)
            parts.append(self._again(inputs) if self._recomputes() else self._in_windows(*inputs))
        y = torch.cat(parts, 1) if len(parts) > 1 else parts[0]
        return self.out(y[:, :n].flatten(-2))

    def _means(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """(keys, values (batch, s, heads, d), booleans (1 or batch, s)) of the blocks; False where one has no token."""
        n, b = x.shape[1], self.block
        count = -(-n // b)
        tokens = torch.arange(count * b, device=x.device).view(1, count, b) < n
        if mask is not None:
            tokens = padded(mask, (0, count * b - n), False).unflatten(1, (count, b))
        size = tokens.sum(-1).clamp(min=1)
        wide = padded(x, (0, 0, 0, count * b - n)).unflatten(1, (count, b)).to(working_dtype(x))
        mean = wide.sum(2) / size.unsqueeze(-1)
        mean = F.rms_norm(mean, mean.shape[-1:], self.summary.to(mean.dtype), 1e-6).to(x.dtype)
        _, k, v = self.qkv(mean).unflatten(-1, (3, self.heads, -1)).unbind(2)
        if self.positions == "rope":
            start = b * torch.arange(count, device=x.device, dtype=torch.float64)
            k = rotated(k, start + (size - 1).to(torch.float64) / 2)
        return k, v, tokens.any(-1)

    def _in_windows(
        self, q: Tensor, k: Tensor, v: Tensor, there: Tensor | None, of_means: Tensor, means: Tensor, some: Tensor
    ) -> Tensor:
        """What the heads give for m windows of queries (batch, m·w, heads, d), with the keys from a window before to a
        window after them, and the means; booleans there (None: all), some: which of them exist."""
        batch, w = q.shape[0], self.window
        m, s = q.shape[1] // w, of_means.shape[1]
        apart = torch.arange(w, device=q.device)[:, None] + w - torch.arange(3 * w, device=q.device)
        seen = (apart.abs() < w)[None, None]
        if there is not None:
            seen = seen & there.unfold(1, 3 * w, w)[:, :, None, :]
        rows = torch.broadcast_shapes(seen.shape[:1], some.shape[:1])
        seen = seen.expand(*rows, *seen.shape[1:])
        of_means_seen = some[:, None, None, :].expand(*rows, *seen.shape[1:3], s)
        bias = torch.where(torch.cat([seen, of_means_seen], -1), q.new_zeros(()), torch.finfo(q.dtype).min)
        bias = bias.unsqueeze(2)
        if bias.shape[:2] != (1, 1):
            bias = bias.expand(batch, m, -1, -1, -1)
        q = q.unflatten(1, (m, w)).flatten(0, 1).transpose(1, 2)
        k, v = (self._joined(*pair, m) for pair in ((k, of_means), (v, means)))
        y = self._attend(q, k, v, bias.flatten(0, 1))
        return y.transpose(1, 2).unflatten(0, (batch, m)).flatten(1, 2)

    def _joined(self, near: Tensor, of_means: Tensor, m: int) -> Tensor:
        """(batch·m, heads, 3w + s, d): the keys or values of every window beside those of the means."""
        blocks = near.unflatten(1, (m + 2, self.window))
        shared = of_means.unsqueeze(1).expand(-1, m, -1, -1, -1)
        return torch.cat([blocks[:, :-2], blocks[:, 1:-1], blocks[:, 2:], shared], 2).flatten(0, 1).transpose(1, 2)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        if symbolic() or q.shape[0] <= LARGEST_BATCH:
            return attended(q, k, v, bias=bias)
        bias = bias.expand(q.shape[0], -1, -1, -1)
        return torch.cat(
            [attended(*part[:3], bias=part[3]) for part in zip(*(z.split(LARGEST_BATCH) for z in (q, k, v, bias)))]
        )

    def _pieces(self, x: Tensor, blocks: int, means: int) -> Iterator[tuple[int, int, bool]]:
        """Windows (first, last) that are computed together, and whether all have both neighbours in full."""
        if symbolic():
            yield 0, blocks, False
            return
        each = x.shape[0] * (3 * self.window + means) * self.channels
        some = max(1, _AT_ONCE.get(x.device.type, _AT_ONCE["cuda"]) // each)
        if some >= blocks:
            yield 0, blocks, False
            return
        inner = max(1, x.shape[1] // self.window - 1)
        yield 0, 1, False
        for first in range(1, inner, some):
            yield first, min(first + some, inner), True
        yield inner, blocks, False

    def _recomputes(self) -> bool:
        # torch.func refuses the hooks of a checkpoint, and an exported program has no backward pass
        return self.recompute and torch.is_grad_enabled() and not symbolic()

    def _again(self, inputs: tuple[Tensor | None, ...]) -> Tensor:
        from torch.utils.checkpoint import checkpoint

        return checkpoint(self._in_windows, *inputs, use_reentrant=False, preserve_rng_state=False)

    def extra_repr(self) -> str:
        return (
            f"{self.channels}, heads={self.heads}, window={self.window}, block={self.block}, "
            f"positions={self.positions!r}"
        )
