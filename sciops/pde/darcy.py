"""Darcy flow: −∇·(a∇u) = f with u = 0 on the wall, solved to a stated residual for batches of coefficients."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from sciops._arrays import as_tensor
from sciops.grids import Grid, check_on_grid
from sciops.pde import _five_point as scheme
from sciops.pde._engines import Problem, engine_for

__all__ = ["Solution", "SolverError", "residual", "solve"]

Backend = Literal["auto", "numba", "torch", "direct"]


class SolverError(RuntimeError):
    """A sample did not reach the tolerance; the message names its index, residual and contrast."""


@dataclass(frozen=True)
class Solution:
    """What `solve` returns; u and the numbers are in the caller's kind (numpy or torch), the words are numpy.

    For a single field of rank 2, u has rank 2 and the other fields are zero-dimensional.

    u : (batch, nx, ny) float64, zero on wall nodes; NaN in samples that failed
    residual : (batch,) float64, ‖b − Au‖₂ / ‖b‖₂ recomputed from u; 0 where f = 0
    iterations : (batch,) of conjugate gradients; 0 for a direct solve alone
    status : (batch,) str: "ok"; "fallback_ok", multigrid did not converge and the direct solve did;
        "floor_limited", as near as float64 allows but not at tol; "failed"
    method : (batch,) str: "multigrid-numba", "multigrid-torch" or "direct", the one that gave u
    floor : (batch,) float64, the relative residual that rounding u to float64 alone may cause, ½ε‖|A||u|‖₂ / ‖b‖₂
    """

    u: Any
    residual: Any
    iterations: Any
    status: np.ndarray
    method: np.ndarray
    floor: Any


def solve(
    a: Any,
    grid: Grid | None = None,
    *,
    forcing: Any = 1.0,
    tol: float = 1e-8,
    backend: Backend = "auto",
    on_failure: Literal["raise", "flag"] = "raise",
    threads: int | None = None,
    max_iterations: int = 60,
) -> Solution:
    """u with −∇·(a∇u) = f, u = 0 on the wall, by finite volumes with harmonic-mean faces; order 2 for smooth a.

    a : (batch, nx, ny) or (nx, ny), positive     numpy or torch; cast to float64
    grid : Grid | None     where a lives; default the unit box with nodes on the walls. A grid that stops short of the
        wall has u = 0 at the wall of its `domain`, with the nearest coefficient up to there; any aspect ratio
    forcing : f, a number, a field (nx, ny) or a batch of fields
    tol : relative residual ‖b − Au‖₂ / ‖b‖₂ to reach, the true one
    backend : "numba" (compiled, CPU), "torch" (any device), "direct" (sparse LU, CPU); "auto" takes numba for CPU data
        where it is installed
    on_failure : "raise" SolverError, or "flag" the sample: status "failed", u = NaN, the others untouched
    threads : samples solved at a time by "numba"; default torch.get_num_threads()
    max_iterations : of conjugate gradients, before the direct solve takes over

    Multigrid-preconditioned conjugate gradients take 6 to 14 iterations for contrasts up to 100 whatever the grid; what
    does not converge goes to sparse LU. A sample's result does not depend on the batch it is in (bitwise so in numba).
    Contrasts near 1e6 meet the floor of float64 first: status "floor_limited", and a warning unless on_failure="flag".
    No gradient passes through.

    Raises ValueError for a ≤ 0, NaN or infinity (naming index and value), shapes that do not fit; SolverError;
    ImportError for backend="numba" without numba.
    """
    if on_failure not in ("raise", "flag"):
        raise ValueError(f"on_failure={on_failure!r}: expected 'raise' or 'flag'")
    if not (isinstance(tol, (int, float)) and 0 < tol < 1):
        raise ValueError(f"tol={tol!r}: expected a relative residual between 0 and 1, such as 1e-8")
    for name, value in (("threads", 1 if threads is None else threads), ("max_iterations", max_iterations)):
        if int(value) != value or value < 1:
            raise ValueError(f"{name}={value!r}: expected a whole number of at least 1")
    coefficient, restore, single, grid = _coefficient(a, grid)
    run = engine_for(backend, coefficient.device)
    axes = scheme.axes_of(grid)
    force = _forcing(forcing, coefficient, grid)

    # powers of two: exact, and neither float32 nor squared norms can leave their range afterwards
    b = scheme.source(force, axes)
    a_scale, b_scale = _power_of_two(coefficient), _power_of_two(b)
    problem = Problem(scheme.padded(coefficient, axes), a_scale, b / b_scale[:, None, None], axes)
    u = torch.zeros_like(coefficient)
    inside = u[:, axes[0].unknown, axes[1].unknown]
    rho, floor, iterations, status, method = run(problem, inside, tol, max_iterations, threads)
    u.mul_((b_scale / a_scale)[:, None, None])
    _report(status, rho, floor, coefficient, tol, on_failure)
    u[torch.from_numpy(status == "failed").to(u.device)] = torch.nan
    first = 0 if single else slice(None)
    return Solution(
        restore(u[first]),
        restore(rho[first]),
        restore(iterations[first]),
        status[first],
        method[first],
        restore(floor[first]),
    )


def residual(a: Any, u: Any, grid: Grid | None = None, forcing: Any = 1.0) -> Any:
    """‖b − Au‖₂ / ‖b‖₂ of a given u in the scheme of `solve`, per sample; differentiable in u for torch.

    a, u : (batch, nx, ny) or (nx, ny); wall nodes of u are not read, it is 0 there
    returns : (batch,), or a number for a single field; ‖Au‖₂ where f = 0
    """
    coefficient, _, single, grid = _coefficient(a, grid)
    field, restore = as_tensor(u, "u")
    check_on_grid(field, grid, "u")
    field = field.to(coefficient).reshape(-1, *grid.shape)
    axes = scheme.axes_of(grid)
    b = scheme.source(_forcing(forcing, coefficient, grid), axes)
    x, y = axes
    faces = scheme.conductances(scheme.padded(coefficient, axes), axes)
    r = (b - scheme.apply(*faces, field[:, x.unknown, y.unknown])).flatten(1).norm(dim=1)
    size = b.flatten(1).norm(dim=1)
    rho = r / torch.where(size > 0, size, 1.0)
    return restore(rho[0] if single else rho)


def _coefficient(a: Any, grid: Grid | None) -> tuple[Tensor, Any, bool, Grid]:
    tensor, restore = as_tensor(a, "a")
    tensor = tensor.detach()
    if tensor.is_complex():
        raise TypeError(f"a has dtype {tensor.dtype}; expected real numbers")
    if tensor.ndim not in (2, 3):
        hint = "; drop the channel with a[:, 0]" if tensor.ndim == 4 else ""
        raise ValueError(f"a has shape {tuple(tensor.shape)}; expected (batch, nx, ny) or (nx, ny){hint}")
    if grid is None:
        if min(tensor.shape[-2:]) < 3:
            raise ValueError(f"a has shape {tuple(tensor.shape)}; expected at least 3 nodes per axis, walls included")
        grid = Grid(tuple(tensor.shape[-2:]))
    check_on_grid(tensor, grid, "a")
    single = tensor.ndim == 2
    tensor = tensor.to(torch.float64).reshape(-1, *grid.shape).contiguous()
    _check_all(tensor, "a", "a positive finite number everywhere", positive=True, single=single)
    return tensor, restore, single, grid


def _forcing(forcing: Any, a: Tensor, grid: Grid) -> Tensor:
    """f as (1 or batch, nx, ny)."""
    f, _ = as_tensor(forcing, "forcing")
    f = f.detach().to(a.device, torch.float64)
    if (
        f.ndim not in (0, 2, 3)
        or (f.ndim and tuple(f.shape[-2:]) != grid.shape)
        or f.shape[:-2] not in ((), (1,), (len(a),))
    ):
        raise ValueError(
            f"forcing has shape {tuple(f.shape)}; expected a number, {grid.shape}, or {(len(a), *grid.shape)}"
        )
    f = f.expand(grid.shape).reshape(1, *grid.shape) if f.ndim < 3 else f
    _check_all(f, "forcing", "finite numbers", positive=False, single=len(f) == 1)
    return f


def _check_all(values: Tensor, name: str, wanted: str, *, positive: bool, single: bool) -> None:
    if not values.numel():
        return
    low, high = torch.aminmax(values)
    if torch.isfinite(low) and torch.isfinite(high) and (not positive or low > 0):
        return
    bad = ~torch.isfinite(values)
    if positive:
        bad |= values <= 0
    index = torch.nonzero(bad)[0].tolist()
    value = values[tuple(index)].item()
    where = index[1:] if single else index
    hint = "; map an indicator to its two values first" if positive and value == 0.0 else ""
    raise ValueError(f"{name}[{', '.join(map(str, where))}] = {value:g}: expected {wanted}{hint}")


def _power_of_two(values: Tensor) -> Tensor:
    """2^k ≥ max|v| per sample, (batch,); 1 where all is zero."""
    low, high = torch.aminmax(values.flatten(1), dim=1)
    size = torch.maximum(-low, high)
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
            stacklevel=3,
        )
