"""Recurrent layers with their states in the open: vanilla RNN, GRU and LSTM, weights as torch's modules hold them.

A state s is (…, d) for RNN and GRU, and [h; c], (…, 2d), for LSTM. Time comes first: (time, batch, features).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Layer(NamedTuple):
    """One layer of an `nn.RNN`, `nn.GRU` or `nn.LSTM`: kind "tanh", "relu", "gru" or "lstm", and torch's weights."""

    kind: str
    input_weight: Tensor
    weight: Tensor
    input_bias: Tensor | None
    bias: Tensor | None

    @property
    def width(self) -> int:
        return self.weight.shape[1]

    @property
    def state_size(self) -> int:
        return self.width * (2 if self.kind == "lstm" else 1)

    def detached(self) -> Layer:
        return Layer(self.kind, *(w if w is None else w.detach() for w in self[1:]))


def layers_of(rnn: nn.Module) -> list[Layer]:
    """The layers of torch's recurrent module, lowest first.

    Raises ValueError for what these forms do not cover: both directions, projections, dropout between the layers.
    """
    if not isinstance(rnn, (nn.RNN, nn.GRU, nn.LSTM)):
        raise ValueError(f"{type(rnn).__name__} is no recurrent layer: expected nn.RNN, nn.GRU or nn.LSTM")
    for name, idle in (("bidirectional", False), ("proj_size", 0), ("dropout", 0)):
        value = getattr(rnn, name, idle)
        if value != idle:
            raise ValueError(f"{type(rnn).__name__} with {name}={value!r}: expected {name}={idle!r}; {_REMEDY[name]}")
    kind = rnn.nonlinearity if isinstance(rnn, nn.RNN) else type(rnn).__name__.lower()
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return [Layer(kind, *(getattr(rnn, f"{n}_l{i}", None) for n in names)) for i in range(rnn.num_layers)]


def step(layer: Layer, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor | None]:
    """(s_t, gate) of inputs x_t (…, features) and states s_{t−1} (…, n), for any leading axes.

    gate : what multiplies s_{t−1} directly: z of a GRU, [0; f] of an LSTM, None of a vanilla RNN
    """
    if layer.kind == "lstm":
        h, c = state.chunk(2, -1)
        return _lstm(*_lstm_gates(layer, x, h), c)
    a = nn.functional.linear(x, layer.input_weight, layer.input_bias)
    b = nn.functional.linear(state, layer.weight, layer.bias)
    if layer.kind != "gru":
        return getattr(torch, layer.kind)(a + b), None
    (ar, az, an), (br, bz, bn) = a.chunk(3, -1), b.chunk(3, -1)
    z = torch.sigmoid(az + bz)
    n = torch.tanh(an + torch.sigmoid(ar + br) * bn)
    return n + z * (state - n), z


def unfolded(layer: Layer, x: Tensor, initial: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """(states, previous, gates), each (time, batch, n): torch's fused loop without gradient, then all steps at once.

    The loop gives s_1 … s_T; s_t is then evaluated again from x_t and s_{t−1} with time folded into the batch, so that
    ``states`` have gradients with respect to weights, x and, in the first step, `initial`, but not from step to step.
    """
    h0 = initial[:, : layer.width]
    with torch.no_grad():
        h, _ = fused(layer, x, initial)
    before = torch.cat([h0[None], h[:-1]])
    if layer.kind != "lstm":
        states, gates = step(layer, x, before)
        return states, before, gates
    gated = _lstm_gates(layer, x, before)
    cells = [initial[None, :, layer.width :]]
    with torch.no_grad():
        i, f, g, _ = gated
        added = i * g
        memory = torch.empty_like(added)
        last = cells[0][0]
        for t in range(len(x) - 1):
            last = torch.addcmul(added[t], f[t], last, out=memory[t])
    c = torch.cat([*cells, memory[:-1]])
    states, gates = _lstm(*gated, c)
    return states, torch.cat([before, c], -1), gates


def fused(layer: Layer, x: Tensor, initial: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(h, s) by torch's loop: outputs (time, batch, d), zero beyond a sequence's length, and last states (batch, n)."""
    lstm = layer.kind == "lstm"
    weights = [w for w in layer[1:] if w is not None]
    call = getattr(torch, layer.kind if layer.kind in ("gru", "lstm") else f"rnn_{layer.kind}")
    first = tuple(s.contiguous() for s in initial[None].chunk(2, -1)) if lstm else initial[None]
    # cuDNN keeps what its backward needs only in training
    how = (len(weights) == 4, 1, 0.0, torch.is_grad_enabled(), False)
    if lengths is None:
        h, *last = call(x, first, weights, *how, False)
    else:
        packed = pack_padded_sequence(x, lengths.cpu(), enforce_sorted=False)
        order = packed.sorted_indices
        first = tuple(s.index_select(1, order) for s in first) if lstm else first.index_select(1, order)
        h, *last = call(packed.data, packed.batch_sizes, first, weights, *how)
        h, _ = pad_packed_sequence(packed._replace(data=h), total_length=len(x))
        last = [s.index_select(1, packed.unsorted_indices) for s in last]
    return h, torch.cat(last, -1)[0]


def _lstm_gates(layer: Layer, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    a = nn.functional.linear(x, layer.input_weight, layer.input_bias)
    i, f, g, o = (a + nn.functional.linear(h, layer.weight, layer.bias)).chunk(4, -1)
    return torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)


def _lstm(i: Tensor, f: Tensor, g: Tensor, o: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    c = f * c + i * g
    return torch.cat([o * torch.tanh(c), c], -1), torch.cat([torch.zeros_like(f), f], -1)


_REMEDY = {
    "bidirectional": "use one module for each direction",
    "proj_size": "put a linear layer after it",
    "dropout": "a state that is evaluated again has to be the same; put nn.Dropout between single layers",
}
