"""What the Lipschitz rules of mixers share; `setting` is the `sciops.lipschitz.Setting` in which one is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

UP = 1 + 1e-12  # covers the few roundings of a formula


def unbounded(reason: str) -> Callable[[Any, Any], Any]:
    """The rule of a mixer that has no bound."""
    return lambda self, setting: setting.refuse(f"{type(self).__name__}: {reason}")


PRODUCTS = unbounded(
    "a product of functions of its input, whose slope grows with it: no global bound, and no rule on a ball"
)
SCORES = unbounded("weights that depend on the tokens by a softmax: no global bound, and no rule on a ball")


def expect_linear(mixer: nn.Module, setting: Any, *names: str) -> None:
    """Raises UnboundedError unless these maps are nn.Linear, and qkv is one without a bias."""
    for name in (*names, "qkv"):
        setting.expect(getattr(mixer, name), nn.Linear, place=name)
    if mixer.qkv.bias is not None:
        setting.refuse("attention whose qkv has a bias: no rule")
