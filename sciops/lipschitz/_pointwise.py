"""Lipschitz constants of what works point by point: activations, norms, linear maps of channels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.lipschitz._parts import Setting, UnboundedError, shown
from sciops.models.norms import InstanceNorm, RMSNorm

# largest slopes, rounded up: Φ(√2) + √2 φ(√2) for GELU, the others at the zero of the second derivative
GELU, GELU_TANH, SILU, MISH = 1.1289041452, 1.1289930687, 1.0998393202, 1.0884981613

_MODULES: dict[type[nn.Module], Callable[[Any], float]] = {
    nn.Identity: lambda m: 1.0,
    nn.ReLU: lambda m: 1.0,
    nn.ReLU6: lambda m: 1.0,
    nn.Tanh: lambda m: 1.0,
    nn.Hardtanh: lambda m: 1.0,
    nn.Softsign: lambda m: 1.0,
    nn.Softplus: lambda m: 1.0,
    nn.LogSigmoid: lambda m: 1.0,
    nn.Sigmoid: lambda m: 0.25,
    nn.Softmax: lambda m: 0.5,
    nn.GELU: lambda m: GELU_TANH if m.approximate == "tanh" else GELU,
    nn.SiLU: lambda m: SILU,
    nn.Mish: lambda m: MISH,
    nn.Hardswish: lambda m: 1.5,
    nn.LeakyReLU: lambda m: max(1.0, abs(m.negative_slope)),
    nn.ELU: lambda m: max(1.0, abs(m.alpha)),
    nn.CELU: lambda m: 1.0,
    nn.SELU: lambda m: 1.7580993409,
}
_FUNCTIONS: dict[Any, float] = {
    F.gelu: GELU,
    F.silu: SILU,
    F.mish: MISH,
    F.relu: 1.0,
    torch.relu: 1.0,
    F.tanh: 1.0,
    torch.tanh: 1.0,
    torch.sin: 1.0,
    torch.cos: 1.0,
    F.softplus: 1.0,
    F.elu: 1.0,
    F.leaky_relu: 1.0,
    torch.sigmoid: 0.25,
    F.sigmoid: 0.25,
}


def activation_constant(activation: Any) -> float | None:
    """Its largest slope, None where it is not known."""
    rule = _MODULES.get(type(activation))
    if rule is not None:
        return rule(activation)
    try:
        return _FUNCTIONS.get(activation)
    except TypeError:
        return None


def of_activation(activation: Any) -> float:
    constant = activation_constant(activation)
    if constant is None:
        name = getattr(activation, "__name__", type(activation).__name__)
        raise UnboundedError(f"the largest slope of {name} is not known here")
    return constant


def of_layers(layers: Iterable[nn.Module], setting: Setting, inputs: int | None = None) -> tuple[Tensor | float, str]:
    """Product over linear maps and activations; of the first map the first `inputs` columns alone."""
    value: Tensor | float = 1.0
    count = 0
    for layer in layers:
        if isinstance(layer, nn.Linear):
            weight = layer.weight if inputs is None else layer.weight[:, :inputs]
            value, inputs, count = value * setting.sigma(weight), None, count + 1
        else:
            value = value * of_activation(layer)
    return value, f"{count} linear maps" if count > 1 else "a linear map"


def of_norm(norm: nn.Module, setting: Setting) -> tuple[Tensor | float, Tensor | None]:
    """(largest slope, radius of the ball that its values lie in or None).

    Raises UnboundedError where norms do not count (`vacuous`).
    """
    if isinstance(norm, nn.Identity):
        return 1.0, None
    name = type(norm).__name__
    weight = getattr(norm, "weight", None)
    gain = torch.ones((), dtype=torch.float64) if weight is None else setting.cast(weight).abs().max()
    if isinstance(norm, (RMSNorm, nn.LayerNorm)):
        where = "where a point's channels " + ("vanish" if isinstance(norm, RMSNorm) else "are equal")
        bias = getattr(norm, "bias", None)
        channels = weight.numel() if weight is not None else math.prod(norm.normalized_shape)
        ball = (gain * math.sqrt(channels) + (0.0 if bias is None else setting.cast(bias).norm())) * (1 + 1e-12)
        slope, factor = 1 / math.sqrt(norm.eps), 1.0
    elif isinstance(norm, (InstanceNorm, nn.GroupNorm)):
        where, ball, slope, factor = "on constant fields", None, 1 / math.sqrt(norm.eps), setting.ends
    else:
        raise UnboundedError(f"{name}: no finite bound is known here")
    if not setting.vacuous:
        raise UnboundedError(
            f"{name}: its slope reaches max|w|/√ε = {shown(gain * slope)} {where}, no useful bound; build with "
            "norm='none', or count it with vacuous=True"
        )
    return gain * (slope * factor * (1 + 1e-12)), ball


def of_gate(first: nn.Linear, gate: nn.Linear, setting: Setting, ball: Tensor | float | None, spread: float) -> Tensor:
    """u·GELU(v) with u = Wz + b, v = W'z + b' and ‖z‖ ≤ R: ‖diag(v̄)W‖ + Lip(GELU)·‖diag(ū)W'‖.

    ū, v̄ : what |u|, |v| ≥ |GELU(v)| reach per channel, ‖row‖R + |bias|, times `spread` on a finer grid
    """
    if ball is None:
        raise UnboundedError(
            "gated mlp: u·GELU(v) is a product, whose slope grows with its input; build with mlp='plain', or pass "
            "radius="
        )
    (w, b), (w2, b2) = ((setting.cast(m.weight), setting.cast(m.bias)) for m in (first, gate))
    reach, reach2 = ((m.norm(dim=1) * ball + c.abs()) * (spread * (1 + 1e-12)) for m, c in ((w, b), (w2, b2)))
    return setting.sigma(reach2[:, None] * w) + GELU * setting.sigma(reach[:, None] * w2)
