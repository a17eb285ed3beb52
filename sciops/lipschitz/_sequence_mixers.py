"""Bounds of mixers along a sequence, where they have one."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from sciops.lipschitz._attention_layers import maps_of_channels
from sciops.lipschitz._parts import Rule, Setting, refuse, shown
from sciops.lipschitz._pointwise import GELU
from sciops.lipschitz._walk import expect
from sciops.lipschitz.attention import attention_bound
from sciops.mixers import (
    BlockResolventAttention,
    LinearAttention,
    MeanPool,
    NoMixer,
    PolynomialMixer,
    ResolventAttention,
    SelfAttention,
    StateSpaceMixer,
    StructuredRecurrence,
)

_UP = 1 + 1e-12
_PRODUCTS = "a product of functions of its input, whose slope grows with it: no global bound, and no rule on a ball"
_SCORES = "weights that depend on the tokens by a softmax: no global bound, and no rule on a ball"


def without(reason: str) -> Rule:
    """The rule of a mixer that has no bound."""
    return lambda mixer, setting: refuse(f"{type(mixer).__name__}: {reason}")


def of_no_mixer(mixer: NoMixer, setting: Setting) -> tuple[float, str]:
    return 0.0, "nothing moves"


def of_mean_pool(mixer: MeanPool, setting: Setting) -> tuple[Tensor, str]:
    """‖W_o‖ γ (‖W_l‖ + ‖W_m‖ γ ‖W_s‖ m), γ the slope of GELU, m the norm of the mean spread over the points.

    The quadrature mean is a projection in the quadrature norm; without weights in the norm m = √n ‖w‖₂/Σw. Running
    means are Cesàro's operator, of norm below 2 (Hardy).
    """
    for name in ("of_token", "of_mean", "of_summary", "out"):
        expect(getattr(mixer, name), nn.Linear, place=name)
    if mixer.causal:
        m = 2.0 * setting.ends
    else:
        w = setting.grid.weights()
        m = 1.0 if setting.weighted else math.sqrt(w.size) * float((w**2).sum()) ** 0.5 / float(w.sum())
    own, of_mean, of_summary, out = (
        setting.sigma(layer.weight) for layer in (mixer.of_token, mixer.of_mean, mixer.of_summary, mixer.out)
    )
    reason = "running mean" if mixer.causal else "mean"
    return out * GELU * (own + of_mean * GELU * of_summary * m) * _UP, f"‖W_o‖ γ (‖W_l‖ + γ ‖W_m‖ ‖W_s‖), {reason}"


def of_self_attention(mixer: SelfAttention, setting: Setting) -> tuple[Tensor, str]:
    if mixer.causal or mixer.window is not None or mixer.positions != "none":
        refuse("SelfAttention: a rule exists for whole, bidirectional attention without positions")
    maps_of_channels(mixer, "out")
    radius = setting.radius
    if radius is None:
        refuse("softmax attention has no global bound: its slope grows with its tokens; pass radius=")
    q, k, v = setting.cast(mixer.qkv.weight).chunk(3)
    tokens = math.prod(setting.grid.shape)
    out = setting.cast(mixer.out.weight)
    value = attention_bound(q, k, v, tokens=tokens, radius=float(radius), heads=mixer.heads, output=out)
    return torch.as_tensor(value) * (_UP * setting.ends), f"tokens of norm ≤ {shown(radius)}, {tokens} of them"


RULES: dict[type[nn.Module], Rule] = {
    NoMixer: of_no_mixer,
    MeanPool: of_mean_pool,
    SelfAttention: of_self_attention,
    **dict.fromkeys((PolynomialMixer, StateSpaceMixer, LinearAttention), without(_PRODUCTS)),
    **dict.fromkeys((StructuredRecurrence, ResolventAttention, BlockResolventAttention), without(_SCORES)),
}
"""Mixers along a sequence, by class."""
