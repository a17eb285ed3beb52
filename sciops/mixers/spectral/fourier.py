"""The truncated real Fourier transform, channel last: small matrix products, or FFTs where many modes are kept.

With n points along an axis and θ = 2π/n the kept coefficients are

    X(k, l) = 1/N · Σ x(i, j) exp(−iθ₀ki − iθ₁lj),     k = −K … K−1 (leading axes),  l = 0 … M−1 (last axis)

and the synthesis is y(i, j) = Re Σ c_l Z(k, l) exp(iθ₀ki + iθ₁lj) with c_l = 1 at l = 0 and at the Nyquist column
l = n/2, 2 elsewhere. Both are one linear map T and its transpose, which differ only in the scaling of the last axis:
each is the other's derivative, so derivatives of every order exist.

Coefficients are real pairs (batch, 2, modes…, channel) with leading modes ordered 0 … K−1, −1 … −K. The last axis goes
first: its real table [cos; −sin] leaves (rows, 2M, channel), and the complex table of a leading axis, written out in
real 2×2 blocks, takes (n, 2) and leaves (2, 2K), which is the order of the result. Every step is one batched product on
memory as it lies: nothing is shifted, joined or transposed in between.

An axis is a 2-D table, for a product, or a 1-D one, for an FFT: the kept rows of a leading axis, the scaling of the
columns of the last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from sciops.arrays.compiling import constant, kept, transformed
from sciops.bases import multiplicity, waves

Method = Literal["auto", "product", "fft"]

# Kept modes (K of a leading axis, M of the last) from which FFT, cropping and the copies around it take less time than
# the product. Measured by studies/mixer_speed/: (leading; last; last where n has a prime factor above 7). Lengths
# between 128 and 8192 cross at about the same number: both costs are proportional to n. The figures of CUDA are
# estimates from arithmetic and memory rates.
_FFT_FROM = {"cpu": (192, 224, 320), "cuda": (96, 96, 128)}


@constant
@kept(128)
def tables(
    sizes: tuple[int, ...], modes: tuple[int, ...], dtype: torch.dtype, device: torch.device, method: Method = "auto"
) -> tuple[list[Tensor], Tensor, Tensor]:
    """(leading axes, last axis of the analysis, last axis of the synthesis); `method` forces one way on all axes."""
    *rows, columns = modes
    leading_from, smooth_from, rough_from = _FFT_FROM.get(device.type, _FFT_FROM["cpu"])
    last_from = smooth_from if _smooth(sizes[-1]) else rough_from

    def by_fft(k: int, start: int) -> bool:
        return method == "fft" or (method == "auto" and k >= start)

    leading = [
        torch.from_numpy(_kept_rows(n, k)).to(device)
        if by_fft(k, leading_from)
        else _leading_table(n, k).to(device=device, dtype=dtype)
        for n, k in zip(sizes, rows)
    ]
    pair = _last_tables(sizes[-1], columns, math.prod(sizes), by_fft(columns, last_from))
    analysis, synthesis = (t.to(device=device, dtype=dtype) for t in pair)
    return leading, analysis, synthesis


def transform(x: Tensor, leading: Sequence[Tensor], last: Tensor) -> Tensor:
    """T: fields (batch, *grid, channel) → coefficients (batch, 2, *modes, channel)."""
    if transformed():
        return _apply(x, leading, last)
    return _Transform.apply(x, False, tuple(x.shape[1:-1]), last, *leading)


def transpose(z: Tensor, sizes: tuple[int, ...], leading: Sequence[Tensor], last: Tensor) -> Tensor:
    """Tᵀ: coefficients (batch, 2, *modes, channel) → fields (batch, *sizes, channel)."""
    if transformed():
        return _apply_transposed(z, sizes, leading, last)
    return _Transform.apply(z, True, sizes, last, *leading)


def multiply(x: Tensor, weight: Tensor) -> Tensor:
    """Complex matrix product per mode in real numbers.

    x : (batch, 2, modes, C)   real and imaginary parts
    weight : (modes, C, 2·O)   [Re | Im]
    returns : (batch, 2, modes, O)
    """
    if not transformed():
        return _Multiply.apply(x, weight)
    (rr, ri), (ir, ii) = (p.chunk(2, -1) for p in _products(x, weight).unbind(1))
    return torch.stack([rr - ii, ri + ir], 1)


def scale(x: Tensor, weight: Tensor) -> Tensor:
    """Complex product with one number per mode and channel, in real numbers.

    x : (batch, 2, modes, C)   real and imaginary parts
    weight : (modes, 2, C)
    returns : (batch, 2, modes, C)
    """
    return _scaled(x, weight, 1) if transformed() else _Scale.apply(x, weight)


class _Transform(Function):
    """T, or Tᵀ; each is the other's derivative."""

    @staticmethod
    def forward(ctx, x, transposed, sizes, last, *leading):
        ctx.transposed, ctx.sizes = transposed, sizes
        ctx.save_for_backward(last, *leading)
        return _apply_transposed(x, sizes, leading, last) if transposed else _apply(x, leading, last)

    @staticmethod
    def backward(ctx, g):
        tables = ctx.saved_tensors
        return _Transform.apply(g, not ctx.transposed, ctx.sizes, *tables), None, None, *[None] * len(tables)


class _Multiply(Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        product, out = _products(x, weight), weight.shape[-1] // 2
        z = x.new_empty(*product.shape[:3], out)
        torch.sub(product[:, 0, :, :out], product[:, 1, :, out:], out=z[:, 0])
        torch.add(product[:, 0, :, out:], product[:, 1, :, :out], out=z[:, 1])
        return z

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        batch, _, modes, channels = x.shape
        pair = g.permute(2, 0, 1, 3)
        re, im = pair.unbind(2)
        # the cotangent of [Xr; Xi]·[Wr | Wi], whose diagonal blocks enter the real part with signs + and −
        if torch.is_grad_enabled():
            blocks = torch.stack([re, im, im, -re], 2)
        else:
            blocks = g.new_empty(modes, batch, 4, g.shape[-1])
            blocks[:, :, :2].copy_(pair)
            blocks[:, :, 2].copy_(im)
            torch.neg(re, out=blocks[:, :, 3])
        blocks = blocks.reshape(modes, 2 * batch, 2 * g.shape[-1])
        gx = gw = None
        if ctx.needs_input_grad[0]:
            gx = torch.bmm(blocks, weight.transpose(1, 2)).transpose(0, 1).reshape(x.shape)
        if ctx.needs_input_grad[1]:
            gw = torch.bmm(x.reshape(2 * batch, modes, channels).permute(1, 2, 0), blocks)
        return gx, gw


class _Scale(Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return _scaled_in_place(x, weight, 1)

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        recorded = torch.is_grad_enabled()  # a second derivative is wanted
        gx = gw = None
        if ctx.needs_input_grad[0]:
            gx = (_scaled if recorded else _scaled_in_place)(g, weight, -1)
        if ctx.needs_input_grad[1]:
            (xr, xi), (gr, gi) = x.unbind(1), g.unbind(1)
            along, across = torch.addcmul(xr * gr, xi, gi), torch.addcmul(xr * gi, xi, gr, value=-1)
            gw = torch.stack([along.sum(0), across.sum(0)], 1)
        return gx, gw


def _products(x: Tensor, weight: Tensor) -> Tensor:
    """[Re x; Im x] times [Re | Im] of every mode: (batch, 2, modes, 2·O)."""
    batch, _, modes, channels = x.shape
    product = torch.bmm(x.reshape(2 * batch, modes, channels).transpose(0, 1), weight)
    return product.reshape(modes, batch, 2, product.shape[-1]).permute(1, 2, 0, 3)


def _scaled(x: Tensor, weight: Tensor, sign: int) -> Tensor:
    """x times the weight (sign 1) or its conjugate (sign −1)."""
    (xr, xi), (wr, wi) = x.unbind(1), weight.unbind(1)
    return torch.stack([torch.addcmul(xr * wr, xi, wi, value=-sign), torch.addcmul(xi * wr, xr, wi, value=sign)], 1)


def _scaled_in_place(x: Tensor, weight: Tensor, sign: int) -> Tensor:
    """`_scaled` without the copy that joins the parts."""
    (xr, xi), (wr, wi) = x.unbind(1), weight.unbind(1)
    y = torch.empty_like(x)
    torch.mul(xr, wr, out=y[:, 0]).addcmul_(xi, wi, value=-sign)
    torch.mul(xi, wr, out=y[:, 1]).addcmul_(xr, wi, value=sign)
    return y


def _apply(x: Tensor, leading: Sequence[Tensor], last: Tensor) -> Tensor:
    batch, *grid, channels = x.shape
    rows = batch * math.prod(grid[:-1])
    y, width = last_axis(x.reshape(rows, grid[-1], channels), last), _kept(last) * channels
    for n, table in zip(reversed(grid[:-1]), reversed(leading)):
        rows //= n
        y = leading_axis(y.reshape(rows, n, 2, width), table)
        width *= _kept(table)
    return y.reshape(batch, 2, *(_kept(table) for table in leading), _kept(last), channels)


def _apply_transposed(z: Tensor, sizes: Sequence[int], leading: Sequence[Tensor], last: Tensor) -> Tensor:
    batch, *_, channels = z.shape
    rows, y, width = batch, z, math.prod(z.shape[2:])
    for n, table in zip(sizes, leading):
        width //= _kept(table)
        y = leading_axis_transposed(y.reshape(rows, 2, _kept(table), width), table, n)
        rows *= n
    y = last_axis_transposed(y.reshape(rows, 2, _kept(last), channels), last, sizes[-1])
    return y.reshape(batch, *sizes, channels)


def _kept(table: Tensor) -> int:
    return table.shape[0] // 2 if table.ndim == 2 else table.shape[0]


def last_axis(x: Tensor, table: Tensor) -> Tensor:
    """(rows, n, C) → (rows, 2, M, C)."""
    if table.ndim == 2:
        return _product(table, x)
    kept = torch.fft.rfft(x, dim=1).narrow(1, 0, table.shape[0])
    return torch.stack([kept.real, kept.imag], 1) * table[:, None]


def last_axis_transposed(z: Tensor, table: Tensor, n: int) -> Tensor:
    """(rows, 2, M, C) → (rows, n, C)."""
    if table.ndim == 2:
        return _product(table.t(), z.flatten(1, -2))
    # irfft counts every column but the first and the Nyquist column twice
    re, im = (z * (table / _counts(n, table.shape[0], table.dtype, table.device))[:, None]).unbind(1)
    return torch.fft.irfft(torch.complex(re, im), n, dim=1, norm="forward").contiguous()


def leading_axis(y: Tensor, table: Tensor) -> Tensor:
    """(rows, n, 2, ·) → (rows, 2, 2K, ·)."""
    if table.ndim == 2:
        return _product(table, y.flatten(1, -2))
    kept = torch.fft.fft(torch.complex(*y.unbind(2)), dim=1).index_select(1, table)
    return torch.stack([kept.real, kept.imag], 1)


def leading_axis_transposed(z: Tensor, table: Tensor, n: int) -> Tensor:
    """(rows, 2, 2K, ·) → (rows, n, 2, ·)."""
    if table.ndim == 2:
        return _product(table.t(), z.flatten(1, -2))
    kept = torch.complex(*z.unbind(1))
    # added, since a row may be there twice
    spectrum = kept.new_zeros(kept.shape[0], n, kept.shape[-1]).index_add(1, table, kept)
    y = torch.fft.ifft(spectrum, dim=1, norm="forward")
    return torch.stack([y.real, y.imag], 2)


def _product(table: Tensor, y: Tensor) -> Tensor:
    # matmul would fold the batch and copy; bmm takes the expanded table as it is
    return torch.bmm(table.expand(y.shape[0], -1, -1), y)


def _smooth(n: int) -> bool:
    for prime in (2, 3, 5, 7):
        while n % prime == 0:
            n //= prime
    return n == 1


def _kept_rows(n: int, k: int) -> np.ndarray:
    """Where 0 … k−1, −1 … −k stand in an FFT of n points."""
    return np.concatenate([np.arange(k), -np.arange(1, k + 1)]) % n


def _leading_table(n: int, k: int) -> Tensor:
    """exp(−iθkj) as real 2×2 blocks, (re, im) × modes by points × (re, im) : (4K, 2n)."""
    cos, sin = waves(_kept_rows(n, k), n)
    return torch.from_numpy(np.stack([np.stack([cos, sin], -1), np.stack([-sin, cos], -1)]).reshape(4 * k, 2 * n))


def _last_tables(n: int, m: int, points: int, fft: bool) -> tuple[Tensor, Tensor]:
    """[cos; −sin]/points and c·[cos; −sin] for l = 0 … M−1 : (2M, n) each; the factors alone, (M,) each, for an FFT."""
    columns = np.arange(m)
    counts = multiplicity(columns, n).astype(np.float64)
    if fft:
        return torch.from_numpy(np.full_like(counts, 1.0 / points)), torch.from_numpy(counts)
    cos, sin = waves(columns, n)
    table = np.concatenate([cos, -sin])
    return torch.from_numpy(table / points), torch.from_numpy(table * np.tile(counts, 2)[:, None])


@constant
@kept(64)
def _counts(n: int, m: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """c_l: how often column l stands in the whole spectrum."""
    return torch.from_numpy(multiplicity(np.arange(m), n)).to(device=device, dtype=dtype)
