"""Incompressible flow on a torus: w_t + u·∇w = νΔw − αw + f for the vorticity w, with u = (ψ_y, −ψ_x) and −Δψ = w."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from sciops.arrays.kinds import as_tensor
from sciops.arrays.scale import mean_square_of
from sciops.grids import Grid, check_on_grid
from sciops.pde.evolution.backends import Backend
from sciops.pde.evolution.fourier import FourierSpace, check_periodic
from sciops.pde.evolution.trajectory import Trajectory, evolve
from sciops.pde.inputs import Start, constant, initial

__all__ = [
    "Trajectory",
    "energy",
    "enstrophy",
    "kolmogorov_forcing",
    "li2020_forcing",
    "palinstrophy",
    "solve",
    "stream_function",
    "tendency",
    "velocity",
]

Forcing = Any  # a number, a field, a batch of fields, or grid → field


def solve(
    w0: Any,
    grid: Grid,
    *,
    times: Any,
    viscosity: Any,
    forcing: Forcing | Callable[[Grid], Any] = 0.0,
    drag: Any = 0.0,
    mean_flow: Sequence[float] = (0.0, 0.0),
    dt: float | None = None,
    order: int = 4,
    dealias: bool = True,
    estimate: bool = False,
    on_failure: Literal["raise", "flag"] = "raise",
    backend: Backend = "auto",
) -> Trajectory:
    """Solves for the vorticity w in Fourier space with ETDRK: diffusion and drag exact, advection of the given order.

    Parameters
    ----------
    w0
        (batch, nx, ny) or (nx, ny), vorticity v_x − u_y in 1/time, numpy or torch, float32 or float64, any device.
    grid
        Periodic, 2 axes, any extent; even or odd numbers of points.
    times
        Increasing output times ≥ 0; 0 gives w0.
    viscosity
        ν ≥ 0, length²/time, one number or one per sample.
    forcing
        f of the vorticity, 1/time²: a number, a field (nx, ny), one per sample, or a function of the grid such as
        `li2020_forcing`; constant in time.
    drag
        α ≥ 0, 1/time, one number or one per sample.
    mean_flow
        (U, V), a uniform stream that advects w beside its own velocity.
    dt
        Largest step; default min(h)/2, suited to speeds up to about 1 in the grid's units. Faster flows need
        dt ≈ min(h)/(2 max|u|); from about min(h)/max|u| on order 4 is unstable. `estimate` shows the error.
    order
        Of ETDRK, 1 to 4.
    dealias
        The product keeps |q| < n/3 on both axes (2/3 rule), and is computed from these modes alone; what w0 and f have
        beyond only decays. The truncated equation without ν, α and f conserves energy and enstrophy. False keeps all
        but Nyquist modes, and aliases.
    estimate
        Estimates .error by two more runs with longer steps.
    on_failure
        "raise", or "flag" a sample that blows up with NaN.
    backend
        "numba" takes the steps compiled: order 4, on the CPU, without gradients, with the extra "fast"; "torch" takes
        any. "auto" compiles where it can. The first use on a machine takes some 10 s of processor time, and says so.

    Returns
    -------
    Trajectory
        u = w (batch, time, nx, ny), differentiable.

    Raises
    ------
    ValueError
        Shapes or numbers do not fit.
    RuntimeError
        A sample blew up; the message names it and the time.

    Notes
    -----
    The curl of a periodic velocity has mean 0: a mean of w0 or f makes no velocity and is transported separately. Four
    FFTs an evaluation, as u·∇w = ∂_xy(v² − u²) + (∂_xx − ∂_yy)(uv) (Basdevant 1983). Good values: Li et al.
    (arXiv:2010.08895) have ν = 1e-3 … 1e-5 on the unit box with `li2020_forcing`, 256².
    """
    start = initial(w0, grid, axes=(2,), name="w0")
    space = FourierSpace(grid, start.field)
    linear, nonlinear = _equation(start, space, viscosity, forcing, drag, mean_flow, dealias)
    step = min(grid.spacing) / 2 if dt is None else dt
    options: Any = {"order": order, "estimate": estimate, "on_failure": on_failure, "backend": backend}
    return evolve(start, space, linear, nonlinear, times=times, dt=step, **options)


def tendency(
    w: Any,
    grid: Grid,
    *,
    viscosity: Any,
    forcing: Forcing | Callable[[Grid], Any] = 0.0,
    drag: Any = 0.0,
    mean_flow: Sequence[float] = (0.0, 0.0),
    dealias: bool = True,
) -> Any:
    """w_t = −(u + U)·∇w + νΔw − αw + f, what `solve` integrates; arguments and errors as there. Same shape and kind."""
    start = initial(w, grid, axes=(2,), name="w")
    space = FourierSpace(grid, start.field)
    linear, nonlinear = _equation(start, space, viscosity, forcing, drag, mean_flow, dealias)
    v = space.forward(start.field)
    rate = space.inverse(space.cast(linear) * v + nonlinear(v))
    return start.restore(rate[0] if start.single else rate)


def stream_function(w: Any, grid: Grid) -> Any:
    """ψ of mean 0 with −Δψ = w − ⟨w⟩; w (…, nx, ny), same shape and kind."""
    tensor, restore, space = _field(w, grid)
    return restore(space.inverse(space.cast(_inverse_laplacian(space)) * space.forward(tensor)))


def velocity(w: Any, grid: Grid) -> Any:
    """(u, v) = (ψ_y, −ψ_x), free of divergence and of mean 0; w (…, nx, ny) → (…, 2, nx, ny), same kind.

    The Nyquist modes of an even axis have no derivative along it on the grid, so they make no velocity across it.
    """
    tensor, restore, space = _field(w, grid)
    return restore(space.inverse(space.cast(_velocity_symbols(space)) * space.forward(tensor).unsqueeze(-3)))


def energy(w: Any, grid: Grid) -> Any:
    """E = ½⟨|u|²⟩ of the `velocity`; w (…, nx, ny) → (…) float64. dE/dt = −2νZ − 2αE + ⟨ψf⟩.

    Exact of `tendency`, as is that of `enstrophy`, where w and f have no Nyquist modes and w has mean 0.
    """
    tensor, restore, _ = _field(w, grid)
    return restore(mean_square_of(velocity(tensor, grid), (-3, -2, -1)))  # half the sum over two components


def enstrophy(w: Any, grid: Grid) -> Any:
    """Z = ½⟨w²⟩; w (…, nx, ny) → (…) float64. dZ/dt = −2νP − 2αZ + ⟨wf⟩."""
    tensor, restore, _ = _field(w, grid)
    return restore(0.5 * mean_square_of(tensor, (-2, -1)))


def palinstrophy(w: Any, grid: Grid) -> Any:
    """P = ½⟨|∇w|²⟩; w (…, nx, ny) → (…) float64."""
    tensor, restore, space = _field(w, grid)
    gradient = torch.stack(torch.broadcast_tensors(space.derivative(0), space.derivative(1)))
    slopes = space.inverse(space.cast(gradient) * space.forward(tensor).unsqueeze(-3))
    return restore(mean_square_of(slopes, (-3, -2, -1)))  # half the sum over two components


def li2020_forcing(grid: Grid) -> np.ndarray:
    """f = 0.1 (sin 2π(x + y) + cos 2π(x + y)) of arXiv:2010.08895, one period on the unit box; (nx, ny) float64.

    Raises ValueError for a box whose sides are not whole numbers: f would not be periodic there.
    """
    _check_flat(grid)
    sides = [b - a for a, b in grid.extent]
    if any(abs(side - round(side)) > 1e-9 * side for side in sides):
        raise ValueError(
            f"sides of {sides[0]:g} and {sides[1]:g}: this forcing has the period 1, expected whole numbers; "
            "kolmogorov_forcing fits any box"
        )
    x, y = grid.meshgrid()
    return 0.1 * (np.sin(2 * np.pi * (x + y)) + np.cos(2 * np.pi * (x + y)))


def kolmogorov_forcing(grid: Grid, k: int = 4, *, amplitude: float = 1.0) -> np.ndarray:
    """f = −Aκ cos κy, κ = 2πk/L_y: the curl of the force A sin(κy) along x; (nx, ny) float64.

    k = 4, A = 1 on the box of side 2π with ν = 1e-3 and drag 0.1 is the flow of Kochkov et al. (2021,
    doi:10.1073/pnas.2101784118). Without drag its laminar state is w = f/(νκ²).
    """
    _check_flat(grid)
    if not (isinstance(k, (int, float, np.number)) and k >= 1 and k == int(k)):
        raise ValueError(f"k={k!r}: expected a whole number of waves along y, at least 1")
    (_, (low, high)), (_, y) = grid.domain, grid.meshgrid()
    kappa = 2 * math.pi * k / (high - low)
    return -amplitude * kappa * np.cos(kappa * (y - low))


def _equation(
    start: Start, space: FourierSpace, viscosity: Any, forcing: Any, drag: Any, mean_flow: Any, dealias: bool
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """(L, N): L = −ν|k|² − α − ik·U, and v → N(v) = −mask·F[u·∇w] + F[f]."""
    nu = constant(viscosity, "viscosity", start, least=0.0)
    alpha = constant(drag, "drag", start, least=0.0)
    try:
        flow = np.asarray(mean_flow, dtype=np.float64)
    except (TypeError, ValueError):
        flow = np.empty(0)
    if flow.shape != (2,) or not np.isfinite(flow).all():
        raise ValueError(f"mean_flow={mean_flow!r}: expected two finite speeds, along x and y")
    linear = nu * space.laplacian - alpha
    if flow.any():
        linear = linear - flow[0] * space.derivative(0) - flow[1] * space.derivative(1)
    force = space.forward(_forcing(forcing, start, space.grid))
    return linear, Transport(space, force, dealias=dealias)


class Transport:
    """v → −mask·F[u·∇w] + F[f], as mask·(k_x² − k_y²)·F[u_x u_y] + mask·k_x k_y·F[u_y² − u_x²] + F[f]."""

    def __init__(self, space: FourierSpace, force: Tensor, *, dealias: bool) -> None:
        self.space, self.force = space, force
        mask = space.mask(2 if dealias else 1)
        self.columns = int(mask.any(0).sum())  # that have a mode which the products need
        self.symbols = space.cast(_velocity_symbols(space)) * mask
        kx, ky = space.wavenumbers
        self.shear, self.strain = (space.cast(s) * mask for s in (kx**2 - ky**2, kx * ky))

    def __call__(self, v: Tensor) -> Tensor:
        u = self.space.inverse(self.symbols * v.unsqueeze(-3))
        along_x, along_y = u[..., 0, :, :], u[..., 1, :, :]
        products = torch.stack([along_x * along_y, (along_y - along_x) * (along_y + along_x)], -3)
        spectra = self.space.forward(products)
        return self.shear * spectra[..., 0, :, :] + self.strain * spectra[..., 1, :, :] + self.force

    @property
    def tensors(self) -> Sequence[Tensor]:
        """What may need gradients."""
        return (self.force,)

    def advance(self, v: np.ndarray, count: int, table: Sequence[np.ndarray]) -> None:
        """Takes `count` steps of order 4 in place, compiled; v (batch, nx, ny//2 + 1), table `etdrk.coefficients`."""
        from sciops.pde.evolution.compiled import vorticity

        arrays = (self.symbols, self.shear, self.strain, self.force)
        given = [np.ascontiguousarray(t.detach().numpy()) for t in arrays]
        vorticity(v, count, *table, *given, self.columns, self.space.grid.shape[1])


def _forcing(forcing: Any, start: Start, grid: Grid) -> Tensor:
    """f as (1 or batch, nx, ny) on the state's device and in its dtype."""
    given = forcing(grid) if callable(forcing) else forcing
    f, _ = as_tensor(given, "forcing")
    shape = tuple(f.shape)
    if f.is_complex() or shape not in ((), grid.shape, (1, *grid.shape), tuple(start.field.shape)):
        raise ValueError(
            f"forcing has shape {shape} and dtype {f.dtype}; expected a real number, {grid.shape}, "
            f"{tuple(start.field.shape)}, or a function of the grid that returns one of these"
        )
    if not torch.isfinite(f).all():
        raise ValueError("forcing is not finite everywhere: expected finite numbers")
    f = f.to(start.field)
    return f.expand(1, *grid.shape) if f.ndim < 3 else f


def _velocity_symbols(space: FourierSpace) -> Tensor:
    """(2, *spectrum): w → u = ∂_y(−Δ)⁻¹w and v = −∂_x(−Δ)⁻¹w, complex128."""
    inverse = _inverse_laplacian(space)
    return torch.stack([space.derivative(1) * inverse, -space.derivative(0) * inverse])


def _inverse_laplacian(space: FourierSpace) -> Tensor:
    """1/|k|², 0 for the mean."""
    square = -space.laplacian
    return torch.where(square > 0, 1 / square, 0.0)


def _field(w: Any, grid: Grid) -> tuple[Tensor, Callable[[Tensor], Any], FourierSpace]:
    _check_flat(grid)
    tensor, restore = as_tensor(w, "w")
    if tensor.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"w has dtype {tensor.dtype}; expected float32 or float64")
    check_on_grid(tensor, grid, "w")
    return tensor, restore, FourierSpace(grid, tensor)


def _check_flat(grid: Grid) -> None:
    check_periodic(grid)
    if grid.ndim != 2:
        raise ValueError(f"grid has {grid.ndim} axes; expected 2, such as Grid((64, 64), centering='periodic')")
