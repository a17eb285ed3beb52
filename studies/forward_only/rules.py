"""The rules of learning for networks side by side: what each takes for the derivative of the loss in every layer.

The formulas of `sciops.training.gradients.forward_only` and `feedback_alignment`; a test compares both in float64.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sciops.models.orthogonal.matrices import polar
from studies.forward_only.networks import ACTIVATIONS, Networks

Signals = tuple[list[Tensor], list[Tensor]]
"""(inputs, cotangents), by layer from h_0 on: the gradient of W_l is Σ cotangent_l input_lᵀ over the rows."""


def backward(net: Networks, states: list[Tensor], e: Tensor, back: Networks) -> Signals:
    """δ_L = e, δ_l = φ′ · B_{l+1}ᵀ δ_{l+1}: backpropagation with back = net, feedback alignment with another."""
    found = [e]
    for (group, i), h in zip(reversed(back.order[back.lift + 1 :]), reversed(states[1:])):
        found.append(ACTIVATIONS[net.activation][1](h) * group.transposed(i, found[-1]))
    return states, found[::-1]


def injected(net: Networks, e: Tensor) -> Tensor:
    """W_1ᵀ … W_Lᵀ e, activations left out: F e of FOTON, and behind a lift the error that the lift is trained by."""
    for group, i in reversed(net.order[net.lift :]):
        e = group.transposed(i, e)
    return e


def direct(net, states: list[Tensor], e: Tensor, matrices: Sequence[Tensor]) -> Signals:
    """δ_l = φ′ · B_l e with B_l (networks, numbers of h_l, numbers of y), of a whole sample each."""
    found = [ACTIVATIONS[net.activation][1](h) * through(b, e, h) for h, b in zip(states[1:], matrices)]
    return states, [*found, e]


def two_passes(
    net: Networks, states: list[Tensor], e: Tensor, u: Tensor, *, modulated: bool = False
) -> Signals:
    """h_l − h′_l with h′ the pass on h_0 − u; `modulated`: with the inputs h′ of PEPITA instead of h."""
    again, _ = net.behind(states[0] - u)
    return again if modulated else states, [*(h - other for h, other in zip(states[1:], again[1:])), e]


def through(matrix: Tensor, e: Tensor, like: Tensor) -> Tensor:
    """matrix · e, sample by sample; the rows of a sample are its points. → the shape of `like`."""
    samples = e.reshape(len(e), -1, matrix.shape[-1])
    return (samples @ matrix.mT).reshape(like.shape)


def orthonormal(rows: int, columns: int, generators: Sequence[torch.Generator], kind: Tensor) -> Tensor:
    """(networks, rows, columns), orthonormal columns or rows: the law of a product of the initial layers."""
    drawn = [torch.randn(rows, columns, generator=g, dtype=torch.float64) for g in generators]
    return polar(torch.stack(drawn)).to(kind)


def gaussian(rows: int, columns: int, scale: float, generators: Sequence[torch.Generator], kind: Tensor) -> Tensor:
    return torch.stack(
        [scale * torch.randn(rows, columns, generator=g, dtype=torch.float64) for g in generators]
    ).to(kind)
