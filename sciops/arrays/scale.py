"""Units of a field: a power of two near its largest value, by which squares neither underflow nor overflow."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def widened(v: Tensor) -> Tensor:
    """v itself, half precision in float32: sums and squares of half precision end at 65504."""
    return v.to(torch.promote_types(v.dtype, torch.float32))


def power_of_two(v: Tensor, dims: int | Sequence[int]) -> Tensor:
    """2^⌊log2 max|v|⌋ over `dims`, which are kept with size 1; 1 where v vanishes or is not finite.

    v / power_of_two(v, dims) lies in (−2, 2), and for values of normal size the division is exact: every later step
    has the same rounding errors in any unit. Subnormal values are divided by the smallest normal number. Of complex v,
    max|v| is that of its real and imaginary parts. Half precision gets float32. No gradient flows into the result.
    """
    v = v.detach()
    largest = torch.maximum(_peak(v.real, dims), _peak(v.imag, dims)) if v.is_complex() else _peak(v, dims)
    largest = widened(largest)
    limits = torch.finfo(largest.dtype)
    usable = largest.isfinite() & (largest > 0)
    exponent = torch.floor(torch.log2(torch.where(usable, largest, 1)))
    # log2 rounds up next to the largest number, and 2^128 is not one of float32
    exponent = exponent.clamp(math.frexp(limits.tiny)[1] - 1, math.frexp(limits.max)[1] - 1)
    return torch.where(usable, torch.exp2(exponent), 1)


def norm_of(v: Tensor, dims: int | Sequence[int]) -> Tensor:
    """√Σ|v|² over `dims`, which are left out, for v of any unit; half precision in float32. The gradient at 0 is 0."""
    unit = power_of_two(v, dims)
    return (torch.linalg.vector_norm(v / unit, dim=dims, keepdim=True) * unit).squeeze(dims)


def mean_square_of(v: Tensor, dims: int | Sequence[int]) -> Tensor:
    """⟨|v|²⟩ over `dims`, which are left out, in float64, since squares of float32 leave the range of float32."""
    unit = power_of_two(v, dims)
    mean = (v / unit).abs().square().mean(dims, keepdim=True)
    return (mean.double() * unit.double().square()).squeeze(dims)


def _peak(v: Tensor, dims: int | Sequence[int]) -> Tensor:
    return torch.maximum(v.amax(dims, keepdim=True), -v.amin(dims, keepdim=True))  # abs() would copy the field
