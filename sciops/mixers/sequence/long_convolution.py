"""Convolutions as long as the sequence, by FFT, with memory of a few channels beyond input, kernel and output."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.autograd import Function

from sciops.arrays.compiling import transformed

# numbers transformed at a time; small enough for the cache of a CPU, large enough to fill a GPU
_AT_ONCE = {"cpu": 2**20, "cuda": 2**25}


@lru_cache(maxsize=512)
def fast_length(n: int) -> int:
    """The smallest 2^a·3^b·5^c ≥ n: an FFT of a prime length takes several times longer.

    >>> fast_length(23), fast_length(45)
    (24, 45)
    """
    best = 1 << max(n - 1, 0).bit_length()
    five = 1
    while five < best:
        odd = five
        while odd < best:
            best = min(best, odd << max(-(-n // odd) - 1, 0).bit_length())
            odd *= 3
        five *= 5
    return best


def convolved(z: Tensor, kernel: Tensor, n: int) -> Tensor:
    """y_i = Σ_j k_{(i − j) mod n} z_j for i, j < L: a linear convolution where n ≥ 2L − 1, a circular one for n = L.

    z : (…, H, L ≤ n) real; kernel : (H, m ≤ n), lags 0 … m − 1, and negative lags −l at n − l; returns : like z

    Only z and the kernel are kept for the backward pass, which transforms them again; torch.func and compiled graphs
    keep the spectra. Derivatives of every order exist.
    """
    if not z.numel():  # which FFTs refuse
        return z * kernel.sum()
    if transformed():
        return torch.fft.irfft(_spectrum(z, n) * _spectrum(kernel, n), n)[..., : z.shape[-1]]
    return _Convolution.apply(z, kernel, n)


class _Convolution(Function):
    @staticmethod
    def forward(ctx, z, kernel, n):
        ctx.save_for_backward(z, kernel)
        ctx.n = n
        y = torch.empty_like(z)
        for part in parts_of(z, n):
            product = _spectrum(z[..., part, :], n).mul_(_spectrum(kernel[part], n))
            y[..., part, :] = torch.fft.irfft(product, n)[..., : z.shape[-1]]
        return y

    @staticmethod
    def backward(ctx, g):
        (z, kernel), n = ctx.saved_tensors, ctx.n
        if torch.is_grad_enabled():  # a second derivative is wanted
            return *_gradients(g, z, kernel, n), None
        gz = torch.empty_like(z) if ctx.needs_input_grad[0] else None
        gk = torch.empty_like(kernel) if ctx.needs_input_grad[1] else None
        for part in parts_of(z, n):
            some = _gradients(g[..., part, :], z[..., part, :], kernel[part], n, ctx.needs_input_grad)
            if gz is not None:
                gz[..., part, :] = some[0]
            if gk is not None:
                gk[part] = some[1]
        return gz, gk, None


def _gradients(
    g: Tensor, z: Tensor, kernel: Tensor, n: int, needed=(True, True)
) -> tuple[Tensor | None, Tensor | None]:
    """Correlations of g with the kernel and with z."""
    spectrum = _spectrum(g, n)
    gz = gk = None
    if needed[1]:
        cross = (spectrum * _spectrum(z, n).conj()).reshape(-1, z.shape[-2], spectrum.shape[-1]).sum(0)
        gk = torch.fft.irfft(cross, n)[..., : kernel.shape[-1]]
    if needed[0]:
        gz = torch.fft.irfft(spectrum * _spectrum(kernel, n).conj(), n)[..., : z.shape[-1]]
    return gz, gk


def _spectrum(x: Tensor, n: int) -> Tensor:
    return torch.fft.rfft(x.contiguous() if x.shape[-1] == n else x, n)


def parts_of(z: Tensor, n: int) -> list[slice]:
    """Kernels that are worked on together."""
    rows, kernels = math.prod(z.shape[:-2]), z.shape[-2]
    count = max(1, _AT_ONCE.get(z.device.type, _AT_ONCE["cuda"]) // max(rows * n, 1))
    return [slice(start, min(start + count, kernels)) for start in range(0, kernels, count)]
