"""Multipole attention as one differentiable step: pyramid, attention on all levels, merge, each band by band.

Gradients of the levels are added up in place, and no intermediate field is kept but the levels before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd import Function

from sciops.mixers.windows.cpu.attention import Weights, Work, attend, attend_gradient
from sciops.mixers.windows.cpu.memory import Scratch, contiguous, recorded_gradient
from sciops.mixers.windows.cpu.sampling import coarsen, coarsen_gradient, kernel_of, refine_gradient, refine_onto
from sciops.mixers.windows.sampling import rows_of


@dataclass(frozen=True)
class Pyramid:
    """What a multipole layer in bands needs beside the tensors."""

    attention: Work
    rate: int
    levels: int
    recorded: Callable[..., Sequence[Tensor]]
    """recorded(*weights, down, up, factors, x): the plain form, whose operations have derivatives of every order"""


def banded_pyramid(work: Pyramid, weights: Weights, down: Tensor, up: Tensor, factors: Tensor, x: Tensor) -> Tensor:
    """R_0 of X_{l+1} = D X_l,  O_l = A X_l,  R_l = O_l + a_l · U R_{l+1}.

    weights : of the attention; down, up : kernels of D and U; factors : a_l counted from the coarse end
    """
    return _BandedPyramid.apply(work, *weights, down, up, factors, x)


class _BandedPyramid(Function):
    @staticmethod
    def forward(ctx, work, *inputs):
        weights, (down, up, factors, x) = inputs[:5], inputs[5:]
        scratch, fields = Scratch(down), contiguous([x])
        for _ in range(1, work.levels):
            fields.append(coarsen(fields[-1], rows_of(down), work.rate, scratch))
        results, kept = attend(work.attention, weights, fields, scratch)
        matrix = rows_of(up)
        for l, a in zip(reversed(range(work.levels - 1)), factors.tolist()):
            refine_onto(results[l], results[l + 1], matrix * a, work.rate, scratch)
        ctx.work = work
        ctx.save_for_backward(*inputs, *fields[1:], *results[1:], *kept)
        return results[0]

    @staticmethod
    def backward(ctx, g):
        work: Pyramid = ctx.work
        saved, coarse = ctx.saved_tensors, work.levels - 1
        inputs, fields = saved[:9], contiguous(saved[8 : 9 + coarse])
        results, kept = saved[9 + coarse : 9 + 2 * coarse], saved[9 + 2 * coarse :]
        if torch.is_grad_enabled():
            return None, *recorded_gradient(work.recorded, inputs, (g,))
        weights, (down, up, factors, _) = inputs[:5], inputs[5:]
        scratch, gradients = Scratch(down), contiguous([g])
        d_down, d_up, d_factors = (
            torch.zeros_like(rows_of(down)),
            torch.zeros_like(rows_of(up)),
            torch.zeros_like(factors),
        )
        # R_l = O_l + a_l · U R_{l+1}, from the finest merge to the coarsest: gradients[l] is that by R_l, and by O_l
        for l, r in enumerate(results):
            a = float(factors[coarse - 1 - l])
            dr, of_matrix = refine_gradient(gradients[-1], r, rows_of(up), work.rate, scratch)
            d_factors[coarse - 1 - l] = torch.dot(dr.view(-1), r.view(-1))
            gradients.append(dr.mul_(a))
            d_up.add_(of_matrix, alpha=a)
        of_attention = attend_gradient(work.attention, weights, fields, kept, gradients, scratch)
        of_weights, of_fields = of_attention[:5], of_attention[5:]
        # X_{l+1} = D X_l, from the coarsest to the finest: added in place to the gradient by X_l through attention
        for l in reversed(range(coarse)):
            d_down += coarsen_gradient(fields[l], of_fields[l + 1], rows_of(down), work.rate, scratch, of_fields[l])
        return None, *of_weights, kernel_of(d_down, down), kernel_of(d_up, up), d_factors, of_fields[0]
