"""The blocks of the spine: everything in them but the mixer and the local kernel is pointwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.models.dealiasing import on_finer_grid


class ResidualBlock(nn.Module):
    """x ← x + γ₁·A(mixer(n₁x) + local(n₁x));  x ← x + γ₂·mlp(n₂x).

    A(z) = Wₐ·GELU(z) + bₐ when `mixer_activation`, else z; γ are per-channel scales, present when `layer_scale` gives
    their initial value. Shapes (batch, *grid, channels) throughout.
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
    ) -> None:
        super().__init__()
        self.dealias, self.periodic = dealias, periodic
        self.norm1, self.norm2 = make_norm(norm, channels), make_norm(norm, channels)
        self.mixer, self.local = mixer, local
        self.after_mixer = nn.Linear(channels, channels) if mixer_activation else None
        hidden = max(1, round(mlp_ratio * channels))
        if mlp not in _MLPS:
            raise ValueError(f"mlp={mlp!r}: expected 'gated' or 'plain'")
        self.mlp_in = nn.Linear(channels, 2 * hidden if mlp == "gated" else hidden)
        self.mlp_activation = _MLPS[mlp]
        self.mlp_out = nn.Linear(hidden, channels)
        scales = [None, None] if layer_scale is None else [torch.full((channels,), float(layer_scale)) for _ in "12"]
        self.scale1, self.scale2 = (None if s is None else nn.Parameter(s) for s in scales)

    def forward(self, x: Tensor, grid: Grid, dilation: Sequence[int]) -> Tensor:
        z = self.norm1(x)
        mixed = self.mixer(z, grid)
        if self.local is not None:
            mixed = mixed + self.local(z, grid, dilation)
        if self.after_mixer is not None:
            mixed = self.after_mixer(on_finer_grid(F.gelu, mixed, grid, self.dealias, self.periodic))
        x = x + (mixed if self.scale1 is None else self.scale1 * mixed)
        hidden = on_finer_grid(self.mlp_activation, self.mlp_in(self.norm2(x)), grid, self.dealias, self.periodic)
        hidden = self.mlp_out(hidden)
        return x + (hidden if self.scale2 is None else self.scale2 * hidden)


class ClassicBlock(nn.Module):
    """x ← σ(n(Wx + b + mixer(x) + local(x))), σ = GELU, left out in the last block (arXiv:2010.08895, eq. 2).

    Shapes (batch, *grid, channels). The norm is absent in the original.
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
        y = self.skip(x) + self.mixer(x, grid)
        if self.local is not None:
            y = y + self.local(x, grid, dilation)
        y = self.norm(y)
        return y if self.last else on_finer_grid(F.gelu, y, grid, self.dealias, self.periodic)


class LocalKernel(nn.Module):
    """Depthwise 3×…×3 convolution whose taps lie `dilation` points apart, so that it can keep its physical size.

    Outside the grid the field counts as zero, except on periodic grids, where it wraps. (batch, *grid, channels) → the
    same, for one to three axes and any size.
    """

    def __init__(self, channels: int, ndim: int) -> None:
        super().__init__()
        if ndim > 3:
            raise ValueError(
                f"local=True on {ndim} axes: a local kernel exists for one, two or three; pass local=False"
            )
        self.weight = nn.Parameter(torch.empty(channels, 1, *(3,) * ndim))
        nn.init.uniform_(self.weight, -(3 ** (-ndim / 2)), 3 ** (-ndim / 2))

    def forward(self, x: Tensor, grid: Grid, dilation: Sequence[int]) -> Tensor:
        z, ndim = x.movedim(-1, 1), x.ndim - 2
        padding: tuple[int, ...] | int = tuple(dilation)
        if grid.centering == "periodic":
            z, padding = _wrap(z, dilation), 0
        convolve = (F.conv1d, F.conv2d, F.conv3d)[ndim - 1]
        weight = self.weight.to(z.dtype)
        return convolve(z, weight, None, 1, padding, tuple(dilation), z.shape[1]).movedim(1, -1)


class InstanceNorm(nn.Module):
    """(x − mean)/√(var + ε)·w + b with moments over the grid, per sample and channel.

    The moments are plain averages over the points: on another grid they differ, which is why a model with this norm is
    not consistent between resolutions. Offered because it is common.
    """

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        axes = tuple(range(1, x.ndim - 1))
        var, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
        return (x - mean) * (var + self.eps).rsqrt() * self.weight + self.bias


NORMS = {
    "rms": lambda channels: nn.RMSNorm(channels, eps=1e-6),
    "layer": nn.LayerNorm,
    "instance": InstanceNorm,
    "none": lambda channels: nn.Identity(),
}


def make_norm(name: str, channels: int) -> nn.Module:
    """The norm called `name`; raises ValueError naming the known ones."""
    if name not in NORMS:
        raise ValueError(f"norm={name!r}: expected one of {tuple(NORMS)}")
    return NORMS[name](channels)


def _gated(z: Tensor) -> Tensor:
    u, v = z.chunk(2, dim=-1)
    return u * F.gelu(v)


_MLPS: dict[str, Callable[[Tensor], Tensor]] = {"gated": _gated, "plain": F.gelu}


def _wrap(z: Tensor, dilation: Sequence[int]) -> Tensor:
    for axis, d in enumerate(dilation, start=2):
        n = z.shape[axis]
        index = torch.arange(-d, n + d, device=z.device) % n
        z = z.index_select(axis, index)
    return z


def pointwise(sizes: Sequence[int]) -> nn.Sequential:
    """Linear maps through `sizes` with GELU between them, on the last axis."""
    layers: list[nn.Module] = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        layers += [nn.GELU()] * (i > 0) + [nn.Linear(a, b)]
    return nn.Sequential(*layers)


__all__ = ["ClassicBlock", "InstanceNorm", "LocalKernel", "NORMS", "ResidualBlock", "make_norm", "pointwise"]
