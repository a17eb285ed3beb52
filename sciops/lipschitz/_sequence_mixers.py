"""Bounds of mixers along a sequence, where they have one."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sciops.lipschitz._attention_layers import Ball, radius_of
from sciops.lipschitz._parts import Setting, UnboundedError, shown
from sciops.lipschitz._pointwise import GELU
from sciops.lipschitz.attention import attention_bound
from sciops.mixers import MeanPool, NoMixer, SelfAttention, SequenceMixer

_UP = 1 + 1e-12
_PRODUCTS = "a product of functions of its input, whose slope grows with it: no global bound, and no rule on a ball"
_SCORES = "weights that depend on the tokens by a softmax: no global bound, and no rule on a ball"
_WITHOUT = {
    "PolynomialMixer": _PRODUCTS,
    "StateSpaceMixer": _PRODUCTS,
    "LinearAttention": _PRODUCTS,
    "StructuredRecurrence": _SCORES,
    "ResolventAttention": _SCORES,
    "BlockResolventAttention": _SCORES,
}


def of_sequence_mixer(mixer: SequenceMixer, setting: Setting, ball: Ball) -> tuple[Tensor | float, str]:
    """‖mixer‖ on the setting's grid, its points read as a sequence."""
    if isinstance(mixer, NoMixer):
        return 0.0, "nothing moves"
    if isinstance(mixer, MeanPool):
        return _of_mean_pool(mixer, setting)
    if isinstance(mixer, SelfAttention):
        return _of_self_attention(mixer, setting, ball)
    reason = _WITHOUT.get(type(mixer).__name__, "no rule for this mixer")
    raise UnboundedError(f"{type(mixer).__name__}: {reason}")


def _of_mean_pool(mixer: MeanPool, setting: Setting) -> tuple[Tensor, str]:
    """‖W_o‖ γ (‖W_l‖ + ‖W_m‖ γ ‖W_s‖ m), γ the slope of GELU, m the norm of the mean spread over the points.

    The quadrature mean is a projection in the quadrature norm; without weights in the norm m = √n ‖w‖₂/Σw. Running
    means are Cesàro's operator, of norm below 2 (Hardy).
    """
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


def _of_self_attention(mixer: SelfAttention, setting: Setting, ball: Ball) -> tuple[Tensor, str]:
    if mixer.causal or mixer.window is not None or mixer.positions != "none":
        raise UnboundedError("SelfAttention: a rule exists for whole, bidirectional attention without positions")
    radius = radius_of(setting, ball)
    if radius is None:
        raise UnboundedError("softmax attention has no global bound: its slope grows with its tokens; pass radius=")
    q, k, v = setting.cast(mixer.qkv.weight).chunk(3)
    tokens = math.prod(setting.grid.shape)
    out = setting.cast(mixer.out.weight)
    value = attention_bound(q, k, v, tokens=tokens, radius=float(radius), heads=mixer.heads, output=out)
    return torch.as_tensor(value) * (_UP * setting.ends), f"tokens of norm ≤ {shown(radius)}, {tokens} of them"
