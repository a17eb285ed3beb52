"""The reverse linear recurrence that the rules share: gradients along the cheap part of every layer or step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from sciops.values import one_of

Kernel = Literal["auto", "loop", "cumsum", "fft", "associative"]
KERNELS = get_args(Kernel)


@dataclass(frozen=True)
class Diagonal:
    """K u = values · u, entry by entry.

    values : broadcast against one v_i (the same for all i), or with as many axes as v, the first as long as v's (K_i)
    """

    values: Tensor


@dataclass(frozen=True)
class Matrix:
    """K u = values · u, a matrix on the last axis.

    values : (…, channels, channels), the leading axes broadcast against those of one v_i before its last; or with one
        axis more than v, the first as long as v's (K_i)
    """

    values: Tensor


@dataclass(frozen=True)
class FourierDiagonal:
    """K u = F⁻¹(symbol · F u), diagonal in the Fourier basis of some axes.

    symbol : complex or real, as `Diagonal.values` with frequencies on `axes`: the half spectrum of `torch.fft.rfftn`
        on the last of them where v is real, all of `torch.fft.fftn` where v is complex. Where the symbol is not that
        of a real map, irfftn uses the real part
    axes : of v, counted from its end
    """

    symbol: Tensor
    axes: tuple[int, ...] = (-2,)


Coefficient = float | complex | Diagonal | Matrix | FourierDiagonal


def reverse_scan(v: Tensor, coefficient: Coefficient, *, mask: Tensor | None = None, kernel: Kernel = "auto") -> Tensor:
    """Solves a linear recurrence from the last entry of axis 0 to the first.

        u_i = v_i + K_{i+1}ᴴ u_{i+1},   u_T = v_T

    With v_i the gradient that reaches state i from outside the chain, and K_i the derivative of state i by state i − 1,
    u_i is the gradient with respect to state i. K_0 is not used.

    v : (steps, …), real or complex; half precision is summed in float32
    coefficient : a number, `Diagonal`, `Matrix` or `FourierDiagonal`, the same for all i or one for each
    mask : (steps, batch), batch the second axis of v; False where a sequence of a batch has no such step: v counts as 0
        there, u is 0, and nothing is carried across
    kernel : "loop"; "cumsum", for the coefficient 1; "fft", a correlation with the powers of K, for one K for all i;
        "associative", products of the K_i in about log₂(steps) sweeps; "auto" takes what is fastest for the size and
        the device
    returns : like v; differentiable with respect to v and to the coefficient's values

    Raises ValueError for shapes that do not fit, and for a kernel that the coefficient does not have.
    """
    one_of(KERNELS)("kernel", kernel)
    if v.ndim < 1 or not (v.is_floating_point() or v.is_complex()):
        raise ValueError(f"v has shape {tuple(v.shape)} and dtype {v.dtype}; expected (steps, …) of real or complex")
    dtype = v.dtype
    v = v.to(torch.promote_types(dtype, torch.float32))
    if isinstance(coefficient, FourierDiagonal):
        u = _in_fourier_basis(v, coefficient, mask, kernel)
        return u.to(dtype)
    factors, varying, matrix = _factors(v, coefficient)
    if mask is not None:
        v, factors, varying = _masked(v, factors, varying, matrix, mask)
    # the coefficient of the sum may be one only where none of the factors was masked
    plain = not varying and isinstance(coefficient, (int, float)) and coefficient == 1
    chosen = _choice(v, factors, plain, varying, matrix) if kernel == "auto" else kernel
    if chosen == "cumsum" and not plain:
        raise ValueError("kernel='cumsum' adds up: expected coefficient 1 and no gaps in the mask; pass kernel='auto'")
    if chosen == "fft" and varying:
        raise ValueError("kernel='fft' needs one coefficient for all steps; pass kernel='associative' or 'auto'")
    if len(v) < 2:
        u = v
    elif chosen == "cumsum":
        u = v.flip(0).cumsum(0).flip(0)
    elif chosen == "fft":
        u = _correlate(v, factors, matrix)
    elif chosen == "associative":
        u = _associative(v, factors, varying, matrix)
    else:
        u = _loop(v, factors, varying, matrix)
    if mask is not None:
        u = u * _aligned(mask, u.ndim).to(u.dtype)
    return u.to(dtype) if dtype in (torch.float16, torch.bfloat16) else u


def _factors(v: Tensor, coefficient: float | complex | Diagonal | Matrix) -> tuple[Tensor, bool, bool]:
    """K_iᴴ as a tensor, whether there is one per step, and whether they are matrices."""
    if not isinstance(coefficient, (Diagonal, Matrix)):
        wide = torch.promote_types(v.dtype, torch.complex64) if isinstance(coefficient, complex) else v.dtype
        return torch.tensor(coefficient, dtype=wide, device=v.device).conj(), False, False
    matrix = isinstance(coefficient, Matrix)
    values = coefficient.values
    kind, axes = type(coefficient).__name__, values.ndim - matrix
    shape, expected = values.shape[:-1] if matrix else values.shape, v.shape if axes == v.ndim else v.shape[1:]
    try:
        fits = axes <= v.ndim and torch.broadcast_shapes(shape, expected) == expected
    except RuntimeError:
        fits = False
    if matrix:
        fits = fits and values.ndim >= 2 and values.shape[-1] == values.shape[-2] == v.shape[-1]
    if not fits or (axes == v.ndim and len(values) != len(v)):
        extra = (v.shape[-1],) if matrix else ()
        raise ValueError(
            f"{kind} values of shape {tuple(values.shape)} for v of shape {tuple(v.shape)}: expected what broadcasts "
            f"to {(*v.shape[1:], *extra)}, or one for each step, {(*v.shape, *extra)}"
        )
    values = values.to(torch.promote_types(values.dtype, torch.float32))
    return values.mH if matrix else values.conj(), axes == v.ndim, matrix


def _masked(v: Tensor, factors: Tensor, varying: bool, matrix: bool, mask: Tensor) -> tuple[Tensor, Tensor, bool]:
    """v and factors without the steps that do not exist; the factors stay one for all unless the mask has gaps."""
    if mask.dtype != torch.bool or mask.shape != v.shape[:2] or v.ndim < 2:
        raise ValueError(
            f"mask of shape {tuple(mask.shape)} and dtype {mask.dtype} for v of shape {tuple(v.shape)}: expected "
            "booleans (steps, batch)"
        )
    v = v * _aligned(mask, v.ndim).to(v.dtype)
    starts = mask[:1].sum(0) + (mask[1:] & ~mask[:-1]).sum(0)
    if bool((starts > 1).any()):
        there = _aligned(mask, v.ndim + matrix).to(factors.dtype)
        if not varying:
            factors = factors.expand(len(v), *(1,) * (v.ndim + matrix - 1 - factors.ndim), *factors.shape)
        return v, factors * there, True
    return v, factors, varying


def _aligned(mask: Tensor, ndim: int) -> Tensor:
    return mask.reshape(*mask.shape, *(1,) * (ndim - 2))


def _choice(v: Tensor, factors: Tensor, plain: bool, varying: bool, matrix: bool) -> str:
    """The fastest for the size in measurements: a loop pays for every step what it costs to start an operation."""
    steps, entries = len(v), math.prod(v.shape[1:])
    on_cpu = v.device.type == "cpu"
    # torch's sum along the first axis reads memory column by column on a CPU
    if plain and not (on_cpu and entries >= 1024):
        return "cumsum"
    small = entries <= 128 and not matrix if on_cpu else entries * steps * (v.shape[-1] if matrix else 1) <= 2**26
    # where K grows, a transform rounds to the largest u, and the last ones are far smaller
    if not (varying or matrix or plain) and small and steps >= 64 and bool((factors.abs() <= 1).all()):
        return "fft"
    return "associative" if small and steps >= (4096 if on_cpu else 64) else "loop"


def _applied(factor: Tensor, u: Tensor, matrix: bool) -> Tensor:
    if not matrix:
        return factor * u
    if factor.ndim == 2:
        return u @ factor.mT
    return (factor @ u.unsqueeze(-1)).squeeze(-1)


def _loop(v: Tensor, factors: Tensor, varying: bool, matrix: bool) -> Tensor:
    dtype = torch.promote_types(v.dtype, factors.dtype)
    steps, factors = len(v), factors.to(dtype)
    of_step = factors.unbind(0) if varying else (factors,) * steps
    if torch.is_grad_enabled() and (v.requires_grad or factors.requires_grad):
        rows = [v[-1].to(dtype)]
        for i in range(steps - 2, -1, -1):
            rows.append(v[i] + _applied(of_step[i + 1], rows[-1], matrix))
        return torch.stack(rows[::-1])
    with torch.no_grad():
        u = v.detach().to(dtype, copy=True, memory_format=torch.contiguous_format)
        states = u.unbind(0)
        for i in range(steps - 2, -1, -1):
            if matrix:
                states[i].add_(_applied(of_step[i + 1], states[i + 1], matrix))
            else:
                states[i].addcmul_(of_step[i + 1], states[i + 1])
    return u


def _correlate(v: Tensor, factor: Tensor, matrix: bool) -> Tensor:
    """u_i = Σ_j Pʲ v_{i+j}: a product of transforms, on twice the steps so that the end does not meet the start."""
    steps = len(v)
    if matrix:
        powers = [torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device).expand_as(factor)]
        for _ in range(steps - 1):
            powers.append(powers[-1] @ factor)
        kernel = torch.stack(powers)
    else:
        exponents = torch.arange(steps, device=v.device).reshape(-1, *(1,) * factor.ndim)
        kernel = torch.where(exponents == 0, torch.ones_like(factor), factor.unsqueeze(0) ** exponents)
    kernel = kernel.reshape(steps, *(1,) * (v.ndim - 1 + matrix - factor.ndim), *factor.shape)
    length = 1 << (2 * steps - 2).bit_length()
    if v.is_complex() or kernel.is_complex():
        forward, back = torch.fft.fft, torch.fft.ifft
    else:
        forward, back = torch.fft.rfft, torch.fft.irfft
    spectrum = _applied(forward(kernel.conj().resolve_conj(), length, dim=0).conj(), forward(v, length, dim=0), matrix)
    return back(spectrum, length, dim=0)[:steps]


def _associative(v: Tensor, factors: Tensor, varying: bool, matrix: bool) -> Tensor:
    """Inclusive scan of the maps u ↦ v_i + K_{i+1}ᴴ u, the later ones applied first."""
    dtype = torch.promote_types(v.dtype, factors.dtype)
    if not varying:
        factors = factors.expand(len(v), *(1,) * (v.ndim + matrix - 1 - factors.ndim), *factors.shape)
    factors = torch.cat([factors[1:], torch.zeros_like(factors[:1])]).to(dtype).resolve_conj()
    maps = factors.flip(0), v.to(dtype).flip(0)

    def combined(first: tuple[Tensor, Tensor], then: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        product = then[0] @ first[0] if matrix else then[0] * first[0]
        return product, then[1] + _applied(then[0], first[1], matrix)

    try:
        from torch._higher_order_ops import associative_scan
    except ImportError:
        return _doubling(combined, maps)[1].flip(0)
    return associative_scan(combined, maps, 0, combine_mode="generic")[1].flip(0)


def _doubling(combined: Callable[..., Any], maps: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The same scan by products over 2, 4, 8, … neighbours, for versions of torch without `associative_scan`."""
    reach = 1
    while reach < len(maps[1]):
        joined = combined(tuple(m[:-reach] for m in maps), tuple(m[reach:] for m in maps))
        maps = tuple(torch.cat([m[:reach], new]) for m, new in zip(maps, joined))
        reach *= 2
    return maps


def _in_fourier_basis(v: Tensor, coefficient: FourierDiagonal, mask: Tensor | None, kernel: Kernel) -> Tensor:
    symbol, axes = coefficient.symbol, tuple(coefficient.axes)
    if not axes or any(not -v.ndim < axis < 0 for axis in axes):
        raise ValueError(f"axes={axes}: expected axes counted from the end, −1 … {1 - v.ndim}, not the steps")
    if mask is not None and 1 - v.ndim in axes:
        raise ValueError(f"axes={axes}: axis {1 - v.ndim} is the batch, whose sequences a mask tells apart")
    sizes = [v.shape[axis] for axis in axes]
    frequencies = sizes if v.is_complex() else [*sizes[:-1], sizes[-1] // 2 + 1]
    if symbol.ndim < -min(axes) or [symbol.shape[axis] for axis in axes] != frequencies:
        raise ValueError(
            f"symbol of shape {tuple(symbol.shape)}: expected {tuple(frequencies)} frequencies on axes {axes}"
        )
    symbol = symbol.to(torch.promote_types(symbol.dtype, torch.complex64))
    there, back = (torch.fft.fftn, torch.fft.ifftn) if v.is_complex() else (torch.fft.rfftn, torch.fft.irfftn)
    if not v.is_complex():  # there and back once, so that powers of the symbol are powers of the real map
        symbol = there(back(symbol, s=sizes, dim=axes), dim=axes)
    return back(reverse_scan(there(v, dim=axes), Diagonal(symbol), mask=mask, kernel=kernel), s=sizes, dim=axes)
