"""Recurrent operators in time: readings of a few sensors to the next readings or to whole fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.models.apply import unwrapped
from sciops.models.sequences.cells import fused, layers_of, step
from sciops.models.sequences.through_time.state_feedback import highway_in_recurrent, in_recurrent
from sciops.models.spine import check_input, description, hidden_width, make_norm, pointwise
from sciops.models.summary import model_text
from sciops.models.wrappers import Normalized
from sciops.options import Count, Within, read_options
from sciops.values import check_whole

CELLS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


def exact(rnn: nn.Module, x: Tensor, initial: Tensor, *, lengths: Tensor | None, memory: Any) -> tuple[Tensor, Tensor]:
    """Backpropagation through time, by torch's fused loop."""
    (layer,) = layers_of(rnn)
    return fused(layer, x, initial, lengths)


def loop(rnn: nn.Module, x: Tensor, initial: Tensor, *, lengths: Tensor | None, memory: Any) -> tuple[Tensor, Tensor]:
    """Backpropagation through time, step by step in Python: slow, the reference for the others."""
    (layer,) = layers_of(rnn)
    each = [initial]
    for now in x.unbind(0):  # the gradient of x[t] would be as long as x, for every t
        each.append(step(layer, now, each[-1])[0])
    states = torch.stack(each[1:])
    outputs = states[..., : layer.width]
    if lengths is None:
        return outputs, states[-1]
    there: Any = _mask(lengths, x)
    ends = lengths.to(x.device) - 1, torch.arange(x.shape[1], device=x.device)
    return outputs.masked_fill(~there, 0), states[ends]


def truncated(
    rnn: nn.Module, x: Tensor, initial: Tensor, *, lengths: Tensor | None, memory: Any, steps: int = 16
) -> tuple[Tensor, Tensor]:
    """Backpropagation through time within segments of `steps` steps, without gradient between segments.

    steps=1 is full truncation: no gradient passes through time. Raises ValueError for steps below 1.
    """
    check_whole(steps=steps)
    (layer,) = layers_of(rnn)
    outputs: list[Tensor] = []
    last = initial
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


# name → (rnn, x, initial, *, lengths, memory, **options) → (outputs, last state)
BACKWARDS: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
    "exact": exact,
    "loop": loop,
    "truncated": truncated,
    "state_feedback": in_recurrent,
    "highway": highway_in_recurrent,
}
_OPTIONS = {"exact": (), "loop": (), "truncated": ("steps",)}  # the others check theirs


@dataclass(frozen=True, kw_only=True)
class RecurrentOptions:
    """Options of `Recurrent`.

    Parameters
    ----------
    in_channels, out_channels : int
        Number of sensors (or fields) in, and of values out at every time: next readings, points of a field.
    width, depth : int
        Units of a layer, number of recurrent layers.
    cell : str
        "rnn" (tanh), "gru" or "lstm", torch's modules with one layer each.
    skip : bool
        Residual connections; False has z ← cell(norm z).
    norm : str
        "layer", "rms" or "none", before each cell.
    mlp_ratio : float
        Adds z ← z + mlp(norm z) after each cell, hidden width over width; 0 leaves it out.
    residual : bool
        y_t = x_t + Q(z_t), where Q gives increments of the first `out_channels` inputs.
    layout : str
        "channels", (batch, channels, time), the form of fields on a grid of times; or "sequence", (batch, time,
        sensors).
    learn_state : bool
        Trains the initial states; zeros otherwise.
    backward, backward_options : str, mapping
        How gradients go back through time: "exact"; "loop", the same in Python; "truncated" (option: steps);
        "state_feedback" and "highway", with the options of `Feedback` and of `highway_rnn`. The
        output does not depend on it. Rules of `fit` that replace backpropagation through time override it.
    """

    in_channels: Count = 1
    out_channels: Count = 1
    width: Count = 64
    depth: Count = 1
    cell: Literal["rnn", "gru", "lstm"] = "gru"
    skip: bool = True
    norm: Literal["layer", "rms", "none"] = "none"
    mlp_ratio: Annotated[float, Within(0)] = 0.0
    residual: bool = False
    layout: Literal["channels", "sequence"] = "channels"
    learn_state: bool = False
    backward: str = "exact"
    backward_options: Mapping[str, Any] | None = None


class Recurrent(nn.Module):
    """A causal map of signals in time by recurrent layers, y_t = Q(z_t), z ← z + W·cell(norm z), z_t = P(x_t).

    ``forward(x, grid=None, *, state=None, lengths=None, return_state=False)``:

    * state : (depth, batch, n), the states to resume from, n = width, or 2·width for "lstm" ([h; c])
    * lengths : (batch,) number of times of each sequence; inputs beyond it are not read and outputs there are 0
    * return_state : also returns the last states; forward(x[…, :k]) and forward(x[…, k:], state=…) are forward(x)

    Buffers ``feedback`` (depth, n) and ``feedback_calls`` (depth,) hold Λ of "state_feedback", whose estimates belong
    to the units of these weights.

    Parameters
    ----------
    in_channels, out_channels : int
        Number of sensors (or fields) in, and of values out at every time.
    **options
        The fields of `RecurrentOptions`.

    Raises
    ------
    TypeError
        For an unknown option.
    ValueError
        For unknown names and sizes that do not fit.
    """

    feedback: Tensor
    feedback_calls: Tensor

    __repr__ = model_text

    def __init__(self, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__()
        given = dict(options, in_channels=in_channels, out_channels=out_channels)
        o = read_options(RecurrentOptions, "recurrent", given)
        if o.backward not in BACKWARDS:
            raise ValueError(f"backward={o.backward!r}: expected one of {', '.join(BACKWARDS)}")
        self.backward, self.backward_options = o.backward, dict(o.backward_options or {})
        takes = _OPTIONS.get(o.backward, tuple(self.backward_options))
        if not set(takes) >= self.backward_options.keys():
            known = ", ".join(takes) or "none"
            raise ValueError(f"backward_options={o.backward_options!r}: backward={o.backward!r} takes {known}")
        if o.residual and out_channels > in_channels:
            raise ValueError(
                f"residual=True with {in_channels} channels in and {out_channels} out: expected no more out than in"
            )
        self.in_channels, self.out_channels, self.layout = in_channels, out_channels, o.layout
        self.residual, self.skip = o.residual, o.skip
        width, depth = o.width, o.depth
        self.lift = pointwise((in_channels, width))
        self.norms = nn.ModuleList(make_norm(o.norm, width) for _ in range(depth))
        self.cells = nn.ModuleList(CELLS[o.cell](width, width) for _ in range(depth))
        self.mixes = nn.ModuleList(nn.Linear(width, width) if o.skip else nn.Identity() for _ in range(depth))
        hidden = hidden_width(o.mlp_ratio, width) if o.mlp_ratio else 0
        self.mlps = nn.ModuleList(
            nn.Sequential(make_norm(o.norm, width), *pointwise((width, hidden, width)))
            for _ in range(depth * (hidden > 0))
        )
        self.project = pointwise((width, width, out_channels))
        size = width * (2 if o.cell == "lstm" else 1)
        self.initial = nn.Parameter(torch.zeros(depth, size)) if o.learn_state else None
        self.register_buffer("feedback", torch.zeros(depth, size))
        self.register_buffer("feedback_calls", torch.zeros(depth, dtype=torch.int64))
        self._override: tuple[str, dict[str, Any]] | None = None
        self.config = description("recurrent", replace(o, backward_options=self.backward_options))

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
        """Context manager: gradients go back through time by `backward`, whatever the model's own option is."""
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
            if state.shape != shape:
                raise ValueError(f"state has shape {tuple(state.shape)}; expected {shape}: depth, batch, n")
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

    Parameters
    ----------
    model : nn.Module
        A `Recurrent` trained to predict the next reading, with equal numbers of channels in and out; or `Normalized`
        around one with layout "channels".
    x : Tensor
        Readings so far, in the model's layout.
    steps : int
        Number of readings.

    Raises
    ------
    ValueError
        For another model, or numbers of channels that differ.
    """
    model = unwrapped(model)
    wrap = model if isinstance(model, Normalized) else None
    core = unwrapped(wrap.model) if wrap is not None else model
    if not isinstance(core, Recurrent) or core.in_channels != core.out_channels:
        raise ValueError(
            "forecast needs a Recurrent model with as many channels in as out, which gives the next reading"
        )
    check_whole(steps=steps)
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
