"""The wave equation: u_tt + γ u_t = c² Δu on a period or between walls, c a number or a field, exactly in time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.arrays.kinds import as_tensor
from sciops.arrays.scale import power_of_two
from sciops.grids import Grid, check_on_grid
from sciops.pde.elliptic.eigenbasis import Boundary, analyse, boundaries_of, eigenvalues, inside, synthesise
from sciops.pde.evolution.chebyshev import chebyshev_coefficients, oscillation_terms, polynomial_sum
from sciops.pde.evolution.trajectory import Trajectory
from sciops.pde.inputs import Start, constant, initial, output_times

__all__ = ["Trajectory", "energy", "solve"]

_MOST_PHASE = 2e6


def solve(
    u0: Any,
    grid: Grid,
    *,
    times: Any,
    speed: Any = 1.0,
    damping: Any = 0.0,
    boundary: Boundary | Sequence[Boundary] | None = None,
) -> Trajectory:
    """Solves u_tt + γ u_t = c² Δu: u and v = u_t at the output times, exactly in time.

    Parameters
    ----------
    u0
        (batch, 2, *grid) or (2, *grid), u and v, numpy or torch, float32 or float64; a field at rest is
        ``np.stack([u, 0 * u], axis=-1 - grid.ndim)``.
    grid
        1 to 3 axes, periodic, or nodes or cells that reach the walls.
    times
        Increasing output times ≥ 0 in any unit that speed shares; 0 gives u0.
    speed
        c > 0, length per time: a number, one per sample (batch,), or a field (*grid) or (batch, *grid).
    damping
        γ ≥ 0, 1 per time, one number or one per sample (a number where speed is a field); energy falls as
        dE/dt = −γ⟨v²⟩.
    boundary
        "periodic" (the default on periodic grids), "dirichlet" u = 0 (the default on others), "neumann" ∂u/∂n = 0, or a
        sequence of them, one per axis, as in `sciops.pde.poisson.solve`. Values on dirichlet wall nodes are taken as 0.

    Returns
    -------
    Trajectory
        u (batch, time, 2, *grid), dt = 0, no steps, no error; differentiable in u0 and in a field of speeds.

    Raises
    ------
    ValueError
        Shapes, boundaries or numbers that do not fit, and NaN.
    TypeError
        Other dtypes.

    Notes
    -----
    Where c is a number every mode of −Δ oscillates independently, with ω² = c²λ, as

        u(t) = C u₀ + S v₀,   v(t) = −ω² S u₀ + S′ v₀,   S = e^{−γt/2} sin(wt)/w,   w² = ω² − γ²/4,   C = S′ + γS

    (sinh where w² < 0). Where c is a field they are the same functions of the operator −c²Δ in place of ω², as
    Chebyshev sums with all terms that are not round-off. There are no time steps: at any time the error is that of the
    grid's modes and of round-off.

    Exact for u₀ and v₀ made of the grid's modes and constant c; else as accurate as the grid resolves u and c²Δu:
    faster than every power of h where both are smooth (c even about walls), about first order where c jumps. A field of
    speeds costs ½ max(c) √max(λ) t products with −c²Δ to the time t, 140 on 64² points while a wave crosses a unit box
    once at the largest speed. Without a wall that holds it, the mean moves uniformly where c is a number:
    ⟨u⟩ = ⟨u₀⟩ + t⟨v₀⟩.
    """
    kinds = boundaries_of(grid, boundary)
    start = initial(u0, grid, fields=2)
    c = _speed(speed, start, grid)
    gamma = constant(damping, "damping", start, least=0.0, trailing=grid.ndim)
    if gamma.requires_grad:
        raise ValueError("damping requires a gradient, which does not pass through it; pass damping.detach()")
    given = output_times(times)
    if c.shape[1:] == (1,) * grid.ndim:
        frames = _by_modes(start.field, given, c.numpy(), gamma.numpy(), grid, kinds)
    elif len(gamma) > 1:
        raise ValueError(f"damping has shape {(len(gamma),)}: expected one number where speed is a field")
    else:
        frames = _by_polynomials(start.field, given, c, gamma.item(), grid, kinds)
    u = torch.stack(frames, 1)
    return Trajectory(start.restore(u[0] if start.single else u), given, 0.0, 0)


def energy(state: Any, grid: Grid, *, speed: Any = 1.0, boundary: Boundary | Sequence[Boundary] | None = None) -> Any:
    """Energy E = ½⟨v² + c²|∇u|²⟩, the mean over the box, which `solve` conserves without damping.

    Where the speed is a field it is ½⟨v²/c² + |∇u|²⟩, conserved too. With damping dE/dt = −γ⟨v²⟩, or −γ⟨v²/c²⟩.

    Parameters
    ----------
    state
        (…, 2, *grid), such as a trajectory's u (batch, time, 2, *grid).
    speed
        c, a number, or a field (*grid), or (…, *grid) with one for every state.

    Returns
    -------
    array
        (…) float64, same kind; ∇ is that of the modes through the points, taken as ⟨u, −Δu⟩.

    Raises
    ------
    ValueError
        A state or a speed that does not fit.
    """
    kinds = boundaries_of(grid, boundary)
    tensor, restore = as_tensor(state, "state")
    check_on_grid(tensor, grid, "state")
    if tensor.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"state has dtype {tensor.dtype}; expected float32 or float64")
    if tensor.ndim < grid.ndim + 1 or tensor.shape[-1 - grid.ndim] != 2:
        raise ValueError(f"state has shape {tuple(tensor.shape)}; expected (…, 2, *grid), u and v = u_t")
    u, v = tensor.unbind(-1 - grid.ndim)
    c = as_tensor(speed, "speed")[0].to(tensor.device, torch.float64)
    if c.ndim:
        check_on_grid(c, grid, "speed")
    axes = tuple(range(-grid.ndim, 0))
    of_u, of_v = (power_of_two(part, axes) for part in (u, v))  # squares in physical units leave the range of float32
    u, v = u / of_u, v / of_v
    force = synthesise(analyse(u, grid, kinds) * _like(eigenvalues(grid, kinds), tensor), grid, kinds)
    weights = torch.as_tensor(grid.weights() / grid.weights().sum(), device=tensor.device)
    potential, kinetic = u.double() * force, v.double().square()
    kinetic, potential = (kinetic / c.square(), potential) if c.ndim else (kinetic, potential * c.square())
    density = kinetic * of_v.double().square() + potential * of_u.double().square()
    return restore(0.5 * (weights * density)[(..., *inside(grid, kinds))].sum(axes))


def _speed(speed: Any, start: Start, grid: Grid) -> Tensor:
    """c > 0 in float64: numbers (1 or batch, 1, …) on the CPU, or fields (1 or batch, *grid) where the state is."""
    c, _ = as_tensor(speed, "speed")
    batch, d = len(start.field), grid.ndim
    is_number, is_field = (
        c.shape in ((), (1,), (batch,)),
        c.shape[-d:] == grid.shape and c.shape[:-d] in ((), (1,), (batch,)),
    )
    if c.is_complex() or not (is_number or is_field):
        raise ValueError(
            f"speed has shape {tuple(c.shape)}; expected a number, one for each of {batch} samples, a field "
            f"{grid.shape}, or ({batch}, {', '.join(map(str, grid.shape))})"
        )
    if is_number and is_field:
        raise ValueError(
            f"speed has shape {tuple(c.shape)}: a field on {grid.size} points, or one number for each of {batch} "
            "samples? Pass speed[None] for a field, speed[:, None] * np.ones(n) for the numbers"
        )
    if not (torch.isfinite(c) & (c > 0)).all():
        raise ValueError(f"speed={' '.join(repr(speed).split())[:60]}: expected finite numbers above 0")
    if is_field or c.requires_grad:
        shape = grid.shape if is_field else (1,) * d
        return c.to(start.field.device, torch.float64).reshape(-1, *shape).expand(-1, *grid.shape)
    return c.detach().to("cpu", torch.float64).reshape(-1, *(1,) * d)


def _by_modes(
    field: Tensor, times: np.ndarray, c: np.ndarray, gamma: np.ndarray, grid: Grid, kinds: tuple[Boundary, ...]
) -> list[Tensor]:
    omega2 = c**2 * eigenvalues(grid, kinds)
    stiffness = _like(omega2, field)
    u0, v0 = analyse(field, grid, kinds).unbind(1)
    frames = []
    for t in times.tolist():
        c, s, ds = (_like(values, field) for values in _propagators(omega2, gamma, t))
        modes = torch.stack([c * u0 + s * v0, ds * v0 - stiffness * s * u0], 1)
        frames.append(synthesise(modes, grid, kinds) if t else field)
    return frames


def _by_polynomials(
    field: Tensor, times: np.ndarray, c: Tensor, gamma: float, grid: Grid, kinds: tuple[Boundary, ...]
) -> list[Tensor]:
    """From each time to the next: −c²Δ is symmetric in ⟨·, ·/c²⟩, so its spectrum is in [0, max(c²) max(λ)]."""
    square, values = (c**2).unsqueeze(1), eigenvalues(grid, kinds)
    upper = float(square.detach().max()) * float(values.max()) or 1.0
    if math.sqrt(upper) * times[-1] > _MOST_PHASE:
        raise ValueError(
            f"times to {times[-1]:g} take {math.sqrt(upper) * times[-1] / 2:.1e} products with −c²Δ on this grid; "
            "pass fewer or earlier times, or a coarser grid"
        )
    symbol = torch.tensor(values, dtype=torch.float64, device=field.device)

    def stiffness(u: Tensor) -> Tensor:
        return square * synthesise(symbol * analyse(u, grid, kinds), grid, kinds)

    def matrix(z: np.ndarray, t: float) -> np.ndarray:
        c, s, ds = _propagators(z, gamma, t)
        return np.array([[c, s], [-z * s, ds]])

    # in float64 whatever the state's dtype is: thousands of products add up. On walls that hold u at 0 it is 0 from now
    held = _held(field.to(torch.float64), grid, kinds)
    frames, table, made = [], np.empty(0), None
    for t, before in zip(times.tolist(), [0.0, *times.tolist()]):
        if t == 0:
            frames.append(field)
            continue
        if made is None or abs(t - before - made) > 8 * np.finfo(np.float64).eps * t:
            made = t - before
            table = chebyshev_coefficients(partial(matrix, t=made), upper, oscillation_terms(math.sqrt(upper) * made))
        held = polynomial_sum(stiffness, held, table, upper, axis=1)
        frames.append(held.to(field))
    return frames


def _held(field: Tensor, grid: Grid, kinds: tuple[Boundary, ...]) -> Tensor:
    mask = torch.zeros(grid.shape, dtype=field.dtype, device=field.device)
    mask[inside(grid, kinds)] = 1.0
    return field * mask


def _propagators(omega2: np.ndarray, damping: Any, t: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """C, S and S′ at time t, float64; overdamped modes by exponentials that cannot overflow."""
    g = damping / 2
    w = np.sqrt(np.maximum(omega2 - g**2, 0))
    r = np.sqrt(np.maximum(g**2 - omega2, 0))
    decay, slow = np.exp(-g * t), np.exp(-omega2 / np.where(g + r > 0, g + r, 1.0) * t)  # r − g = −ω²/(g + r)
    over = r > 0
    gap = np.where(over, -np.expm1(-2 * r * t), 0.0)
    s = np.where(over, slow * gap / np.where(over, 2 * r, 1.0), decay * t * np.sinc(w * t / np.pi))
    wave = np.where(over, slow * (1 - gap / 2), decay * np.cos(w * t))
    return wave + g * s, s, wave - g * s


def _like(values: np.ndarray, field: Tensor) -> Tensor:
    return torch.tensor(values, dtype=field.dtype, device=field.device)
