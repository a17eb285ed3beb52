"""Recurrent states whose gradients through time are a linear scan: diagonal state feedback, and Highway-BP.

Source: Caillon, Fagnou and Allauzen, arXiv:2503.23104. Modes that are not in the paper are named in `Feedback`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sciops.arrays.compiling import refuse_functional
from sciops.models.sequences.cells import Layer, layers_of, unfolded
from sciops.models.sequences.through_time.feedback import Feedback
from sciops.models.sequences.through_time.highway_rnn import highway_rnn
from sciops.models.sequences.through_time.scan import Coefficient, Diagonal, Kernel, reverse_scan


def state_feedback_rnn(
    rnn: nn.Module,
    x: Tensor,
    state: Any = None,
    *,
    feedback: str | Tensor | Sequence[Feedback] = "linspace",
    lengths: Tensor | None = None,
    kernel: Kernel = "auto",
    **options: Any,
) -> tuple[Tensor, Any]:
    """Runs a recurrent module of torch; returns what rnn(x, state) returns, with gradients by state feedback.

    rnn : nn.RNN, nn.GRU or nn.LSTM, of one direction, any number of layers, without dropout between them
    x, state : as the module takes them, x with a batch axis; a state that is trained has the gradient of the first step
    feedback : a mode of `Feedback`; Λ itself, (n,), for every layer; or one `Feedback` a layer (`make_feedback`), which
        estimates need to last from call to call. n = 2·hidden for an LSTM: [h; c]
    lengths : (batch,) steps of each sequence; outputs beyond are 0, last states those at the end of each
    options : of `Feedback`, where `feedback` is a mode

    Raises ValueError for modules this is not defined for, and a Λ of another size.
    """
    layers = layers_of(rnn)
    if x.ndim != 3:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected three axes, with a batch")
    z = x.movedim(1, 0) if rnn.batch_first else x
    n = layers[0].state_size
    if isinstance(state, tuple):
        state = torch.cat(state, -1)
    states = z.new_zeros(len(layers), z.shape[1], n) if state is None else state
    feedbacks = make_feedback(rnn, feedback, **options) if isinstance(feedback, str) else feedback
    ends = []
    for i, layer in enumerate(layers):
        given = feedbacks if isinstance(feedbacks, Tensor) else feedbacks[i]
        z, end = _layer(layer, z, states[i], given, lengths, kernel)
        ends.append(end)
    last: Any = torch.stack(ends)
    if isinstance(rnn, nn.LSTM):
        last = tuple(s.contiguous() for s in last.chunk(2, -1))
    return z.movedim(0, 1) if rnn.batch_first else z, last


def make_feedback(rnn: nn.Module, mode: str = "linspace", **options: Any) -> list[Feedback]:
    """One `Feedback` for every layer of nn.RNN, nn.GRU or nn.LSTM, in the dtype and on the device of its weights.

    Their ``.value`` belong to the weights, unit by unit: register them as buffers to save them.
    """
    return [Feedback(one.weight.new_zeros(one.state_size), mode=mode, **options) for one in layers_of(rnn)]


def with_feedback(
    states: Tensor, coefficient: Coefficient, *, mask: Tensor | None = None, kernel: Kernel = "auto"
) -> Tensor:
    """Returns the states unchanged; in the backward pass their gradient e_t becomes ĝ_t = e_t + Kᴴ ĝ_{t+1}.

    states : (steps, batch, …), each made from a state before it without gradient
    coefficient, mask, kernel : of `reverse_scan`
    """
    return _fed_back(states, lambda e: reverse_scan(e, coefficient, mask=mask, kernel=kernel))


def state_feedback_recurrence(
    step: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    initial: Tensor,
    *,
    coefficient: Coefficient,
    mask: Tensor | None = None,
    kernel: Kernel = "auto",
) -> Tensor:
    """Runs any recurrent cell, s_t = step(x_t, s_{t−1}), with gradients by state feedback: (steps, batch, …).

    step : takes x (rows, …) and states (rows, …), whatever the number of rows; called once a step without gradient, and
        once for all steps with it
    x : (steps, batch, …); initial : (batch, …), whose gradient is that of the first step
    """
    with torch.no_grad():
        states = [initial]
        for t in range(len(x)):
            states.append(step(x[t], states[-1]))
    before = torch.cat([initial[None], torch.stack(states)[1:-1]])
    again = step(x.flatten(0, 1), before.flatten(0, 1)).unflatten(0, x.shape[:2])
    return with_feedback(again, coefficient, mask=mask, kernel=kernel)


def _fed_back(states: Tensor, solve: Callable[[Tensor], Tensor]) -> Tensor:
    refuse_functional("state feedback", 'use backward(), or gradients="backprop" under torch.func')
    return _FedBack.apply(states, solve) if torch.is_grad_enabled() and states.requires_grad else states


class _FedBack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, solve: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.solve = solve
        return states.view_as(states)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outside: Tensor) -> tuple[Tensor, None]:
        return ctx.solve(outside), None


@torch.compiler.disable
def _layer(
    layer: Layer, x: Tensor, initial: Tensor, feedback: Feedback | Tensor, lengths: Tensor | None, kernel: Kernel
) -> tuple[Tensor, Tensor]:
    """(outputs, last state) of one layer; time first."""
    size, mask = layer.state_size, None
    given = feedback if isinstance(feedback, Tensor) else feedback.value
    if given.shape != (size,):
        raise ValueError(f"Λ has shape {tuple(given.shape)}; a state of this layer has {size} numbers: pass ({size},)")
    if lengths is not None:
        mask = torch.arange(len(x), device=x.device)[:, None] < lengths.to(x.device)
        x = x.masked_fill(~mask[..., None], 0)
    # a state that is evaluated again has to be the same: no rounding in between
    with torch.autocast(x.device.type, enabled=False):
        x = x.to(layer.weight.dtype)
        apart = isinstance(feedback, Tensor) or feedback.apart
        steps = unfolded(layer, x, initial.to(x.dtype), apart=apart)
        states = steps.states
        if torch.is_grad_enabled() and states.requires_grad:
            found = Diagonal(given) if isinstance(feedback, Tensor) else feedback.coefficient(layer, x, steps, mask)
            states = _fed_back(states, partial(_solve, found, steps.slope, mask, kernel))
    outputs = states[..., : layer.width]
    if mask is None or lengths is None:
        return outputs, states[-1]
    ends = lengths.to(x.device) - 1, torch.arange(x.shape[1], device=x.device)
    return outputs.masked_fill(~mask[..., None], 0), states[ends]


def _solve(
    coefficient: Diagonal | Callable[[Tensor], Diagonal],
    slope: Tensor | None,
    mask: Tensor | None,
    kernel: Kernel,
    outside: Tensor,
) -> Tensor:
    """ĝ of what reaches the states from outside; with `slope`, of [h; c], first of h, then of c with what h adds."""
    found = coefficient if isinstance(coefficient, Diagonal) else coefficient(outside)
    if slope is None:
        return reverse_scan(outside, found, mask=mask, kernel=kernel)
    (h, c), (of_h, of_c) = outside.chunk(2, -1), found.values.chunk(2, -1)
    h = reverse_scan(h, Diagonal(of_h), mask=mask, kernel=kernel)
    return torch.cat([h, reverse_scan(c + slope * h, Diagonal(of_c), mask=mask, kernel=kernel)], -1)


def in_recurrent(
    rnn: nn.Module,
    x: Tensor,
    initial: Tensor,
    *,
    lengths: Tensor | None,
    memory: tuple[Tensor, Tensor],
    feedback: str = "linspace",
    kernel: Kernel = "auto",
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """(outputs, last state) of one layer of a `Recurrent`; `memory` is Λ and the number of calls, kept with it."""
    (value, calls), (layer,) = memory, layers_of(rnn)
    return _layer(layer, x, initial, Feedback(value, feedback, calls=calls, **options), lengths, kernel)


def highway_in_recurrent(
    rnn: nn.Module, x: Tensor, initial: Tensor, *, lengths: Tensor | None, memory: Any, **options: Any
) -> tuple[Tensor, Tensor]:
    """(outputs, last state) of one layer of a `Recurrent`, with gradients by Highway-BP; options of `highway_rnn`."""
    mask = None if lengths is None else torch.arange(len(x), device=x.device)[:, None] < lengths.to(x.device)
    lstm = isinstance(rnn, nn.LSTM)
    first: Any = tuple(s[None] for s in initial.chunk(2, -1)) if lstm else initial[None]
    outputs, last = highway_rnn(rnn, x, first, mask=mask, **options)
    return outputs, torch.cat(last, -1)[0] if lstm else last[0]
