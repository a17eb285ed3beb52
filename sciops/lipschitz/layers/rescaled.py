"""1-Lipschitz layers: each row of the weight is divided by a bound from its Gram matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from sciops.mixers.spectral import SpectralMixer

# 1-Lipschitz and increasing, which the residual layer needs
_MONOTONE: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "tanh": torch.tanh, "softsign": F.softsign}


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
    _check_steps(steps)
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
    _check_steps(steps)
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


class RescaledLinear(nn.Module):
    """A linear layer that is 1-Lipschitz for every weight: y = diag(1/r) W x + b with r = `row_scales`(W, t).

    x : (..., in_features) → (..., out_features)

    Parameters
    ----------
    steps : int
        t. 1 is AOL; from 4 on the norm is within about one per cent of 1.
    shrink : bool
        Divide by max(r, 1), which leaves small weights as they are; otherwise always by r.

    Raises
    ------
    ValueError
        For steps < 1.

    References
    ----------
    arXiv:2305.16173.
    """

    lipschitz_role = "layer"

    def __init__(
        self, in_features: int, out_features: int, *, bias: bool = True, steps: int = 4, shrink: bool = False
    ) -> None:
        super().__init__()
        _check_steps(steps)
        self.steps, self.shrink = steps, shrink
        self.raw = nn.Parameter(torch.randn(out_features, in_features) / math.sqrt(in_features))
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None

    def lipschitz_rule(self, setting: Any) -> tuple[Tensor, str]:
        return setting.sigma(self.weight), "largest singular value"

    @property
    def weight(self) -> Tensor:
        """diag(1/r) W."""
        return self.raw / _divisor(row_scales(self.raw, self.steps), self.shrink)[:, None]

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class RescaledConv(nn.Module):
    """A convolution that is 1-Lipschitz on every grid: its kernel is diag(1/r) K with r = `kernel_scales`(K, t).

    x : (batch, in_channels, *grid) with `axes` grid axes of any sizes → (batch, out_channels, *grid)

    Parameters
    ----------
    size : int
        Points per axis, odd.
    axes : int
        Number of grid axes, 1 to 3.
    padding : str
        Values outside the grid: "zeros" or "circular".
    steps : int
        t; 3 is enough for kernels of 3 points. Larger t cost symbols on 2^t (size − 1) + 1 points per axis.
    shrink : bool
        As in `RescaledLinear`.

    Raises
    ------
    ValueError
        For an even size, another padding, steps < 1.
    """

    lipschitz_role = "layer"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        size: int = 3,
        axes: int = 2,
        padding: Literal["zeros", "circular"] = "zeros",
        bias: bool = True,
        steps: int = 3,
        shrink: bool = False,
    ) -> None:
        super().__init__()
        _check_steps(steps)
        if size < 1 or size % 2 == 0:
            raise ValueError(f"size={size}: expected an odd number of points, so that every point is in the middle")
        if padding not in ("zeros", "circular"):
            raise ValueError(f"padding={padding!r}: expected 'zeros' or 'circular'")
        if axes not in (1, 2, 3):
            raise ValueError(f"axes={axes}: expected 1, 2 or 3")
        self.size, self.axes, self.padding, self.steps, self.shrink = size, axes, padding, steps, shrink
        gain = 1 / math.sqrt(in_channels * size**axes)
        self.raw = nn.Parameter(gain * torch.randn(out_channels, in_channels, *(size,) * axes))
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None

    def lipschitz_rule(self, setting: Any) -> tuple[Tensor, str]:
        norm = setting.convolution(self.weight, grid=setting.points(self.axes), padding_mode=self.padding)
        return norm, f"convolution, {self.padding} padding"

    @property
    def weight(self) -> Tensor:
        """diag(1/r) K."""
        divisor = _divisor(kernel_scales(self.raw, self.steps), self.shrink)
        return self.raw / divisor.view(-1, *(1,) * (self.raw.ndim - 1))

    def forward(self, x: Tensor) -> Tensor:
        reach = self.size // 2
        if self.padding == "circular":
            for axis in range(2, x.ndim):  # wraps around small grids too, as often as needed
                index = torch.arange(-reach, x.shape[axis] + reach, device=x.device) % x.shape[axis]
                x = x.index_select(axis, index)
            reach = 0
        convolve = (F.conv1d, F.conv2d, F.conv3d)[self.axes - 1]
        return convolve(x, self.weight, self.bias, padding=reach)


class RescaledResidual(nn.Module):
    """A residual layer that is 1-Lipschitz: y = x − 2 Wᵀ D⁻¹ σ(W x + b), D = diag(r²) with r = `row_scales`(W, t).

    x : (..., channels) → same

    Parameters
    ----------
    hidden : int, optional
        Rows of W; the number of channels unless given.
    activation : str
        "relu", "tanh" or "softsign": increasing with slopes up to 1, as the proof needs.
    steps : int
        t; 1 is SLL with unit weights. Later steps make D smaller and the layer's correction larger.

    Notes
    -----
    With slopes S the Jacobian I − 2WᵀD⁻¹SW has JᵀJ ≤ I − 4WᵀD⁻¹(S − S²)W ≤ I, since W Wᵀ ≤ D. The identity prevents
    gradients from vanishing, as they do in products of plain 1-Lipschitz layers.

    References
    ----------
    SLL: arXiv:2303.03169.
    """

    lipschitz_role = "layer"

    def __init__(self, channels: int, *, hidden: int | None = None, activation: str = "relu", steps: int = 4) -> None:
        super().__init__()
        _check_steps(steps)
        if activation not in _MONOTONE:
            raise ValueError(
                f"activation={activation!r}: expected one of {tuple(_MONOTONE)}, increasing and 1-Lipschitz"
            )
        self.activation, self.steps = activation, steps
        rows = channels if hidden is None else hidden
        if rows < 1:
            raise ValueError(f"hidden={hidden!r}: expected a positive whole number")
        self.raw = nn.Parameter(torch.randn(rows, channels) / math.sqrt(channels))
        self.bias = nn.Parameter(torch.zeros(rows))

    def forward(self, x: Tensor) -> Tensor:
        d = _divisor(row_scales(self.raw, self.steps), False).square()
        z = _MONOTONE[self.activation](F.linear(x, self.raw, self.bias)) / d
        return x - 2 * z @ self.raw

    def lipschitz_rule(self, setting: Any) -> tuple[float, str]:
        return 1.0, "x − 2Wᵀ D⁻¹ σ(Wx + b) with W Wᵀ ≤ D"


class RescaledSpectral(SpectralMixer):
    """A spectral mixer with modes of norm at most 1: `SpectralMixer` with diag(1/r_k) R_k, r_k = `row_scales`(R_k, t).

    x : (batch, *grid, channels) → same, or (…, out_channels)

    Parameters
    ----------
    steps : int
        t.
    shrink : bool
        Divide by max(r_k, 1), so that modes may damp; False makes every mode as large as it can be.
    **options
        Those of `SpectralMixer`, with dense weights.

    Raises
    ------
    ValueError
        For diagonal weights and steps < 1.

    Notes
    -----
    The Hermitian part that real fields see in column 0, and n/2 for even n, is the mean of two matrices of norm at most
    1, or half of one. So the layer is 1-Lipschitz in the norm of periodic and cell grids; sines and cosines in the
    trapezoid norm of nodes that reach the walls. It can be used wherever a mixer can.
    """

    def __init__(
        self,
        channels: int,
        modes: int | Sequence[int] = (12, 12),
        *,
        steps: int = 4,
        shrink: bool = True,
        **options: Any,
    ) -> None:
        if options.get("weights", "dense") != "dense":
            raise ValueError("weights='diagonal': expected 'dense', one matrix per mode to be rescaled")
        _check_steps(steps)
        super().__init__(channels, modes, **options)
        for part in self.parts:
            parametrize.register_parametrization(part, "weight", _PerMode(steps, shrink, self.basis == "fourier"))


class _PerMode(nn.Module):
    """(*modes, in, 2, out), or (*modes, in, out) for real modes, with R = the transpose of the last two."""

    def __init__(self, steps: int, shrink: bool, paired: bool) -> None:
        super().__init__()
        self.steps, self.shrink, self.paired = steps, shrink, paired

    def forward(self, weight: Tensor) -> Tensor:
        modes = torch.complex(*weight.unbind(-2)) if self.paired else weight
        divisor = _divisor(row_scales(modes.mT, self.steps), self.shrink)[..., None, :]
        return weight / (divisor[..., None, :] if self.paired else divisor)


def _divisor(r: Tensor, shrink: bool) -> Tensor:
    return r.clamp_min(1) if shrink else torch.where(r > 0, r, 1)


def _check_steps(steps: int) -> None:
    if int(steps) != steps or steps < 1:
        raise ValueError(f"steps={steps!r}: expected a whole number of at least 1")


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
