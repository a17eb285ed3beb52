"""Long convolutions with the kernels of diagonal state spaces, a few kernels at a time, sampled again backwards."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from sciops.arrays.compiling import transformed
from sciops.mixers.sequence.diagonal_kernel import circular, sampled
from sciops.mixers.sequence.long_convolution import convolved, parts_of


def convolved_by_modes(
    z: Tensor, rates: Tensor, now: Tensor, before: Tensor | None, skip: Tensor | None, n: int, *, periodic: bool
) -> Tensor:
    """`convolved` of z (…, H, L) with the `circular` kernel of these modes, (H, n), which is never held as a whole.

    rates, now, before : of `DiagonalKernel.discretised`; skip : (H,) or None; n, periodic : see `circular`

    Only z and the modes are kept for the backward pass, which samples the kernels of a few channels again. torch.func,
    compiled graphs, derivatives of higher order and kernels that are few enough keep the kernels.
    """
    if transformed() or not z.numel() or len(parts_of(z, n)) < 2:
        return convolved(z, _kernel(z.shape[-1], n, periodic, rates, now, before, skip), n)
    return _Streamed.apply(z, n, periodic, rates, now, before, skip)


def _kernel(length: int, n: int, periodic: bool, rates: Any, now: Any, before: Any, skip: Any) -> Tensor:
    return circular(sampled(rates, now, before, length, periodic=periodic), skip, n, periodic=periodic)


_AXES = (0, 1, 1, 0)  # of rates, now, before and skip, along the kernels


def _of(part: slice, modes: tuple[Tensor | None, ...]) -> list[Tensor | None]:
    return [None if m is None else m.narrow(a, part.start, part.stop - part.start) for m, a in zip(modes, _AXES)]


class _Streamed(Function):
    @staticmethod
    def forward(ctx, z, n, periodic, *modes):
        ctx.save_for_backward(z, *modes)
        ctx.n, ctx.periodic = n, periodic
        y = torch.empty_like(z)
        for part in parts_of(z, n):
            kernel = _kernel(z.shape[-1], n, periodic, *_of(part, modes))
            y[..., part, :] = convolved(z[..., part, :], kernel, n)
        return y

    @staticmethod
    def backward(ctx, g):
        (z, *modes), n = ctx.saved_tensors, ctx.n
        wanted = [ctx.needs_input_grad[0], *ctx.needs_input_grad[3:]]
        if torch.is_grad_enabled():  # of second order: recorded as a whole
            inputs = [None if t is None else t.view_as(t) for t in (z, *modes)]
            y = convolved(inputs[0], _kernel(z.shape[-1], n, ctx.periodic, *inputs[1:]), n)
            asked = [t for t, want in zip(inputs, wanted) if want]
            found = iter(torch.autograd.grad(y, asked, g, create_graph=True))
            gradients = [next(found) if want else None for want in wanted]
        else:
            gradients = [torch.zeros_like(t) if want else None for t, want in zip((z, *modes), wanted)]
            for part in parts_of(z, n):
                leaves = [z[..., part, :], *_of(part, modes)]
                leaves = [t if t is None else t.detach().requires_grad_(want) for t, want in zip(leaves, wanted)]
                with torch.enable_grad():
                    y = convolved(leaves[0], _kernel(z.shape[-1], n, ctx.periodic, *leaves[1:]), n)
                asked = [t for t, want in zip(leaves, wanted) if want]
                found = iter(torch.autograd.grad(y, asked, g[..., part, :]))
                here = [gradients[0] if gradients[0] is None else gradients[0][..., part, :], *_of(part, gradients[1:])]
                for whole, want in zip(here, wanted):
                    if want:
                        whole.copy_(next(found))
        return gradients[0], None, None, *gradients[1:]
