"""Windows on a grid: which cells each one holds, how cells move into windows and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from sciops.arrays.compiling import kept, uncompiled


@dataclass(frozen=True)
class Tiling:
    """Windows of `window` cells at multiples of `stride` on every axis, covering all `sizes` cells.

    A grid that fits into the window is one window of its own size, unless `whole`. Otherwise the last window may reach
    beyond the grid; the cells it finds there do not exist: they are zero, masked as keys, and cropped from the result.
    Where windows overlap, the results are averaged over the windows that hold the cell.
    """

    sizes: tuple[int, ...]
    window: int
    stride: int
    whole: bool = False

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Cells of one window, per axis."""
        return tuple(self.window if self.whole else min(n, self.window) for n in self.sizes)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Windows per axis."""
        return tuple(1 if n <= self.window else -(-(n - self.window) // self.stride) + 1 for n in self.sizes)

    @cached_property
    def padded(self) -> tuple[int, ...]:
        """Cells per axis up to the end of the last window."""
        return tuple((c - 1) * self.stride + w for c, w in zip(self.counts, self.shape))

    @property
    def tokens(self) -> int:
        """Cells of one window."""
        return math.prod(self.shape)

    @property
    def overlapping(self) -> bool:
        return self.stride < self.window and max(self.counts) > 1

    @property
    def copies(self) -> float:
        """√(most windows that hold a cell / fewest), the Lipschitz constant of `cut` and then `join`."""
        if not self.overlapping:
            return 1.0
        most = fewest = 1
        for n, c, w in zip(self.sizes, self.counts, self.shape):
            last = [min(c - 1, cell // self.stride) for cell in range(n)]
            first = [max(0, -((w - 1 - cell) // self.stride)) for cell in range(n)]
            held = [j - i + 1 for i, j in zip(first, last)]
            most, fewest = most * max(held), fewest * min(held)
        return math.sqrt(most / fewest)

    def cut(self, x: Tensor, token_first: bool, out: Tensor | None = None) -> Tensor:
        """(batch, *sizes, channel) → (windows, tokens, channel), or (tokens, windows, channel) if `token_first`."""
        x = pad_to(x, self.padded)
        if self.overlapping:
            for axis in range(len(self.sizes)):
                x = x.index_select(axis + 1, _members(self, axis, x.device))
        cells = self._blocks(x).permute(self._order(token_first))
        if out is None:
            return cells.reshape(*((self.tokens, -1) if token_first else (-1, self.tokens)), x.shape[-1])
        out.view(cells.shape).copy_(cells)
        return out

    def join(self, y: Tensor, token_first: bool) -> Tensor:
        """The inverse of `cut`: averages overlaps and crops to (batch, *sizes, channel)."""
        channels = y.shape[-1]
        order = self._order(token_first)
        y = self._cells(y, token_first).permute([order.index(i) for i in range(len(order))])
        y = y.reshape(y.shape[0], *(c * w for c, w in zip(self.counts, self.shape)), channels)
        if self.overlapping:
            for axis, n in enumerate(self.padded):
                shape = (*y.shape[: axis + 1], n, *y.shape[axis + 2 :])
                y = y.new_zeros(shape).index_add(axis + 1, _members(self, axis, y.device), y)
            y = y * _coverage(self, y.dtype, y.device)
        return crop_to(y, self.sizes)

    def write(self, y: Tensor, token_first: bool, out: Tensor, add: bool) -> None:
        """`join` into `out`, a view of (batch, *sizes, channel), or added to what is there."""
        if self.padded == self.sizes and not self.overlapping:
            y, out = self._cells(y, token_first), self._blocks(out).permute(self._order(token_first))
        else:
            y = self.join(y, token_first)
        out.add_(y) if add else out.copy_(y)

    def _cells(self, y: Tensor, token_first: bool) -> Tensor:
        blocks = (*self.shape, -1, *self.counts) if token_first else (-1, *self.counts, *self.shape)
        return y.reshape(*blocks, y.shape[-1])

    def _blocks(self, x: Tensor) -> Tensor:
        """(batch, *padded, channel) → (batch, windows and cells of the first axis, of the second, …, channel)."""
        pairs = [s for pair in zip(self.counts, self.shape) for s in pair]
        return x.reshape(x.shape[0], *pairs, x.shape[-1])

    def _order(self, token_first: bool) -> tuple[int, ...]:
        d = len(self.sizes)
        windows, cells = (0, *range(1, 2 * d, 2)), tuple(range(2, 2 * d + 1, 2))
        return (*cells, *windows, 2 * d + 1) if token_first else (*windows, *cells, 2 * d + 1)


def pad_to(x: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Zeros after the last cell of every grid axis of (batch, *grid, channel)."""
    missing = [n - m for n, m in zip(sizes, x.shape[1:-1])]
    if not any(missing):
        return x
    return F.pad(x, [0, 0, *(p for m in reversed(missing) for p in (0, m))])


def crop_to(x: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """The first cells of every grid axis of (batch, *grid, channel)."""
    for axis, n in enumerate(sizes, start=1):
        if x.shape[axis] != n:
            x = x.narrow(axis, 0, n)
    return x


@uncompiled
@kept(256)
def _members(windows: Tiling, axis: int, device: torch.device) -> Tensor:
    start = torch.arange(windows.counts[axis]) * windows.stride
    return (start[:, None] + torch.arange(windows.shape[axis])).flatten().to(device)


@uncompiled
@kept(64)
def _coverage(windows: Tiling, dtype: torch.dtype, device: torch.device) -> Tensor:
    """1 / number of windows that hold the cell."""
    share = torch.ones((), dtype=dtype)
    for axis, n in enumerate(windows.padded):
        count = torch.bincount(_members(windows, axis, torch.device("cpu")), minlength=n)
        share = share[..., None] * count.to(dtype).reciprocal()
    return share[..., None].to(device)
