"""Helmholtz's equation: −Δu − k²a u = f, and its screened form −Δu + κ²a u = f, by fast transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.arrays.kinds import as_tensor
from sciops.grids import Grid
from sciops.pde.elliptic import shifted_laplacian
from sciops.pde.elliptic.eigenbasis import Boundary, Scheme
from sciops.pde.elliptic.shifted_laplacian import Solution
from sciops.pde.inputs import constant
from sciops.values import check_whole

__all__ = ["Solution", "solve"]

_LEAST_DIGITS = 1e4  # a mode nearer to resonance than this many ε keeps fewer than four of its digits


def solve(
    f: Any,
    grid: Grid,
    *,
    wavenumber: Any = None,
    screening: Any = None,
    coefficient: Any = None,
    boundary: Boundary | Sequence[Boundary] | None = None,
    scheme: Scheme = "spectral",
    tol: float = 1e-8,
    max_iterations: int = 2000,
) -> Solution:
    """Solves −Δu − k²a u = f (`wavenumber` k) or −Δu + κ²a u = f (`screening` κ); exactly one of the two.

    Parameters
    ----------
    f
        (batch, *grid) or (*grid), 1 to 3 axes, numpy or torch, float32 or float64, any device.
    grid, boundary, scheme
        As in `sciops.pde.poisson.solve`; in "finite-volume" waves are slower than k says, by a share of (kh)²/24: keep
        kh < 0.5.
    wavenumber
        k ≥ 0 in radians per unit of length, one number or one per sample (batch,).
    screening
        κ > 0, inverse length, one number or one per sample; always solvable.
    coefficient
        a(x) ≥ 0, (*grid) or (batch, *grid), default 1: the squared slowness of a medium, relative to a reference medium
        whose wavenumber is k. Without it the solve is direct; with it MINRES iterates in float64.
    tol, max_iterations
        Of MINRES: the residual to reach, and the largest number of iterations.

    Returns
    -------
    Solution
        .u, the true .residual and .iterations; differentiable in f and the coefficient.

    Raises
    ------
    ValueError
        k² within 1e4 ε of an eigenvalue (relative), naming the mode and a k between eigenvalues; and as
        `sciops.pde.poisson.solve`.
    RuntimeError
        With a coefficient, whose resonances are not known beforehand: a sample that does not converge.

    Notes
    -----
    The sign is that of −Δ; for the convention Δu + k²u = g pass f = −g. Waves of length 2π/k fill the box once k² is
    above its first eigenvalue. For u = b on the walls solve for w = u − b, 0 on them, with f + k²a b in place of f.
    The box is closed, so nothing is radiated: where k² is an eigenvalue of −Δ there is no solution. Near one u is
    large, ‖u‖ up to ‖f‖ / min|λ − k²|, and as much precision is lost.
    """
    p = shifted_laplacian.problem(f, grid, boundary, scheme)
    if (wavenumber is None) == (screening is None):
        raise ValueError("expected either wavenumber=k for −Δu − k²u = f, or screening=κ for −Δu + κ²u = f")
    if screening is not None:
        shift = constant(screening, "screening", p.start, above=0.0, trailing=0) ** 2
    else:
        k = constant(wavenumber, "wavenumber", p.start, least=0.0, trailing=0)
        shift = -(k**2)
    if coefficient is not None:
        return shifted_laplacian.solve_with_field(p, _field(coefficient, shift, p), *_limits(tol, max_iterations))
    if screening is None:
        _refuse_resonance(p, k)
    return shifted_laplacian.solve(p, p.f, shift)


def _field(coefficient: Any, square: Tensor, p: shifted_laplacian.Problem) -> Tensor:
    """∓k²a, (1 or batch, *grid) float64 on f's device."""
    a, _ = as_tensor(coefficient, "coefficient")
    batch, shape = len(p.f), p.grid.shape
    if a.is_complex() or a.shape not in (shape, (1, *shape), (batch, *shape)):
        raise ValueError(
            f"coefficient has shape {tuple(a.shape)} and dtype {a.dtype}; expected real numbers in {shape}, or "
            f"{(batch, *shape)}"
        )
    if not (torch.isfinite(a) & (a >= 0)).all():
        raise ValueError("coefficient: expected finite numbers of at least 0 everywhere")
    shift = square.reshape(-1, *(1,) * len(shape)).to(p.f.device) * a.to(p.f.device, torch.float64)
    if not shift.detach().flatten(1).any(1).all():
        raise ValueError("wavenumber or coefficient is 0 everywhere: that is Poisson's; take sciops.pde.poisson.solve")
    return shift


def _limits(tol: float, most: int) -> tuple[float, int]:
    if not (isinstance(tol, (int, float, np.number)) and 0 < tol < 1):
        raise ValueError(f"tol={tol!r}: expected a relative residual between 0 and 1, such as 1e-8")
    check_whole(max_iterations=most)
    return float(tol), int(most)


def _refuse_resonance(p: shifted_laplacian.Problem, k: Tensor) -> None:
    values = p.eigenvalues.numpy()
    levels = np.unique(values)
    margin = _LEAST_DIGITS * torch.finfo(p.f.dtype).eps
    for i, square in enumerate((k**2).tolist()):
        at = np.searchsorted(levels, square).clip(1, len(levels) - 1) if len(levels) > 1 else 0
        near = levels[at] if at == 0 or levels[at] - square < square - levels[at - 1] else levels[at - 1]
        if abs(near - square) > margin * max(near, square):
            continue
        if near == square == 0:
            raise ValueError("wavenumber=0: that is Poisson's equation; take sciops.pde.poisson.solve")
        apart = levels[levels > near * (1 + 1e-6)]
        free = f"k = {np.sqrt((near + apart[0]) / 2):.6g}" if len(apart) else f"k = {1.01 * np.sqrt(near):.6g}"
        mode = tuple(int(m) for m in np.unravel_index(np.abs(values - near).argmin(), values.shape))
        first = tuple(int(kind == "dirichlet") for kind in p.kinds)
        mode = tuple(m + f for m, f in zip(mode, first))
        which = "" if len(k) == 1 else f" of sample {i}"
        raise ValueError(
            f"wavenumber={np.sqrt(square):.8g}{which} is resonant: k² = {square:.8g} is the eigenvalue {near:.8g} of "
            f"mode {mode} of the box, so there is no solution; {free} lies between eigenvalues, or use screening"
        )
