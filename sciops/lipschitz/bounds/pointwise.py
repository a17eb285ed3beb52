"""Lipschitz constants of pointwise maps: activations, norms, linear maps of channels."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.lipschitz.as_written import exactly
from sciops.lipschitz.bounds.lookup import measure, unchanged
from sciops.lipschitz.bounds.parts import Setting, expect, refuse, shown
from sciops.models.spine.norms import InstanceNorm, RMSNorm

# largest slopes, rounded up: Φ(√2) + √2 φ(√2) for GELU, the others at the zero of the second derivative
GELU, GELU_TANH, SILU, MISH = 1.1289041452, 1.1289930687, 1.0998393202, 1.0884981613


def _softplus(m: nn.Softplus) -> float:
    """Above the threshold it is x: a step of log(1 + e^−threshold)/β, round-off of float32 from 20 on."""
    if m.threshold < 20 or m.beta == 0:
        refuse(f"Softplus with beta={m.beta}, threshold={m.threshold}: it jumps where it becomes linear")
    return 1.0


def _rrelu(m: nn.RReLU) -> float:
    if m.training:
        refuse("RReLU draws its slopes in training: call model.eval()")
    return max(1.0, abs(m.lower + m.upper) / 2)


def _jumps(m: nn.Module) -> NoReturn:
    refuse(f"{type(m).__name__}: it jumps, and has no Lipschitz constant")


# options that leave the slope alone, such as inplace, are not read
ELEMENTWISE: dict[type[nn.Module], Callable[[Any], Any]] = {
    **dict.fromkeys((nn.Identity, nn.ReLU, nn.ReLU6, nn.LogSigmoid, nn.Softsign), lambda m: 1.0),
    **dict.fromkeys((nn.Tanh, nn.Tanhshrink, nn.Hardtanh), lambda m: 1.0),
    nn.Softplus: _softplus,
    nn.Softshrink: lambda m: 1.0 if m.lambd == 0 or m.lambd > 0 else _jumps(m),
    nn.Hardshrink: _jumps,
    nn.Threshold: lambda m: 1.0 if m.value == m.threshold else _jumps(m),
    nn.Sigmoid: lambda m: 0.25,
    nn.Hardsigmoid: lambda m: 0.1666666716337204,  # 1/6 in float32, which torch takes for the gradient in float64 too
    nn.GELU: lambda m: GELU_TANH if m.approximate == "tanh" else GELU,
    nn.SiLU: lambda m: SILU,
    nn.Mish: lambda m: MISH,
    nn.Hardswish: lambda m: 1.5,
    nn.LeakyReLU: lambda m: max(1.0, abs(m.negative_slope)),
    nn.PReLU: lambda m: m.weight.double().abs().max().clamp_min(1.0),
    nn.RReLU: _rrelu,
    nn.ELU: lambda m: max(1.0, abs(m.alpha)),
    nn.CELU: lambda m: 1.0 if m.alpha > 0 else refuse(f"CELU with alpha={m.alpha}: its slope has no bound"),
    nn.SELU: lambda m: 1.7580993409,
}
_FUNCTIONS: dict[Any, float] = {
    F.gelu: GELU,
    F.silu: SILU,
    F.mish: MISH,
    **dict.fromkeys((F.relu, F.tanh, F.softplus, F.elu, F.leaky_relu), 1.0),
    **dict.fromkeys((torch.relu, torch.tanh, torch.sin, torch.cos), 1.0),
    **dict.fromkeys((torch.sigmoid, F.sigmoid), 0.25),
}  # with their default options


def of_activation(activation: Any, setting: Setting) -> float | Tensor:
    """The largest slope of an activation: of a function with its default options, or of a module."""
    if isinstance(activation, nn.Module):
        return measure(activation, setting)[0]
    constant = _FUNCTIONS.get(activation) if isinstance(activation, Hashable) else None
    if constant is None:
        name = getattr(activation, "__name__", type(activation).__name__)
        refuse(f"the largest slope of {name} is not known here")
    return constant


def of_layers(layers: Any, setting: Setting, inputs: int | None = None) -> tuple[Tensor | float, str]:
    """Product over linear maps and activations; of the first map only the first `inputs` columns."""
    unchanged(layers)
    expect(layers, nn.Sequential, place="a pointwise map")
    value: Tensor | float = 1.0
    count = 0
    for layer in layers:
        if setting.reused and getattr(layer, "inplace", False) and not count:
            refuse(f"{type(layer).__name__} in place on an input that is used again outside: pass inplace=False")
        if exactly(layer, nn.Linear):
            weight = layer.weight if inputs is None else layer.weight[:, :inputs]
            value, inputs, count = value * setting.sigma(weight), None, count + 1
        else:
            if inputs is not None:
                expect(layer, *ELEMENTWISE, place="what comes before the first linear map")
            value = value * of_activation(layer, setting)
    if inputs is not None:
        refuse("a pointwise map without a linear layer")
    return value, f"{count} linear maps" if count > 1 else "a linear map"


_INSTANCE = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)


def of_norm(norm: Any, setting: Setting) -> tuple[Tensor | float, Tensor | None]:
    """(largest slope, radius of the ball that its values lie in or None).

    Raises UnboundedError where norms do not count (`vacuous`).
    """
    if exactly(norm, nn.Identity):
        return 1.0, None
    name = type(norm).__name__
    weight: Any = getattr(norm, "weight", None)
    gain = torch.ones((), dtype=torch.float64) if weight is None else setting.cast(weight).abs().max()
    ball: Tensor | None = None
    if exactly(norm, RMSNorm, nn.RMSNorm, nn.LayerNorm):
        rms = not exactly(norm, nn.LayerNorm)
        where = "where a point's channels " + ("vanish" if rms else "are equal")
        bias = getattr(norm, "bias", None)
        sizes = weight.shape if exactly(norm, RMSNorm) else norm.normalized_shape
        ball = (gain * math.sqrt(math.prod(sizes)) + (0.0 if bias is None else setting.cast(bias).norm())) * (1 + 1e-12)
        factor = 1.0 if len(sizes) == 1 else setting.ends
    elif exactly(norm, InstanceNorm, nn.GroupNorm, *_INSTANCE):
        if getattr(norm, "track_running_stats", False):
            refuse(f"{name} with statistics of the training: no rule")
        where, factor = "on constant fields", setting.ends
    else:
        refuse(f"{name}: no finite bound is known here")
    eps = norm.eps
    if eps is None:  # torch's RMSNorm: that of the input's dtype, which its weight shares
        eps = 0.0 if weight is None else torch.finfo(weight.dtype).eps
    if not eps > 0:
        refuse(f"{name} with eps={eps}: its slope has no bound {where}")
    slope = 1 / math.sqrt(eps)
    if not setting.vacuous:
        refuse(
            f"{name}: its slope reaches max|w|/√ε = {shown(gain * slope)} {where}, no useful bound; build with "
            "norm='none', or count it with vacuous=True"
        )
    return gain * (slope * factor * (1 + 1e-12)), ball


def of_norm_alone(norm: nn.Module, setting: Setting) -> tuple[Tensor | float, str]:
    """The largest slope of a norm, and the reason."""
    return of_norm(norm, setting)[0], "largest slope, vacuous"


def of_gate(first: nn.Linear, gate: nn.Linear, setting: Setting, ball: Tensor | float | None, spread: float) -> Tensor:
    """The bound of a gated map u·GELU(v) on a ball ‖z‖ ≤ R, with u = Wz + b, v = W'z + b'.

    ‖diag(v̄)W‖ + Lip(GELU)·‖diag(ū)W'‖, where ū, v̄ bound |u|, |v| ≥ |GELU(v)| per channel: ‖row‖R + |bias|, times
    `spread` on a finer grid.
    """
    if ball is None:
        refuse(
            "gated mlp: u·GELU(v) is a product, whose slope grows with its input; build with mlp='plain', or pass "
            "radius="
        )
    (w, b), (w2, b2) = ((setting.cast(m.weight), setting.cast(m.bias)) for m in (first, gate))
    reach, reach2 = ((m.norm(dim=1) * ball + c.abs()) * (spread * (1 + 1e-12)) for m, c in ((w, b), (w2, b2)))
    return setting.sigma(reach2[:, None] * w) + GELU * setting.sigma(reach[:, None] * w2)
