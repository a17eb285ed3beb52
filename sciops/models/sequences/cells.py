"""One step of torch's recurrent layers, vanilla RNN, GRU and LSTM, as a function of the state.

A state s is (…, d) for RNN and GRU, and [h; c], (…, 2d), for LSTM. Time comes first: (time, batch, features).
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
        weights: dict[str, Any] = {name: w.detach() for name, w in self._asdict().items() if isinstance(w, Tensor)}
        return self._replace(**weights)


def layers_of(rnn: nn.Module) -> list[Layer]:
    """The layers of torch's recurrent module, lowest first.

    Raises ValueError for what these forms do not cover: both directions, projections, dropout between the layers.
    """
    if not isinstance(rnn, (nn.RNN, nn.GRU, nn.LSTM)):
        raise ValueError(f"{type(rnn).__name__} is not a recurrent layer: expected nn.RNN, nn.GRU or nn.LSTM")
    for name, idle in (("bidirectional", False), ("proj_size", 0), ("dropout", 0)):
        value = getattr(rnn, name, idle)
        if value != idle:
            raise ValueError(f"{type(rnn).__name__} with {name}={value!r}: expected {name}={idle!r}; {_REMEDY[name]}")
    kind = rnn.nonlinearity if isinstance(rnn, nn.RNN) else type(rnn).__name__.lower()

    def weights(i: int) -> list[Any]:
        return [getattr(rnn, f"{name}_l{i}", None) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]

    return [Layer(kind, *weights(i)) for i in range(rnn.num_layers)]


class Unfolded(NamedTuple):
    """All steps of a layer, (time, batch, n), each made from `previous` without gradient into the step before it.

    gates : what multiplies s_{t−1} directly: z of a GRU, [0; f] of an LSTM, None of a vanilla RNN
    slope : ∂h_t/∂c_t of an LSTM whose h was made from c as a given (`apart`), (time, batch, d); else None
    """

    states: Tensor
    previous: Tensor
    gates: Tensor | None
    slope: Tensor | None


def step(layer: Layer, x: Tensor, state: Tensor, *, apart: bool = False) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """(s_t, gate, slope) of inputs x_t (…, features) and states s_{t−1} (…, n), of any leading axes: see `Unfolded`."""
    if layer.kind == "lstm":
        h, c = state.chunk(2, -1)
        return _lstm(*_lstm_gates(layer, x, h), c, apart)
    a = nn.functional.linear(x, layer.input_weight, layer.input_bias)
    b = nn.functional.linear(state, layer.weight, layer.bias)
    if layer.kind != "gru":
        return getattr(torch, layer.kind)(a + b), None, None
    (ar, az, an), (br, bz, bn) = a.chunk(3, -1), b.chunk(3, -1)
    z = torch.sigmoid(az + bz)
    n = torch.tanh(an + torch.sigmoid(ar + br) * bn)
    return n + z * (state - n), z, None


def unfolded(layer: Layer, x: Tensor, initial: Tensor, *, apart: bool = False) -> Unfolded:
    """All states by torch's fused loop without gradient, then all steps at once with it, time folded into the batch.

    Gradients reach weights, x and, from the first step, `initial`.
    """
    h0 = initial[:, : layer.width]
    with torch.no_grad():
        h, _ = fused(layer, x, initial)
    before = torch.cat([h0[None], h[:-1]])
    if layer.kind != "lstm":
        states, gates, _ = step(layer, x, before)
        return Unfolded(states, before, gates, None)
    gated = _lstm_gates(layer, x, before)
    first = initial[None, :, layer.width :]
    with torch.no_grad():
        i, f, g, _ = gated
        added = i * g
        memory, last = torch.empty_like(added), first[0]
        for t in range(len(x) - 1):
            last = torch.addcmul(added[t], f[t], last, out=memory[t])
    c = torch.cat([first, memory[:-1]])
    states, gates, slope = _lstm(*gated, c, apart)
    return Unfolded(states, torch.cat([before, c], -1), gates, slope)


def fused(layer: Layer, x: Tensor, initial: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(h, s) by torch's loop: outputs (time, batch, d), zero beyond a sequence's length, and last states (batch, n)."""
    lstm = layer.kind == "lstm"
    weights = [w for w in layer[1:] if w is not None]
    call = getattr(torch, layer.kind if layer.kind in ("gru", "lstm") else f"rnn_{layer.kind}")
    first: Any = tuple(s.contiguous() for s in initial[None].chunk(2, -1)) if lstm else initial[None]
    # cuDNN keeps what its backward needs only in training
    how = (len(weights) == 4, 1, 0.0, torch.is_grad_enabled(), False)
    if lengths is None:
        h, *last = call(x, first, weights, *how, False)
    else:
        packed = pack_padded_sequence(x, lengths.cpu(), enforce_sorted=False)
        order: Any = packed.sorted_indices
        first = tuple(s.index_select(1, order) for s in first) if lstm else first.index_select(1, order)
        h, *last = call(packed.data, packed.batch_sizes, first, weights, *how)
        h, _ = pad_packed_sequence(packed._replace(data=h), total_length=len(x))
        last = [s.index_select(1, packed.unsorted_indices) for s in last]
    return h, torch.cat(last, -1)[0]


def _lstm_gates(layer: Layer, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    a = nn.functional.linear(x, layer.input_weight, layer.input_bias)
    i, f, g, o = (a + nn.functional.linear(h, layer.weight, layer.bias)).chunk(4, -1)
    return torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)


def _lstm(i: Tensor, f: Tensor, g: Tensor, o: Tensor, c: Tensor, apart: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    c = f * c + i * g
    q = torch.tanh(c.detach() if apart else c)
    slope = (o * (1 - q * q)).detach() if apart else None
    return torch.cat([o * q, c], -1), torch.cat([torch.zeros_like(f), f], -1), slope


_REMEDY = {
    "bidirectional": "use one module for each direction",
    "proj_size": "put a linear layer after it",
    "dropout": "a state that is evaluated again has to be the same; put nn.Dropout between single layers",
}
