"""Λ for fields that are stepped in time: multiples of the identity, and diagonals in the Fourier basis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sciops.arrays.scale import power_of_two
from sciops.bases import Basis
from sciops.grids import Grid
from sciops.models.sequences.through_time.scan import Coefficient, FourierDiagonal

FIELD_MODES = ("identity", "zero", "constant", "symbol", "heat", "advection", "least_squares")
_OPTIONS = {
    "constant": {"level"},
    "symbol": {"symbol"},
    "heat": {"diffusivity", "dt"},
    "advection": {"velocity", "diffusivity", "dt"},
}


def field_feedback(mode: str, grid: Grid, frames: Tensor, first: Tensor, **options: Any) -> Coefficient:
    """Λ of steps of fields, for gradients of shape (steps, batch, channels, *grid).

    mode : "identity"  Λ = I: a step changes little
        "zero", "constant" (level)  Λ = 0, or level·I
        "symbol" (symbol)  F⁻¹ λ(k) F, on the half spectrum of rfftn, with or without a leading axis of channels: a
            complex tensor, or nested lists that end in pairs [real part, imaginary part]
        "heat" (diffusivity ν, dt)  λ = e^{−ν|k|²dt};   "advection" (velocity c, dt, diffusivity ν = 0)
            λ = e^{−i c·k dt − ν|k|²dt}, exact where this is what a step does
        "least_squares"  λ(k) = Σ û_{t+1} ū̂_t / Σ |û_t|² of the frames themselves, at most 1 in modulus: the symbol
            that tells one frame from the one before it best. An estimate of the step, not of its derivative
    frames : (steps, batch, channels, *grid), first : (batch, channels, *grid) the one before them

    Raises ValueError for an unknown mode or option, a missing one, and grids that are not periodic where Λ is a symbol.
    """
    if mode not in FIELD_MODES:
        raise ValueError(f"feedback={mode!r}: for a Stepper expected one of {', '.join(FIELD_MODES)}")
    known = _OPTIONS.get(mode, set())
    extra, missing = set(options) - known, known - set(options) - {"diffusivity" if mode == "advection" else "level"}
    if extra or missing:
        what = f"takes no {sorted(extra)[0]!r}" if extra else f"needs {sorted(missing)[0]!r}"
        raise ValueError(f"feedback={mode!r} {what}; its options: {', '.join(sorted(known)) or 'none'}")
    if mode in ("identity", "zero", "constant"):
        return {"identity": 1.0, "zero": 0.0}.get(mode, float(options.get("level", 0.5)))
    if grid.centering != "periodic":
        raise ValueError(
            f"feedback={mode!r} is diagonal in the Fourier basis, the grid is {grid.centering!r}: pass 'identity'"
        )
    axes = tuple(range(-grid.ndim, 0))
    if mode == "symbol":
        symbol = _given(options["symbol"])
    elif mode == "least_squares":
        symbol = fitted_symbol(torch.cat([first[None], frames[:-1]]), frames, axes)
    else:
        symbol = flow_symbol(grid, **options)
    return FourierDiagonal(symbol.to(frames.device, torch.promote_types(frames.dtype, torch.complex64)), axes)


def flow_symbol(grid: Grid, *, dt: float, velocity: float | Sequence[float] = 0.0, diffusivity: float = 0.0) -> Tensor:
    """Symbol of one step of u_t + c·∇u = ν Δu on the half spectrum: e^{−i c·k dt − ν|k|²dt}, in the grid's lengths."""
    speeds = (float(velocity),) * grid.ndim if isinstance(velocity, (int, float)) else tuple(map(float, velocity))
    if len(speeds) != grid.ndim:
        raise ValueError(f"velocity={velocity!r}: expected one number, or {grid.ndim}, one an axis")
    exponent = torch.zeros((), dtype=torch.complex128)
    for axis, (n, (a, b), c) in enumerate(zip(grid.shape, grid.extent, speeds)):
        k = torch.from_numpy(Basis("fourier", n, "periodic", b - a).wavenumbers(half=axis == grid.ndim - 1))
        k = k.reshape(-1, *(1,) * (grid.ndim - 1 - axis))
        exponent = exponent - (1j * c * k + diffusivity * k**2) * dt
    return torch.exp(exponent)


def fitted_symbol(before: Tensor, after: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Least-squares symbol of a step, (channels, *frequencies): λ(k) of least Σ |û_after − λ û_before|².

    Its modulus is at most 1; it is 0 where û vanishes.
    """
    unit = power_of_two(before, tuple(range(before.ndim)))
    a, b = (torch.fft.rfftn(field.detach() / unit, dim=axes) for field in (before, after))
    power, product = (a.abs() ** 2).sum((0, 1)), (a.conj() * b).sum((0, 1))
    there = power > torch.finfo(power.dtype).eps * power.max()
    symbol = torch.where(there, product / power.clamp_min(torch.finfo(power.dtype).tiny), torch.zeros_like(product))
    return symbol / symbol.abs().clamp_min(1)


def _given(symbol: Any) -> Tensor:
    if isinstance(symbol, Tensor):
        return symbol
    return torch.view_as_complex(torch.tensor(symbol, dtype=torch.float64))
