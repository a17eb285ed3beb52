"""(−Δ + shift) u = f on a box: the solves behind Poisson and Helmholtz.

A shift that is a number is added to the eigenvalues of −Δ, and the solve is direct; one that is a field is not diagonal
in any known basis, and MINRES solves with it, preconditioned by the direct solve of −Δ and the shift's mean size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from sciops.arrays.scale import norm_of
from sciops.arrays.short import fields_text
from sciops.grids import Grid
from sciops.pde.elliptic.eigenbasis import (
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
from sciops.pde.elliptic.minres import solve_differentiably
from sciops.pde.inputs import Start, initial


@dataclass(frozen=True)
class Solution:
    """Solution u and its relative residual, in the caller's kind (numpy or torch) and dtype.

    Parameters
    ----------
    u
        Like f.
    residual
        (batch,), or a number for a single field: ‖f − Au‖₂ / ‖f‖₂ over the unknowns, recomputed from u; 0 where f = 0.
        "spectral": A is the Laplacian of the sum of eigenfunctions through u. "finite-volume": A takes differences of
        neighbouring values, without transforms.
    iterations
        (batch,), or a number: of MINRES; None where the solve is direct.
    """

    u: Any
    residual: Any
    iterations: Any = None

    __repr__ = fields_text


@dataclass(frozen=True)
class Problem:
    """A checked problem: f as a batch, the boundary condition of every axis, the scheme."""

    start: Start
    grid: Grid
    kinds: tuple[Boundary, ...]
    scheme: Scheme

    @property
    def f(self) -> Tensor:
        return self.start.field

    @property
    def eigenvalues(self) -> Tensor:
        return torch.tensor(eigenvalues(self.grid, self.kinds, self.scheme), dtype=torch.float64)

    @property
    def has_constants(self) -> bool:
        """Whether −Δ has constants in its kernel: no axis is held at zero."""
        return "dirichlet" not in self.kinds

    def result(self, values: Tensor) -> Any:
        """(batch, …) in the caller's kind, without the batch where f came without."""
        return self.start.restore(values[0] if self.start.single else values)


def problem(f: Any, grid: Grid, boundary: Boundary | Sequence[Boundary] | None, scheme: Scheme) -> Problem:
    """The checked problem. Raises ValueError and TypeError, naming what was got."""
    kinds = boundaries_of(grid, boundary)
    if scheme not in SCHEMES:
        raise ValueError(f"scheme={scheme!r}: expected 'spectral' or 'finite-volume'")
    return Problem(initial(f, grid, name="f"), grid, kinds, scheme)


def without_mean(p: Problem, mean: Literal["refuse", "project"]) -> Tensor:
    """f less its mean over the box. Raises ValueError where that exceeds round-off, unless `mean` is "project"."""
    if mean not in ("refuse", "project"):
        raise ValueError(f"mean={mean!r}: expected 'refuse' or 'project'")
    axes = tuple(range(1, p.f.ndim))
    weights = torch.as_tensor(p.grid.weights(), dtype=p.f.dtype, device=p.f.device)
    weights = weights / weights.sum()
    average = (weights * p.f).sum(axes, keepdim=True)
    size = norm_of(weights.sqrt() * p.f, axes)
    excess = average.flatten().abs() > 100 * torch.finfo(p.f.dtype).eps * size
    if mean == "refuse" and excess.any():
        i = int(torch.nonzero(excess)[0])
        which = "f" if p.start.single else f"f[{i}]"
        raise ValueError(
            f"{which} has the mean {average.flatten()[i]:.3g}: −Δu = f has a solution with {p.kinds[0]} boundaries "
            "only for mean 0; subtract it, or pass mean='project'"
        )
    return p.f - average


def solve(p: Problem, f: Tensor, shift: Tensor) -> Solution:
    """Solves by dividing every coefficient of f by λ + shift; 0 where that is 0, which is the kernel of Poisson.

    Parameters
    ----------
    shift
        () or (batch,) float64 on the CPU.
    """
    symbol = p.eigenvalues + shift.reshape(-1, *(1,) * p.grid.ndim)
    inverse = torch.where(symbol == 0, 0.0, 1 / symbol).to(device=f.device, dtype=f.dtype)
    u = synthesise(analyse(f, p.grid, p.kinds) * inverse, p.grid, p.kinds)
    return Solution(p.result(u), p.result(residual(p, f, u, shift)))


def solve_with_field(p: Problem, shift: Tensor, tol: float, most: int) -> Solution:
    """As `solve` for a shift that is a field, iterated in float64 until every residual is at most tol.

    shift : (1 or batch, *grid) float64 on f's device, not 0 everywhere in any sample

    Raises RuntimeError naming the sample that does not get there in `most` iterations.
    """
    grid, kinds, like_f = p.grid, p.kinds, {"dtype": torch.float64, "device": p.f.device}
    inner = torch.zeros(grid.shape, **like_f)
    inner[inside(grid, kinds)] = 1.0
    values = p.eigenvalues.to(p.f.device)
    mean = shift.detach().abs().mean(tuple(range(1, shift.ndim)), keepdim=True)
    inverse = 1 / (values + mean)

    def operator(shift: Tensor, u: Tensor) -> Tensor:
        return synthesise(values * analyse(u, grid, kinds), grid, kinds) + shift * inner * u

    def preconditioner(f: Tensor) -> Tensor:
        return synthesise(inverse * analyse(f, grid, kinds), grid, kinds)

    weights = torch.tensor(grid.weights(), **like_f)
    u, left, count = solve_differentiably(
        operator, preconditioner, p.f.to(torch.float64) * inner, shift, weights, tol, most
    )
    if not (left <= tol).all():
        i = int(torch.nonzero(~(left <= tol))[0])
        which = "" if p.start.single else f"sample {i}: "
        raise RuntimeError(
            f"{which}residual {left[i]:.1e} after {most} iterations, expected {tol:.0e}: the medium is near one of its "
            "resonances or has very many of them below k; change the wavenumber, or pass a larger tol or max_iterations"
        )
    return Solution(p.result((u * inner).to(p.f)), p.result(left), p.result(count))


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
    left, size = (norm_of(v.flatten(1), 1) for v in (f[inner] - applied - moved * u[inner], f[inner]))
    return left / torch.where(size > 0, size, 1.0)
