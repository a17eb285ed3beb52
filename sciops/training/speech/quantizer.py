"""Targets of BEST-RQ: frames as the nearest of random codes after a random projection, neither of them trained."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from sciops.mixers.precision import full_precision, working_dtype


def stacked(x: Tensor, count: int) -> Tensor:
    """(batch, frames, bins) → (batch, ⌊frames/count⌋, count·bins), frames in order; the rest at the end is left out."""
    whole = x.shape[1] // count
    return x[:, : whole * count].reshape(x.shape[0], whole, count * x.shape[2])


class RandomProjectionQuantizer(nn.Module):
    """k(x) = argmin_k ‖c_k − Px/‖Px‖‖ with a Xavier-uniform P and codes c_k on the unit sphere (arXiv:2202.01855).

    channels : of x. codes : how many. code_channels : of a code. seed : of P and the codes, buffers that are saved

    forward(x (…, channels)) → (…) int64, without a gradient. On a sphere the nearest code is that with the largest
    product, taken in float32 at least, under autocast too. x should have mean 0 and variance 1 by channel, or few codes
    are ever used.
    """

    def __init__(self, channels: int, *, codes: int = 8192, code_channels: int = 16, seed: int = 0) -> None:
        super().__init__()
        self.seed = seed
        if min(channels, codes, code_channels) < 1:
            raise ValueError(f"channels={channels}, codes={codes}, code_channels={code_channels}: expected at least 1")
        generator = torch.Generator().manual_seed(seed)
        bound = math.sqrt(6 / (channels + code_channels))
        uniform = torch.rand(channels, code_channels, generator=generator)
        codebook = torch.randn(codes, code_channels, generator=generator)
        self.register_buffer("projection", (2 * uniform - 1) * bound)
        self.register_buffer("codebook", codebook / codebook.norm(dim=1, keepdim=True))

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        wide = working_dtype(x)
        with full_precision(x):
            flat = x.reshape(-1, x.shape[-1]).to(wide) @ self.projection.to(wide)
            codebook = self.codebook.to(wide).T
            # rows in parts: all products at once are codes/16 times the memory of what is compared
            nearest = [(part @ codebook).argmax(-1) for part in flat.split(4096)]
        return torch.cat(nearest).reshape(x.shape[:-1])
