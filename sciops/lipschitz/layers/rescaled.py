"""1-Lipschitz layers: each row of the weight is divided by a bound from its Gram matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from sciops.lipschitz.layers.scales import divisor_of, kernel_scales, row_scales
from sciops.mixers.spectral import SpectralMixer
from sciops.values import check_whole

# 1-Lipschitz and increasing, which the residual layer needs
_MONOTONE: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "tanh": torch.tanh, "softsign": F.softsign}


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
        check_whole(steps=steps)
        self.steps, self.shrink = steps, shrink
        self.raw = nn.Parameter(torch.randn(out_features, in_features) / math.sqrt(in_features))
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None

    def lipschitz_rule(self, setting: Any) -> tuple[Tensor, str]:
        return setting.sigma(self.weight), "largest singular value"

    @property
    def weight(self) -> Tensor:
        """diag(1/r) W."""
        return self.raw / divisor_of(row_scales(self.raw, self.steps), self.shrink)[:, None]

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
        check_whole(steps=steps)
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
        divisor = divisor_of(kernel_scales(self.raw, self.steps), self.shrink)
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
        check_whole(steps=steps)
        if activation not in _MONOTONE:
            raise ValueError(
                f"activation={activation!r}: expected one of {tuple(_MONOTONE)}, increasing and 1-Lipschitz"
            )
        self.activation, self.steps = activation, steps
        rows = channels if hidden is None else hidden
        check_whole(hidden=rows)
        self.raw = nn.Parameter(torch.randn(rows, channels) / math.sqrt(channels))
        self.bias = nn.Parameter(torch.zeros(rows))

    def forward(self, x: Tensor) -> Tensor:
        d = divisor_of(row_scales(self.raw, self.steps), False).square()
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
        check_whole(steps=steps)
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
        divisor = divisor_of(row_scales(modes.mT, self.steps), self.shrink)[..., None, :]
        return weight / (divisor[..., None, :] if self.paired else divisor)
