"""`SelfAttention`: softmax attention along a sequence, whole or in a window, causal or not."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.mixers.bounds import softmax_attention
from sciops.mixers.checks import check_choice, check_heads
from sciops.mixers.padding import padded
from sciops.mixers.sequence.base import SequenceMixer, lengths_of, put, tail
from sciops.mixers.softmax_attention import LARGEST_BATCH, attended

Positions = Literal["none", "rope", "alibi"]


class AttentionState(NamedTuple):
    """keys, values : (batch, capacity, heads, d), the first `count` entries of every sequence written; with a window
    (batch, window − 1, heads, d), the last ones. count : (batch,). longest : largest count."""

    keys: Tensor
    values: Tensor
    count: Tensor
    longest: int


class SelfAttention(SequenceMixer):
    """Softmax attention along a sequence, over all tokens or in a window, bidirectional or causal.

    y_i = W_o Σ_j softmax_j(q_i·k_j/√d + b_{ij}) v_j over the tokens j that i may read; x : (batch, n, channels) → same.

    Parameters
    ----------
    channels : int
        Number of channels, a multiple of `heads`; d = channels / heads.
    heads : int
        Number of heads.
    causal : bool
        j ≤ i.
    window : int, optional
        Also |i − j| < window: O(n·window) time and memory, and a state of window − 1 tokens.
    positions : {"none", "rope", "alibi"}
        "rope": queries and keys are rotated by angles proportional to their position. "alibi": b_{ij} = −m_h·|i − j|
        with slopes m_h = 2^{−8(h+1)/heads}.

    Raises
    ------
    ValueError
        When heads do not divide channels, for an odd d with "rope", and for a window below 1.

    Notes
    -----
    There is no LayerNorm inside. Torch's fused kernel is used where it applies; its second derivative exists only under
    ``torch.nn.attention.sdpa_kernel(SDPBackend.MATH)``.

    References
    ----------
    Attention, arXiv:1706.03762; rotary positions, arXiv:2104.09864; ALiBi, arXiv:2108.12409.
    """

    def __init__(
        self,
        channels: int,
        *,
        heads: int = 4,
        causal: bool = False,
        window: int | None = None,
        positions: Positions = "none",
    ) -> None:
        super().__init__(channels, causal=causal)
        check_positions(channels, heads, positions)
        if window is not None and window < 1:
            raise ValueError(f"window={window}: expected at least 1 token")
        self.heads, self.window, self.positions = heads, window, positions
        self.qkv = nn.Linear(channels, 3 * channels, bias=False)
        self.out = nn.Linear(channels, channels)
        if positions == "alibi":
            self.register_buffer("slopes", alibi_slopes(heads), persistent=False)

    def mix(self, x: Tensor, mask: Tensor | None, grid: Any) -> Tensor:
        return self._merged(self._attended(*projected(self, x, None), mask))

    def extend(self, x: Tensor, state: AttentionState | None, mask: Tensor | None) -> tuple[Tensor, AttentionState]:
        n, lengths = x.shape[1], lengths_of(x, mask)
        count = torch.zeros_like(lengths) if state is None else state.count
        q, k, v = projected(self, x, count)
        seen = 0 if state is None else state.longest
        if self.window is None:
            old = (None, None) if state is None else (state.keys, state.values)
            keys, values = (put(before, new, count, seen) for before, new in zip(old, (k, v)))
        else:
            empty = k.new_zeros(x.shape[0], self.window - 1, *k.shape[2:])
            old = (empty, empty) if state is None else (state.keys, state.values)
            keys, values = (tail(before, new, lengths) for before, new in zip(old, (k, v)))
        if state is None:
            y = self._attended(q, k, v, mask)
        elif self.window is None:
            at, of_keys = count[:, None] + _places(x, n), _places(x, seen + n).expand(x.shape[0], -1)
            k, v = (z[:, : seen + n].to(q.dtype) for z in (keys, values))
            y = _attend(q, k, v, self._bias(at, of_keys, q.dtype, None))
        else:
            y = self._attended_after(q, k, v, old, count)
        return self._merged(y), AttentionState(keys, values, count + lengths, seen + n)

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """What the heads give for whole sequences, (batch, n, heads, d)."""
        if self.window is not None and self.window < q.shape[1]:
            return self._in_blocks(q, k, v, mask)
        if self.positions == "alibi":
            at = _places(q, q.shape[1])
            return _attend(q, k, v, self._bias(at, at, q.dtype, mask))
        if mask is None or self.causal:  # padding at the end is after every token, which do not see it
            return _attend(q, k, v, causal=self.causal)
        return _attend(q, k, v, _where_seen(mask[:, None, None, :], q.new_zeros(())))

    def _attended_after(self, q: Tensor, k: Tensor, v: Tensor, old: tuple[Tensor, Tensor], count: Tensor) -> Tensor:
        """The same after `count` tokens, of which `old` are the last window − 1 keys and values."""
        before = self.window - 1
        k, v = (torch.cat(parts, dim=1).to(q.dtype) for parts in zip(old, (k, v)))
        of_keys = count[:, None] - before + _places(k, k.shape[1])
        if q.shape[1] <= self.window:
            return _attend(q, k, v, self._bias(of_keys[:, before:], of_keys, q.dtype, None))
        q = padded(q, (0, 0, 0, 0, before, 0))
        return self._in_blocks(q, k, v, of_keys >= 0)[:, before:]

    def _merged(self, y: Tensor) -> Tensor:
        return self.out(y.flatten(-2))

    def _bias(self, at: Tensor, of_keys: Tensor, dtype: torch.dtype, mask: Tensor | None) -> Tensor:
        """What is added to the scores of queries at `at` (…, n) with keys at `of_keys` (…, m): (…, heads or 1, n, m).

        Keys at positions below 0 do not exist. mask : (batch, m), keys that are tokens
        """
        apart = at[..., :, None] - of_keys[..., None, :]
        seen = (of_keys >= 0)[..., None, :].expand(apart.shape)
        if self.causal:
            seen = seen & (apart >= 0)
        if self.window is not None:
            seen = seen & (apart.abs() < self.window)
        if mask is not None:
            seen = seen & mask[..., None, :]
        seen, apart = seen.unsqueeze(-3), apart.unsqueeze(-3)
        if self.positions == "alibi":
            return _where_seen(seen, -self.slopes.to(dtype) * apart.abs().to(dtype))
        return _where_seen(seen, torch.zeros((), dtype=dtype, device=at.device))

    def _in_blocks(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """Blocks of `window` tokens, each with the keys of itself and its neighbours."""
        batch, n, w = q.shape[0], q.shape[1], self.window
        blocks = -(-n // w)
        q, k, v = (padded(z, (0, 0, 0, 0, 0, blocks * w - n)).unflatten(1, (blocks, w)) for z in (q, k, v))
        shifts = (1, 0) if self.causal else (1, 0, -1)
        k, v = (torch.cat([_shifted(z, s) for s in shifts], dim=2) for z in (k, v))
        at = torch.arange(blocks * w, device=q.device).view(blocks, w)
        of_keys = torch.cat([at - s * w for s in shifts], dim=1)
        there = of_keys < n
        if mask is not None:
            there = there & padded(mask, (0, blocks * w - n))[:, of_keys.clamp(0, blocks * w - 1)]
        bias = self._bias(at, of_keys, q.dtype, there).expand(batch, -1, -1, -1, -1)
        # the fused kernels take one batch axis
        windows = (z.flatten(0, 1).split(LARGEST_BATCH) for z in (q, k, v, bias))
        y = torch.cat([_attend(*part) for part in zip(*windows)])
        return y.unflatten(0, (batch, blocks)).flatten(1, 2)[:, :n]

    def lipschitz_rule(self, setting: Any) -> tuple[Tensor, str]:
        if self.causal or self.window is not None or self.positions != "none":
            setting.refuse("SelfAttention: a rule exists for whole, bidirectional attention without positions")
        value = softmax_attention(self, setting, setting.grid.size, setting.radius)
        return value, f"tokens of norm ≤ {setting.shown(setting.radius)}, {setting.grid.size} of them"

    def extra_repr(self) -> str:
        window = "" if self.window is None else f", window={self.window}"
        return f"{self.channels}, heads={self.heads}, causal={self.causal}{window}, positions={self.positions!r}"


def projected(mixer: Any, x: Tensor, first: Tensor | None, dtype: torch.dtype | None = None) -> list[Tensor]:
    """q, k, v (batch, n, heads, d) of a mixer with a map `qkv`, with "rope" at the positions first … first + n − 1."""
    q, k, v = mixer.qkv(x).to(dtype).unflatten(-1, (3, mixer.heads, -1)).unbind(2)
    if mixer.positions == "rope":
        at = _places(x, x.shape[1])
        at = at if first is None else at + first[:, None]
        q, k = rotated(q, at), rotated(k, at)
    return [q, k, v]


def rotated(x: Tensor, at: Tensor, base: float = 10_000.0) -> Tensor:
    """x (batch, n, heads, d) with channels c and c + d/2 turned by the angle at·base^{−2c/d}; at (n,) or (batch, n)."""
    half = x.shape[-1] // 2
    rates = base ** (-torch.arange(half, device=x.device, dtype=torch.float64) / half)
    angles = (at.to(torch.float64)[..., None] * rates).unsqueeze(-2)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def alibi_slopes(heads: int) -> Tensor:
    """(heads, 1, 1) m_h = 2^{−8(h+1)/heads} (arXiv:2108.12409)."""
    return (2.0 ** (-8 * torch.arange(1, heads + 1) / heads)).view(heads, 1, 1)


def check_positions(channels: int, heads: int, positions: str) -> None:
    """Raises ValueError when heads do not divide channels, for unknown positions, and for an odd d with "rope"."""
    check_heads(channels, heads)
    check_choice("positions", positions, Positions)
    if positions == "rope" and (channels // heads) % 2:
        raise ValueError(f"positions='rope' turns pairs of channels: {channels // heads} a head is odd")


def _places(x: Tensor, n: int) -> Tensor:
    return torch.arange(n, device=x.device)


def _where_seen(seen: Tensor, bias: Tensor) -> Tensor:
    # −∞ in all of a row, that of a padded query, would be 0/0
    return torch.where(seen, bias, torch.finfo(bias.dtype).min)


def _attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, causal: bool = False) -> Tensor:
    """Attention of q, k, v (…, n, heads, d)."""
    q, k, v = (z.transpose(-2, -3) for z in (q, k, v))
    return attended(q, k, v, bias=bias, causal=causal).transpose(-2, -3)


def _shifted(blocks: Tensor, by: int) -> Tensor:
    """Block b − by in the place of block b, zeros where there is none; (batch, blocks, …)."""
    if by == 0:
        return blocks
    return F.pad(blocks, (0, 0, 0, 0, 0, 0, max(by, 0), max(-by, 0)))[:, max(-by, 0) : blocks.shape[1] + max(-by, 0)]
