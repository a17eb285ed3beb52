"""The blocks of the spine: everything in them but the mixer and the local kernel is pointwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.models.spine.dealiasing import on_finer_grid
from sciops.models.spine.norms import make_norm

# (g, r): a step h ← r(h, g(h)) of a block, r cheap; None for r is the sum h + g(h)
Layer = tuple[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor], Tensor] | None]


class ResidualBlock(nn.Module):
    """Two residual branches, x ← x + γ₁·A(mixer(n₁x) + local(n₁x)), then x ← x + γ₂·mlp(n₂x).

    A(z) = Wₐ·GELU(z) + bₐ with `mixer_activation`, otherwise z; γ are per-channel scales, present if `layer_scale`
    gives their initial value. Shapes are (batch, *grid, channels) throughout.

    Parameters
    ----------
    order : str
        "pre", as above; "post" has the norms after the branches, x ← x + γ₁·n₁A(…), as in Swin V2.
    drop_path : float
        Probability with which a sample of a batch skips a branch in training; the branches of the others are divided by
        1 − drop_path, which keeps the mean (stochastic depth, arXiv:1603.09382).
    """

    def __init__(
        self,
        channels: int,
        mixer: nn.Module,
        *,
        norm: str,
        mlp: str,
        mlp_ratio: float,
        mixer_activation: bool,
        local: nn.Module | None,
        layer_scale: float | None,
        dealias: int,
        periodic: bool,
        order: str = "pre",
        drop_path: float = 0.0,
    ) -> None:
        super().__init__()
        if order not in ("pre", "post"):
            raise ValueError(f"order={order!r}: expected 'pre' or 'post'")
        if not 0 <= drop_path < 1:
            raise ValueError(f"drop_path={drop_path}: expected a probability in 0 ≤ p < 1")
        self.dealias, self.periodic, self.post, self.drop_path = dealias, periodic, order == "post", drop_path
        self.norm1, self.norm2 = make_norm(norm, channels), make_norm(norm, channels)
        self.mixer, self.local = mixer, local
        self.after_mixer = nn.Linear(channels, channels) if mixer_activation else None
        hidden = hidden_width(mlp_ratio, channels)
        if mlp not in ("gated", "plain"):
            raise ValueError(f"mlp={mlp!r}: expected 'gated' or 'plain'")
        self.mlp_in = nn.Linear(channels, hidden)
        # two maps rather than one of twice the width: halves of one output are not contiguous, which costs a third
        self.mlp_gate = nn.Linear(channels, hidden) if mlp == "gated" else None
        self.mlp_out = nn.Linear(hidden, channels)
        scales = [None, None] if layer_scale is None else [torch.full((channels,), float(layer_scale)) for _ in "12"]
        self.scale1, self.scale2 = (None if s is None else nn.Parameter(s) for s in scales)

    def forward(self, x: Tensor, grid: Grid, dilation: Sequence[int]) -> Tensor:
        x = x + self._mixed(x, grid, dilation)
        return x + self._fed_forward(x, grid)

    def layers(self, grid: Grid, dilation: Sequence[int]) -> list[Layer]:
        """The two steps h ← h + g(h) that forward takes, each as (g, None)."""
        return [(lambda x: self._mixed(x, grid, dilation), None), (lambda x: self._fed_forward(x, grid), None)]

    def _mixed(self, x: Tensor, grid: Grid, dilation: Sequence[int]) -> Tensor:
        z = x if self.post else self.norm1(x)
        mixed = self.mixer(z, grid)
        if self.local is not None:
            mixed = mixed + self.local(z, grid, dilation)
        if self.after_mixer is not None:
            mixed = self.after_mixer(on_finer_grid(F.gelu, (mixed,), grid, self.dealias, self.periodic))
        return self._branch(mixed, self.norm1, self.scale1)

    def _fed_forward(self, x: Tensor, grid: Grid) -> Tensor:
        z = x if self.post else self.norm2(x)
        if self.mlp_gate is None:
            hidden = on_finer_grid(F.gelu, (self.mlp_in(z),), grid, self.dealias, self.periodic)
        else:
            hidden = on_finer_grid(_gated, (self.mlp_in(z), self.mlp_gate(z)), grid, self.dealias, self.periodic)
        return self._branch(self.mlp_out(hidden), self.norm2, self.scale2)

    def _branch(self, branch: Tensor, norm: nn.Module, scale: Tensor | None) -> Tensor:
        if self.post:
            branch = norm(branch)
        if scale is not None:
            branch = scale * branch
        if self.drop_path and self.training:
            kept = torch.rand(branch.shape[0], *(1,) * (branch.ndim - 1), device=branch.device) >= self.drop_path
            branch = branch * kept.to(branch.dtype) / (1 - self.drop_path)
        return branch


class ClassicBlock(nn.Module):
    """The block of the FNO, x ← σ(n(Wx + b + mixer(x) + local(x))) (arXiv:2010.08895, eq. 2).

    σ = GELU is left out in the last block. Shapes are (batch, *grid, channels). The original has no norm n.
    """

    def __init__(
        self,
        channels: int,
        mixer: nn.Module,
        *,
        norm: str,
        local: nn.Module | None,
        last: bool,
        dealias: int,
        periodic: bool,
    ) -> None:
        super().__init__()
        self.dealias, self.periodic, self.last = dealias, periodic, last
        self.skip, self.mixer, self.local = nn.Linear(channels, channels), mixer, local
        self.norm = make_norm(norm, channels)

    def forward(self, x: Tensor, grid: Grid, dilation: Sequence[int]) -> Tensor:
        return self._joined(x, self._mixed(x, grid, dilation), grid)

    def layers(self, grid: Grid, dilation: Sequence[int]) -> list[Layer]:
        """The one step h ← r(h, g(h)) that forward takes, as (g, r): r(h, z) = σ(n(Wh + b + z))."""
        return [(lambda x: self._mixed(x, grid, dilation), lambda x, z: self._joined(x, z, grid))]

    def _mixed(self, x: Tensor, grid: Grid, dilation: Sequence[int]) -> Tensor:
        mixed = self.mixer(x, grid)
        return mixed if self.local is None else mixed + self.local(x, grid, dilation)

    def _joined(self, x: Tensor, mixed: Tensor, grid: Grid) -> Tensor:
        y = self.norm(self.skip(x) + mixed)
        return y if self.last else on_finer_grid(F.gelu, (y,), grid, self.dealias, self.periodic)


class LocalKernel(nn.Module):
    """Depthwise 3×…×3 convolution whose taps lie `dilation` points apart, so that it can keep its physical size.

    Outside the grid the field is padded with zeros (padding="zeros") or the nearest point ("replicate"); on periodic
    grids it wraps. A field padded with zeros jumps at the boundary, and dilated taps meet that jump at distances that
    did not occur on the training grid; a field padded with its end value does not jump.

    Maps (batch, *grid, channels) to the same shape, for one to three axes. Raises ValueError for another padding.
    """

    def __init__(self, channels: int, ndim: int, *, padding: str = "zeros") -> None:
        super().__init__()
        if padding not in ("zeros", "replicate"):
            raise ValueError(f"local_padding={padding!r}: expected 'zeros' or 'replicate'")
        self.padding = padding
        if ndim > 3:
            raise ValueError(
                f"local=True on {ndim} axes: a local kernel exists for one, two or three; pass local=False"
            )
        self.weight = nn.Parameter(torch.empty(channels, 1, *(3,) * ndim))
        nn.init.uniform_(self.weight, -(3 ** (-ndim / 2)), 3 ** (-ndim / 2))

    def forward(self, x: Tensor, grid: Grid, dilation: Sequence[int]) -> Tensor:
        ndim, padding = x.ndim - 2, tuple(dilation)
        if grid.centering == "periodic":
            x, padding = _wrap(x, dilation), (0,) * ndim
        elif self.padding == "replicate":
            x, padding = _replicate(x, dilation), (0,) * ndim
        # the channel-last memory is what the convolution wants: no copy is made
        z = x.movedim(-1, 1)
        convolve = (F.conv1d, F.conv2d, F.conv3d)[ndim - 1]
        weight = self.weight.to(z.dtype)
        return convolve(z, weight, None, 1, padding, tuple(dilation), z.shape[1]).movedim(1, -1)


def _gated(u: Tensor, v: Tensor) -> Tensor:
    return u * F.gelu(v)


def _replicate(x: Tensor, reach: Sequence[int]) -> Tensor:
    """x (batch, *grid, channels) continued by its end values by `reach` points on both sides of every axis."""
    for axis, r in enumerate(reach, start=1):
        first, last = x.narrow(axis, 0, 1), x.narrow(axis, x.shape[axis] - 1, 1)
        sizes = [r if i == axis else -1 for i in range(x.ndim)]
        x = torch.cat([first.expand(sizes), x, last.expand(sizes)], dim=axis)
    return x


def _wrap(x: Tensor, reach: Sequence[int]) -> Tensor:
    """x (batch, *grid, channels) continued periodically by `reach` points on both sides of every axis."""
    for axis, d in enumerate(reach, start=1):
        n = x.shape[axis]
        if d <= n:
            x = torch.cat([x.narrow(axis, n - d, d), x, x.narrow(axis, 0, d)], axis)
        else:
            x = x.index_select(axis, torch.arange(-d, n + d, device=x.device) % n)
    return x


def hidden_width(mlp_ratio: float, width: int) -> int:
    """mlp_ratio · width, rounded; raises ValueError where that is no channel at all."""
    hidden = round(mlp_ratio * width)
    if hidden < 1:
        raise ValueError(
            f"mlp_ratio={mlp_ratio!r} times width={width} is no hidden channel: expected at least {1 / width:.3g}"
        )
    return hidden


def pointwise(sizes: Sequence[int]) -> nn.Sequential:
    """Linear maps through `sizes` with GELU between them, on the last axis."""
    layers: list[nn.Module] = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        layers += [nn.GELU()] * (i > 0) + [nn.Linear(a, b)]
    return nn.Sequential(*layers)
