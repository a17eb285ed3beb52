"""`FullAttention`: every point attends to every other."""

from __future__ import annotations

import sys

from sciops.mixers.windows.window import WindowAttention


class FullAttention(WindowAttention):
    """`WindowAttention` with one window that holds the whole grid: O(N²) time, memory linear in N where fused.

    Parameters
    ----------
    channels, heads, norm, recompute, qkv_bias
        As in `WindowAttention`.

    Raises
    ------
    ValueError
        When heads do not divide channels.
    """

    def __init__(
        self, channels: int, *, heads: int = 4, norm: bool = True, recompute: bool = False, qkv_bias: bool = False
    ) -> None:
        super().__init__(channels, heads=heads, window=sys.maxsize, norm=norm, recompute=recompute, qkv_bias=qkv_bias)

    def extra_repr(self) -> str:
        return f"{self.channels}, heads={self.heads}"
