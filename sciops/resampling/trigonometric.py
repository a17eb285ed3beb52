"""The trigonometric interpolant of one axis, for even and odd numbers of points, up and down."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sciops.arrays.compiling import kept
from sciops.bases import fourier_numbers, multiplicity
from sciops.grids import Grid

_ALIGNED = 1e-9  # a shift of less than this share of a spacing counts as zero


def trigonometric(u: Tensor, axis: int, source: Grid, target: Grid, naive: bool) -> Tensor:
    """u at the points of `target` along one axis, from the coefficients that both axes can hold.

    A cell axis is a period whose points sit half a cell in, and a period may begin anywhere. The last node of a node
    axis is the first one, a period later; a naive passage takes it for one more point of the period and ignores all
    positions.
    """
    if u.is_complex():
        parts = (trigonometric(part, axis, source, target, naive) for part in (u.real, u.imag))
        return torch.complex(*parts)
    (n,), (m,) = source.shape, target.shape
    if naive:
        return _trigonometric(u, axis, m, 0.0)
    shift = _shift(source, target)
    if source.centering == "node":
        u = u.narrow(axis, 0, n - 1)
    u = _trigonometric(u, axis, m - (target.centering == "node"), shift)
    return torch.cat([u, u.narrow(axis, 0, 1)], axis) if target.centering == "node" else u


def _trigonometric(u: Tensor, axis: int, m: int, shift: float) -> Tensor:
    """The interpolant of n real samples at j/n of a period, at j/m + shift."""
    n = u.shape[axis]
    if m == n and shift == 0:
        return u
    last = min(n, m) // 2  # highest wavenumber that both hold
    coefficients = torch.fft.rfft(u, dim=axis, norm="forward").narrow(axis, 0, last + 1)
    factor = _factor(n, m, shift, coefficients.dtype, coefficients.device)
    coefficients = coefficients * factor.view(-1, *(1,) * (u.ndim - 1 - axis))
    if 2 * last == m:
        # c and its conjugate add to a real number; backends differ in what they do with an imaginary part here
        top = coefficients.narrow(axis, last, 1).real
        top = torch.complex(top, torch.zeros_like(top))
        coefficients = torch.cat([coefficients.narrow(axis, 0, last), top], axis)
    return torch.fft.irfft(coefficients, n=m, dim=axis, norm="forward")


def _shift(source: Grid, target: Grid) -> float:
    """From the first source point to the first target point, in periods, without whole ones."""
    ((a, b),), ((c, _),) = source.extent, target.extent
    half = [0.5 / axis.size if axis.centering == "cell" else 0.0 for axis in (source, target)]
    apart = (c - a) / (b - a)
    shift = (apart - round(apart)) + (half[1] - half[0])
    return 0.0 if abs(shift) * max(source.size, target.size) < _ALIGNED else shift


@kept(64)
def _factor(n: int, m: int, shift: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """What the coefficients 0 … min(n, m)//2 are multiplied by: the phase of the shift, and the Nyquist rule."""
    k = fourier_numbers(min(n, m), half=True)
    # an even source's Nyquist coefficient stands for both signs, which meet in that of an even target
    factor = np.exp(2j * np.pi * shift * k) * multiplicity(k, n) / multiplicity(k, m)
    return torch.tensor(factor, dtype=dtype, device=device)
