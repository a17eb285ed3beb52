"""What the Lipschitz rules of mixers share; `setting` is the `sciops.lipschitz.Setting` in which a rule is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

UP = 1 + 1e-12  # covers the few roundings of a formula


def unbounded(reason: str) -> Callable[[Any, Any], Any]:
    """The rule of a mixer that has no bound."""
    return lambda self, setting: setting.refuse(f"{type(self).__name__}: {reason}")


PRODUCTS = unbounded(
    "a product of functions of its input, whose slope grows with it: no global bound, and no rule on a ball"
)
SCORES = unbounded("weights that depend on the tokens by a softmax: no global bound, and no rule on a ball")


def expect_linear(mixer: Any, setting: Any, *names: str) -> None:
    """Raises UnboundedError unless these maps are nn.Linear, and qkv is one without a bias."""
    for name in (*names, "qkv"):
        setting.expect(getattr(mixer, name), nn.Linear, place=name)
    if mixer.qkv.bias is not None:
        setting.refuse("attention whose qkv has a bias: no rule")


def softmax_attention(mixer: Any, setting: Any, tokens: int, radius: Any, **options: Any) -> Tensor:
    """The bound of softmax attention with the maps `qkv` and `out` of a mixer, between tokens in a ball.

    Parameters
    ----------
    tokens : int
        Number of tokens that attend to each other.
    radius : float or Tensor or None
        Largest norm of a token.
    **options
        Those of `sciops.lipschitz.attention_bound`, or with `floor` those of `cosine_attention_bound`.

    Raises
    ------
    UnboundedError
        Without a radius, and for other maps.
    """
    expect_linear(mixer, setting, "out")
    if radius is None:
        setting.refuse(
            "softmax attention has no global bound: its slope grows with the square of its tokens; pass radius= for "
            "tokens that stay in a ball"
        )
    q, k, v = setting.cast(mixer.qkv.weight).chunk(3)
    out = setting.cast(mixer.out.weight)
    if "floor" in options:
        return setting.cosine_attention(q, k, v, tokens=tokens, radius=radius, output=out, **options) * UP
    return setting.attention(q, k, v, tokens=tokens, radius=radius, heads=mixer.heads, output=out, **options) * UP
