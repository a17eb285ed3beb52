"""`GradientProducts`: products of gradients through a bank of resolvents of the Laplacian, beside a spectral layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor, nn

from sciops.arrays.compiling import constant, kept
from sciops.grids import Grid
from sciops.mixers.checks import check_field
from sciops.mixers.precision import full_precision, working_dtype
from sciops.mixers.spectral import walls
from sciops.mixers.spectral.mixer import SpectralMixer
from sciops.mixers.traits import Traits
from sciops.values import check_whole

_LENGTH = 1 / 21  # of a derivative, in lengths of the domain: twice the difference over two spacings at 85 nodes


class GradientProducts(nn.Module):
    """Spectral layer plus products of gradients, both passed through a bank of resolvents of the Laplacian.

    With p = P x and q = Q x (`products` channels) and the derivatives ∂ of length ℓ = L/21,

        g = ℓ² Σ_axes ∂p · ∂q,      v = V x + G g,      y = D x + O · S [ w(k) · Ŝ v ],
        w_c(k) = Σ_j α_cj / (1 + |k|²/4^j),   j = 0 … poles−1.

    D is the dense sine–cosine `SpectralMixer`; Ŝ and S are analysis and synthesis in `bank_modes` modes per axis, the
    first half of v in sines, the rest in cosines; L is the longest side of the domain and |k| = |κ|L/π, the mode
    numbers on a square. x : (batch, *grid, channels), one to three axes with walls (nodes or cells) → same.

    Parameters
    ----------
    channels : int
        Number of channels.
    modes : int or sequence of int
        Modes per axis of the dense layer D, one number per axis.
    bank_modes : int
        Modes per axis of the bank.
    bank_channels : int
        Channels of v, at least 2.
    products : int
        Channels of p, q and g; 0 leaves the products out.
    poles : int
        Number of resolvents.
    symmetric : bool
        The weights of D are equal under exchange of the axes, so that the layer commutes with it on square domains.
    gate : bool
        D x is multiplied by W x + b, point by point.

    Raises
    ------
    ValueError
        For options outside these, periodic grids, fewer than two points on an axis, and a grid that is not that of x.

    Notes
    -----
    A grid that is too coarse for the modes uses those that fit. Derivatives are central differences, one-sided at the
    ends of an axis, in lengths of the domain: the layer acts on the function, not on the array, and runs on other
    grids, where it converges with the order of these differences. g is unchanged by a mirror image of x up to the same
    mirror image, and so is every other part: the layer commutes with mirror images exactly.

    It is meant for equations whose solution at high wavenumbers is Δu = −(f + ∇a·∇u)/a or the like: Darcy flow,
    Poisson and Helmholtz equations and diffusion with a variable coefficient, between walls. Periodic problems need
    Fourier modes, and transport u·∇u is a product of a field and a gradient, which this layer does not have.

    α starts N(0, 0.4²), O starts N(0, 0.1²/bank_channels). Under half precision and autocast, the layer computes in
    float32 and returns the dtype of x. Its Lipschitz constant is not bounded: g is quadratic in x.
    """

    def __init__(
        self,
        channels: int,
        modes: int | Sequence[int] = (16, 16),
        *,
        bank_modes: int = 40,
        bank_channels: int = 16,
        products: int = 8,
        poles: int = 6,
        symmetric: bool = False,
        gate: bool = False,
    ) -> None:
        super().__init__()
        check_whole(bank_modes=bank_modes, poles=poles)
        check_whole(2, bank_channels=bank_channels)
        check_whole(0, products=products)
        self.dense = SpectralMixer(channels, modes, basis="sine-cosine", clip_modes=True, symmetric=symmetric)
        self.channels, self.axes = channels, len(self.dense.modes)
        self.bank_modes, self.bank_channels, self.products, self.poles = bank_modes, bank_channels, products, poles
        self.pairs = nn.Linear(channels, 2 * products, bias=False) if products else None
        self.linear = nn.Linear(channels, bank_channels, bias=False)
        self.joined = nn.Linear(products, bank_channels, bias=False) if products else None
        self.alpha = nn.Parameter(0.4 * torch.randn(bank_channels, poles))
        self.out = nn.Linear(bank_channels, channels, bias=False)
        nn.init.normal_(self.out.weight, std=0.1 / math.sqrt(bank_channels))
        self.gate = nn.Linear(channels, channels) if gate else None

    traits = Traits(coordinates="wall", least_points=3)

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        check_field(x, self.channels, self.axes)
        grid = Grid(tuple(x.shape[1:-1])) if grid is None else grid
        if grid.shape != tuple(x.shape[1:-1]):
            raise ValueError(f"x lives on {tuple(x.shape[1:-1])} points but grid has {grid.shape}: pass the grid of x")
        if grid.centering == "periodic":
            raise ValueError(
                "gradient products use sines and cosines between walls, got a periodic grid: use 'spectral'"
            )
        if min(grid.shape) < 3:
            raise ValueError(f"grid of {grid.shape} points: gradient products need at least 3 on every axis")
        with full_precision(x):
            z = x.to(working_dtype(x))
            y = self.dense(z, grid)
            if self.gate is not None:
                y = y * _applied(self.gate, z)
            return (y + _applied(self.out, self._bank(self._sources(z, grid), grid))).to(x.dtype)

    def _sources(self, x: Tensor, grid: Grid) -> Tensor:
        """v, (batch, *grid, bank_channels)."""
        v = _applied(self.linear, x)
        if self.pairs is None or self.joined is None:
            return v
        pairs, size = _applied(self.pairs, x), _longest(grid)
        g = pairs.new_zeros(*x.shape[:-1], self.products)
        for axis, h in enumerate(grid.spacing, start=1):
            p, q = derivative(pairs, axis, h / size / _LENGTH).chunk(2, -1)
            g = g + p * q
        return v + _applied(self.joined, g)

    def _bank(self, v: Tensor, grid: Grid) -> Tensor:
        """S[w Ŝ v], the first channels in sines and the rest in cosines."""
        sines, kinds = (self.bank_channels + 1) // 2, get_args(walls.Kind)
        pieces, alphas = v.tensor_split((sines,), -1), self.alpha.tensor_split((sines,))
        parts = []
        for kind, piece, alpha in zip(kinds, pieces, alphas):
            modes = tuple(min(self.bank_modes, most) for most in walls.fitting_modes(grid, kind))
            tables = walls.wall_tables(grid, kind, modes, v.dtype, v.device)
            resolvents = _resolvents(grid, kind, modes, self.poles, v.dtype, v.device)
            parts.append(walls.synthesise(walls.analyse(piece, tables) * (resolvents @ alpha.to(v.dtype).T), tables))
        return torch.cat(parts, -1)

    def extra_repr(self) -> str:
        return f"{self.channels}, bank_modes={self.bank_modes}, products={self.products}, poles={self.poles}"


def derivative(u: Tensor, axis: int, spacing: float) -> Tensor:
    """Central differences of u along one axis, one-sided at its ends; the same shape."""
    n = u.shape[axis]
    inside = (u.narrow(axis, 2, n - 2) - u.narrow(axis, 0, n - 2)) / (2 * spacing)
    first = (u.narrow(axis, 1, 1) - u.narrow(axis, 0, 1)) / spacing
    last = (u.narrow(axis, n - 1, 1) - u.narrow(axis, n - 2, 1)) / spacing
    return torch.cat([first, inside, last], axis)


def _applied(linear: nn.Linear, x: Tensor) -> Tensor:
    """The linear map in the dtype of x, whatever that of its parameters."""
    bias = None if linear.bias is None else linear.bias.to(x.dtype)
    return nn.functional.linear(x, linear.weight.to(x.dtype), bias)


def _longest(grid: Grid) -> float:
    return max(right - left for left, right in grid.domain)


@constant
@kept(64)
def _resolvents(
    grid: Grid, kind: Any, modes: tuple[int, ...], poles: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """1/(1 + |k|²/4^j), (*modes, poles)."""
    size, square = _longest(grid), np.zeros(())
    for (left, right), count in zip(grid.domain, modes):
        k = (np.arange(count) + (kind == "sine")) * size / (right - left)
        square = square[..., None] + k**2
    return torch.from_numpy(1 / (1 + square[..., None] / 4.0 ** np.arange(poles))).to(dtype=dtype, device=device)
