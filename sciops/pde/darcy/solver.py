"""Darcy flow: −∇·(A∇u) = f between walls or periodic, solved to a stated residual for batches of A."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from sciops.arrays.kinds import as_tensor
from sciops.arrays.scale import norm_of
from sciops.arrays.short import fields_text
from sciops.grids import Grid, check_on_grid
from sciops.pde.darcy import five_point as scheme
from sciops.pde.darcy.engines import Problem, engine_for, measured, restated
from sciops.pde.darcy.system import coefficient_of, system_of
from sciops.pde.darcy.walls import Boundary, Walls, write_values
from sciops.values import check_whole

__all__ = ["Solution", "SolverError", "residual", "solve"]

Backend = Literal["auto", "numba", "torch", "direct"]
Mean = Literal["refuse", "project"]


class SolverError(RuntimeError):
    """A sample did not reach the tolerance; the message names its index, residual and contrast."""


@dataclass(frozen=True)
class Solution:
    """Solution of `solve`; u and the numbers are in the caller's kind (numpy or torch), the words are numpy arrays.

    For a single field of rank 2, u has rank 2 and the other fields are zero-dimensional.

    Parameters
    ----------
    u
        (batch, nx, ny) float64, the given value on dirichlet wall nodes; NaN in samples that failed.
    residual
        (batch,) float64, ‖b − Au‖₂ / ‖b‖₂ recomputed from u; 0 where b = 0.
    iterations
        (batch,) of conjugate gradients; 0 for a direct solve alone.
    status
        (batch,) str: "ok"; "fallback_ok", multigrid did not converge and the direct solve did; "floor_limited", as
        accurate as float64 allows but not to tol, and more so than u = 0; "failed".
    method
        (batch,) str: "multigrid-numba", "multigrid-torch" or "direct", the one that gave u.
    floor
        (batch,) float64, the relative residual that rounding u to float64 alone may cause, ½ε‖|A||u|‖₂ / ‖b‖₂.
    """

    u: Any
    residual: Any
    iterations: Any
    status: np.ndarray
    method: np.ndarray
    floor: Any

    __repr__ = fields_text


@torch.no_grad()
def solve(
    a: Any,
    grid: Grid | None = None,
    *,
    forcing: Any = 1.0,
    boundary: Boundary = "dirichlet",
    values: Any = 0.0,
    flux: Any = 0.0,
    transfer: Any = 0.0,
    tensor: bool = False,
    mean: Mean = "refuse",
    tol: float = 1e-8,
    backend: Backend = "auto",
    on_failure: Literal["raise", "flag"] = "raise",
    threads: int | None = None,
    max_iterations: int = 60,
) -> Solution:
    """Solves −∇·(A∇u) = f by finite volumes with harmonic-mean faces: order 2 for smooth A, u and f.

    On every side of the rectangle u = v ("dirichlet"), A∂u/∂n = g ("neumann", n outward: g > 0 flows in) or
    A∂u/∂n + βu = g ("robin"); or an axis wraps round ("periodic").

    Parameters
    ----------
    a
        (batch, nx, ny) or (nx, ny), positive: A = a·I. Numpy or torch; cast to float64.
    grid
        Where a lives; default the unit box with nodes on the walls. Nodes on a neumann or robin wall are unknowns with
        half a cell; cells end at the walls. A grid that stops short of the wall has its condition at the wall of its
        `domain`, with the nearest coefficient up to there; any aspect ratio. With one axis periodic the grid has cells,
        with both of them it is periodic (the default then) or has cells.
    forcing
        f, a number, a field (nx, ny) or a batch of fields.
    boundary
        "dirichlet", "neumann", "robin", "periodic", or by axis {"x": "neumann", "y": ("dirichlet", "neumann")}, a pair
        being (low, high); axes that are not named are "dirichlet".
    values
        v, a number for every dirichlet side, or {"x": (low, high), "y": both}, each a number or an array over the
        grid's points along the side, (n,) or (batch, n).
    flux
        g, likewise, for the neumann and robin sides.
    transfer
        β, likewise, for the robin sides; ≥ 0, and not 0 all along a side.
    tensor
        a is (batch, 2, nx, ny) or (2, nx, ny), A = diag(a[0], a[1]).
    mean
        Where no side is dirichlet or robin a solution exists only if ∫f + ∮g = 0, and is unique up to a constant: u has
        mean 0 (cells as weights, the trapezoid rule on nodes). "refuse" what exceeds 1e-10 of ∫|f| + ∮|g|; "project"
        solves for f less a constant.
    tol
        Relative residual ‖b − Au‖₂ / ‖b‖₂ to reach, recomputed from u; b holds sources, fluxes, and the contributions
        of given values where they differ from their midrange. Driven by values alone, b is larger than a source would
        make it: 1e-10 then gives u as accurately as 1e-8 does for f = 1.
    backend
        "numba" (compiled, CPU), "torch" (any device), "direct" (sparse LU, CPU); "auto" takes numba for CPU data
        between walls where it is installed. numba compiles the solver at its first use, which takes some 8 s of
        processor time and is announced on standard error; later processes read it from numba's cache on disk (``python
        -m studies.solver_speed --preset cold`` prints both). What halves one axis alone, or smooths lines, is compiled
        when a sample needs it. "torch" and "direct" compile nothing.
    on_failure
        "raise" SolverError, or "flag" the sample: status "failed", u = NaN, the others unchanged.
    threads
        Samples solved at a time by "numba"; default torch.get_num_threads().
    max_iterations
        Of conjugate gradients, before the direct solver takes over.

    Returns
    -------
    Solution
        In the caller's kind of array. Not differentiable; `sciops.pde.darcy.adjoint` is.

    Raises
    ------
    ValueError
        a ≤ 0, NaN or infinity (naming index and value), shapes and sides that do not fit, and data that do not balance
        where no side holds a value.
    SolverError
        A sample did not converge.
    ImportError
        backend="numba" without numba.

    Notes
    -----
    Multigrid-preconditioned conjugate gradients take 6 to 15 iterations for contrasts up to 100, for any grid and walls
    and for mean ratios a_x : a_y of a tensor between 1e-4 and 1e4. Where that ratio itself varies in space, lines are
    smoothed instead of points, at about four times the cost of an iteration: 5 to 25 iterations where it turns from 1e3
    to 1e-3, 20 to 45 where it does so from pixel to pixel; not between periodic axes. What does not converge goes to
    sparse LU. A sample's result does not depend on the batch it is in (bitwise so in numba).

    Periodic axes are solved in torch, and need an even number of points, best at most 32 times a power of two: what
    cannot be halved down to that goes to sparse LU. For contrasts near 1e6 the rounding errors of float64 exceed the
    tolerance: status "floor_limited", and a warning unless on_failure="flag".

    Examples
    --------
    >>> flow = solve(np.ones((9, 9)), forcing=0, boundary={"y": "neumann"}, values={"x": (1, 0)})
    >>> bool(abs(flow.u - np.linspace(1, 0, 9)[:, None]).max() < 1e-8)
    True
    """
    if on_failure not in ("raise", "flag"):
        raise ValueError(f"on_failure={on_failure!r}: expected 'raise' or 'flag'")
    if not (isinstance(tol, (int, float, np.floating)) and 0 < tol < 1):
        raise ValueError(f"tol={tol!r}: expected a relative residual between 0 and 1, such as 1e-8")
    check_whole(max_iterations=max_iterations, threads=1 if threads is None else threads)
    coefficient, restore, single, grid = coefficient_of(a, grid, tensor, boundary)
    system = system_of(coefficient, grid, forcing, boundary, values, flux, transfer, mean, single)
    run = engine_for(backend, coefficient.device, tuple(axis.wraps for axis in system.axes))

    # powers of two: exact, and neither float32 nor squared norms can leave their range afterwards
    a_scale, b_scale = (_power_of_two(size) for size in (coefficient.flatten(1).amax(1), _largest(system.b)))
    problem = Problem(system.a, a_scale, system.b.div_(b_scale[:, None, None]), system.axes, system.exchange)
    x, y = system.axes
    u = _zeros((len(coefficient), *grid.shape), coefficient)
    inside = u[:, x.unknown, y.unknown]
    rho, floor, iterations, status, method = run(problem, inside, tol, max_iterations, threads)
    level = _level(problem, system.walls, inside, a_scale / b_scale)
    if level is not None:
        inside += level[:, None, None]
        rho, floor = measured(problem, inside, level)
        status = restated(status, rho, floor, tol)
    u.mul_((b_scale / a_scale)[:, None, None])
    write_values(u, system.axes, system.walls)
    _report(status, rho, floor, coefficient, tol, on_failure)
    failed = np.flatnonzero(status == "failed")  # numbers: a mask would go through all of u
    u[torch.from_numpy(failed).to(u.device)] = torch.nan
    first = 0 if single else slice(None)
    u, rho, iterations, floor = (restore(values[first]) for values in (u, rho, iterations, floor))
    return Solution(u, rho, iterations, status[first], method[first], floor)


def residual(
    a: Any,
    u: Any,
    grid: Grid | None = None,
    forcing: Any = 1.0,
    *,
    boundary: Boundary = "dirichlet",
    values: Any = 0.0,
    flux: Any = 0.0,
    transfer: Any = 0.0,
    tensor: bool = False,
    mean: Mean = "refuse",
) -> Any:
    """Relative residual ‖b − Au‖₂ / ‖b‖₂ of a given u in the scheme of `solve`, per sample.

    Differentiable in a, u, forcing and flux.

    Parameters
    ----------
    u
        (batch, nx, ny) or (nx, ny); nodes on dirichlet walls are not read, u has the given value there.
    a, grid, forcing, boundary, values, flux, transfer, tensor, mean
        As in `solve`.

    Returns
    -------
    array
        (batch,), or a number for a single field; ‖Au‖₂ where b = 0.
    """
    coefficient, _, single, grid = coefficient_of(a, grid, tensor, boundary)
    field, restore = as_tensor(u, "u")
    check_on_grid(field, grid, "u")
    if field.ndim > 3 or field.shape[:-2] not in ((), (1,), (len(coefficient),)):
        raise ValueError(
            f"u has shape {tuple(field.shape)}; expected {grid.shape} or {(len(coefficient), *grid.shape)}, as a has "
            f"{len(coefficient)} samples"
        )
    field = field.to(coefficient).reshape(-1, *grid.shape)
    system = system_of(coefficient, grid, forcing, boundary, values, flux, transfer, mean, single)
    x, y = system.axes
    field = field[:, x.unknown, y.unknown]
    if system.walls.level is not None:
        field = field - system.walls.level[:, None, None]
    r, size = (norm_of(v.flatten(1), 1) for v in (system.left_by(field), system.b))
    rho = r / torch.where(size > 0, size, 1.0)
    return restore(rho[0] if single else rho)


def _level(problem: Problem, walls: Walls, u: Tensor, scale: Tensor) -> Tensor | None:
    """What to add to the engine's u, (batch,) in its units: the walls' level, or what makes the mean zero."""
    if problem.singular:
        area = scheme.areas(problem.axes, u)
        return -(area * u).sum((1, 2)) / area.sum()
    return None if walls.level is None else walls.level * scale


def _zeros(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Zeros, which on a CPU the engine's threads are the first to touch: numpy leaves the system to clear pages."""
    return torch.from_numpy(np.zeros(shape)) if like.device.type == "cpu" else like.new_zeros(shape)


def _largest(values: Tensor) -> Tensor:
    """max|v| per sample, (batch,)."""
    flat = values.flatten(1)
    return torch.maximum(-flat.amin(1), flat.amax(1))  # each ten times as fast as aminmax along an axis


def _power_of_two(size: Tensor) -> Tensor:
    """2^k ≥ size per sample, (batch,); 1 where it is zero."""
    return torch.where(size > 0, torch.ldexp(torch.ones_like(size), torch.frexp(size)[1]), 1.0)


def _report(status, rho, floor, a, tol, on_failure) -> None:
    if on_failure == "flag":
        return
    failed, limited = np.flatnonzero(status == "failed"), np.flatnonzero(status == "floor_limited")
    if len(failed):
        i = failed[0]
        low, high = torch.aminmax(a[i])
        more = f" and {len(failed) - 1} more samples" if len(failed) > 1 else ""
        raise SolverError(
            f"sample {i}{more} did not converge: residual {rho[i]:.1e} > tol {tol:.1e}, contrast {high / low:.3g}, "
            f"float64 floor {floor[i]:.1e}; pass on_failure='flag' to keep the other samples"
        )
    if len(limited):
        worst = int(limited[np.argmax(rho.cpu().numpy()[limited])])
        warnings.warn(
            f"{len(limited)} of {len(status)} samples stop at float64's floor above tol={tol:.1e} (sample {worst}: "
            f"residual {rho[worst]:.1e}, floor {floor[worst]:.1e}); raise tol, or accept by on_failure='flag'",
            RuntimeWarning,
            stacklevel=4,  # past the decorator
        )
