"""`MultipoleAttention`: one window attention on all levels of a pyramid, cost linear in the number of points."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sciops.mixers.bounds import UP
from sciops.mixers.checks import check_choice, check_field
from sciops.mixers.windows.cpu.attention import Work
from sciops.mixers.windows.cpu.pyramid import Pyramid, banded_pyramid
from sciops.mixers.windows.sampling import averaged, coarsened, copied, refined, rows_of
from sciops.mixers.windows.window import Relative, WindowAttention

_MOST_LEVELS = 24

Aggregate = Literal["sum", "vcycle_damped", "learned_per_level"]
Sampler = Literal["conv", "average"]


class MultipoleAttention(nn.Module):
    """Attention on a pyramid of grids, merged from coarse to fine, with cost linear in the number of points.

        X_{l+1} = D X_l,   O_l = A X_l,   R_{L−1} = O_{L−1},   R_l = O_l + a_l · U R_{l+1},   y = R_0

    A is one `WindowAttention`, D one convolution with kernel and stride `rate`, U one transposed convolution, both
    without bias; all levels share the three, so no parameter shape depends on their number. Near points meet on the
    fine grid, far ones on a coarse grid; cost is at most 1/(1 − rate^−axes) times that of the finest level.
    x : (batch, *grid, channels) with `axes` grid axes of any sizes → same.

    Parameters
    ----------
    channels, heads, window, stride, shift, norm, recompute, qkv_bias, relative, relative_window, cosine
        Of the attention, see `WindowAttention`; the same on all levels.
    rate : int
        Cells per axis that become one on the next level.
    levels : int or "auto"
        "auto" adds levels until one window holds the whole coarsest grid, so that every point depends on every other; a
        number is an upper limit. Levels stop at a single cell.
    aggregate : {"sum", "vcycle_damped", "learned_per_level"}
        a_l.

        * ``sum``: 1. The weight of a level depends on neither L nor the grid, so a network meets the same coarse field
          when a finer grid adds a level below
        * ``vcycle_damped``: 1/(L − 1 − l), as in the authors' code: level l enters with (L − 1 − l)!/(L − 1)!, which
          damps the far field to 1/120 at six levels and changes with the grid
        * ``learned_per_level``: one number per merge, counted from the coarse end and starting at 1; the last of 24
          serves all further ones
    sampler : {"conv", "average"}
        ``conv``: D and U are learned and start Gaussian with unit gain, so that all levels enter with equal size
        (started as the mean and the copy, networks train markedly more slowly). ``average``: the mean of the children
        and the copy to them, without parameters.
    axes : int
        Number of grid axes of x, which sets the shape of the kernels of ``conv``.

    Raises
    ------
    ValueError
        For other options, rate < 2, levels < 1 and x of another rank.

    Notes
    -----
    Sizes that do not divide: cells beyond the grid count as zero for D (the mean is taken over real ones only), are
    masked as keys, and are cropped: the same as padding x once to a multiple of rate^(L−1)·window. Windows and levels
    count cells, so the layer is not the same map on another grid. `grid` is accepted and not used.

    References
    ----------
    MANO, arXiv:2507.02748.
    """

    def __init__(
        self,
        channels: int,
        *,
        heads: int = 4,
        window: int = 2,
        rate: int = 2,
        levels: int | Literal["auto"] = "auto",
        stride: int | None = None,
        aggregate: Aggregate = "sum",
        sampler: Sampler = "conv",
        axes: int = 2,
        norm: bool = True,
        recompute: bool = False,
        shift: int = 0,
        qkv_bias: bool = False,
        relative: Relative = "none",
        relative_window: int | None = None,
        cosine: bool = False,
    ) -> None:
        super().__init__()
        check_choice("aggregate", aggregate, Aggregate)
        check_choice("sampler", sampler, Sampler)
        if rate < 2:
            raise ValueError(f"rate={rate}: expected at least 2, or no level is coarser than the last")
        if levels != "auto" and not (isinstance(levels, int) and levels >= 1):
            raise ValueError(f"levels={levels!r}: expected 'auto' or a positive whole number")
        self.channels, self.rate, self.levels, self.axes = channels, rate, levels, axes
        self.aggregate, self.sampler = aggregate, sampler
        self.attention = WindowAttention(
            channels,
            heads=heads,
            window=window,
            stride=stride,
            shift=shift,
            norm=norm,
            recompute=recompute,
            qkv_bias=qkv_bias,
            relative=relative,
            relative_window=relative_window,
            cosine=cosine,
            axes=axes,
        )
        if sampler == "conv":
            # laid out as torch's convolutions lay out theirs: (out, in, *kernel) and (in, out, *kernel)
            shape = (channels, channels, *(rate,) * axes)
            self.down = nn.Parameter(torch.randn(shape) / math.sqrt(channels * rate**axes))
            self.up = nn.Parameter(torch.randn(shape) / math.sqrt(channels))
        if aggregate == "learned_per_level":
            self.level_weights = nn.Parameter(torch.ones(_MOST_LEVELS))

    def forward(self, x: Tensor, grid: Any = None) -> Tensor:
        check_field(x, self.channels)
        if x.ndim != self.axes + 2:
            raise ValueError(f"x has {x.ndim - 2} grid axes, the layer {self.axes}: pass axes={x.ndim - 2}")
        count = self.level_count(tuple(x.shape[1:-1]))
        factors = self._factors(count, x)
        if self.sampler == "conv" and self.attention.in_bands(x):
            work, weights = self.attention.work(self._shapes(x.shape[:-1], count)), self.attention.weights()
            recorded = partial(self._plain, work, count)
            return banded_pyramid(Pyramid(work, self.rate, count, recorded), weights, self.down, self.up, factors, x)
        return self._merged(x, count, self.attention.attend, self.coarsened, self.refined, factors)

    def _plain(self, work: Work, count: int, *inputs: Tensor) -> list[Tensor]:
        """The layer in operations that have derivatives of every order, as `banded_pyramid` asks for it."""
        weights, (down, up, factors, x) = inputs[:5], inputs[5:]

        def attend(fields: Sequence[Tensor]) -> Sequence[Tensor]:
            return work.recorded(*weights, *fields)

        def coarse(x: Tensor) -> Tensor:
            return coarsened(x, down, self.rate)

        def fine(r: Tensor, sizes: tuple[int, ...]) -> Tensor:
            return refined(r, up, self.rate, sizes)

        return [self._merged(x, count, attend, coarse, fine, factors)]

    def _merged(
        self, x: Tensor, count: int, attend: Callable, coarse: Callable, fine: Callable, factors: Tensor
    ) -> Tensor:
        """R_0: the levels X_l by `coarse` (D), O_l by `attend` (A), merged upwards by `fine` (U) and a_l."""
        fields = [x]
        for _ in range(1, count):
            fields.append(coarse(fields[-1]))
        *finer, result = attend(fields)
        for level, a in zip(reversed(finer), factors):
            result = level + fine(result if self.aggregate == "sum" else a * result, tuple(level.shape[1:-1]))
        return result

    def _factors(self, count: int, x: Tensor) -> Tensor:
        """a_l by merge, from the coarse end."""
        if self.aggregate == "learned_per_level":
            return self.level_weights[torch.arange(count - 1).clamp(max=_MOST_LEVELS - 1)]
        ones = torch.ones(count - 1, dtype=x.dtype, device=x.device)
        return ones if self.aggregate == "sum" else ones / torch.arange(1, count, device=x.device)

    def _shapes(self, shape: tuple[int, ...], count: int) -> tuple[tuple[int, ...], ...]:
        """(batch, *sizes) of all levels."""
        shapes = [tuple(shape)]
        for _ in range(1, count):
            shapes.append((shape[0], *(-(-n // self.rate) for n in shapes[-1][1:])))
        return tuple(shapes)

    def level_count(self, sizes: tuple[int, ...]) -> int:
        """Levels used on a grid of these sizes."""
        count = 1
        while count != self.levels and max(sizes) > (self.attention.window if self.levels == "auto" else 1):
            sizes = tuple(-(-n // self.rate) for n in sizes)
            count += 1
        return count

    def coarsened(self, x: Tensor) -> Tensor:
        """D x: (batch, *sizes, channels) → (batch, *⌈sizes/rate⌉, channels)."""
        if self.sampler == "conv":
            return coarsened(x, self.down, self.rate)
        return averaged(x, self.rate)

    def refined(self, r: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """U r: (batch, *⌈sizes/rate⌉, channels) → (batch, *sizes, channels)."""
        if self.sampler == "conv":
            return refined(r, self.up, self.rate, sizes)
        return copied(r, self.rate, sizes)

    def lipschitz_rule(self, setting: Any) -> tuple[Tensor, str]:
        """‖R_0‖ of R_l = A_l + a_l · U R_{l+1} D, from the coarse end."""
        setting.expect(self.attention, WindowAttention, place="attention")
        shapes, radii, downs, ups = [tuple(setting.grid.shape)], [setting.radius], [], []
        children = self.rate**self.axes
        for _ in range(1, self.level_count(shapes[0])):
            if self.sampler == "conv":
                kernel = setting.cast(self.down)
                downs.append(setting.sigma(rows_of(kernel)))
                ups.append(setting.sigma(rows_of(setting.cast(self.up))))
                each = kernel.flatten(2).movedim(2, 0)
                reach: Tensor | float = torch.minimum(
                    downs[-1] * math.sqrt(children), sum(setting.sigma(k) for k in each)
                )
            else:
                fewest = math.prod(n - (-(-n // self.rate) - 1) * self.rate for n in shapes[-1])
                downs.append(1 / math.sqrt(fewest) * UP)
                ups.append(math.sqrt(children) * UP)
                reach = 1.0
            radii.append(None if radii[-1] is None else radii[-1] * reach * UP)
            shapes.append(tuple(-(-n // self.rate) for n in shapes[-1]))
        factors = self._factors(len(shapes), torch.zeros((), dtype=torch.float64)).to(setting.dtype).abs()
        bounds = [self.attention.bound(setting, sizes, radius) for sizes, radius in zip(shapes, radii)]
        value, _, _ = bounds[-1]
        for (own, _, _), factor, down, up in zip(bounds[-2::-1], factors, downs[::-1], ups[::-1]):
            value = own + factor * up * value * down
        largest = max(setting.shown(radius) for _, radius, _ in bounds)
        return value * UP, f"{len(shapes)} levels, tokens of norm ≤ {largest}"

    def extra_repr(self) -> str:
        return f"rate={self.rate}, levels={self.levels!r}, aggregate={self.aggregate!r}, sampler={self.sampler!r}"
