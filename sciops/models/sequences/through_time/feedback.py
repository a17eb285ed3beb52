"""Λ of diagonal state feedback, which replaces the derivative of a state by the one before it, and its estimates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from sciops.models.sequences.cells import Layer, Unfolded, step
from sciops.models.sequences.through_time.scan import Diagonal
from sciops.values import WHOLE, one_of

MODES = ("linspace", "zero", "constant", "gate", "least_squares", "hutchinson", "gate_varying")
_GATED = ("gate", "gate_varying")


def _number() -> Tensor:
    return torch.zeros((), dtype=torch.int64)


@dataclass(frozen=True)
class Feedback:
    """Λ of one recurrent layer, and how it is chosen or estimated.

    value : (n,), changed in place; zeros where it is to be estimated from the first batch on
    mode : "linspace"  λ from 0 to `level`, evenly over the units (default 1; what the paper's released code has)
        "zero"          no gradient through time
        "constant"      λ = `level` (default 0.5)
        "gate"          running mean of the gate that multiplies the state before: z of a GRU; [0; f] of an LSTM, whose
            h has no such path. Not in the paper, as those that follow
        "least_squares" λ_i = Σ (Jᵀg)_i g_i / Σ g_i², g the exact gradient of the states of a batch and J the true
            derivative: the diagonal nearest to J along the gradients. A sequential sweep, every `every`-th batch
        "hutchinson"    λ_i = mean of (Jᵀs ⊙ s)_i, s = ±1: the diagonal of J averaged over states; `probes` draws,
            every `every`-th batch
        "gate_varying"  K_t = diag(gate_t), a diagonal for each step: Highway-BP with k = 0
    through_output : of an LSTM. True: what feeds back through Λ of c is all that reaches c_t, also by way of
        h_t = o tanh(c_t), so that f is the exact path from c to c. False, as in the paper's released code: what reaches
        [h; c] from outside, which for c is nothing, but from the last state. Default: False for "linspace", which is
        that code's, True for the others
    momentum : share of a new estimate in `value`, once there are as many as make their mean noisier
    bounds : estimates are clipped to these
    generator : of the signs; torch's global one where None
    calls : (), number of batches seen; changed in place

    Raises ValueError for what is out of range.
    """

    value: Tensor
    mode: str = "linspace"
    level: float | None = None
    through_output: bool | None = None
    every: int = 50
    momentum: float = 0.1
    probes: int = 1
    bounds: tuple[float, float] = (0.0, 0.999)
    generator: torch.Generator | None = None
    calls: Tensor = field(default_factory=_number)

    def __post_init__(self) -> None:
        one_of(MODES)("feedback", self.mode)
        if self.level is not None and not math.isfinite(self.level):
            raise ValueError(f"level={self.level!r}: expected a finite number")
        WHOLE("every", self.every)
        WHOLE("probes", self.probes)
        if not 0 < self.momentum <= 1:
            raise ValueError(f"momentum={self.momentum!r}: expected a share in (0, 1]")
        if not self.bounds[0] <= self.bounds[1]:
            raise ValueError(f"bounds={self.bounds!r}: expected (low, high) with low ≤ high")

    @property
    def apart(self) -> bool:
        """`through_output`, its default resolved."""
        return self.mode != "linspace" if self.through_output is None else self.through_output

    def coefficient(
        self, layer: Layer, x: Tensor, steps: Unfolded, mask: Tensor | None
    ) -> Diagonal | Callable[[Tensor], Diagonal]:
        """Λ for this batch; where it depends on the gradients, a function of what reaches the states from outside.

        x (time, batch, features), steps as `apart` says, mask (time, batch) or None
        """
        gates: Any = steps.gates
        if self.mode in _GATED and gates is None:
            raise ValueError(
                f"feedback={self.mode!r} needs a gate, and a vanilla RNN has none: pass another, or a gated cell"
            )
        if self.mode == "gate_varying":
            return Diagonal(gates.detach())
        layer, x, previous = layer.detached(), x.detach(), steps.previous.detach()
        # the first transition leads from the initial state, to which no gradient is fed back
        there = None if mask is None else mask[1:]
        advance = lambda i, s: step(layer, i, s, apart=self.apart)[0]  # noqa: E731
        with torch.no_grad():
            due = len(x) > 1 and int(self.calls) % (1 if self.mode == "gate" else self.every) == 0
            self.calls.add_(1)
            if self.mode == "gate" and due:
                self._update(_mean(gates[1:].detach(), there), 1)
            elif self.mode == "hutchinson" and due:
                self._update(hutchinson(advance, x[1:], previous[1:], there, self.probes, self.generator), self.every)
            elif self.mode in ("linspace", "zero", "constant"):
                self.value.copy_(fixed(self.mode, len(self.value), self.level))
            if self.mode != "least_squares" or not due:
                return Diagonal(self.value.clone())

        def of_gradients(outside: Tensor) -> Diagonal:
            self._update(least_squares(advance, x, previous, outside, steps.slope), self.every)
            return Diagonal(self.value.clone())

        return of_gradients

    def _update(self, estimate: Tensor, every: int) -> None:
        number = (int(self.calls) - 1) // every + 1
        self.value.lerp_(estimate.clamp(*self.bounds).to(self.value.dtype), max(self.momentum, 1 / number))


def fixed(mode: str, size: int, level: float | None = None) -> Tensor:
    """Λ of the modes that look at nothing, (size,) in float64."""
    if mode == "linspace":
        return torch.linspace(0, 1 if level is None else level, size, dtype=torch.float64)
    return torch.full((size,), 0.0 if mode == "zero" else 0.5 if level is None else level, dtype=torch.float64)


def hutchinson(
    advance: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    previous: Tensor,
    mask: Tensor | None = None,
    probes: int = 1,
    generator: torch.Generator | None = None,
) -> Tensor:
    """(n,): mean over steps, batch and probes of (Jᵀs ⊙ s), J = ∂advance(x, s)/∂s, s of independent signs."""
    total = torch.zeros((), device=x.device)
    with torch.enable_grad():
        p = previous.detach().requires_grad_()
        y = advance(x, p)
        for k in range(probes):
            coins = torch.randint(0, 2, y.shape, generator=generator, device=_place(generator, y))
            signs = (2 * coins - 1).to(y.device, y.dtype)
            (pulled,) = torch.autograd.grad(y, p, signs, retain_graph=k < probes - 1)
            total = total + _mean(pulled * signs, mask)
    return total / probes


def least_squares(
    advance: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    previous: Tensor,
    outside: Tensor,
    slope: Tensor | None = None,
) -> Tensor:
    """(n,): Σ (Jᵀg)_i g_i / Σ g_i² over steps and batch, 0 where g vanishes; g_{t−1} = outside_{t−1} + J_tᵀ g_t.

    slope : ∂h_t/∂c_t of [h; c] where advance takes c as given to h; g of c is then what comes through h too
    """

    def whole(g: Tensor, t: int) -> Tensor:
        if slope is None:
            return g
        h, c = g.chunk(2, -1)
        return torch.cat([h, c + slope[t] * h], -1)

    above = below = outside.new_zeros(outside.shape[-1])
    g = whole(outside[-1], -1)
    for t in range(len(x) - 1, 0, -1):
        with torch.enable_grad():
            p = previous[t].detach().requires_grad_()
            (pulled,) = torch.autograd.grad(advance(x[t], p), p, g)
        above, below = above + (pulled * g).sum(0), below + (g * g).sum(0)
        g = whole(outside[t - 1] + pulled, t - 1)
    return torch.where(below > 0, above / below.clamp_min(torch.finfo(below.dtype).tiny), torch.zeros_like(below))


def _mean(values: Tensor, mask: Tensor | None) -> Tensor:
    """(n,) of (steps, batch, n), over the steps that there are."""
    if mask is None:
        return values.mean((0, 1))
    return (values * mask[..., None]).sum((0, 1)) / mask.sum().clamp_min(1)


def _place(generator: torch.Generator | None, like: Tensor) -> Any:
    return like.device if generator is None else generator.device
