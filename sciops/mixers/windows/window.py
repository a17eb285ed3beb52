"""`WindowAttention`: multi-head attention inside windows of the grid."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sciops.arrays.compiling import symbolic, transformed
from sciops.mixers.bounds import softmax_attention
from sciops.mixers.checks import check_choice, check_field, check_heads
from sciops.mixers.softmax_attention import LARGEST_BATCH
from sciops.mixers.traits import Traits
from sciops.mixers.windows.cpu.attention import Work, banded_attention
from sciops.mixers.windows.cpu.memory import cells_in_cache
from sciops.mixers.windows.groups import Group, groups_of, open_groups
from sciops.mixers.windows.plain import LARGEST_SCALE, plain_attention
from sciops.mixers.windows.relative_position import ContinuousBias, TableBias
from sciops.mixers.windows.tiling import Tiling

_CELLS_TO_RECOMPUTE = 2**17  # enough to fill a GPU

Relative = Literal["none", "table", "continuous"]


class WindowAttention(nn.Module):
    """Multi-head attention inside windows of the grid.

    y = W_o · softmax(q kᵀ/√d) v + b_o inside every window, with (q, k, v) = W_qkv · LayerNorm(x);
    x : (batch, *grid, channels), any number of axes and any sizes → same.

    Parameters
    ----------
    channels : int
        Number of channels, a multiple of `heads`.
    heads : int
        Number of heads.
    window : int
        Cells per axis of a window; one that is larger than the grid holds the whole grid.
    stride : int, optional
        Distance between neighbouring windows, `window` by default; a smaller one makes windows overlap, and a cell gets
        the mean of the windows that hold it. Every cell is in at least one window: where the sizes do not fit, the last
        window reaches beyond the grid and the cells missing there are masked.
    shift : int
        Size of the first window on every axis that is longer than a window, so that the windows of two layers cross
        each other's borders. The same as Swin's cyclic shift with its mask: cells of opposite borders never meet.
    norm : bool
        LayerNorm over the channels comes first, as in MANO.
    recompute : bool
        Keeps only x for the backward pass and recomputes the rest there: less memory, somewhat more time.
    qkv_bias : bool
        Adds biases to the queries and values. One for the keys would add the same to all scores of a query, which the
        softmax does not depend on.
    relative : {"none", "table", "continuous"}
        Term of the scores that depends on the offset between two cells: "table", one learned number per offset and head
        (Swin); "continuous", a learned function of it (Swin V2).
    relative_window : int, optional
        Cells per axis of the windows in pretraining, for "continuous".
    cosine : bool
        Scores are exp(min(s, log 100))·cos(q, k) with one learned s per head, instead of q·k/√d (Swin V2).
    cosine_floor : float
        ε ≥ 0 of cos(q, k) = q·k / √((|q|² + ε²)(|k|² + ε²)). With ε > 0 the directions of queries and keys have slopes
        of at most 1/ε, scores and their slopes are bounded, and the layer has a Lipschitz bound on a ball that grows
        with the radius, not with its square (`sciops.lipschitz.cosine_attention_bound`). 0: the plain cosine, without
        one.
    axes : int
        Number of grid axes of x; only needed for `relative`.

    Raises
    ------
    ValueError
        When heads do not divide channels, stride is not in 1 … window, shift not in 0 … window − 1, or for a
        cosine_floor that is negative, not finite, or given without cosine.

    Notes
    -----
    By default W_qkv has no bias and there is no positional term: positions enter as channels of x. Windows span cells,
    so on a finer grid they are physically smaller. `grid` is accepted and not used.

    On CPUs, windows without overlap, qkv_bias, relative and cosine are processed in bands that stay in the cache and
    have derivatives of every order. Otherwise torch's fused kernel is used, whose second derivative exists only under
    ``torch.nn.attention.sdpa_kernel(SDPBackend.MATH)``.

    References
    ----------
    MANO, arXiv:2507.02748; Swin, arXiv:2103.14030; Swin V2, arXiv:2111.09883.
    """

    traits = Traits(shifts=True)

    def __init__(
        self,
        channels: int,
        *,
        heads: int = 4,
        window: int = 8,
        stride: int | None = None,
        shift: int = 0,
        norm: bool = True,
        recompute: bool = False,
        qkv_bias: bool = False,
        relative: Relative = "none",
        relative_window: int | None = None,
        cosine: bool = False,
        axes: int = 2,
        cosine_floor: float = 0.0,
    ) -> None:
        super().__init__()
        stride = window if stride is None else stride
        check_heads(channels, heads)
        if window < 1 or not 1 <= stride <= window:
            raise ValueError(
                f"window={window}, stride={stride}: expected 1 ≤ stride ≤ window, or some cells are missed"
            )
        if not 0 <= shift < window or (shift and stride != window):
            raise ValueError(
                f"shift={shift}, window={window}, stride={stride}: expected 0 ≤ shift < window; 0 where windows overlap"
            )
        check_choice("relative", relative, Relative)
        if relative_window is not None and relative != "continuous":
            raise ValueError(
                f"relative_window={relative_window} with relative={relative!r}: only 'continuous' takes it"
            )
        if relative_window is not None and relative_window < 1:
            raise ValueError(f"relative_window={relative_window!r}: expected a positive number of cells")
        if not 0 <= cosine_floor < math.inf or (cosine_floor and not cosine):
            raise ValueError(
                f"cosine_floor={cosine_floor!r} with cosine={cosine}: expected a finite number of at least 0, and 0 "
                "where scores are no cosines; pass cosine=True"
            )
        self.cosine_floor = float(cosine_floor)
        self.channels, self.heads, self.window, self.stride, self.shift = channels, heads, window, stride, shift
        self.recompute, self.cosine, self.axes = recompute, cosine, axes
        self.norm = nn.LayerNorm(channels) if norm else nn.Identity()
        self.qkv = nn.Linear(channels, 3 * channels, bias=False)
        self.out = nn.Linear(channels, channels)
        self.qv_bias = nn.Parameter(torch.zeros(2, channels)) if qkv_bias else None
        self.relative: TableBias | ContinuousBias | None = None
        if relative == "table":
            self.relative = TableBias(heads, window, axes)
        elif relative == "continuous":
            self.relative = ContinuousBias(heads, window, axes, relative_window)
        self.log_scale = nn.Parameter(torch.full((heads, 1, 1), math.log(10))) if cosine else None

    def forward(self, x: Tensor, grid: Any = None) -> Tensor:
        return self.attend([self.check(x)])[0]

    def check(self, x: Tensor) -> Tensor:
        """x, or ValueError when it is not (batch, *grid, channels)."""
        check_field(x, self.channels)
        if self.relative is not None and x.ndim != self.axes + 2:
            raise ValueError(f"x has {x.ndim - 2} grid axes, the relative bias {self.axes}: pass axes={x.ndim - 2}")
        return x

    def attend(self, fields: Sequence[Tensor]) -> Sequence[Tensor]:
        """The same attention on several fields (batch, *grid, channels), each on its own grid.

        Windows with the same number of cells go through one call, whatever field they come from; on CPUs in bands that
        stay in the cache.
        """
        if self.in_bands(fields[0]):
            return banded_attention(self.work(_shapes(fields)), self.weights(), fields)
        if symbolic():
            sizes = tuple(tuple(operator.index(n) for n in x.shape[1:-1]) for x in fields)
            groups = open_groups(sizes, self.window, self.stride, self.shift)
        else:
            cells = _CELLS_TO_RECOMPUTE if self.recompute else sys.maxsize
            groups = self._groups(_shapes(fields), cells, LARGEST_BATCH)
        return plain_attention(self, groups, True, *self.weights(), *fields)

    def in_bands(self, x: Tensor) -> bool:
        """Whether the kernels in `cpu` take over: eager work on a CPU in one dtype, without options they do not have.

        Devices want large calls and compilers plain ones. On a CPU the kernels pay in memory: training a pyramid on
        128² cells takes 37 MB instead of 87 to 97, at windows of 2, 4 and 8; and they alone have derivatives of every
        order. In time they pay for pyramids of small windows: forward and backward over that of the plain form, with
        64 channels in float32 on one thread of a busy machine,

        ======================  ========  ========  ========
        on 64² and 128² cells   window 2  window 4  window 8
        ======================  ========  ========  ========
        pyramid                 0.9, 0.8  0.8, 1.2  1.0, 1.1
        one level               1.1, 1.1  1.2, 1.1  1.1, 1.2
        ======================  ========  ========  ========
        """
        return (
            self.stride == self.window
            and not self.cosine
            and self.qv_bias is None
            and self.relative is None
            and x.device.type == "cpu"
            and x.dtype == self.out.weight.dtype
            and x.dtype in (torch.float32, torch.float64)
            and not torch.is_autocast_enabled("cpu")
            and not transformed()
        )

    def work(self, shapes: tuple[tuple[int, ...], ...]) -> Work:
        """The work in bands on fields of these shapes (batch, *sizes).

        With `recompute` memory counts more than the overhead of calls: the bands, of which a backward pass holds a
        dozen at a time, are a quarter as large.
        """
        return Work(
            groups=self._groups(shapes, cells_in_cache() // (4 if self.recompute else 1)),
            heads=self.heads,
            eps=self.norm.eps if isinstance(self.norm, nn.LayerNorm) else None,
            keep=torch.is_grad_enabled() and not self.recompute,
            recorded=partial(plain_attention, self, self._groups(shapes), False),
        )

    def _groups(
        self, shapes: tuple[tuple[int, ...], ...], cells: int = sys.maxsize, windows: int = sys.maxsize
    ) -> tuple[Group, ...]:
        return groups_of(shapes, self.window, self.stride, cells, windows, False, self.shift)

    def weights(self) -> tuple[Tensor | None, ...]:
        """γ, β (None without a LayerNorm), W_qkv, W_o, b_o."""
        norm = (self.norm.weight, self.norm.bias) if isinstance(self.norm, nn.LayerNorm) else (None, None)
        return (*norm, self.qkv.weight, self.out.weight, self.out.bias)

    def lipschitz_rule(self, setting: Any) -> tuple[Tensor, str]:
        """Windows side by side have the bound of one; where they overlap, cells are copied and averaged."""
        value, radius, tokens = self.bound(setting, setting.grid.shape, setting.radius)
        return value, f"tokens of norm ≤ {setting.shown(radius)}, {tokens} in a window"

    def bound(self, setting: Any, sizes: tuple[int, ...], radius: Any) -> tuple[Tensor, Any, int]:
        """(Lipschitz bound on a grid of these sizes, radius of the tokens, tokens of a window)."""
        slope, ball = setting.norm(self.norm)
        radius = radius if ball is None else ball
        if self.cosine and not self.cosine_floor:
            setting.refuse(
                "cosine attention: the directions of queries and keys have no bounded slope near zero; pass "
                "cosine_floor= for directions that have one"
            )
        tiling = Tiling(tuple(sizes), self.window, self.stride)
        options: dict[str, Any] = {}
        if self.relative is not None:
            setting.expect(self.relative, TableBias, ContinuousBias, place="relative")
            with torch.no_grad():
                bias = self.relative(tiling.shape)
            options["score_range"] = float(bias.max() - bias.min()) * (1 + 1e-6)
        if self.cosine:
            log_scale: Any = self.log_scale
            options |= {"floor": self.cosine_floor, "sharpness": setting.cast(log_scale).clamp(max=LARGEST_SCALE).exp()}
        elif self.qv_bias is not None:
            options["query_bias"] = setting.cast(self.qv_bias[0])
        value = softmax_attention(self, setting, tiling.tokens, radius, **options)
        return value * slope * tiling.copies, radius, tiling.tokens

    def extra_repr(self) -> str:
        shift = f", shift={self.shift}" if self.shift else ""
        return f"{self.channels}, heads={self.heads}, window={self.window}, stride={self.stride}{shift}"


def _shapes(fields: Sequence[Tensor]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(x.shape[:-1]) for x in fields)
