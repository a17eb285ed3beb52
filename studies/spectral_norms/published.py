"""Estimates of the spectral norm of a convolution as other papers define them, in the precision of the weight.

Each takes a kernel (out, in, k, k) of a convolution of stride 1 whose padding keeps the size of the grid, with odd k.
They are written from the formulas of the papers, as references to set `sciops.lipschitz.spectral_norm` against; none
accounts for its own rounding.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from studies.spectral_norms.speed import plain_gram


def symbols(weight: Tensor, size: int) -> Tensor:
    """F(ω) on a half plane of the size × size torus, (frequencies, out, in) complex: the others are conjugates.

    Raises ValueError for a torus smaller than the kernel, on which the transform would cut it off.
    """
    if size < max(weight.shape[2:]):
        raise ValueError(f"size={size}: expected at least the {max(weight.shape[2:])} points of the kernel")
    return torch.fft.rfft2(weight, s=(size, size)).flatten(2).permute(2, 0, 1).contiguous()


def sedghi(weight: Tensor, size: int) -> float:
    """max_ω σ₁(F(ω)) over the frequencies of the grid: exact for circular padding, no bound for zeros.

    References
    ----------
    Sedghi, Gupta & Long 2019 (arXiv:1805.10408).
    """
    return float(torch.linalg.svdvals(symbols(weight, size))[:, 0].max())


def gram_of_symbols(weight: Tensor, size: int, steps: int = 5) -> float:
    """max_ω μ_t(F(ω)) over the frequencies of the grid: a bound for circular padding, none for zeros.

    References
    ----------
    Delattre et al. 2023 (arXiv:2305.16173), algorithm 3, whose number of steps for convolutions is 5 to 6.
    """
    return float(plain_gram(symbols(weight, size), steps).max())


def reshapings(weight: Tensor) -> list[Tensor]:
    """The four matrices of a kernel: (out·k × in·k) along either axis, (out × in·k²) and (out·k² × in)."""
    return [
        weight.permute(0, 2, 1, 3).flatten(2).flatten(0, 1),  # (out, k₁) × (in, k₂)
        weight.permute(0, 3, 1, 2).flatten(2).flatten(0, 1),  # (out, k₂) × (in, k₁)
        weight.flatten(1),
        weight.permute(0, 2, 3, 1).flatten(0, 2),
    ]


def singla_feizi(weight: Tensor, steps: int | None = None) -> float:
    """√(k₁k₂) times the least spectral norm of the four reshapings, a bound for both paddings and every grid.

    steps : of power iteration for the four norms, as the authors compute them, which approaches the bound from below;
        None takes singular values, which makes it one

    References
    ----------
    Singla & Feizi 2021 (arXiv:1911.10258), theorem 2.
    """
    norm = flat_power if steps else _largest
    norms = [norm(matrix, steps) for matrix in reshapings(weight)]
    return math.sqrt(weight.shape[2] * weight.shape[3]) * min(norms)


def _largest(matrix: Tensor, steps: int | None) -> float:
    return float(torch.linalg.svdvals(matrix)[0])


def flat_power(matrix: Tensor, steps: int | None) -> float:
    """‖Av‖ after steps of power iteration from a fixed random start."""
    v = torch.randn(matrix.shape[1], dtype=matrix.dtype, generator=torch.Generator().manual_seed(1))
    for _ in range(steps or 1):
        v = matrix.mT @ (matrix @ v)
        v = v / torch.linalg.vector_norm(v)
    return float(torch.linalg.vector_norm(matrix @ v))


def araujo(weight: Tensor, samples: int = 50) -> float:
    """LipBound: √(Σ_i max_ω Σ_j |F_ij(ω)|²) · (1 − 2d/S)^{-1}, a bound for both paddings and every grid.

    i runs over the fewer of the two kinds of channels, ω over the S × S equidistant points of the torus, d = ⌊k/2⌋.

    References
    ----------
    Araujo et al. 2021 (arXiv:2006.08391). The factor of the samples is that of Pfister & Bresler 2018
    (arXiv:1802.09588), (1 − 2d/S)^{-m/2} for polynomials of degree d in m = 2 variables; from S = 4d on it is not below
    Ehlich & Zeller's cos(πd/S)^{-2}. The published code leaves it out.

    Raises
    ------
    ValueError
        For S ≤ 2d.
    """
    degree = max(weight.shape[2:]) // 2
    if samples <= 2 * degree:
        raise ValueError(f"samples={samples}: expected more than {2 * degree}, twice the degree of the symbol")
    if weight.shape[0] > weight.shape[1]:
        weight = weight.transpose(0, 1)
    energy = torch.view_as_real(torch.fft.rfft2(weight, s=(samples, samples))).square().sum((1, -1))
    return float(energy.flatten(1).amax(1).sum().sqrt()) / (1 - 2 * degree / samples)


def ryu(weight: Tensor, size: int, padding: str = "zeros", steps: int = 100) -> float:
    """‖Av‖/‖v‖ after steps of power iteration with the convolution and its adjoint: below σ₁, or equal to it.

    padding : "zeros", which is the authors' case, or "circular"

    References
    ----------
    Ryu et al. 2019 (arXiv:1905.05406).
    """
    reach = weight.shape[2] // 2
    v = torch.randn(1, weight.shape[1], size, size, dtype=weight.dtype, generator=torch.Generator().manual_seed(1))
    flipped = weight.transpose(0, 1).flip((2, 3))

    def apply(kernel: Tensor, x: Tensor) -> Tensor:
        x = functional.pad(x, [reach] * 4, mode="circular" if padding == "circular" else "constant")
        return functional.conv2d(x, kernel)

    for _ in range(steps):
        v = apply(flipped, apply(weight, v))
        v = v / torch.linalg.vector_norm(v)
    return float(torch.linalg.vector_norm(apply(weight, v)))


def miyato(weight: Tensor, steps: int = 100) -> float:
    """Power iteration on the kernel as an (out × in·k²) matrix, which is a part of the layer's: never above σ₁.

    References
    ----------
    Miyato et al. 2018 (arXiv:1802.05957); it is what `torch.nn.utils.parametrizations.spectral_norm` computes.
    """
    return flat_power(weight.flatten(1), steps)
