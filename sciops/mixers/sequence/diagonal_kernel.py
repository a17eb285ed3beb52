"""The kernels of diagonal state spaces: their parameters, and how they are sampled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.mixers.sequence.exponential_sums import expm1, exponential_sum, phi

Hold = Literal["zero", "first"]

_STEEPEST = 50.0  # |a| ≤ 50: Re A = −e^a stays below 0 and finite in float32


class DiagonalKernel(nn.Module):
    """K_l = ∫₀^Δ (k(lΔ + s) w(s) + k((l − 1)Δ + s) (1 − w(s))) ds of k(t) = 2 Re Σ_n C_n B_n e^{A_n t}, 0 for t < 0.

    w = 1, hold="zero", is S4D's 2 Re Σ C_n B_n (e^{ΔA_n} − 1)/A_n · e^{ΔA_n l} (arXiv:2206.11893), exact for inputs
    that keep their value over a step: grids agree to first order in it. w = 1 − s/Δ, hold="first", is exact for inputs
    that are linear between points: grids agree to second order.

    A_n = −e^{a_n} + iω_n with e^a = ½, ω_n = πn at the start (S4D-Lin), B_n = 1, C_n complex normal, log Δ uniform
    between dt_min and dt_max; all are learned. K carries the weight of its quadrature: on steps r times smaller it is
    that of Δ/r.

    kernels : H; modes : N/2, one of each conjugate pair; directions : kernels with C of their own and A, B, Δ in
        common; axes : sets of all of these

    A, B and Δ are kept as vectors, which optimisers here do not decay, and in float32 at least, whatever precision the
    model is cast to: a frequency off by 2⁻⁹ is another kernel a few hundred tokens on.
    """

    def __init__(
        self, kernels: int, modes: int, *, directions: int, axes: int, dt_min: float, dt_max: float, hold: Hold
    ) -> None:
        super().__init__()
        self.hold, self.shape = hold, (axes, kernels, modes)
        count = math.prod(self.shape)
        low, high = math.log(dt_min), math.log(dt_max)
        self.log_dt = nn.Parameter(low + (high - low) * torch.rand(axes * kernels))
        self.log_decay = nn.Parameter(torch.full((count,), math.log(0.5)))
        self.frequency = nn.Parameter(math.pi * torch.arange(modes).repeat(axes * kernels))
        self.into = nn.Parameter(torch.tensor([1.0, 0.0]).repeat(count))
        self.out_of = nn.Parameter(torch.randn(axes, directions, kernels, modes, 2) / math.sqrt(2))

    def dynamics(self) -> list[nn.Parameter]:
        """A, B and Δ, which want no weight decay and often a smaller rate."""
        return [self.log_dt, self.log_decay, self.frequency, self.into]

    def discretised(self, axis: int, *, scale: float, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor | None]:
        """(r, now, before) with K_l = 2 Re Σ_n (now_n e^{r_n l} + before_n e^{r_n (l − 1)}), the second from l = 1 on.

        r = ΔA, (H, modes) complex; now, before : (directions, H, modes) complex, before None where it is 0
        scale : factor on Δ; dtype : real, of the parts
        """
        dt = scale * self.log_dt.to(dtype).view(self.shape[:2])[axis].exp().unsqueeze(-1)
        decay = self.log_decay.to(dtype).view(self.shape)[axis].clamp(-_STEEPEST, _STEEPEST).exp()
        rates = torch.complex(-dt * decay, dt * self.frequency.to(dtype).view(self.shape)[axis])
        weight = torch.view_as_complex(self.into.to(dtype).view(*self.shape, 2)[axis]) * dt
        weight = torch.view_as_complex(self.out_of.to(dtype)[axis]) * weight
        whole = phi(rates, 1)
        if self.hold == "zero":
            return rates, weight * whole, None
        falling = phi(rates, 2)
        return rates, weight * falling, weight * (whole - falling)

    def forward(self, length: int, *, axis: int = 0, scale: float = 1.0, periodic: bool, dtype: torch.dtype) -> Tensor:
        """K_0 … K_{length−1}, (directions, H, length); periodic: Σ_m K_{l + m·length}, what a ring of points sees."""
        return sampled(*self.discretised(axis, scale=scale, dtype=dtype), length, periodic=periodic)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        def kept(t: Tensor) -> Tensor:
            moved = fn(t)
            return t.to(moved.device, torch.float32) if moved.dtype in (torch.float16, torch.bfloat16) else moved

        return super()._apply(kept, recurse)


def sampled(rates: Tensor, now: Tensor, before: Tensor | None, length: int, *, periodic: bool) -> Tensor:
    """K_0 … K_{length−1}, (directions, H, length), of what `DiagonalKernel.discretised` gives, or of a part of it.

    periodic : Σ_m K_{l + m·length}
    """
    coefficients = now if before is None else torch.cat([now, before])
    if periodic:
        coefficients = -coefficients / expm1(length * rates)  # (1 + e^{rL} + e^{2rL} + …) of them
    kernel = exponential_sum(coefficients, rates, length)
    if before is None:
        return kernel
    kernel, later = kernel.chunk(2)
    return kernel + (later.roll(1, -1) if periodic else F.pad(later[..., :-1], (1, 0)))


def circular(kernels: Tensor, skip: Tensor | None, n: int, *, periodic: bool) -> Tensor:
    """The kernel of a circular convolution of length n that applies K→, and K← backwards, to `length` points.

    kernels : (directions, H, length); the backward one is added at the negative lags, and at lag 0 as well
    skip : (H,), added at lag 0
    n : at least 2·length − 1, or the length itself for a periodic kernel, which needs no padding
    """
    forward, *backward = kernels
    first, later, earlier = forward[:, :1], forward[:, 1:], None
    if skip is not None:
        first = first + skip.to(first.dtype).unsqueeze(-1)
    if backward:
        first, earlier = first + backward[0][:, :1], backward[0][:, 1:].flip(-1)
    if periodic:
        later = later if earlier is None else later + earlier
        earlier = later
        if n == forward.shape[-1]:
            return torch.cat([first, later], -1)
    if earlier is None:
        return torch.cat([first, later], -1)
    between = forward.new_zeros(forward.shape[0], n - 2 * forward.shape[-1] + 1)
    return torch.cat([first, later, between, earlier], -1)
