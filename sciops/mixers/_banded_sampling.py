"""The learned samplers of the pyramid, band by band in the cache.

With cells gathered block by block, a strided convolution and its transpose are matrix products.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from sciops.mixers._bands import Scratch, cells_in_cache, groups_of, recorded_gradient


def coarsened(x: Tensor, kernel: Tensor, rate: int) -> Tensor:
    """The convolution with kernel (out, in, *rates) and stride `rate`; missing cells count as zero.

    x : (batch, *sizes, channels) → (batch, *⌈sizes/rate⌉, channels)
    """
    return _Coarsened.apply(x, kernel, rate)


def refined_onto(level: Tensor, r: Tensor, kernel: Tensor, rate: int) -> Tensor:
    """level plus the transposed convolution of r with kernel (in, out, *rates) and stride `rate`.

    r : (batch, *⌈sizes/rate⌉, channels), level : (batch, *sizes, channels) → same
    """
    return _RefinedOnto.apply(level, r, kernel, rate)


class _Coarsened(Function):
    @staticmethod
    def forward(ctx, x, kernel, rate):
        ctx.rate = rate
        ctx.save_for_backward(x, kernel)
        sizes = [-(-n // rate) for n in x.shape[1:-1]]
        coarse = x.new_empty(x.shape[0], *sizes, kernel.shape[0])
        matrix = _rows(kernel)
        for blocks, part, _ in _blocks(x, coarse, rate, Scratch(x)):
            torch.mm(blocks, matrix.t(), out=part)
        return coarse

    @staticmethod
    def backward(ctx, g):
        x, kernel = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *recorded_gradient(lambda x, k: [_convolved(x, k, ctx.rate)], (x, kernel), (g,)), None
        matrix, scratch = _rows(kernel), Scratch(x)
        dx, dk = torch.empty_like(x, memory_format=torch.contiguous_format), torch.zeros_like(matrix)
        for blocks, part, group in _blocks(x, g.contiguous(), ctx.rate, scratch):
            dk.addmm_(part.t(), blocks)
            spread = torch.mm(part, matrix, out=blocks)
            group.scatter(spread.view(-1, x.shape[-1]), [dx], False)
        return dx, _kernel(dk, kernel), None


class _RefinedOnto(Function):
    @staticmethod
    def forward(ctx, level, r, kernel, rate):
        ctx.rate = rate
        ctx.save_for_backward(r, kernel)
        matrix, scratch = _rows(kernel), Scratch(r)
        y = torch.empty_like(level, memory_format=torch.contiguous_format)
        for blocks, part, group in _blocks(level, r.contiguous(), rate, scratch):
            torch.addmm(blocks, part, matrix, out=blocks)
            group.scatter(blocks.view(-1, level.shape[-1]), [y], False)
        return y

    @staticmethod
    def backward(ctx, g):
        r, kernel = ctx.saved_tensors
        if torch.is_grad_enabled():
            call = lambda r, k: [_transposed(r, k, ctx.rate, tuple(g.shape[1:-1]))]  # noqa: E731
            return g, *recorded_gradient(call, (r, kernel), (g,)), None
        matrix, scratch = _rows(kernel), Scratch(r)
        dr, dk = torch.empty_like(r, memory_format=torch.contiguous_format), torch.zeros_like(matrix)
        r = r.contiguous()
        done = 0
        for blocks, part, _ in _blocks(g, dr, ctx.rate, scratch):
            torch.mm(blocks, matrix.t(), out=part)
            dk.addmm_(r.view(-1, r.shape[-1])[done : done + len(part)].t(), blocks)
            done += len(part)
        return g, dr, _kernel(dk, kernel), None


def _blocks(x: Tensor, coarse: Tensor, rate: int, scratch: Scratch):
    """Band by band: blocks of fine cells (cells, rate^axes·channels), coarse cells (cells, channels), the band."""
    rows = coarse.view(-1, coarse.shape[-1])
    done = 0
    for group in groups_of((tuple(x.shape[:-1]),), rate, rate, cells_in_cache, True):
        blocks = group.gather([x], scratch.take("blocks", group.windows * group.tokens, x.shape[-1]), False)
        yield blocks.view(group.windows, -1), rows[done : done + group.windows], group
        done += group.windows


def _rows(kernel: Tensor) -> Tensor:
    """(a, b, *rates) → (a, rate^axes·b)"""
    return kernel.movedim(1, -1).reshape(kernel.shape[0], -1)


def _kernel(rows: Tensor, like: Tensor) -> Tensor:
    """The inverse of `_rows`."""
    return rows.view(like.shape[0], *like.shape[2:], like.shape[1]).movedim(-1, 1)


def _convolved(x: Tensor, kernel: Tensor, rate: int) -> Tensor:
    convolution = (F.conv1d, F.conv2d, F.conv3d)[x.ndim - 3]
    missing = [p for n in reversed(x.shape[1:-1]) for p in (0, -n % rate)]
    return convolution(F.pad(x.movedim(-1, 1), missing), kernel, stride=rate).movedim(1, -1)


def _transposed(r: Tensor, kernel: Tensor, rate: int, sizes: tuple[int, ...]) -> Tensor:
    convolution = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[r.ndim - 3]
    y = convolution(r.movedim(-1, 1), kernel, stride=rate).movedim(1, -1)
    for axis, n in enumerate(sizes, start=1):
        y = y.narrow(axis, 0, n)
    return y
