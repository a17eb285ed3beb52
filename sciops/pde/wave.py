"""The wave equation: u_tt + γ u_t = c² Δu on a period or between walls, exactly in time, mode by mode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops._arrays import as_tensor
from sciops.grids import Grid, check_on_grid
from sciops.pde._eigenbasis import Boundary, analyse, boundaries_of, eigenvalues, inside, synthesise
from sciops.pde._trajectory import Trajectory, initial, output_times

__all__ = ["Trajectory", "energy", "solve"]


def solve(
    u0: Any,
    grid: Grid,
    *,
    times: Any,
    speed: float = 1.0,
    damping: float = 0.0,
    boundary: Boundary | Sequence[Boundary] | None = None,
) -> Trajectory:
    """(u, v = u_t) at the given times: every mode of −Δ oscillates by itself, with ω² = c²λ, as

        u(t) = C u₀ + S v₀,   v(t) = −ω² S u₀ + S′ v₀,   S = e^{−γt/2} sin(wt)/w,   w² = ω² − γ²/4,   C = S′ + γS

    (sinh where w² < 0). Nothing is stepped: the error is that of the grid's modes and of round-off at any time.

    u0 : (batch, 2, *grid) or (2, *grid), u and v     numpy or torch, float32 or float64; a field at rest is
        ``np.stack([u, 0 * u], axis=-1 - grid.ndim)``
    grid : Grid     1 to 3 axes, periodic, or nodes or cells that reach the walls
    times : increasing output times ≥ 0 in any unit that speed shares; 0 gives u0
    speed : c > 0, length per time
    damping : γ ≥ 0, 1 per time; energy falls as dE/dt = −γ⟨v²⟩
    boundary : "periodic" (the default on periodic grids), "dirichlet" u = 0 (the default on others), "neumann"
        ∂u/∂n = 0, or a sequence of the latter two, one per axis. Values on dirichlet wall nodes are taken as 0
    returns : Trajectory with u (batch, time, 2, *grid), dt = 0, no steps, no error. Gradients pass through

    Exact for u₀ and v₀ made of the grid's modes; else as near as their trigonometric interpolant. Without a wall that
    holds it, the mean moves uniformly: ⟨u⟩ = ⟨u₀⟩ + t⟨v₀⟩.

    Raises ValueError for shapes, boundaries and numbers that do not fit, and for NaN; TypeError for other dtypes.
    """
    kinds = boundaries_of(grid, boundary)
    start = initial(u0, grid, fields=2)
    for name, value, least in (("speed", speed, "above 0"), ("damping", damping, "at least 0")):
        number = isinstance(value, (int, float, np.number)) and math.isfinite(value)
        if not (number and (value > 0 or (value == 0 and name == "damping"))):
            raise ValueError(f"{name}={value!r}: expected a finite number {least}")
    given = output_times(times)
    omega2 = speed**2 * eigenvalues(grid, kinds)
    stiffness = _like(omega2, start.field)
    u0_modes, v0_modes = analyse(start.field, grid, kinds).unbind(1)
    frames = []
    for t in given.tolist():
        c, s, ds = (_like(values, start.field) for values in _propagators(omega2, damping, t))
        modes = torch.stack([c * u0_modes + s * v0_modes, ds * v0_modes - stiffness * s * u0_modes], 1)
        frames.append(synthesise(modes, grid, kinds) if t else start.field)
    u = torch.stack(frames, 1)
    return Trajectory(start.restore(u[0] if start.single else u), given, 0.0, 0)


def energy(state: Any, grid: Grid, *, speed: float = 1.0, boundary: Boundary | Sequence[Boundary] | None = None) -> Any:
    """E = ½⟨v² + c²|∇u|²⟩, the mean over the box, which `solve` keeps without damping.

    state : (…, 2, *grid), such as a trajectory's u (batch, time, 2, *grid)
    returns : (…), same kind; ∇ is that of the modes through the points, taken as ⟨u, −Δu⟩
    """
    kinds = boundaries_of(grid, boundary)
    tensor, restore = as_tensor(state, "state")
    check_on_grid(tensor, grid, "state")
    if tensor.ndim < grid.ndim + 1 or tensor.shape[-1 - grid.ndim] != 2:
        raise ValueError(f"state has shape {tuple(tensor.shape)}; expected (…, 2, *grid), u and v = u_t")
    u, v = tensor.unbind(-1 - grid.ndim)
    force = synthesise(analyse(u, grid, kinds) * _like(speed**2 * eigenvalues(grid, kinds), tensor), grid, kinds)
    weights = _like(grid.weights() / grid.weights().sum(), tensor)
    axes = tuple(range(-grid.ndim, 0))
    inner = (..., *inside(grid, kinds))
    return restore(0.5 * (weights * (v**2 + u * force))[inner].sum(axes))


def _propagators(omega2: np.ndarray, damping: float, t: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """C, S and S′ at time t, float64; overdamped modes by exponentials that cannot overflow."""
    g = damping / 2
    w = np.sqrt(np.maximum(omega2 - g**2, 0))
    r = np.sqrt(np.maximum(g**2 - omega2, 0))
    decay, slow = math.exp(-g * t), np.exp(-omega2 / np.where(g + r > 0, g + r, 1.0) * t)  # r − g = −ω²/(g + r)
    over = r > 0
    gap = np.where(over, -np.expm1(-2 * r * t), 0.0)
    s = np.where(over, slow * gap / np.where(over, 2 * r, 1.0), decay * t * np.sinc(w * t / np.pi))
    wave = np.where(over, slow * (1 - gap / 2), decay * np.cos(w * t))
    return wave + g * s, s, wave - g * s


def _like(values: np.ndarray, field: Tensor) -> Tensor:
    return torch.tensor(values, dtype=field.dtype, device=field.device)
