"""Linear layers that preserve the norm: unitary on each mode, or convolutions of small support."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sciops.mixers import SpectralMixer
from sciops.mixers.traits import Matrices
from sciops.models.orthogonal.matrices import polar


class UnitarySpectral(nn.Module):
    """A unitary matrix R_m on each kept mode and the identity on all others, y = x + Σ_m φ_m · (R_m − I) x̂_m + b.

    Maps (batch, *grid, channels) to the same shape; with R_m unitary (`orthogonalize_`) ‖y − b‖ = ‖x‖. Weights are
    initially unitary for grids finer than the modes need; see `orthogonalize_` for others.

    Parameters
    ----------
    channels : int
        Number of channels.
    modes, basis
        As in `SpectralMixer`; basis "fourier" or "sine".
    outside : str
        "identity", or "zero" for Σ_m φ_m · R_m x̂_m + b, which preserves the norm of the kept modes only.
    bias : bool
        Whether there is a bias b.
    spread : float
        R_m is initialised as the unitary factor of I + spread·G with G Gaussian, E‖G v‖² = ‖v‖².
    """

    def __init__(
        self,
        channels: int,
        modes: int | Sequence[int] = (8, 8),
        *,
        basis: Literal["fourier", "sine"] = "fourier",
        outside: Literal["identity", "zero"] = "identity",
        bias: bool = True,
        spread: float = 1.0,
    ) -> None:
        super().__init__()
        if outside not in ("identity", "zero"):
            raise ValueError(f"outside={outside!r}: expected 'identity' or 'zero'")
        if basis not in ("fourier", "sine"):
            raise ValueError(f"basis={basis!r}: expected 'fourier' or 'sine', whose modes are orthonormal on the grid")
        self.channels, self.outside = channels, outside
        self.mixer = SpectralMixer(channels, modes, basis=basis, bias=bias)
        weight: Any = self.mixer.parts[0].weight
        eye = torch.eye(channels)
        unit = torch.stack([eye, torch.zeros_like(eye)], -2) if basis == "fourier" else eye
        self.register_buffer("identity", unit, persistent=False)
        with torch.no_grad():
            weight.mul_(spread * 10).add_(unit)  # a mixer starts with gain 1/10
            for part in self.linear_matrices(None):
                part.write(polar(part.read()))

    def linear_matrices(self, shape: Sequence[int] | None) -> list[Matrices]:
        """The matrices R_m, on a grid of this shape."""
        return self.mixer.linear_matrices(shape, passes=self.outside == "identity")

    def forward(self, x: Tensor, grid: Any = None) -> Tensor:
        if self.outside == "zero":
            return self.mixer(x, grid)
        weight: Any = self.mixer.parts[0].weight
        return x + torch.func.functional_call(self.mixer, {"parts.0.weight": weight - self.identity}, (x, grid))

    def extra_repr(self) -> str:
        return f"outside={self.outside!r}"


class OrthogonalConvolution(nn.Module):
    """A circular convolution of small support with orthonormal rows, y = Q ∗ ∏_j (P_j + S_j (I − P_j)) x + b.

    Maps (batch, channels, *grid), one to three grid axes, to (batch, out_channels, *grid), out_channels ≤ channels.

    Q has orthonormal rows, P_j = V_j V_jᵀ projects the channels at every point onto half of them, and S_j shifts the
    field by one point along one axis, in alternating directions: every factor is orthogonal, and together they span
    `size` points per axis. The parameters are Q (``mix``) and V_j (``bases``, orthonormal columns), whose own
    projection (`orthogonalize_`) keeps the layer exactly orthogonal on every grid. Factors of this kind build all
    orthogonal convolutions in one dimension, and some in two (Li et al., arXiv:1911.00937).
    """

    def __init__(
        self, channels: int, out_channels: int | None = None, *, size: int = 3, axes: int = 2, bias: bool = True
    ) -> None:
        super().__init__()
        out_channels = channels if out_channels is None else out_channels
        if not 1 <= out_channels <= channels:
            raise ValueError(f"out_channels={out_channels}, channels={channels}: rows cannot be orthonormal")
        if channels < 2 and size > 1:
            raise ValueError("channels=1: the only orthogonal convolutions are shifts; pass size=1 or two channels")
        if size < 1 or axes not in (1, 2, 3):
            raise ValueError(f"size={size}, axes={axes}: expected at least 1, and 1, 2 or 3")
        self.channels, self.out_channels, self.size, self.axes = channels, out_channels, size, axes
        self.moves = tuple((axis, 1 if i % 2 else -1) for i in range(size - 1) for axis in range(axes))
        self.mix = nn.Parameter(nn.init.orthogonal_(torch.empty(out_channels, channels)))
        bases = torch.empty(len(self.moves), channels, max(channels // 2, 1))
        for basis in bases:
            nn.init.orthogonal_(basis)
        self.bases = nn.Parameter(bases)
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None

    def linear_matrices(self, shape: Sequence[int] | None) -> list[Matrices]:
        """Q, and the bases V_j, on any grid."""
        mix = Matrices(lambda: self.mix[None], self.mix[None].copy_)
        return [mix, *([Matrices(lambda: self.bases, self.bases.copy_)] if len(self.bases) else [])]

    def forward(self, x: Tensor, grid: Any = None) -> Tensor:
        if x.ndim != self.axes + 2 or x.shape[1] != self.channels:
            raise ValueError(
                f"x has shape {tuple(x.shape)}; expected (batch, {self.channels} channels, {self.axes} grid axes)"
            )
        z = x.movedim(1, -1)
        for (axis, step), basis in zip(self.moves, self.bases.unbind()):
            kept = z @ basis @ basis.mT
            z = kept + (z - kept).roll(step, axis + 1)
        z = z @ self.mix.mT
        if self.bias is not None:
            z = z + self.bias
        return z.movedim(-1, 1)

    def extra_repr(self) -> str:
        return f"{self.channels}, {self.out_channels}, size={self.size}, axes={self.axes}"
