"""Factors of rows and channels that make a matrix or a convolution 1-Lipschitz, from powers of its Gram matrix."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sciops.values import check_whole


def row_scales(weight: Tensor, steps: int = 4) -> Tensor:
    """Factors of the rows of a matrix that make it 1-Lipschitz: ‖diag(1/r) W‖₂ ≤ 1.

    r_i = (Σ_j |(W W*)^{2^{t−1}}|_ij)^{2^{−t}}, which tends to σ₁ for t → ∞.

    Parameters
    ----------
    weight : Tensor (..., m, n)
        Real or complex.
    steps : int
        t ≥ 1. t = 1 is AOL; each further step is tighter and costs one product of m × m matrices.

    Returns
    -------
    Tensor (..., m)
        0 for rows that are 0.

    Raises
    ------
    ValueError
        For t < 1.

    Notes
    -----
    With p = 2^{t−1}, diag(r^{2p}) − (W W*)^p is diagonally dominant and so positive semidefinite; the p-th root keeps
    the order (Löwner and Heinz), which gives W W* ≤ diag(r²).

    References
    ----------
    AOL: arXiv:2208.03160.
    """
    check_whole(steps=steps)
    scale = _size(weight, (-2, -1))
    w = weight / scale
    power, log = _squared(w @ w.mH, steps - 1, (-2, -1))
    energy = power.diagonal(dim1=-2, dim2=-1).real
    lost = _lost(energy, energy.sum(-1, keepdim=True), sum(w.shape[-2:]))
    r = ((power.abs().sum(-1) + lost).log() + log[..., 0]).mul(2.0**-steps).exp() * scale[..., 0]
    return torch.where(weight.detach().abs().amax(-1) > 0, r, 0)


def kernel_scales(kernel: Tensor, steps: int = 3) -> Tensor:
    """Factors of the output channels of a convolution that make it 1-Lipschitz on every grid.

    r_i = (Σ_{j,x} |K_t|_ij(x))^{2^{−t}} with K_t the kernel of (W W*)^{2^{t−1}}, W the convolution.

    Parameters
    ----------
    kernel : Tensor (out, in, *size)
    steps : int
        t ≥ 1.

    Returns
    -------
    Tensor (out,)

    Raises
    ------
    ValueError
        For t < 1.

    Notes
    -----
    The convolution with diag(1/r) K has norm at most 1 on the whole lattice, hence on every finite grid with zeros
    outside (a compression) or wrapped around (folding a kernel adds up its entries). K_t covers 2^t (size − 1) + 1
    points per axis and is computed exactly from the symbol on that number of points.
    """
    check_whole(steps=steps)
    scale = _size(kernel, tuple(range(kernel.ndim)))
    axes = tuple(range(2, kernel.ndim))
    sizes = tuple(2**steps * (n - 1) + 1 for n in kernel.shape[2:])
    symbol = torch.fft.fftn(kernel / scale, s=sizes, dim=axes).flatten(2).movedim(2, 0)
    symbol, log = _squared(symbol @ symbol.mH, steps - 1, (0, 1, 2))
    power = torch.fft.ifftn(symbol.movedim(0, 2).unflatten(2, sizes), dim=axes).real
    energy = power[(..., *(0,) * len(sizes))].diagonal()
    lost = _lost(energy, energy.sum(), math.prod(sizes) * sum(kernel.shape[:2]))
    r = ((power.abs().flatten(1).sum(1) + lost).log() + log.flatten()).mul(2.0**-steps).exp() * scale.flatten()
    return torch.where(kernel.detach().flatten(1).abs().amax(1) > 0, r, 0)


def divisor_of(r: Tensor, shrink: bool) -> Tensor:
    """What rows are divided by: max(r, 1) to shrink, otherwise r, and 1 for rows that are 0."""
    return r.clamp_min(1) if shrink else torch.where(r > 0, r, 1)


def _size(array: Tensor, axes: tuple[int, ...]) -> Tensor:
    """max |a| over the axes, kept; 1 where all are zero. It cancels in what it scales, so that it needs no gradient."""
    size = array.detach().abs().amax(axes, keepdim=True)
    return torch.where(size > 0, size, 1)


def _squared(gram: Tensor, times: int, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """(X, ℓ) with exp(ℓ)·X = the gram matrices, squared `times` times; ℓ keeps `axes` as ones."""
    log = torch.zeros_like(_size(gram, axes))
    for _ in range(times):
        size = _size(gram, axes)
        gram = gram / size
        gram, log = gram @ gram, 2 * (log + size.log())
    return gram, log


def _lost(energy: Tensor, total: Tensor, terms: int) -> Tensor:
    """What rounding and underflow may have taken from the sum of a row with this diagonal entry."""
    info = torch.finfo(energy.dtype)
    return (energy.detach().clamp_min(0) * total.detach()).sqrt() * (4 * terms * info.eps) + terms * info.tiny
