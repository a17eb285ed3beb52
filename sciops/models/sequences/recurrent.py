"""Recurrent operators in time: readings of a few sensors in, the next readings, or whole fields, out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.models.apply import unwrapped
from sciops.models.sequences.cells import fused, layers_of, step
from sciops.models.spine.blocks import hidden_width, pointwise
from sciops.models.spine.inputs import check_input
from sciops.models.spine.norms import NORMS, make_norm
from sciops.models.spine.operator import description
from sciops.models.wrappers.normalized import Normalized

CELLS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
LAYOUTS = ("channels", "sequence")


def exact(rnn: nn.Module, x: Tensor, initial: Tensor, *, lengths: Tensor | None, memory: Any) -> tuple[Tensor, Tensor]:
    """Backpropagation through time, by torch's fused loop."""
    (layer,) = layers_of(rnn)
    return fused(layer, x, initial, lengths)


def loop(rnn: nn.Module, x: Tensor, initial: Tensor, *, lengths: Tensor | None, memory: Any) -> tuple[Tensor, Tensor]:
    """The same step by step in Python: slow, and what the others are measured against."""
    (layer,) = layers_of(rnn)
    states = [initial]
    for now in x.unbind(0):  # the gradient of x[t] would be as long as x, for every t
        states.append(step(layer, now, states[-1])[0])
    states = torch.stack(states[1:])
    outputs = states[..., : layer.width]
    if lengths is None:
        return outputs, states[-1]
    ends = lengths.to(x.device) - 1, torch.arange(x.shape[1], device=x.device)
    return outputs.masked_fill(~_mask(lengths, x), 0), states[ends]


def truncated(
    rnn: nn.Module, x: Tensor, initial: Tensor, *, lengths: Tensor | None, memory: Any, steps: int = 16
) -> tuple[Tensor, Tensor]:
    """Backpropagation through time in stretches of `steps` steps, without gradient from one to the one before it.

    steps=1 is full truncation: no gradient passes through time at all. Raises ValueError for steps below 1.
    """
    if int(steps) != steps or steps < 1:
        raise ValueError(f"steps={steps!r}: expected a whole number of at least 1")
    (layer,) = layers_of(rnn)
    outputs, last = [], initial
    for start, part in zip(range(0, len(x), steps), x.split(steps)):
        before = last if start == 0 else last.detach()
        if lengths is None:
            h, last = fused(layer, part, before)
        else:
            here = (lengths > start).nonzero().squeeze(1).to(x.device)
            if not len(here):
                outputs.append(x.new_zeros(len(part), x.shape[1], layer.width))
                continue
            left = (lengths.to(x.device)[here] - start).clamp(max=len(part))
            h, end = fused(layer, part[:, here], before[here], left)
            h = h.new_zeros(len(part), x.shape[1], layer.width).index_copy(1, here, h)
            # a sequence that ended before keeps its last state, and the gradient into it
            last = last.index_copy(0, here, end)
        outputs.append(h)
    return torch.cat(outputs), last


def _of_training(name: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """A rule of `sciops.training`, which is above this folder and imported by the first use alone."""

    def go_back(*given: Any, **options: Any) -> tuple[Tensor, Tensor]:
        from sciops.training.gradients.state_feedback import BACK_THROUGH_TIME

        return BACK_THROUGH_TIME[name](*given, **options)

    return go_back


# name → (rnn, x, initial, *, lengths, memory, **options) → (outputs, last state)
BACKWARDS: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
    "exact": exact,
    "loop": loop,
    "truncated": truncated,
    "state_feedback": _of_training("state_feedback"),
    "highway": _of_training("highway"),
}
_OPTIONS = {"exact": (), "loop": (), "truncated": ("steps",)}  # the others check theirs


class Recurrent(nn.Module):
    """y_t = Q(z_t), z ← z + W·cell(norm z) layer by layer, z_t = P(x_t): a causal map of signals in time.

    in_channels, out_channels : sensors (or fields) in, numbers out at every time: next readings, points of a field
    width, depth : units of a layer, number of recurrent layers
    cell : "rnn" (tanh), "gru" or "lstm", torch's modules of one layer each
    skip : the sum above; False has z ← cell(norm z)
    norm : "layer", "rms" or "none", before each cell
    mlp_ratio : adds z ← z + mlp(norm z) after each cell, hidden width over width; 0 leaves it out
    residual : y_t = x_t + Q(z_t), where Q gives increments of the first `out_channels` inputs
    layout : "channels", (batch, channels, time), the form of fields on a grid of times; or "sequence", (batch, time,
        sensors)
    learn_state : trains the first states; zeros otherwise
    backward : how gradients go back through time: "exact"; "loop", the same in Python; "truncated" (option: steps);
        "state_feedback" and "highway", with the options of `Feedback` and of `highway_rnn` in `sciops.training`. What
        the model computes does not depend on it. Rules of `fit` that go back through time by themselves override it
    backward_options : those options

    forward(x, grid=None, *, state=None, lengths=None, return_state=False)
        state : (depth, batch, n) to go on from, n = width, or 2·width for "lstm" ([h; c])
        lengths : (batch,) times of each sequence; beyond them inputs are not read and outputs are 0
        return_state : also returns the last states; forward(x[…, :k]) and forward(x[…, k:], state=…) are forward(x)

    Buffers ``feedback`` (depth, n) and ``feedback_calls`` (depth,) hold Λ of "state_feedback" (its estimates go with
    the weights: a unit keeps its own).

    Raises ValueError for unknown names and sizes that do not fit.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        width: int = 64,
        depth: int = 1,
        cell: str = "gru",
        skip: bool = True,
        norm: str = "none",
        mlp_ratio: float = 0.0,
        residual: bool = False,
        layout: str = "channels",
        learn_state: bool = False,
        backward: str = "exact",
        backward_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        for name, value in dict(in_channels=in_channels, out_channels=out_channels, width=width, depth=depth).items():
            _check(int(value) == value and value > 0, f"{name}={value!r}: expected a positive whole number")
        norms = [name for name in NORMS if name != "instance"]
        for name, value, known in (
            ("cell", cell, CELLS),
            ("norm", norm, norms),
            ("layout", layout, LAYOUTS),
            ("backward", backward, BACKWARDS),
        ):
            _check(value in known, f"{name}={value!r}: expected one of {', '.join(known)}")
        unknown = [name for name in backward_options or {} if name not in _OPTIONS.get(backward, (name,))]
        takes = ", ".join(_OPTIONS.get(backward, ())) or "none"
        _check(not unknown, f"backward_options={backward_options!r}: backward={backward!r} takes {takes}")
        _check(mlp_ratio >= 0, f"mlp_ratio={mlp_ratio!r}: expected a number of at least 0")
        _check(
            not residual or out_channels <= in_channels,
            f"residual=True with {in_channels} channels in and {out_channels} out: expected no more out than in",
        )
        self.in_channels, self.out_channels, self.layout, self.residual = in_channels, out_channels, layout, residual
        self.skip, self.backward, self.backward_options = skip, backward, dict(backward_options or {})
        self.lift = pointwise((in_channels, width))
        self.norms = nn.ModuleList(make_norm(norm, width) for _ in range(depth))
        self.cells = nn.ModuleList(CELLS[cell](width, width) for _ in range(depth))
        self.mixes = nn.ModuleList(nn.Linear(width, width) if skip else nn.Identity() for _ in range(depth))
        hidden = hidden_width(mlp_ratio, width) if mlp_ratio else 0
        self.mlps = nn.ModuleList(
            nn.Sequential(make_norm(norm, width), *pointwise((width, hidden, width)))
            for _ in range(depth * (hidden > 0))
        )
        self.project = pointwise((width, width, out_channels))
        size = width * (2 if cell == "lstm" else 1)
        self.initial = nn.Parameter(torch.zeros(depth, size)) if learn_state else None
        self.register_buffer("feedback", torch.zeros(depth, size))
        self.register_buffer("feedback_calls", torch.zeros(depth, dtype=torch.int64))
        self._override: tuple[str, dict[str, Any]] | None = None
        self.config = description(
            "recurrent",
            in_channels=in_channels,
            out_channels=out_channels,
            width=width,
            depth=depth,
            cell=cell,
            skip=skip,
            norm=norm,
            mlp_ratio=mlp_ratio,
            residual=residual,
            layout=layout,
            learn_state=learn_state,
            backward=backward,
            backward_options=self.backward_options,
        )

    def forward(
        self,
        x: Tensor,
        grid: Grid | None = None,
        *,
        state: Tensor | None = None,
        lengths: Tensor | None = None,
        return_state: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        check_input(self, x)
        x = self._in_time(x)
        there = _mask(lengths, x)
        if there is not None:
            x = x.masked_fill(~there, 0)
        z, states = self.lift(x), []
        for i in range(len(self.cells)):
            h, last = self._through_time(i, self.norms[i](z), self._first(i, x, state), lengths)
            states.append(last)
            z = z + self.mixes[i](h) if self.skip else h
            if len(self.mlps):
                z = z + self.mlps[i](z)
        y = self.project(z)
        if self.residual:
            y = y + x[..., : self.out_channels]
        if there is not None:
            y = y.masked_fill(~there, 0)
        y = y.movedim(0, -1) if self.layout == "channels" else y.movedim(0, 1)
        return (y, torch.stack(states)) if return_state else y

    @contextmanager
    def going_back(self, backward: str, **options: Any) -> Iterator[None]:
        """Gradients go back through time by `backward` within the block, whatever the model's own option is."""
        before, self._override = self._override, (backward, options)
        try:
            yield
        finally:
            self._override = before

    def _through_time(self, i: int, z: Tensor, first: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        name, options = self._override or (self.backward, self.backward_options)
        if not torch.is_grad_enabled():
            name, options = "exact", {}
        memory = self.feedback[i], self.feedback_calls[i]
        return BACKWARDS[name](self.cells[i], z, first, lengths=lengths, memory=memory, **options)

    def _first(self, i: int, x: Tensor, state: Tensor | None) -> Tensor:
        shape = (len(self.cells), x.shape[1], self.feedback.shape[1])
        if state is not None:
            _check(state.shape == shape, f"state has shape {tuple(state.shape)}; expected {shape}: depth, batch, n")
            return state[i]
        if self.initial is not None:
            return self.initial[i].to(x.dtype).expand(shape[1:])
        return x.new_zeros(shape[1:])

    def _in_time(self, x: Tensor) -> Tensor:
        """x as (time, batch, channels)."""
        axis = 1 if self.layout == "channels" else 2
        if x.ndim != 3 or x.shape[axis] != self.in_channels or x.shape[3 - axis] < 1:
            expected = f"{self.in_channels}, time" if axis == 1 else f"time, {self.in_channels}"
            raise ValueError(f"x has shape {tuple(x.shape)}; expected (batch, {expected}) for layout={self.layout!r}")
        return x.movedim(-1, 0) if axis == 1 else x.movedim(1, 0)


def forecast(model: nn.Module, x: Tensor, steps: int) -> Tensor:
    """The `steps` readings after x, each fed back as the next input: (batch, channels, steps), or (batch, steps, …).

    model : a `Recurrent` that was trained to give the next reading, with as many channels in as out; or `Normalized`
        around one with layout "channels"
    x : readings so far, in the model's layout; they are run through once

    Raises ValueError for another model, or numbers of channels that differ.
    """
    model = unwrapped(model)
    wrap = model if isinstance(model, Normalized) else None
    core = unwrapped(wrap.model) if wrap is not None else model
    if not isinstance(core, Recurrent) or core.in_channels != core.out_channels:
        raise ValueError(
            "forecast needs a Recurrent model with as many channels in as out, which gives the next reading"
        )
    if int(steps) != steps or steps < 1:
        raise ValueError(f"steps={steps!r}: expected a whole number of at least 1")
    encode = wrap.input.encode if wrap is not None and wrap.input is not None else lambda u: u
    decode = wrap.output.decode if wrap is not None and wrap.output is not None else lambda u: u
    axis = 2 if core.layout == "channels" else 1
    y, state = core(encode(x), return_state=True)
    readings = [decode(y.narrow(axis, y.shape[axis] - 1, 1))]
    for _ in range(steps - 1):
        y, state = core(encode(readings[-1]), state=state, return_state=True)
        readings.append(decode(y))
    return torch.cat(readings, axis)


def _mask(lengths: Tensor | None, x: Tensor) -> Tensor | None:
    """(time, batch, 1): whether a sequence has that time."""
    if lengths is None:
        return None
    if (
        lengths.shape != (x.shape[1],)
        or lengths.is_floating_point()
        or not (1 <= lengths.min() <= lengths.max() <= len(x))
    ):
        raise ValueError(
            f"lengths={lengths.tolist()}: expected {x.shape[1]} whole numbers, one a sequence, from 1 to {len(x)}"
        )
    return (torch.arange(len(x), device=x.device)[:, None] < lengths.to(x.device))[..., None]


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
