"""The polynomial features of a token, in both published forms."""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.mixers.checks import check_choice
from sciops.mixers.precision import working_dtype

Variant = Literal["branch", "coefficients"]
Activation = Literal["gelu", "clipped", "identity", None]


class PolynomialFeatures(nn.Module):
    """The features F(x) of degree k of `PolynomialMixer`: k arrays (…, width) that are combined linearly.

    `powers` gives g_1, g_1 g_2, … ("branch") or z, z², … ("coefficients") of x (…, channels), in float32 at least,
    since a product of k may leave the range of half precision. `combined` gives F of them, or the mean of F of their
    means.
    """

    def __init__(
        self,
        channels: int,
        width: int,
        *,
        degree: int,
        variant: Variant,
        activation: Activation,
        groups: int,
    ) -> None:
        super().__init__()
        check_choice("variant", variant, Variant)
        check_choice("activation", activation, Activation)
        if width < 1:
            raise ValueError(f"expansion·channels={width}: expected at least 1, pass a larger expansion")
        if channels % groups or width % groups:
            raise ValueError(f"groups={groups} do not divide channels={channels} and expansion·channels={width}")
        branch = variant == "branch"
        self.degree, self.variant, self.branches, self.groups = degree, variant, degree if branch else 1, groups
        self.features, self.activation = self.branches * width, activation or ("gelu" if branch else "clipped")
        bound = math.sqrt(groups / channels)
        self.weight = nn.Parameter(
            torch.empty(groups, self.features // groups, channels // groups).uniform_(-bound, bound)
        )
        self.bias = nn.Parameter(torch.empty(self.features).uniform_(-bound, bound)) if branch else None
        self.alpha = None if branch else nn.Parameter(torch.randn(degree, width).clamp(-1e-3, 1e-3))

    def powers(self, x: Tensor) -> list[Tensor]:
        if self.groups == 1:
            p = F.linear(x, self.weight[0], self.bias)
        else:
            p = torch.einsum("...gi,goi->...go", x.unflatten(-1, (self.groups, -1)), self.weight)
            # every branch has the blocks of all groups, so that products stay within a group
            p = p.unflatten(-1, (self.branches, -1)).transpose(-2, -3).flatten(-3)
            p = p if self.bias is None else p + self.bias.to(p.dtype)
        g = _ACTIVATIONS[self.activation](p.to(working_dtype(p)))
        factors = g.chunk(self.branches, -1) if self.variant == "branch" else [g] * self.degree
        powers = [factors[0]]
        for factor in factors[1:]:
            powers.append(powers[-1] * factor)
        return powers

    def combined(self, powers: list[Tensor]) -> Tensor:
        if self.alpha is None:
            return torch.cat(powers, dim=-1)
        alpha = self.alpha.to(powers[0].dtype)
        f = alpha[0] * powers[0]
        for a, power in zip(alpha[1:], powers[1:]):
            f = torch.addcmul(f, a, power)
        return f

    def extra_repr(self) -> str:
        return (
            f"degree={self.degree}, features={self.features}, variant={self.variant!r}, "
            f"activation={self.activation!r}, groups={self.groups}"
        )


_ACTIVATIONS = {
    "gelu": F.gelu,
    "clipped": lambda x: F.leaky_relu(x, 0.01).clamp(-0.1, 6.0),
    "identity": lambda x: x,
}
