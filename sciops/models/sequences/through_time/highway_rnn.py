"""GRU and LSTM whose backward pass is Highway-BP over time: no loop but over element-wise products with a gate."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import Function, once_differentiable

from sciops.arrays.compiling import refuse_functional
from sciops.models.sequences.through_time.scan import Diagonal, reverse_scan
from sciops.values import check_whole


def highway_rnn(
    rnn: nn.Module,
    x: Tensor,
    h0: Tensor | tuple[Tensor, Tensor] | None = None,
    *,
    iterations: int = 1,
    gamma: float = 0.0,
    mask: Tensor | None = None,
    through_output: bool = True,
) -> tuple[Tensor, Any]:
    """Runs a GRU or LSTM; returns what ``rnn(x, h0)`` returns, with gradients of Highway-BP in place of BPTT.

    The backward pass takes `iterations` sweeps over all steps at once.

    The derivative of a state by the one before it is K + J, K the gate that carries the state (z of the GRU
    h = (1 − z)n + z h₋, f of the LSTM's cell c = f c₋ + i g), J all that passes through the recurrent matrix. With e
    the gradient that reaches the states from outside and S the reverse scan with K,

        w⁰ = S(e),   wᵏ⁺¹ = w⁰ + S(Jᵀ wᵏ),

    which is exact for iterations ≥ steps − 1 (arXiv:2501.17086, section 3.3). Gradients of weights, inputs and initial
    states are those of every step on its own at wᵏ.

    rnn : nn.GRU or nn.LSTM of any number of layers (over depth gradients are exact), or nn.GRUCell or nn.LSTMCell,
        which runs over all steps of x
    x, h0 : as rnn takes them, batch_first too; a cell takes x (steps, batch, features), h0 (batch, hidden)
    iterations : k; 0 carries gradients by the gates alone
    gamma : share of K that is counted with J; 1 is the fixed-point iteration, whose steps know only their next
    mask : (steps, batch), or (batch, steps) with batch_first: False from the end of a shorter sequence on; outputs are
        0 there, and final states those at its end
    through_output : of the LSTM, whether the gradient of c through its own step's output h = o tanh(c) enters S; as the
        source has it (False) it is a part of J, and the forget gate carries nothing at k = 0

    Raises ValueError for other modules, both directions, projections, and a mask with gaps.
    """
    module: Any = rnn
    cell = isinstance(rnn, (nn.GRUCell, nn.LSTMCell))
    if not cell and not isinstance(rnn, (nn.GRU, nn.LSTM)):
        raise ValueError(f"{type(rnn).__name__}: expected nn.GRU, nn.LSTM or a cell of theirs, whose gate is K")
    if getattr(rnn, "bidirectional", False) or getattr(rnn, "proj_size", 0):
        raise ValueError("highway_rnn: expected one direction and no projection; run one nn.GRU or nn.LSTM for each")
    check_whole(0, iterations=iterations)
    if not 0 <= gamma <= 1:
        raise ValueError(f"gamma={gamma!r}: expected a share in [0, 1]")
    lstm, layers = isinstance(rnn, (nn.LSTM, nn.LSTMCell)), 1 if cell else module.num_layers
    batch_first, alone = not cell and module.batch_first, x.ndim == 2
    x = x.unsqueeze(1) if alone else x.transpose(0, 1) if batch_first else x
    if mask is not None:
        mask = _checked(mask.unsqueeze(1) if alone else mask.T if batch_first else mask, x)
        x = x.masked_fill(~mask.unsqueeze(-1), 0)  # padding may hold anything
    refuse_functional("highway_rnn", 'use backward(), or gradients="backprop" under torch.func')
    firsts = _initial(h0, x, module.hidden_size, layers, lstm, cell, alone)
    options, lasts = (int(iterations), float(gamma), through_output), []
    with torch.autocast(x.device.type, enabled=False):
        x = x.to(module.weight_ih.dtype if cell else module.weight_ih_l0.dtype)
        for layer in range(layers):
            names = [n if cell else f"{n}_l{layer}" for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            weights = [getattr(rnn, n, None) for n in names]
            states = _Unrolled.apply(lstm, options, mask, x, *(s[layer].to(x.dtype) for s in firsts), *weights)
            states = states if lstm else (states,)
            lasts.append([s[-1] if mask is None else _at_end(s, mask) for s in states])
            x = states[0] if mask is None else states[0].masked_fill(~mask.unsqueeze(-1), 0)
            if layer < layers - 1 and module.dropout:
                x = F.dropout(x, module.dropout, module.training)
    last = [torch.stack(parts) for parts in zip(*lasts)]
    last = [s[0] if cell else s for s in last]
    if alone:
        x, last = x.squeeze(1), [s.squeeze(0 if cell else 1) for s in last]
    elif batch_first:
        x = x.transpose(0, 1)
    return x, tuple(last) if lstm else last[0]


class _Unrolled(Function):
    """All states of one layer, (steps, batch, hidden) each: h of a GRU, h and c of an LSTM."""

    @staticmethod
    def forward(ctx: Any, lstm: bool, options: tuple, mask: Tensor | None, x: Tensor, *rest: Any) -> Any:
        firsts, weights = rest[: 1 + lstm], rest[1 + lstm :]
        given = [w for w in weights if w is not None]
        start = tuple(s.unsqueeze(0).contiguous() for s in firsts)
        call: Any = torch.lstm if lstm else torch.gru
        h = call(x, start if lstm else start[0], given, len(given) == 4, 1, 0.0, False, False, False)[0]
        before = torch.cat([firsts[0].unsqueeze(0), h[:-1]])
        from_x, from_h = F.linear(x, weights[0], weights[2]), F.linear(before, weights[1], weights[3])
        ctx.lstm, ctx.options, ctx.mask, ctx.biased = lstm, options, mask, len(given) == 4
        ctx.set_materialize_grads(False)
        if lstm:
            i, f, g, o = (from_x + from_h).chunk(4, -1)
            i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
            c = _forward_scan(i * g, f, firsts[1])
            c_before, q = torch.cat([firsts[1].unsqueeze(0), c[:-1]]), c.tanh()
            slopes = torch.stack([g * i * (1 - i), c_before * f * (1 - f), i * (1 - g * g), q * o * (1 - o)], 2)
            ctx.save_for_backward(x, before, f, slopes, o * (1 - q * q), *weights[:2])
            return h, c
        (rx, zx, nx), (rh, zh, nh) = from_x.chunk(3, -1), from_h.chunk(3, -1)
        r, z = (rx + rh).sigmoid(), (zx + zh).sigmoid()
        n = (nx + r * nh).tanh()
        to_n = (1 - z) * (1 - n * n)
        slopes = torch.stack([to_n * nh * r * (1 - r), (before - n) * z * (1 - z), to_n * r], 2)
        ctx.save_for_backward(x, before, z, slopes, to_n, *weights[:2])
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        x, before, gate, slopes, extra, input_weight, weight = ctx.saved_tensors
        e = [torch.zeros_like(gate) if g is None else g for g in gradients]
        if ctx.mask is not None:
            e = [g * ctx.mask.unsqueeze(-1) for g in e]
        if ctx.lstm:
            to_gates, of_state = _lstm_sweeps(e[0], e[1], gate, slopes, extra, weight, *ctx.options)
            to_x = to_gates
        else:
            of_state = _gru_sweeps(e[0], gate, slopes, weight, *ctx.options[:2])
            to_gates = slopes * of_state.unsqueeze(2)
            to_x = torch.cat([to_gates[:, :, :2], (extra * of_state).unsqueeze(2)], 2)
        rows, rows_x = to_gates.flatten(2).flatten(0, 1), to_x.flatten(2).flatten(0, 1)
        needs = ctx.needs_input_grad[3:]
        to_first = to_gates[0].flatten(1) @ weight
        firsts = [to_first, gate[0] * of_state[0]] if ctx.lstm else [to_first + gate[0] * of_state[0]]
        biases = [rows_x.sum(0), rows.sum(0)] if ctx.biased else [None, None]
        return (
            None,
            None,
            None,
            (rows_x @ input_weight).view_as(x) if needs[0] else None,
            *firsts,
            rows_x.T @ x.flatten(0, 1),
            rows.T @ before.flatten(0, 1),
            *biases,
        )


def _gru_sweeps(e: Tensor, z: Tensor, slopes: Tensor, weight: Tensor, iterations: int, gamma: float) -> Tensor:
    """wᵏ of all states; slopes · w are the gradients of the pre-activations, and those times the matrix Jᵀw."""
    carry = Diagonal((1 - gamma) * z)
    first = w = reverse_scan(e, carry)
    for _ in range(min(iterations, len(e) - 1)):
        v = (slopes[1:] * w[1:].unsqueeze(2)).flatten(2) @ weight
        if gamma:
            v = v + gamma * z[1:] * w[1:]
        w = first + reverse_scan(_ended(v), carry)
    return w


def _lstm_sweeps(
    e: Tensor,
    e_cell: Tensor,
    f: Tensor,
    slopes: Tensor,
    through: Tensor,
    weight: Tensor,
    iterations: int,
    gamma: float,
    through_output: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients of the gates' pre-activations and of the cells, with what reaches these through their own outputs.

    through : ∂h/∂c of one step
    """
    carry = Diagonal((1 - gamma) * f)

    def swept(w: Tensor, v_cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of the outputs' gradients w: the gates', the cells' with and without their outputs, after one scan."""
        own = through * w
        cell = reverse_scan(v_cell + own if through_output else v_cell, carry)
        whole = cell if through_output else cell + own
        to_gates = torch.cat([slopes[:, :, :3] * whole.unsqueeze(2), (slopes[:, :, 3] * w).unsqueeze(2)], 2)
        return to_gates, whole, cell

    to_gates, whole, cell = swept(e, e_cell)
    for _ in range(min(iterations, len(e) - 1)):
        # what the forget gate does not carry in the scan: nothing, the step's own output, or the share gamma
        beside = whole - (1 - gamma) * cell
        to_gates, whole, cell = swept(e + _ended(to_gates[1:].flatten(2) @ weight), e_cell + _ended((f * beside)[1:]))
    return to_gates, whole


def _ended(v: Tensor) -> Tensor:
    """v with a last step that nothing follows."""
    return torch.cat([v, torch.zeros_like(v[:1])]) if len(v) else v.new_zeros(1, *v.shape[1:])


def _forward_scan(v: Tensor, factors: Tensor, first: Tensor) -> Tensor:
    """c_t = v_t + factors_t c_{t−1}, by the reverse scan, with time reversed."""
    v = torch.cat([(v[0] + factors[0] * first).unsqueeze(0), v[1:]]).flip(0)
    return reverse_scan(v, Diagonal(factors.flip(0).roll(1, 0))).flip(0)


def _checked(mask: Tensor, x: Tensor) -> Tensor:
    if mask.dtype != torch.bool or mask.shape != x.shape[:2] or bool((mask[1:] & ~mask[:-1]).any() | ~mask[0].all()):
        raise ValueError(
            f"mask of shape {tuple(mask.shape)}: expected booleans {tuple(x.shape[:2])}, True from the first step of "
            "every sequence to its last"
        )
    return mask


def _at_end(states: Tensor, mask: Tensor) -> Tensor:
    index = (mask.sum(0) - 1).reshape(1, -1, 1).expand(1, -1, states.shape[-1])
    return states.gather(0, index).squeeze(0)


def _initial(given: Any, x: Tensor, hidden: int, layers: int, lstm: bool, cell: bool, alone: bool) -> list[Tensor]:
    """(layers, batch, hidden) of every part of the state."""
    shape = (layers, x.shape[1], hidden)
    if given is None:
        return [x.new_zeros(shape) for _ in range(1 + lstm)]
    parts = list(given) if lstm else [given]
    if alone:
        parts = [s.unsqueeze(0 if cell else 1) for s in parts]
    if cell:
        parts = [s.unsqueeze(0) for s in parts]
    if len(parts) != 1 + lstm or any(s.shape != shape for s in parts):
        expected = f"({'layers, ' * (not cell)}batch, hidden) = {shape[cell:]}"
        raise ValueError(f"h0 of shape {[tuple(s.shape) for s in parts]}: expected {expected}{' twice' * lstm}")
    return parts
