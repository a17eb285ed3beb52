"""`WindowAttention`: multi-head attention inside windows of the grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.mixers._small_attention import small_attention
from sciops.mixers._windows import Tiling, tiling

_SMALL = 9  # tokens per window up to which the kernel across windows beats the fused one on CPUs


class WindowAttention(nn.Module):
    """y = W_o · softmax(q kᵀ/√d) v + b_o inside every window, with (q, k, v) = W_qkv · LayerNorm(x).

    x : (batch, *grid, channels), any number of axes and any sizes → same

    channels : a multiple of `heads`
    window : cells per axis of a window; one that is larger than the grid holds the whole grid
    stride : distance between neighbouring windows, `window` unless given; a smaller one makes windows overlap, and a
        cell gets the mean of the windows that hold it. Every cell is in at least one window: where the sizes do not
        fit, the last window reaches beyond the grid and the cells missing there are masked.
    norm : whether LayerNorm over the channels comes first, as in MANO (arXiv:2507.02748)

    W_qkv has no bias. There is no positional term: positions enter as channels of x. Windows count cells, so on a finer
    grid they are physically smaller. `grid` is accepted and not used.

    Windows of at most nine cells have derivatives of every order on CPUs. Larger ones use torch's fused kernel, whose
    second derivative exists only under ``torch.nn.attention.sdpa_kernel(SDPBackend.MATH)``.

    Raises ValueError when heads do not divide channels, or stride is not in 1 … window.
    """

    def __init__(
        self, channels: int, *, heads: int = 4, window: int = 8, stride: int | None = None, norm: bool = True
    ) -> None:
        super().__init__()
        stride = window if stride is None else stride
        if heads < 1 or channels % heads:
            raise ValueError(f"heads={heads} do not divide channels={channels}: pass heads with channels % heads == 0")
        if window < 1 or not 1 <= stride <= window:
            raise ValueError(
                f"window={window}, stride={stride}: expected 1 ≤ stride ≤ window, or some cells are missed"
            )
        self.channels, self.heads, self.window, self.stride = channels, heads, window, stride
        self.norm = nn.LayerNorm(channels) if norm else nn.Identity()
        self.qkv = nn.Linear(channels, 3 * channels, bias=False)
        self.out = nn.Linear(channels, channels)

    def forward(self, x: Tensor, grid: Any = None) -> Tensor:
        return self.attend([self.check(x)])[0]

    def check(self, x: Tensor) -> Tensor:
        """x, or ValueError when it is not (batch, *grid, channels)."""
        if x.ndim < 3 or x.shape[-1] != self.channels:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected (batch, *grid, {self.channels} channels)")
        return x

    def attend(self, fields: Sequence[Tensor]) -> list[Tensor]:
        """The same attention on several fields (batch, *grid, channels), each on its own grid.

        Windows of equal size go through one call, whatever field they come from.
        """
        tilings = [tiling(tuple(x.shape[1:-1]), self.window, self.stride) for x in fields]
        results: list[Tensor] = [None] * len(fields)
        for tokens in dict.fromkeys(t.tokens for t in tilings):
            members = [i for i, t in enumerate(tilings) if t.tokens == tokens]
            small = tokens <= _SMALL and fields[0].device.type == "cpu"
            cut = [tilings[i].cut(fields[i], small) for i in members]
            joined = cut[0] if len(cut) == 1 else torch.cat(cut, 1 if small else 0)
            mask = _joint_mask([tilings[i] for i in members], cut, small)
            y = self._across(joined, mask) if small else self._fused(joined, mask)
            pieces = y.split([c.shape[1 if small else 0] for c in cut], 1 if small else 0)
            for i, piece in zip(members, pieces):
                results[i] = tilings[i].join(piece, small)
        return results

    def _across(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Attention of (tokens, windows, channels) by the kernel that runs across windows."""
        tokens, windows, channels = x.shape
        flat = self.norm(x).reshape(-1, channels)
        # channel-major products on both sides: the kernel's layout without a transposing copy
        qkv = torch.mm(self.qkv.weight, flat.t())
        y = small_attention(qkv.reshape(3, self.heads, channels // self.heads, tokens, windows), mask)
        return self.out(y.reshape(channels, -1).t()).reshape(x.shape)

    def _fused(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Attention of (windows, tokens, channels) by torch's fused kernel."""
        windows, tokens, channels = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(windows, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if mask is not None:
            mask = mask[:, None, None, :].to(q.dtype)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(x.shape))

    def extra_repr(self) -> str:
        return f"{self.channels}, heads={self.heads}, window={self.window}, stride={self.stride}"


def _joint_mask(tilings: list[Tiling], cut: list[Tensor], token_first: bool) -> Tensor | None:
    masks = [t.mask(token_first, torch.float32, c.device) for t, c in zip(tilings, cut)]
    if all(m is None for m in masks):
        return None
    axis = 1 if token_first else 0
    whole = []
    for mask, c in zip(masks, cut):
        if mask is None:
            whole.append(torch.zeros(c.shape[:2], device=c.device))
        else:
            repeats = c.shape[axis] // mask.shape[axis]
            whole.append(mask.repeat((1, repeats) if token_first else (repeats, 1)))
    return torch.cat(whole, axis)
