"""Real fields on a periodic grid as half spectra: u(x) = Σ_q v_q exp(i k_q·(x − a)), k_q = 2πq/L axis by axis."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from sciops.bases import Basis, fourier_numbers
from sciops.grids import Grid

__all__ = ["FourierSpace", "check_periodic"]


class FourierSpace:
    """The Fourier transforms of one grid, its wavenumbers in radians per unit of length, and its dealiasing masks.

    grid : Grid      periodic, extent = domain, 1 to 3 axes
    field : Tensor   gives the device and the real dtype of the state, float32 or float64

    Spectra are v = rfftn/N over the last axes, (…, n_1, …, n_d//2 + 1): v at q = 0 is the mean. Symbols
    (`wavenumbers`, `derivative`, `laplacian`) are float64 or complex128 on the CPU whatever the state is, so that the
    coefficients of an integrator are computed in double precision; `cast` brings them to the state.

    Raises ValueError for a grid that is not periodic or does not fill its domain.
    """

    def __init__(self, grid: Grid, field: Tensor) -> None:
        check_periodic(grid)
        self.grid, self.dtype, self.device = grid, field.dtype, field.device
        self._axes = tuple(range(-grid.ndim, 0))

    def forward(self, u: Tensor) -> Tensor:
        """v of u, both (…, *grid)."""
        return torch.fft.rfftn(u, dim=self._axes, norm="forward")

    def inverse(self, v: Tensor) -> Tensor:
        """u of v. An imaginary part where a real field has none (mean, Nyquist) is not read."""
        return torch.fft.irfftn(v, s=self.grid.shape, dim=self._axes, norm="forward")

    @cached_property
    def numbers(self) -> tuple[Tensor, ...]:
        """q per axis, float64, shaped to broadcast over a spectrum: 0, 1, … (n − 1)//2, −(n//2), …; last axis q ≥ 0."""
        *rows, last = self.grid.shape
        return _mesh([*(fourier_numbers(n, half=False) for n in rows), fourier_numbers(last, half=True)])

    @cached_property
    def wavenumbers(self) -> tuple[Tensor, ...]:
        """k per axis, 2πq/L, shaped like `numbers`."""
        lines = [Basis("fourier", n, "periodic", b - a) for n, (a, b) in zip(self.grid.shape, self.grid.extent)]
        return _mesh([line.wavenumbers(half=line is lines[-1]) for line in lines])

    @cached_property
    def laplacian(self) -> Tensor:
        """−|k|², the symbol of Δ, of the spectrum's shape."""
        return -sum(k**2 for k in self.wavenumbers)

    def derivative(self, axis: int = 0, order: int = 1) -> Tensor:
        """(ik)^order, the symbol of ∂^order/∂x_axis^order; float64 for even orders.

        The Nyquist mode of an even axis is cos(πx/h) on the grid and stands for both signs of k: its odd derivatives
        vanish at every point, so their symbol is 0 there.
        """
        k = self.wavenumbers[axis]
        if order % 2 == 0:
            return (-1.0) ** (order // 2) * k**order
        symbol = torch.where(self.nyquist(axis), 0.0, k**order)
        return (-1.0) ** (order // 2) * torch.complex(torch.zeros_like(symbol), symbol)

    def nyquist(self, axis: int) -> Tensor:
        """Where 2|q| = n, shaped like `numbers`."""
        return 2 * self.numbers[axis].abs() == self.grid.shape[axis]

    def mask(self, degree: int) -> Tensor:
        """1 where |q| < n/(degree + 1) on every axis, else 0, in the state's dtype: the modes whose products of
        `degree` factors alias onto none of them. The 2/3 rule for degree 2, the 1/2 rule for degree 3; all modes for
        degree 1 but the Nyquist one."""
        keep = torch.ones((1,) * self.grid.ndim, dtype=torch.bool)
        for q, n in zip(self.numbers, self.grid.shape):
            keep = keep & ((degree + 1) * q.abs() < n)
        return self.cast(keep.to(torch.float64))

    def cast(self, symbol: Tensor) -> Tensor:
        """A symbol on the state's device, in its real or complex dtype."""
        return symbol.to(self.device, self.dtype.to_complex() if symbol.is_complex() else self.dtype)


def _mesh(lines: list[np.ndarray]) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(k.astype(np.float64)) for k in np.meshgrid(*lines, indexing="ij", sparse=True))


def check_periodic(grid: Grid) -> None:
    """Raises TypeError when grid is not a Grid, ValueError unless it is periodic over its whole domain."""
    if not isinstance(grid, Grid):
        raise TypeError(f"grid={grid!r}: expected a Grid, such as Grid((256,), extent=(0, 1), centering='periodic')")
    if grid.centering != "periodic":
        raise ValueError(f"grid of {grid.centering} points: expected Grid({grid.shape}, …, centering='periodic')")
    if not grid.reaches_walls:
        raise ValueError(f"grid of extent {grid.extent} in the domain {grid.domain}: expected one whole period")
