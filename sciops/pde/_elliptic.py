"""(−Δ + shift) u = f on a box, exactly in the eigenfunctions of −Δ: the one solve behind Poisson and Helmholtz."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from sciops._arrays import as_tensor
from sciops.grids import Grid, check_on_grid
from sciops.pde._eigenbasis import (
    SCHEMES,
    Boundary,
    Scheme,
    analyse,
    boundaries_of,
    differences,
    eigenvalues,
    inside,
    synthesise,
)


@dataclass(frozen=True)
class Solution:
    """u, and how well it solves its own scheme; in the caller's kind (numpy or torch) and dtype.

    u : like f
    residual : (batch,), or a number for a single field: ‖f − Au‖₂ / ‖f‖₂ over the unknowns, recomputed from u; 0 where
        f = 0. "spectral": A is the Laplacian of the sum of eigenfunctions through u. "finite-volume": A takes
        differences of neighbouring values, no transform
    """

    u: Any
    residual: Any


@dataclass(frozen=True)
class Problem:
    """What a door has checked: f as a batch, the way back, the boundary words, the scheme."""

    f: Tensor
    restore: Any
    single: bool
    grid: Grid
    kinds: tuple[Boundary, ...]
    scheme: Scheme

    @property
    def eigenvalues(self) -> Tensor:
        return torch.tensor(eigenvalues(self.grid, self.kinds, self.scheme), dtype=torch.float64)

    @property
    def has_constants(self) -> bool:
        """Whether −Δ has constants in its kernel: no axis is held at zero."""
        return "dirichlet" not in self.kinds


def problem(f: Any, grid: Grid, boundary: Boundary | Sequence[Boundary] | None, scheme: Scheme) -> Problem:
    """Raises ValueError and TypeError naming what was got."""
    kinds = boundaries_of(grid, boundary)
    if scheme not in SCHEMES:
        raise ValueError(f"scheme={scheme!r}: expected 'spectral' or 'finite-volume'")
    if grid.ndim > 3:
        raise ValueError(f"grid has {grid.ndim} axes; expected 1, 2 or 3")
    tensor, restore, single = fields(f, grid, "f")
    return Problem(tensor, restore, single, grid, kinds, scheme)


def fields(f: Any, grid: Grid, name: str) -> tuple[Tensor, Any, bool]:
    """(batch, *grid), the way back, whether it was a single field: finite real numbers of 32 or 64 bits."""
    tensor, restore = as_tensor(f, name)
    if tensor.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"{name} has dtype {tensor.dtype}; expected float32 or float64")
    check_on_grid(tensor, grid, name)
    if tensor.ndim not in (grid.ndim, grid.ndim + 1):
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected (batch, *grid) or the grid {grid.shape}")
    if not torch.isfinite(tensor).all():
        index = torch.nonzero(~torch.isfinite(tensor))[0].tolist()
        raise ValueError(f"{name}[{', '.join(map(str, index))}] is not finite: expected finite numbers")
    single = tensor.ndim == grid.ndim
    return tensor.reshape(-1, *grid.shape), restore, single


def without_mean(p: Problem, mean: Literal["refuse", "project"]) -> Tensor:
    """f less its mean over the box, which must be round-off unless `mean` is "project"."""
    if mean not in ("refuse", "project"):
        raise ValueError(f"mean={mean!r}: expected 'refuse' or 'project'")
    axes = tuple(range(1, p.f.ndim))
    weights = torch.as_tensor(p.grid.weights(), dtype=p.f.dtype, device=p.f.device)
    weights = weights / weights.sum()
    average = (weights * p.f).sum(axes, keepdim=True)
    size = (weights * p.f**2).sum(axes, keepdim=True).sqrt()
    excess = (average.abs() > 100 * torch.finfo(p.f.dtype).eps * size).flatten()
    if mean == "refuse" and excess.any():
        i = int(torch.nonzero(excess)[0])
        which = "f" if p.single else f"f[{i}]"
        raise ValueError(
            f"{which} has the mean {average.flatten()[i]:.3g}: −Δu = f has a solution with {p.kinds[0]} boundaries "
            "only for mean 0; subtract it, or pass mean='project'"
        )
    return p.f - average


def solve(p: Problem, f: Tensor, shift: Tensor) -> Solution:
    """(λ + shift) divides every coefficient; where that is 0, the kernel of Poisson, the coefficient of u is 0.

    shift : () or (batch,) float64 on the CPU
    """
    symbol = p.eigenvalues + shift.reshape(-1, *(1,) * p.grid.ndim)
    inverse = torch.where(symbol == 0, 0.0, 1 / symbol).to(device=f.device, dtype=f.dtype)
    u = synthesise(analyse(f, p.grid, p.kinds) * inverse, p.grid, p.kinds)
    rho = residual(p, f, u, shift)
    first = 0 if p.single else slice(None)
    return Solution(p.restore(u[first]), p.restore(rho[first]))


def residual(p: Problem, f: Tensor, u: Tensor, shift: Tensor) -> Tensor:
    """‖f − (−Δ + shift)u‖₂ / ‖f‖₂ per sample over the unknowns, (batch,)."""
    inner = (..., *inside(p.grid, p.kinds))
    if p.scheme == "spectral":
        values = eigenvalues(p.grid, p.kinds)
        symbol = torch.tensor(values, dtype=f.dtype, device=f.device)
        applied = synthesise(analyse(u, p.grid, p.kinds) * symbol, p.grid, p.kinds)[inner]
    else:
        applied = differences(u, p.grid, p.kinds)
    moved = shift.to(device=f.device, dtype=f.dtype).reshape(-1, *(1,) * p.grid.ndim)
    left = (f[inner] - applied - moved * u[inner]).flatten(1).norm(dim=1)
    size = f[inner].flatten(1).norm(dim=1)
    return left / torch.where(size > 0, size, 1.0)
