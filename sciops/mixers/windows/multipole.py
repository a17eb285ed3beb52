"""`MultipoleAttention`: one window attention on all levels of a pyramid, cost linear in the number of points."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.mixers.bounds import UP
from sciops.mixers.checks import check_choice, check_field
from sciops.mixers.windows.cpu.attention import Work
from sciops.mixers.windows.cpu.pyramid import Pyramid, banded_pyramid
from sciops.mixers.windows.reference_grid import along_axes, transfer_matrices, transfer_norm
from sciops.mixers.windows.sampling import averaged, coarsened, copied, refined, rows_of
from sciops.mixers.windows.smooth import depthwise, interpolated, linear_pyramid_bound, means
from sciops.mixers.windows.window import Relative, WindowAttention

_MOST_LEVELS = 24
_KERNELS = 8  # levels with a kernel of their own; the last serves all further ones

Aggregate = Literal["sum", "vcycle_damped", "learned_per_level"]
Sampler = Literal["conv", "average"]
PyramidForm = Literal["paper", "smooth"]


class MultipoleAttention(nn.Module):
    """Attention on a pyramid of grids, merged from coarse to fine, with cost linear in the number of points.

        X_{l+1} = D X_l,   O_l = A X_l,   R_{L−1} = O_{L−1},   R_l = O_l + a_l · U R_{l+1},   y = R_0

    A is one `WindowAttention`, D one convolution with kernel and stride `rate`, U one transposed convolution, both
    without bias; all levels share the three, so no parameter shape depends on their number. Near points meet on the
    fine grid, far ones on a coarse grid; cost is at most 1/(1 − rate^−axes) times that of the finest level.
    x : (batch, *grid, channels) with `axes` grid axes of any sizes → same.

    Parameters
    ----------
    channels, heads, window, stride, shift, norm, recompute, qkv_bias, relative, relative_window, cosine, cosine_floor
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
    pyramid : {"paper", "smooth"}
        D, U and O_l.

        * ``paper``: as above
        * ``smooth``: D = W_d M, U = B W_u and O_l = k_l ∗ X_l + [l ≥ l_0] A X_l. M is the mean of the children that
          exist, B cell-centred linear interpolation between the coarse cells, constant beyond the outermost centres;
          W_d and W_u are C×C and shared by the levels (left out with sampler="average"). W_o and b_o of A start at
          zero, so that the layer starts linear
    kernels : bool, optional
        k_l, a depthwise 3×…×3 convolution with one kernel per level, counted from the finest; the eighth serves all
        further levels. Zero beyond the grid, periodic on periodic grids. Default: with ``smooth`` only.
    attention_from : int or {"auto", "none"}
        l_0, the finest level with attention; the coarsest level always has it. "none": the layer has no attention and,
        with ``smooth``, is linear: the linear pyramid. "auto": 0 with ``paper``, 2 with ``smooth``.
    reference : Grid or dict or {"auto", "none"}
        Grid to which the levels are tied: on any other grid y = P · pyramid(R x), with P linear interpolation from the
        reference grid and R the weighted mean under its hat functions; on a coarser axis the two change roles. On the
        reference grid both are the identity. "auto": in a model, the model's grid with ``smooth`` and none with
        ``paper``; a layer of its own has none. "none": levels count cells of the grid of x. Needs `grid` in forward
        wherever x has another shape.

    Raises
    ------
    ValueError
        For other options, rate < 2, levels < 1, x of another rank, and a grid of another domain than the reference's.

    Notes
    -----
    With ``smooth`` on periodic grids B and k_l wrap around; the windows of A do not.

    Sizes that do not divide: cells beyond the grid count as zero for D (the mean is taken over real ones only), are
    masked as keys, and are cropped: the same as padding x once to a multiple of rate^(L−1)·window. Windows and levels
    count cells, so without `reference` the layer is not the same map on another grid.

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
        cosine_floor: float = 0.0,
        pyramid: PyramidForm = "paper",
        kernels: bool | None = None,
        attention_from: int | Literal["auto", "none"] | None = "auto",
        reference: Grid | Mapping[str, Any] | Literal["auto", "none"] | None = "auto",
    ) -> None:
        super().__init__()
        check_choice("aggregate", aggregate, Aggregate)
        check_choice("sampler", sampler, Sampler)
        check_choice("pyramid", pyramid, PyramidForm)
        if rate < 2:
            raise ValueError(f"rate={rate}: expected at least 2, or no level is coarser than the last")
        if levels != "auto" and not (isinstance(levels, int) and levels >= 1):
            raise ValueError(f"levels={levels!r}: expected 'auto' or a positive whole number")
        self.channels, self.rate, self.levels, self.axes = channels, rate, levels, axes
        self.aggregate, self.sampler, self.pyramid, self.window = aggregate, sampler, pyramid, window
        smooth = pyramid == "smooth"
        kernels = smooth if kernels is None else bool(kernels)
        if axes > 3 and (smooth or kernels):
            raise ValueError(f"axes={axes}: pyramid='smooth' and kernels exist for one, two and three axes")
        self.attention_from = _first_with_attention(attention_from, smooth)
        if self.attention_from is None and not kernels:
            raise ValueError("attention_from='none' without kernels: the layer would be zero; pass kernels=True")
        self.reference = _reference(reference, axes)
        attention = WindowAttention(  # also checks the options where there is no attention
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
            cosine_floor=cosine_floor,
            axes=axes,
        )
        self.attention = None if self.attention_from is None else attention
        if smooth:
            for parameter in attention.out.parameters():
                nn.init.zeros_(parameter)
        if sampler == "conv" and smooth:
            self.down = nn.Parameter(torch.randn(channels, channels) / math.sqrt(channels))
            self.up = nn.Parameter(torch.randn(channels, channels) / math.sqrt(channels))
        elif sampler == "conv":
            # laid out as torch's convolutions lay out theirs: (out, in, *kernel) and (in, out, *kernel)
            shape = (channels, channels, *(rate,) * axes)
            self.down = nn.Parameter(torch.randn(shape) / math.sqrt(channels * rate**axes))
            self.up = nn.Parameter(torch.randn(shape) / math.sqrt(channels))
        if aggregate == "learned_per_level":
            self.level_weights = nn.Parameter(torch.ones(_MOST_LEVELS))
        self.kernels = nn.Parameter(torch.empty(_KERNELS, channels, *(3,) * axes)) if kernels else None
        if self.kernels is not None:
            nn.init.uniform_(self.kernels, -(3 ** (-axes / 2)), 3 ** (-axes / 2))

    def forward(self, x: Tensor, grid: Any = None) -> Tensor:
        check_field(x, self.channels)
        if x.ndim != self.axes + 2:
            raise ValueError(f"x has {x.ndim - 2} grid axes, the layer {self.axes}: pass axes={x.ndim - 2}")
        transfer = self._transfer(x, grid)
        if transfer is not None:
            up, down = transfer
            return along_axes(up, self._on_levels(along_axes(down, x), self.reference))
        return self._on_levels(x, grid if self.reference is None else self.reference)

    def _on_levels(self, x: Tensor, grid: Any) -> Tensor:
        """The pyramid on the cells of x."""
        count = self.level_count(tuple(x.shape[1:-1]))
        factors = self._factors(count, x)
        if self.pyramid == "paper" and self.kernels is None and self.attention_from == 0:
            return self._as_published(x, count, factors)
        periodic = self.pyramid == "smooth" and getattr(grid, "centering", None) == "periodic"
        return self._merged(x, count, partial(self._outputs, periodic), self.coarsened, self._finer(periodic), factors)

    def _as_published(self, x: Tensor, count: int, factors: Tensor) -> Tensor:
        """The layer of the paper, in bands that stay in the cache where that is possible."""
        attention: Any = self.attention
        if self.sampler == "conv" and attention.in_bands(x):
            work, weights = attention.work(self._shapes(x.shape[:-1], count)), attention.weights()
            recorded = partial(self._plain, work, count)
            return banded_pyramid(Pyramid(work, self.rate, count, recorded), weights, self.down, self.up, factors, x)
        return self._merged(x, count, attention.attend, self.coarsened, self.refined, factors)

    def _outputs(self, periodic: bool, fields: Sequence[Tensor]) -> list[Tensor]:
        """O_l of X_l, finest first: kernels on all levels, attention from l_0 on."""
        outputs: list[Tensor | None] = [None] * len(fields)
        if self.kernels is not None:
            outputs = [depthwise(x, self._kernel(level), periodic) for level, x in enumerate(fields)]
        if self.attention is not None and self.attention_from is not None:
            first = min(self.attention_from, len(fields) - 1)
            for level, y in enumerate(self.attention.attend(fields[first:]), start=first):
                own = outputs[level]
                outputs[level] = y if own is None else own + y
        return [torch.zeros_like(x) if y is None else y for x, y in zip(fields, outputs)]

    def _kernel(self, level: int) -> Tensor:
        kernels: Any = self.kernels
        return kernels[min(level, _KERNELS - 1)]

    def _finer(self, periodic: bool) -> Callable[[Tensor, tuple[int, ...]], Tensor]:
        return partial(self.refined, periodic=periodic) if periodic else self.refined

    def _transfer(self, x: Tensor, grid: Any) -> tuple[list[Tensor], list[Tensor]] | None:
        """(P, R) by axis between the grid of x and the reference grid; None where the levels are those of x."""
        if self.reference is None:
            return None
        if grid is None:
            if tuple(x.shape[1:-1]) == self.reference.shape:
                return None
            raise ValueError(
                f"x has the grid {tuple(x.shape[1:-1])}, the layer's reference {self.reference.shape}: pass grid="
            )
        return transfer_matrices(self.reference, grid, x.dtype, x.device)

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
        while count != self.levels and max(sizes) > (self.window if self.levels == "auto" else 1):
            sizes = tuple(-(-n // self.rate) for n in sizes)
            count += 1
        return count

    def coarsened(self, x: Tensor) -> Tensor:
        """D x: (batch, *sizes, channels) → (batch, *⌈sizes/rate⌉, channels)."""
        if self.pyramid == "smooth":
            mean = means(x, self.rate)
            return F.linear(mean, self.down) if self.sampler == "conv" else mean
        if self.sampler == "conv":
            return coarsened(x, self.down, self.rate)
        return averaged(x, self.rate)

    def refined(self, r: Tensor, sizes: tuple[int, ...], periodic: bool = False) -> Tensor:
        """U r: (batch, *⌈sizes/rate⌉, channels) → (batch, *sizes, channels)."""
        if self.pyramid == "smooth":
            return interpolated(F.linear(r, self.up) if self.sampler == "conv" else r, self.rate, sizes, periodic)
        if self.sampler == "conv":
            return refined(r, self.up, self.rate, sizes)
        return copied(r, self.rate, sizes)

    def lipschitz_rule(self, setting: Any) -> tuple[Tensor, str]:
        """‖R_0‖ of R_l = A_l + a_l · U R_{l+1} D, from the coarse end."""
        if self.pyramid == "smooth":
            return self._smooth_rule(setting)
        if self.kernels is not None or self.attention_from != 0:
            setting.refuse("pyramid='paper' with kernels or attention_from: no rule")
        if self.reference is not None:
            setting.refuse("pyramid='paper' with a reference grid: no rule")
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
        attention: Any = self.attention
        bounds = [attention.bound(setting, sizes, radius) for sizes, radius in zip(shapes, radii)]
        value, _, _ = bounds[-1]
        for (own, _, _), factor, down, up in zip(bounds[-2::-1], factors, downs[::-1], ups[::-1]):
            value = own + factor * up * value * down
        largest = max(setting.shown(radius) for _, radius, _ in bounds)
        return value * UP, f"{len(shapes)} levels, tokens of norm ≤ {largest}"

    def _smooth_rule(self, setting: Any) -> tuple[Tensor, str]:
        """The linear pyramid as one map, plus the attention of every level through ‖U‖…‖D‖."""
        if self.attention is not None:
            setting.expect(self.attention, WindowAttention, place="attention")
        stretch = transfer_norm(self.reference, setting.grid)
        grid = setting.grid if self.reference is None else self.reference
        value, attention, reason = linear_pyramid_bound(self, setting, grid, stretch)
        if self.attention is None:
            return value * UP, reason
        return (value + attention) * UP, f"{reason}; attention from level {self.attention_from}"

    def extra_repr(self) -> str:
        text = f"rate={self.rate}, levels={self.levels!r}, aggregate={self.aggregate!r}, sampler={self.sampler!r}"
        if self.pyramid == "paper" and self.kernels is None and self.attention_from == 0 and self.reference is None:
            return text
        first = "none" if self.attention_from is None else self.attention_from
        return (
            f"pyramid={self.pyramid!r}, kernels={self.kernels is not None}, attention_from={first!r}, {text}, "
            f"reference={self.reference!r}"
        )


def _first_with_attention(value: Any, smooth: bool) -> int | None:
    if value == "auto":
        return 2 if smooth else 0
    if value is None or value == "none":
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"attention_from={value!r}: expected a level (0 is the finest), 'auto' or 'none'")
    return value


def _reference(value: Any, axes: int) -> Grid | None:
    if value is None or value in ("auto", "none"):
        return None
    if not isinstance(value, (Grid, Mapping)):
        raise ValueError(f"reference={value!r}: expected a Grid, a dict of Grid.to_dict, 'auto' or 'none'")
    grid = value if isinstance(value, Grid) else Grid.from_dict(dict(value))
    if grid.ndim != axes:
        raise ValueError(f"reference has {grid.ndim} axes, the layer {axes}: pass a grid of {axes} axes")
    return grid
