"""Eigenfunctions of −Δ on a box, as fast transforms, which make Poisson, Helmholtz and the wave equation diagonal.

Every axis is a period, or has two walls: "dirichlet" takes the sines of `sciops.bases`, "neumann" the cosines, and
"periodic" the Fourier modes, of which the last periodic axis holds k ≥ 0 alone. The second-order difference scheme has
the same eigenfunctions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from sciops.bases import KIND_OF, Basis
from sciops.grids import Grid

Boundary = Literal["periodic", "dirichlet", "neumann"]
Scheme = Literal["spectral", "finite-volume"]
SCHEMES = ("spectral", "finite-volume")


def boundaries_of(grid: Grid, boundary: Boundary | Sequence[Boundary] | None) -> tuple[Boundary, ...]:
    """The boundary condition of every axis; None is periodic on a periodic grid and dirichlet on any other.

    A periodic grid has no walls and a node grid no period; a cell grid has either on each axis.

    Raises TypeError when `grid` is not a Grid; ValueError for unknown conditions, for those that do not fit the grid,
    and for grids that stop short of their walls.
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
    for axis, basis in enumerate(_bases(grid, kinds), start=-grid.ndim):
        if basis.kind != "fourier":
            u = basis.analysis(u, axis)
    periods = _periods(kinds)
    return torch.fft.rfftn(u, dim=periods, norm="forward") if periods else u


def synthesise(coefficients: Tensor, grid: Grid, kinds: Sequence[Boundary]) -> Tensor:
    """The field (…, *grid) of given coefficients; exactly 0 on the wall nodes of dirichlet."""
    u, periods = coefficients, _periods(kinds)
    if periods:
        u = torch.fft.irfftn(u, s=[grid.shape[axis] for axis in periods], dim=periods, norm="forward")
    for axis, basis in enumerate(_bases(grid, kinds), start=-grid.ndim):
        if basis.kind != "fourier":
            u = basis.synthesis(u, axis)
    return u


@lru_cache(maxsize=32)
def eigenvalues(grid: Grid, kinds: tuple[Boundary, ...], scheme: Scheme = "spectral") -> np.ndarray:
    """λ of −Δ (or of its second-order differences) for every coefficient, float64 in their shape."""
    if scheme not in SCHEMES:
        raise ValueError(f"scheme={scheme!r}: expected 'spectral' or 'finite-volume'")
    total, last = np.zeros(()), max(_periods(kinds), default=0)
    for axis, basis in enumerate(_bases(grid, kinds), start=-grid.ndim):
        total = np.add.outer(total, basis.eigenvalues(scheme, half=axis == last))
    total.setflags(write=False)
    return total


def differences(u: Tensor, grid: Grid, kinds: Sequence[Boundary]) -> Tensor:
    """−Δu by second-order differences in flux form, (…, *grid) → the unknowns (see `inside`), without transforms."""
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


def _bases(grid: Grid, kinds: Sequence[Boundary]) -> list[Basis]:
    """The modes of every axis."""
    return [Basis(KIND_OF[kind], n, grid.centering, b - a) for kind, n, (a, b) in zip(kinds, grid.shape, grid.extent)]
