"""Normalisation of the channels of each point, or of a field over its grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function


class RMSNorm(nn.Module):
    """Root-mean-square norm over the channels of each point, w · x / √(mean(x²) + ε) (arXiv:1910.07467).

    Maps (…, channels) to the same shape, independently of the grid. Half precision is computed in float32.
    """

    def __init__(self, channels: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        wide = torch.promote_types(torch.promote_types(x.dtype, self.weight.dtype), torch.float32)
        if x.dtype != wide or self.weight.dtype != wide:
            return F.rms_norm(x.to(wide), self.weight.shape, self.weight.to(wide), self.eps).to(x.dtype)
        if x.device.type == "cpu" and not torch.compiler.is_compiling():
            # torch's own is one kernel on a GPU and when compiled, but nine forward and backward on a CPU
            return _RMSNorm.apply(x, self.weight, self.eps)[0]
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class InstanceNorm(nn.Module):
    """Norm with moments over the grid, per sample and channel, (x − mean)/√(var + ε)·w + b.

    Maps (batch, *grid, channels) to the same shape. The moments are plain averages over the points: they differ on
    another grid, so a model with this norm is not consistent between resolutions.
    """

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        axes = tuple(range(1, x.ndim - 1))
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        var, mean = torch.var_mean(wide, axes, correction=0, keepdim=True)
        return ((wide - mean) * (var + self.eps).rsqrt() * self.weight + self.bias).to(x.dtype)


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "rms": RMSNorm,
    "layer": nn.LayerNorm,
    "instance": InstanceNorm,
    "none": lambda channels: nn.Identity(),
}


def make_norm(name: str, channels: int) -> nn.Module:
    """The norm called `name`; raises ValueError naming the known ones."""
    if name not in NORMS:
        raise ValueError(f"norm={name!r}: expected one of {tuple(NORMS)}")
    return NORMS[name](channels)


class _RMSNorm(Function):
    """y = w·x·r with r = (mean(x²) + ε)^(−1/2), whose derivative is dr = −r³·mean(x·dx)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        r = _inverse_rms(x, eps)
        return torch.mul(x, r).mul_(weight), r

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, weight, ctx.eps = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(x, weight, output[1])
        ctx.save_for_forward(x, weight, output[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Any) -> tuple[Tensor, Tensor, None]:
        x, weight, r = ctx.saved_tensors
        if torch.is_grad_enabled():
            # a second derivative is wanted, and it must see that r depends on x
            r = _inverse_rms(x, ctx.eps)
        channels = x.shape[-1]
        gx = g * x
        along = (gx @ weight.unsqueeze(-1)) * r.square() / -channels
        to_weight = r.reshape(1, -1) @ gx.reshape(-1, channels)
        if torch.is_grad_enabled():
            to_x = torch.addcmul(g * weight, x, along) * r
        else:
            to_x = torch.mul(g, weight).addcmul_(x, along).mul_(r)
        return to_x, to_weight.squeeze(0), None

    @staticmethod
    def jvp(ctx: Any, dx: Tensor, dw: Tensor, _: None) -> tuple[Tensor, None]:
        x, weight, r = ctx.saved_tensors
        change = torch.zeros_like(x)
        if dx is not None:
            change = change + weight * r * (dx - x * r.square() * (x * dx).mean(-1, keepdim=True))
        if dw is not None:
            change = change + dw * x * r
        return change, None


def _inverse_rms(x: Tensor, eps: float) -> Tensor:
    return (torch.linalg.vector_norm(x, dim=-1, keepdim=True).square() / x.shape[-1] + eps).rsqrt()
