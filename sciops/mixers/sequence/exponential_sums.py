"""Sums of complex exponentials over long sequences, in blocks: never a table of all modes at all positions.

A position is l = m·p + q with q < m ≈ √L, and e^{rl} = e^{rmp}·e^{rq}: two tables of √L entries a mode, joined by one
real matrix product, which autograd keeps. Memory and exponentials are O(M·√L) a kernel, where the table has M·L.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from sciops.arrays.compiling import transformed
from sciops.mixers.padding import padded


class Powers(NamedTuple):
    """The tables of one length."""

    inner: Tensor
    """e^{rq} for q < m, (H, m, M)"""
    outer: Tensor
    """e^{rmp} for p < ⌈length/m⌉, (H, ·, M)"""


def powers(rates: Tensor, length: int) -> Powers:
    """What `exponential_sum` and `weighted_past` of this length make for themselves where it is not given."""
    m = 1 << ((max(length - 1, 0).bit_length() + 1) // 2)
    return Powers(_powers(rates, m, 1), _powers(rates, -(-length // m), m))


def exponential_sum(coefficients: Tensor, rates: Tensor, length: int, tables: Powers | None = None) -> Tensor:
    """2 Re Σ_n c_n e^{r_n l} for l = 0 … length − 1.

    coefficients : (…, H, M) complex; rates : (H, M) complex, Re r ≤ 0; returns : (…, H, length) real
    """
    inner, outer = tables or powers(rates, length)
    inner = coefficients.unsqueeze(-2) * inner
    # Re(ab) is the product of (Re a, Im a) and (Re b, −Im b)
    inner = torch.view_as_real(2 * inner.conj().resolve_conj()).flatten(-2)
    return (torch.view_as_real(outer).flatten(-2) @ inner.mT).flatten(-2)[..., :length]


def weighted_past(z: Tensor, rates: Tensor, tables: Powers | None = None) -> Tensor:
    """Σ_l e^{r_n (L − 1 − l)} z_l: the state that inputs z (…, H, L) real leave behind, (…, H, M) complex."""
    inner, outer = tables or powers(rates, z.shape[-1])
    blocks, m = outer.shape[-2], inner.shape[-2]
    z = padded(z, (m * blocks - z.shape[-1], 0)).unflatten(-1, (blocks, m))
    sums = torch.view_as_complex((z @ torch.view_as_real(inner.flip(-2)).flatten(-2)).unflatten(-1, (-1, 2)))
    return (sums * outer.flip(-2)).sum(-2)


def expm1(z: Tensor) -> Tensor:
    """e^z − 1 of complex z without cancellation near 0."""
    x, y = z.real, z.imag
    return torch.complex(torch.expm1(x) * y.cos() - 2 * (y / 2).sin().square(), x.exp() * y.sin())


def phi(z: Tensor, k: int) -> Tensor:
    """φ_k(z) = Σ_j z^j/(j + k)! of complex z: (e^z − 1)/z for k = 1, (e^z − 1 − z)/z² for k = 2, without cancellation.

    Derivatives of every order exist: φ_k′ = φ_k − k φ_{k+1}.
    """
    return _phi(z, k) if transformed() else _Phi.apply(z, k)


class _Phi(Function):
    @staticmethod
    def forward(ctx, z, k):
        ctx.save_for_backward(z)
        ctx.k = k
        return _phi(z, k)

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        return g * (phi(z, ctx.k) - ctx.k * phi(z, ctx.k + 1)).conj(), None


def _phi(z: Tensor, k: int) -> Tensor:
    small = z.abs() < 0.5
    near, series = torch.where(small, z, 0.0), torch.zeros_like(z)
    for j in range(15, -1, -1):  # by Horner's rule
        series = series * near + 1 / math.factorial(j + k)
    away = torch.where(small, 1.0, z)
    direct = expm1(away) / away
    for j in range(1, k):
        direct = (direct - 1 / math.factorial(j)) / away
    return torch.where(small, series, direct)


def _powers(rates: Tensor, count: int, every: int) -> Tensor:
    """e^{r·every·p} for p < count: (H, count, M)."""
    steps = every * torch.arange(count, device=rates.device, dtype=rates.real.dtype)
    return torch.exp(rates.unsqueeze(-2) * steps[:, None])
