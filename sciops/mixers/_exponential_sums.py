"""Sums of complex exponentials over long stretches, in blocks: never a table of all modes at all positions.

A position is l = m·p + q with q < m ≈ √L, and e^{rl} = e^{rmp}·e^{rq}: two tables of √L entries a mode, joined by one
real matrix product, which autograd keeps. Memory and exponentials are O(M·√L) a kernel, where the table has M·L.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def exponential_sum(coefficients: Tensor, rates: Tensor, length: int) -> Tensor:
    """2 Re Σ_n c_n e^{r_n l} for l = 0 … length − 1.

    coefficients : (…, H, M) complex; rates : (H, M) complex, Re r ≤ 0; returns : (…, H, length) real
    """
    m, blocks = _split(length)
    inner = coefficients.unsqueeze(-2) * _powers(rates, m, 1)
    outer = _powers(rates, blocks, m)
    # Re(ab) is the product of (Re a, Im a) and (Re b, −Im b)
    inner = torch.view_as_real(2 * inner.conj().resolve_conj()).flatten(-2)
    return (torch.view_as_real(outer).flatten(-2) @ inner.mT).flatten(-2)[..., :length]


def weighted_past(z: Tensor, rates: Tensor) -> Tensor:
    """Σ_l e^{r_n (L − 1 − l)} z_l: the state that inputs z (…, H, L) real leave behind, (…, H, M) complex."""
    m, blocks = _split(z.shape[-1])
    z = F.pad(z, (m * blocks - z.shape[-1], 0)).unflatten(-1, (blocks, m))
    inner = torch.view_as_real(_powers(rates, m, 1).flip(-2)).flatten(-2)
    sums = torch.view_as_complex((z @ inner).unflatten(-1, (-1, 2)))
    return (sums * _powers(rates, blocks, m).flip(-2)).sum(-2)


def expm1(z: Tensor) -> Tensor:
    """e^z − 1 of complex z without cancellation near 0."""
    x, y = z.real, z.imag
    return torch.complex(torch.expm1(x) * y.cos() - 2 * (y / 2).sin().square(), x.exp() * y.sin())


def phi(z: Tensor) -> tuple[Tensor, Tensor]:
    """φ₁ = (e^z − 1)/z and φ₂ = (e^z − 1 − z)/z² of complex z, 1 and ½ at 0."""
    small = z.abs() < 0.5
    away, near = torch.where(small, torch.ones_like(z), z), torch.where(small, z, torch.zeros_like(z))
    second = torch.zeros_like(z)
    for k in range(16, 1, -1):  # Σ z^j/(j + 2)!
        second = (second * near + 1) / k
    first = torch.where(small, 1 + near * second, expm1(away) / away)
    return first, torch.where(small, second, (first - 1) / away)


def _split(length: int) -> tuple[int, int]:
    """Entries of a block, about √length, and how many blocks."""
    m = 1 << ((max(length - 1, 0).bit_length() + 1) // 2)
    return m, -(-length // m)


def _powers(rates: Tensor, count: int, every: int) -> Tensor:
    """e^{r·every·p} for p < count: (H, count, M)."""
    steps = every * torch.arange(count, device=rates.device, dtype=rates.real.dtype)
    return torch.exp(rates.unsqueeze(-2) * steps[:, None])
