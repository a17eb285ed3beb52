"""Domain-adversarial training: features from which the domain cannot be read."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn


class _Reversal(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, strength: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (strength,) = ctx.saved_tensors
        return -strength * gradient, None


def reverse_gradient(x: Tensor, strength: float | Tensor = 1.0) -> Tensor:
    """x itself, whose gradient is multiplied by −λ on the way back.

    A domain classifier behind it learns to tell domains apart, min_D L_dom, while the encoder before it learns to
    prevent that, min_F L_task − λ L_dom, in one backward pass. A negative λ makes the domain easier to read.

    Parameters
    ----------
    x : any tensor; the values pass through unchanged
    strength : λ, finite

    Raises
    ------
    ValueError
        λ is not finite.

    References
    ----------
    Ganin et al., Domain-adversarial training of neural networks (2016).
    """
    value = torch.as_tensor(strength, dtype=x.dtype, device=x.device)
    if not isinstance(strength, Tensor) and not math.isfinite(strength):
        raise ValueError(f"strength={strength}: expected a finite number")
    return _Reversal.apply(x, value)


def reversal_strength(progress: float, *, largest: float = 1.0, rate: float = 10.0) -> float:
    """λ(p) = largest · (2 / (1 + e^{−rate·p}) − 1): 0 at the start of training, `largest` at its end.

    progress : p, the share of the training that is done, between 0 and 1
    """
    if not 0.0 <= progress <= 1.0:
        raise ValueError(f"progress={progress}: expected a share of the training between 0 and 1")
    return largest * (2.0 / (1.0 + math.exp(-rate * progress)) - 1.0)


class DomainHead(nn.Module):
    """A classifier of the domain behind a reversed gradient: (batch, features) → logits (batch, domains).

    Parameters
    ----------
    features, domains : sizes
    width : of one hidden layer; None for a linear classifier

    Notes
    -----
    How well this head does after training says little of what the features hold: it was trained against them. Fit a
    fresh probe (`sciops.evaluation.probes.probe_errors`).
    """

    def __init__(self, features: int, domains: int, *, width: int | None = None):
        super().__init__()
        if domains < 2:
            raise ValueError(f"domains={domains}: expected at least two")
        hidden = [] if width is None else [nn.Linear(features, width), nn.ReLU()]
        self.layers = nn.Sequential(*hidden, nn.Linear(width or features, domains))

    def forward(self, features: Tensor, strength: float | Tensor = 1.0) -> Tensor:
        return self.layers(reverse_gradient(features, strength))
