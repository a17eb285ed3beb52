"""Base class of the mixers along a sequence: input checks, padding masks, decoding states."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sciops.arrays.compiling import symbolic
from sciops.mixers.checks import check_field, check_grid
from sciops.values import check_whole


class SequenceMixer(nn.Module):
    """Base class of mixers along a sequence, (batch, n, channels) → same; fields of more axes are read row by row.

    Causal mixers also decode from a state, a named tuple of tensors with the batch first: ``prefill(x[:, :k])``
    followed by `prefill` or `step` through ``x[:, k:]`` gives ``forward(x)``. A state passed in may be overwritten in
    place; `copied` keeps one.

    Parameters
    ----------
    channels : int
        Number of channels of x and of the result.
    causal : bool
        Output t depends on the inputs up to t alone.

    Notes
    -----
    A subclass defines `mix` and, where it has a causal form, `extend`; also `advance`, where one token costs less than
    a segment of length 1, and `mix_grid`, where fields of several axes are not read row by row. These methods get
    checked inputs, with 0 at padding, and what they return at padding is dropped.
    """

    def __init__(self, channels: int, *, causal: bool = False) -> None:
        super().__init__()
        check_whole(channels=channels)
        self.channels, self.causal = channels, causal

    def forward(self, x: Tensor, grid: Any = None, *, mask: Tensor | None = None) -> Tensor:
        """y of a sequence (batch, n, channels), or of a field (batch, *grid, channels).

        Parameters
        ----------
        x : Tensor
            Input.
        grid : Grid, optional
            Where x was sampled.
        mask : Tensor, optional
            Booleans (batch, n), True for tokens; padding stands at the end of a sequence. It is not read, the result
            there is 0, and nothing else depends on its length.

        Raises
        ------
        ValueError
            For shapes that do not fit, and for tokens after padding.
        """
        mask = self.check(x, mask)
        check_grid(x, grid)
        if x.ndim > 3:
            return self.mix_grid(x, grid)
        return only_tokens(self.mix(only_tokens(x, mask), mask, grid), mask)

    def mix(self, x: Tensor, mask: Tensor | None, grid: Any) -> Tensor:
        """y of a sequence x (batch, n, channels)."""
        raise NotImplementedError

    def mix_grid(self, x: Tensor, grid: Any) -> Tensor:
        """y of a field x (batch, *grid, channels) of more than one axis."""
        return self.mix(x.flatten(1, -2), None, grid).reshape(x.shape)

    def prefill(self, x: Tensor, state: Any = None, *, mask: Tensor | None = None) -> tuple[Tensor, Any]:
        """y of a segment x (batch, n, channels) that follows what the state has seen, and the state after it."""
        if x.ndim != 3:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected a segment (batch, n, {self.channels} channels)")
        self._check_state(x, state)
        mask = self.check(x, mask)
        y, state = self.extend(only_tokens(x, mask), state, mask)
        return only_tokens(y, mask), state

    def step(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """y of one token x (batch, channels) that follows what the state has seen, and the state after it."""
        if x.ndim != 2 or x.shape[-1] != self.channels:
            raise ValueError(
                f"x has shape {tuple(x.shape)}; expected one token of every sequence, (batch, {self.channels} channels)"
            )
        self._check_state(x, state)
        return self.advance(x, state)

    def extend(self, x: Tensor, state: Any, mask: Tensor | None) -> tuple[Tensor, Any]:
        """What `prefill` returns for checked inputs."""
        raise NotImplementedError

    def advance(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """What `step` returns for checked inputs."""
        y, state = self.prefill(x.unsqueeze(1), state)
        return y.squeeze(1), state

    def check(self, x: Tensor, mask: Tensor | None = None) -> Tensor | None:
        """The mask, None where nothing is masked; raises ValueError for shapes that do not fit and gaps in the mask."""
        check_field(x, self.channels)
        if mask is None:
            return None
        if x.ndim != 3 or mask.shape != x.shape[:2] or mask.dtype != torch.bool:
            raise ValueError(
                f"mask of {mask.dtype} and shape {tuple(mask.shape)} for x of shape {tuple(x.shape)}: "
                "expected booleans (batch, n) for x (batch, n, channels)"
            )
        if not symbolic() and (mask[:, 1:] > mask[:, :-1]).any():
            raise ValueError("mask has tokens after padding: put the padding at the end of every sequence")
        return mask

    def _check_state(self, x: Tensor, state: Any) -> None:
        if not self.causal:
            raise ValueError(f"{type(self).__name__} with causal=False has no states: pass causal=True")
        part = next((part for part in state or () if isinstance(part, Tensor)), None)
        if part is not None and part.shape[0] != x.shape[0]:
            raise ValueError(
                f"x has {x.shape[0]} sequences, the state {part.shape[0]}: pass all of them, or pick states with "
                "`selected`"
            )


def only_tokens(x: Tensor, mask: Tensor | None) -> Tensor:
    """x (batch, n, channels) with 0 at padding, where it may hold anything, NaN and ∞ too."""
    return x if mask is None else x.masked_fill(~mask.unsqueeze(-1), 0)


def lengths_of(x: Tensor, mask: Tensor | None) -> Tensor:
    """(batch,) tokens of each sequence of x (batch, n, …), int64."""
    if mask is None:
        return torch.full((x.shape[0],), x.shape[1], dtype=torch.int64, device=x.device)
    return mask.sum(1)


def tail(before: Tensor, new: Tensor, lengths: Tensor) -> Tensor:
    """(batch, k, …): the last k entries of every sequence [before, new[:length]], before (batch, k, …)."""
    k = before.shape[1]
    joined = torch.cat([before, new], dim=1)
    at = lengths[:, None] + torch.arange(k, device=new.device)
    return joined.gather(1, at.reshape(*at.shape, *(1,) * (new.ndim - 2)).expand(-1, -1, *new.shape[2:]))


def put(buffer: Tensor | None, new: Tensor, at: Tensor, longest: int) -> Tensor:
    """buffer (batch, capacity, …) with new (batch, m, …) at the positions at[b] … at[b] + m − 1 of sequence b.

    longest : the largest of `at`; a buffer too small for longest + m entries is doubled. Entries never written are 0.
    Written in place unless a gradient is recorded, in the buffer's dtype: autocast may have been on or off before.
    """
    m, needed = new.shape[1], longest + new.shape[1]
    if buffer is None or needed > buffer.shape[1]:
        old = new[:, :0] if buffer is None else buffer
        capacity = needed if buffer is None else max(needed, 2 * buffer.shape[1])
        room = new.new_zeros(new.shape[0], capacity - old.shape[1], *new.shape[2:])
        buffer = torch.cat([old, room], dim=1)
    new = new.to(buffer.dtype)
    index = (
        torch.arange(new.shape[0], device=new.device)[:, None],
        at[:, None] + torch.arange(m, device=new.device),
    )
    if torch.is_grad_enabled() and (buffer.requires_grad or new.requires_grad):
        return buffer.index_put(index, new)
    return buffer.index_put_(index, new)


def copied(state: Any) -> Any:
    """A copy of a state, or of a list of states, that decoding from the original leaves as it is."""
    if isinstance(state, Tensor):
        return state.clone()
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return type(state)(*map(copied, state))
    if isinstance(state, (list, tuple)):
        return type(state)(map(copied, state))
    return state


def selected(state: Any, rows: Tensor) -> Any:
    """The states of the batch entries `rows` (k,), for beams and sequences that have ended."""
    if isinstance(state, Tensor):
        return state.index_select(0, rows)
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return type(state)(*(selected(part, rows) for part in state))
    if isinstance(state, (list, tuple)):
        return type(state)(selected(part, rows) for part in state)
    return state
