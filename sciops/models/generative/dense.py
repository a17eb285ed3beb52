"""Several multilayer perceptrons of equal shape, evaluated together by batched products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Activation = Literal["silu", "leaky_relu"]
_ACTIVATIONS = {"silu": F.silu, "leaky_relu": lambda x: F.leaky_relu(x, 0.2)}


class Tap(NamedTuple):
    """What a layer was given, (models, rows, in), and what it gave before the activation, (models, rows, out)."""

    given: Tensor
    found: Tensor


class DenseNetworks(nn.Module):
    """M multilayer perceptrons z ← φ(z W_l + b_l), without φ after the last layer.

    ``forward(x)`` maps (M, …, sizes[0]) to (M, …, sizes[-1]); network m sees ``x[m]`` alone.

    Parameters
    ----------
    models : int
        Number of networks, M.
    sizes : sequence of int
        Values in, of each hidden layer, and out.
    activation : {"silu", "leaky_relu"}
        φ; the slope of the latter is 0.2.
    generator : torch.Generator, optional
        Of the weights, N(0, 1/in) each; biases start at 0.

    Raises
    ------
    ValueError
        Fewer than two sizes, one that is not positive, or an x of another shape.
    """

    def __init__(
        self,
        models: int,
        sizes: Sequence[int],
        *,
        activation: Activation = "silu",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if models < 1 or len(sizes) < 2 or min(sizes) < 1:
            raise ValueError(
                f"models={models}, sizes={tuple(sizes)}: expected at least one model and two positive sizes"
            )
        if activation not in _ACTIVATIONS:
            raise ValueError(f"activation={activation!r}: expected one of {', '.join(_ACTIVATIONS)}")
        self.models, self.sizes, self.activation = models, tuple(sizes), activation
        self.weights = nn.ParameterList(
            torch.randn(models, given, found, generator=generator) / math.sqrt(given)
            for given, found in zip(sizes, sizes[1:])
        )
        self.biases = nn.ParameterList(torch.zeros(models, found) for found in sizes[1:])

    def forward(self, x: Tensor) -> Tensor:
        return self._run(x, None)

    def tapped(self, x: Tensor) -> tuple[Tensor, list[Tap]]:
        """What forward returns, and the taps of every layer, for gradients with respect to what layers gave.

        Weights take no gradient here: that of W_l is the product of a tap's `given` with the gradient of its `found`.
        """
        taps: list[Tap] = []
        return self._run(x, taps), taps

    def _run(self, x: Tensor, taps: list[Tap] | None) -> Tensor:
        if x.ndim < 2 or x.shape[0] != self.models or x.shape[-1] != self.sizes[0]:
            raise ValueError(f"x has shape {tuple(x.shape)}: expected ({self.models}, …, {self.sizes[0]})")
        apply = _ACTIVATIONS[self.activation]
        z = x.reshape(self.models, -1, self.sizes[0])
        for layer, (w, b) in enumerate(zip(self.weights, self.biases)):
            if taps is not None:
                w, b = w.detach(), b.detach()
            if layer:
                z = apply(z)
            given, z = z, torch.baddbmm(b[:, None], z, w)
            if taps is not None:
                if not z.requires_grad:
                    z.requires_grad_()
                taps.append(Tap(given.detach(), z))
        return z.reshape(*x.shape[:-1], self.sizes[-1])


def with_labels(x: Tensor, labels: Tensor | None, classes: int) -> Tensor:
    """x with one-hot labels appended; labels : (models, records), repeated along the other axes of x."""
    if not classes:
        return x
    if labels is None:
        raise ValueError(f"the networks take labels of {classes} classes: pass labels")
    hot = F.one_hot(labels, classes).to(x.dtype)
    hot = hot.reshape(*hot.shape[:2], *[1] * (x.ndim - 3), classes).expand(*x.shape[:-1], classes)
    return torch.cat([x, hot], -1)
