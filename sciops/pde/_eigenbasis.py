"""Eigenfunctions of −Δ on a box, as fast transforms: what makes Poisson, Helmholtz and the wave equation diagonal.

Every axis is a period, or has two walls at distance L. Between walls a field is one half of a periodic one of period
2L, odd about the walls where it vanishes there (sines, "dirichlet"), even where its slope does (cosines, "neumann");
so every transform is a real FFT of that reflection. With N spacings from wall to wall the points are nodes j/N, or the
cell centres (j + ½)/N.

    dirichlet   sin(πkx/L)   nodes: k = 1 … N − 1 on the inner nodes    cells: k = 1 … N
    neumann     cos(πkx/L)   nodes: k = 0 … N                           cells: k = 0 … N − 1
    periodic    exp(2πikx/L) k = −n/2 … n/2 (the last periodic axis holds k ≥ 0 alone)

The second-order difference scheme has the same eigenfunctions, with 4/h² sin²(h√λ/2) in the place of λ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from sciops.grids import Grid

Boundary = Literal["periodic", "dirichlet", "neumann"]
Scheme = Literal["spectral", "finite-volume"]
SCHEMES = ("spectral", "finite-volume")


def boundaries_of(grid: Grid, boundary: Boundary | Sequence[Boundary] | None) -> tuple[Boundary, ...]:
    """One word per axis; None is periodic on a periodic grid and dirichlet on any other.

    A periodic grid has no walls and a node grid no period; a cell grid has either on each axis.

    Raises TypeError when `grid` is no Grid; ValueError for unknown words, for words that do not fit the grid, and for
    grids that stop short of their walls.
    """
    if not isinstance(grid, Grid):
        raise TypeError(f"grid={grid!r}: expected a Grid, such as Grid((64, 64), centering='periodic')")
    if boundary is None:
        boundary = "periodic" if grid.centering == "periodic" else "dirichlet"
    kinds = (boundary,) * grid.ndim if isinstance(boundary, str) else tuple(boundary)
    if len(kinds) != grid.ndim or not set(kinds) <= {"periodic", "dirichlet", "neumann"}:
        raise ValueError(
            f"boundary={boundary!r}: expected 'periodic', 'dirichlet' or 'neumann', or one of them for each of the "
            f"{grid.ndim} axes"
        )
    misfit = {"periodic": {"dirichlet", "neumann"}, "node": {"periodic"}, "cell": set()}[grid.centering]
    if misfit & set(kinds):
        fit = "'periodic'" if grid.centering == "periodic" else "'dirichlet' or 'neumann'"
        raise ValueError(f"boundary={boundary!r} does not fit a {grid.centering} grid: expected {fit} on every axis")
    if not grid.reaches_walls:
        raise ValueError(
            f"the grid covers {grid.extent} of the domain {grid.domain}: sines and cosines need points up to the "
            "walls; sciops.resample the field, or take sciops.pde.darcy.solve with a = 1"
        )
    if grid.centering == "node" and any(k == "dirichlet" and n < 3 for k, n in zip(kinds, grid.shape)):
        raise ValueError(f"shape={grid.shape}: u = 0 on the walls needs at least 3 nodes per axis")
    return kinds


def inside(grid: Grid, kinds: Sequence[Boundary]) -> tuple[slice, ...]:
    """Where u is unknown: all but the wall nodes that dirichlet fixes. An index for the last axes, after `...`."""
    fixed = grid.centering == "node"
    return tuple(slice(1, -1) if fixed and kind == "dirichlet" else slice(None) for kind in kinds)


def analyse(u: Tensor, grid: Grid, kinds: Sequence[Boundary]) -> Tensor:
    """Coefficients of the eigenfunctions, (…, *modes); u (…, *grid), wall values of dirichlet nodes are not read."""
    for axis, kind in zip(range(-grid.ndim, 0), kinds):
        if kind != "periodic":
            u = _from_points(u.movedim(axis, -1), kind == "dirichlet", grid.centering == "cell").movedim(-1, axis)
    periods = _periods(kinds)
    return torch.fft.rfftn(u, dim=periods, norm="forward") if periods else u


def synthesise(coefficients: Tensor, grid: Grid, kinds: Sequence[Boundary]) -> Tensor:
    """The field (…, *grid) of given coefficients; exactly 0 on the wall nodes of dirichlet."""
    u, periods = coefficients, _periods(kinds)
    if periods:
        u = torch.fft.irfftn(u, s=[grid.shape[axis] for axis in periods], dim=periods, norm="forward")
    for axis, kind in zip(range(-grid.ndim, 0), kinds):
        if kind != "periodic":
            u = _to_points(u.movedim(axis, -1), kind == "dirichlet", grid.centering == "cell").movedim(-1, axis)
    return u


@lru_cache(maxsize=32)
def eigenvalues(grid: Grid, kinds: tuple[Boundary, ...], scheme: Scheme = "spectral") -> np.ndarray:
    """λ of −Δ (or of its second-order differences) for every coefficient, float64 in their shape."""
    if scheme not in SCHEMES:
        raise ValueError(f"scheme={scheme!r}: expected 'spectral' or 'finite-volume'")
    total, last = np.zeros(()), max(_periods(kinds), default=0)
    for axis, (n, h) in enumerate(zip(grid.shape, grid.spacing)):
        angle = _angles(n, grid.centering, kinds[axis], half=axis - grid.ndim == last)  # h √λ
        value = (angle if scheme == "spectral" else 2 * np.sin(angle / 2)) / h
        total = np.add.outer(total, value**2)
    total.setflags(write=False)
    return total


def differences(u: Tensor, grid: Grid, kinds: Sequence[Boundary]) -> Tensor:
    """−Δu by second-order differences in flux form, (…, *grid) → the unknowns (see `inside`); no transform in it."""
    d, inner = grid.ndim, inside(grid, kinds)
    total = torch.zeros_like(u[(..., *inner)])
    for axis, (kind, h) in enumerate(zip(kinds, grid.spacing)):
        others = tuple(s if i != axis else slice(None) for i, s in enumerate(inner))
        x = u[(..., *others)].movedim(axis - d, -1)
        if kind == "periodic":
            x = torch.cat([x[..., -1:], x, x[..., :1]], -1)
        elif grid.centering == "cell":
            sign = -1 if kind == "dirichlet" else 1
            x = torch.cat([sign * x[..., :1], x, sign * x[..., -1:]], -1)
        elif kind == "neumann":
            x = torch.cat([x[..., 1:2], x, x[..., -2:-1]], -1)
        flux = torch.diff(x, dim=-1)
        total = total - (torch.diff(flux, dim=-1) / h**2).movedim(-1, axis - d)
    return total


def _periods(kinds: Sequence[Boundary]) -> tuple[int, ...]:
    """The periodic axes, counted from the last, −1."""
    return tuple(axis - len(kinds) for axis, kind in enumerate(kinds) if kind == "periodic")


def _angles(n: int, centering: str, kind: str, half: bool) -> np.ndarray:
    if kind == "periodic":
        k = np.arange(n // 2 + 1) if half else np.fft.fftfreq(n, 1 / n)
        return 2 * np.pi * k / n
    spacings = n - 1 if centering == "node" else n
    first = 1 if kind == "dirichlet" else 0
    count = n - 2 if kind == "dirichlet" and centering == "node" else n
    return np.pi * np.arange(first, first + count) / spacings


def _from_points(u: Tensor, odd: bool, cell: bool) -> Tensor:
    """Sine or cosine coefficients along the last axis: the FFT of the reflection, turned to the first wall."""
    if cell:
        mirror = u.flip(-1)
    elif odd:
        u = pad(u[..., 1:-1], (1, 1))
        mirror = u[..., 1:-1].flip(-1)
    else:
        mirror = u[..., 1:-1].flip(-1)
    period = torch.cat([u, -mirror if odd else mirror], -1)
    half = period.shape[-1] // 2
    modes = torch.fft.rfft(period, dim=-1, norm="forward")
    if cell:
        modes = modes * _turn(half, modes).conj()
    # cell cosines end at k = N − 1, and node sines at N − 1 too: what would come next vanishes on the points
    values = -modes.imag[..., 1:] if odd else modes.real
    return values[..., : half - 1] if odd and not cell else values[..., :half] if cell else values


def _to_points(coefficients: Tensor, odd: bool, cell: bool) -> Tensor:
    count = coefficients.shape[-1]
    half = count + 1 if odd and not cell else count if cell else count - 1
    full = pad(coefficients, (int(odd), half + 1 - count - int(odd)))
    zero = torch.zeros_like(full)
    modes = torch.complex(zero, -full) if odd else torch.complex(full, zero)
    if cell:
        modes = modes * _turn(half, modes)
    points = torch.fft.irfft(modes, n=2 * half, dim=-1, norm="forward")[..., : half + (not cell)]
    return pad(points[..., 1:-1], (1, 1)) if odd and not cell else points


def _turn(half: int, like: Tensor) -> Tensor:
    """exp(iπk/2N): from the first wall to the first cell centre, half a cell in."""
    k = torch.arange(half + 1, dtype=torch.float64, device="cpu")
    return torch.polar(torch.ones_like(k), math.pi / (2 * half) * k).to(device=like.device, dtype=like.dtype)
