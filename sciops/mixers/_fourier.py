"""The truncated real Fourier transform as small matrix products, channel last.

With n points along an axis and θ = 2π/n the kept coefficients are

    X(k, l) = 1/N · Σ x(i, j) exp(−iθ₀ki − iθ₁lj),     k = −K … K−1 (leading axes),  l = 0 … M−1 (last axis)

and the way back is y(i, j) = Re Σ c_l Z(k, l) exp(iθ₀ki + iθ₁lj) with c_l = 1 at l = 0 and at the Nyquist column
l = n/2, 2 elsewhere. Both are one linear map T and its transpose, which differ only in the scaling of the last table:
each is the other's derivative, so derivatives of every order exist.

Only cos θkj and sin θkj for k = 0 … K are tabulated: they serve +k and −k alike. Coefficients are stored as real pairs
(batch, 2, modes…, channel) with leading modes ordered 0 … K−1, −1 … −K.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor
from torch.autograd import Function

from sciops._compiling import uncompiled


@uncompiled
@lru_cache(maxsize=128)
def leading_table(n: int, k: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """[cos θkj; sin θkj] for k = 0 … K : (2(K+1), n)."""
    with torch.inference_mode(False):  # a table made while evaluating must serve training later
        return torch.cat(_cos_sin(n, k + 1)).to(device=device, dtype=dtype)


@uncompiled
@lru_cache(maxsize=128)
def last_tables(n: int, m: int, points: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """(analysis, synthesis) = ([cos; −sin]/points, c·[cos; −sin]) for l = 0 … M−1 : (2M, n) each."""
    with torch.inference_mode(False):
        cos, sin = _cos_sin(n, m)
        table = torch.cat([cos, -sin])
        c = torch.full((m, 1), 2.0, dtype=torch.float64, device="cpu")
        c[0] = 1.0
        if n % 2 == 0 and m > n // 2:
            c[n // 2] = 1.0
        pair = table / points, table * torch.cat([c, c])
        return tuple(t.to(device=device, dtype=dtype) for t in pair)


def transform(x: Tensor, leading: Sequence[Tensor], last: Tensor) -> Tensor:
    """T: fields (batch, *grid, channel) → coefficients (batch, 2, *modes, channel)."""
    return _Transform.apply(x, last, *leading)


def transpose(z: Tensor, leading: Sequence[Tensor], last: Tensor) -> Tensor:
    """Tᵀ: coefficients (batch, 2, *modes, channel) → fields (batch, *grid, channel)."""
    return _Transpose.apply(z, last, *leading)


def multiply(x: Tensor, weight: Tensor) -> Tensor:
    """Complex matrix product per mode in real numbers.

    x : (batch, 2, modes, C)   real and imaginary parts
    weight : (modes, C, 2·O)   [Re | Im]
    returns : (batch, 2, modes, O)
    """
    return _Multiply.apply(x, weight)


def scale(x: Tensor, weight: Tensor) -> Tensor:
    """Complex product with one number per mode and channel, in real numbers.

    x : (batch, 2, modes, C)   real and imaginary parts
    weight : (modes, 2, C)
    returns : (batch, 2, modes, C)
    """
    return _scaled(x, weight, 1) if torch.compiler.is_compiling() else _Scale.apply(x, weight)


class _Transform(Function):
    @staticmethod
    def forward(ctx, x, last, *leading):
        ctx.save_for_backward(last, *leading)
        return _apply(x, leading, last)

    @staticmethod
    def backward(ctx, g):
        last, *leading = ctx.saved_tensors
        return _Transpose.apply(g, last, *leading), None, *[None] * len(leading)


class _Transpose(Function):
    @staticmethod
    def forward(ctx, z, last, *leading):
        ctx.save_for_backward(last, *leading)
        return _apply_transposed(z, leading, last)

    @staticmethod
    def backward(ctx, g):
        last, *leading = ctx.saved_tensors
        return _Transform.apply(g, last, *leading), None, *[None] * len(leading)


class _Multiply(Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        batch, _, modes, channels = x.shape
        out = weight.shape[-1] // 2
        product = torch.bmm(x.reshape(2 * batch, modes, channels).transpose(0, 1), weight)
        product = product.reshape(modes, batch, 2, 2 * out).permute(1, 2, 0, 3)
        if torch.compiler.is_compiling():
            (rr, ri), (ir, ii) = (p.split(out, -1) for p in product.unbind(1))
            return torch.stack([rr - ii, ri + ir], 1)
        z = x.new_empty(batch, 2, modes, out)
        torch.sub(product[:, 0, :, :out], product[:, 1, :, out:], out=z[:, 0])
        torch.add(product[:, 0, :, out:], product[:, 1, :, :out], out=z[:, 1])
        return z

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        batch, _, modes, channels = x.shape
        re, im = g.permute(1, 2, 0, 3)
        # the cotangent of [Xr; Xi]·[Wr | Wi], whose diagonal blocks enter the real part with signs + and −
        blocks = torch.stack([re, im, im, -re], 2).reshape(modes, 2 * batch, -1)
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
    y = x
    rows = batch
    for n, table in zip(grid, leading):
        y = _product(table, y.reshape(rows, n, -1))
        rows *= table.shape[0]
    y = _product(last, y.reshape(rows, grid[-1], channels))
    split = [s for table in leading for s in (2, table.shape[0] // 2)]
    y = y.reshape(batch, *split, 2, last.shape[0] // 2, channels)
    z = y.movedim(-3, 1)
    for axis in range(2 * len(leading) - 1, 0, -2):
        z = _join(z[:, 0], z[:, 1], axis)
    return z.contiguous()


def _apply_transposed(z: Tensor, leading: Sequence[Tensor], last: Tensor) -> Tensor:
    batch, *_, channels = z.shape
    y = z.movedim(1, -3)
    for axis in range(1, 2 * len(leading), 2):
        y = _split(y.select(-3, 0), y.select(-3, 1), axis)
    rows = batch * math.prod([table.shape[0] for table in leading])
    y = _product(last.t(), y.reshape(rows, last.shape[0], channels))
    for table in reversed(leading):
        rows //= table.shape[0]
        y = _product(table.t(), y.reshape(rows, table.shape[0], -1))
    return y.reshape(batch, *(table.shape[1] for table in leading), last.shape[1], channels)


def _product(table: Tensor, y: Tensor) -> Tensor:
    # matmul would fold the batch and copy; bmm takes the expanded table as it is
    return torch.bmm(table.expand(y.shape[0], -1, -1), y)


def _join(re: Tensor, im: Tensor, axis: int) -> Tensor:
    """(cos, sin) sums for |k| → coefficients for ±k: X(±k) = C ∓ iS; axes (2, K+1) become one of 2K.

    re, im : (batch, …, 2, K+1, …)
    returns : (batch, 2, …, 2K, …)   real and imaginary part
    """
    k = re.shape[axis + 1] - 1
    if torch.compiler.is_compiling():
        return _join_recorded(re, im, axis)
    out = re.new_empty((re.shape[0], 2, *re.shape[1:axis], 2 * k, *re.shape[axis + 2 :]))
    cos_re, sin_re, cos_im, sin_im = (t.select(axis, i) for t in (re, im) for i in (0, 1))

    def combine(operation, a: Tensor, b: Tensor, part: int, first: int, start: int) -> None:
        operation(a.narrow(axis, start, k), b.narrow(axis, start, k), out=out[:, part].narrow(axis, first, k))

    combine(torch.add, cos_re, sin_im, 0, 0, 0)
    combine(torch.sub, cos_im, sin_re, 1, 0, 0)
    combine(torch.sub, cos_re, sin_im, 0, k, 1)
    combine(torch.add, cos_im, sin_re, 1, k, 1)
    return out


def _split(re: Tensor, im: Tensor, axis: int) -> Tensor:
    """The transpose of `_join`: C = X(k) + X(−k), S = i(X(k) − X(−k)), where X(K) and a second X(0) count as 0.

    re, im : (batch, …, 2K, …, M, channel)
    returns : (batch, …, 2, K+1, …, 2, M, channel)   real and imaginary part in front of the last modes
    """
    k = re.shape[axis] // 2
    if torch.compiler.is_compiling():
        return _split_recorded(re, im, axis)
    out = re.new_empty((*re.shape[:axis], 2, k + 1, *re.shape[axis + 1 : -2], 2, *re.shape[-2:]))
    cos_re, sin_re, cos_im, sin_im = (out.select(-3, part).select(axis, trig) for part in (0, 1) for trig in (0, 1))

    def at(t: Tensor, start: int, length: int = 1) -> Tensor:
        return t.narrow(axis, start, length)

    at(cos_re, 0).copy_(at(re, 0))
    at(cos_im, 0).copy_(at(im, 0))
    torch.neg(at(im, 0), out=at(sin_re, 0))
    at(sin_im, 0).copy_(at(re, 0))
    if k > 1:
        inner = k - 1
        torch.add(at(re, 1, inner), at(re, k, inner), out=at(cos_re, 1, inner))
        torch.add(at(im, 1, inner), at(im, k, inner), out=at(cos_im, 1, inner))
        torch.sub(at(im, k, inner), at(im, 1, inner), out=at(sin_re, 1, inner))
        torch.sub(at(re, 1, inner), at(re, k, inner), out=at(sin_im, 1, inner))
    at(cos_re, k).copy_(at(re, 2 * k - 1))
    at(cos_im, k).copy_(at(im, 2 * k - 1))
    at(sin_re, k).copy_(at(im, 2 * k - 1))
    torch.neg(at(re, 2 * k - 1), out=at(sin_im, k))
    return out


def _join_recorded(re: Tensor, im: Tensor, axis: int) -> Tensor:
    """`_join` without writing into views, which a compiler cannot follow; the same sums, one copy more."""
    k = re.shape[axis + 1] - 1
    cos_re, sin_re, cos_im, sin_im = (t.select(axis, i) for t in (re, im) for i in (0, 1))
    parts = [(cos_re + sin_im, cos_re - sin_im), (cos_im - sin_re, cos_im + sin_re)]
    return torch.stack([torch.cat([p.narrow(axis, 0, k), m.narrow(axis, 1, k)], axis) for p, m in parts], 1)


def _split_recorded(re: Tensor, im: Tensor, axis: int) -> Tensor:
    """`_split` without writing into views."""
    k = re.shape[axis] // 2
    none = torch.zeros_like(re.narrow(axis, 0, 1))
    plus_re, plus_im = (torch.cat([t.narrow(axis, 0, k), none], axis) for t in (re, im))
    minus_re, minus_im = (torch.cat([none, t.narrow(axis, k, k)], axis) for t in (re, im))
    cos, sin = (plus_re + minus_re, plus_im + minus_im), (minus_im - plus_im, plus_re - minus_re)
    return torch.stack([torch.stack([c, s], axis) for c, s in zip(cos, sin)], -3)


def _cos_sin(n: int, rows: int) -> tuple[Tensor, Tensor]:
    # the phase index is reduced modulo n as an integer, so that large k·j lose no digits
    index = torch.outer(torch.arange(rows, device="cpu"), torch.arange(n, device="cpu")) % n
    angle = index.to(torch.float64) * (2.0 * math.pi / n)
    return torch.cos(angle), torch.sin(angle)
