"""What mixers along a sequence share: their door, padding, and the states from which decoding goes on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sciops._compiling import symbolic


class SequenceMixer(nn.Module):
    """A mixer along a sequence, (batch, n, channels) → same; a grid of more axes is read row by row.

    channels, causal : with causal=True output t depends on the inputs up to t alone

    forward(x, grid=None, *, mask=None)
        mask : (batch, n), True where there is a token; padding stands at the end of a sequence. It is not read, outputs
            there are 0, and nothing else depends on how much of it there is

    Causal mixers go on from a state, a named tuple of tensors with the batch first:

    prefill(x, state=None, *, mask=None) → y, state : a stretch of any length after what the state has seen
    step(x, state=None) → y, state : one token, x and y (batch, channels)

    so that prefill(x[:, :k]) and then prefill or steps through x[:, k:] give forward(x). A state that was passed on is
    spent: outside of autograd its memory is written over. `copied` keeps one.

    A mixer gives `mix(x, mask, grid)` and, where causal, `prefill`; `step` where that is cheaper than a stretch of one.
    """

    def __init__(self, channels: int, *, causal: bool = False) -> None:
        super().__init__()
        if int(channels) != channels or channels < 1:
            raise ValueError(f"channels={channels!r}: expected a positive whole number")
        self.channels, self.causal = channels, causal

    def forward(self, x: Tensor, grid: Any = None, *, mask: Tensor | None = None) -> Tensor:
        mask = self.check(x, mask)
        if x.ndim > 3:
            return self.mix_grid(x, grid)
        return only_tokens(self.mix(only_tokens(x, mask), mask, grid), mask)

    def mix(self, x: Tensor, mask: Tensor | None, grid: Any) -> Tensor:
        """y of a sequence x (batch, n, channels), 0 at padding; what it gives there is dropped."""
        raise NotImplementedError

    def mix_grid(self, x: Tensor, grid: Any) -> Tensor:
        """y of a field x (batch, *grid, channels) of more than one axis."""
        return self.mix(x.flatten(1, -2), None, grid).reshape(x.shape)

    def prefill(self, x: Tensor, state: Any = None, *, mask: Tensor | None = None) -> tuple[Tensor, Any]:
        raise ValueError(f"{type(self).__name__} with causal={self.causal} has no states: pass causal=True")

    def step(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        self.check_step(x, state)
        y, state = self.prefill(x.unsqueeze(1), state)
        return y.squeeze(1), state

    def check_step(self, x: Tensor, state: Any) -> None:
        """Raises ValueError unless x is one token of every sequence, and the state, if any, one of as many."""
        if x.ndim != 2 or x.shape[-1] != self.channels:
            raise ValueError(
                f"x has shape {tuple(x.shape)}; expected one token of every sequence, (batch, {self.channels} channels)"
            )
        _check_batch(x, state)

    def check_stretch(self, x: Tensor, mask: Tensor | None, state: Any) -> Tensor | None:
        """`check` of a stretch (batch, n, channels), and of the state to go on from: None, or of as many sequences."""
        if x.ndim != 3:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected a stretch (batch, n, {self.channels} channels)")
        _check_batch(x, state)
        return self.check(x, mask)

    def check(self, x: Tensor, mask: Tensor | None = None) -> Tensor | None:
        """The mask, None where nothing is masked; raises ValueError for shapes that do not fit and gaps in the mask."""
        if x.ndim < 3 or x.shape[-1] != self.channels:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected (batch, *grid, {self.channels} channels)")
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


def _check_batch(x: Tensor, state: Any) -> None:
    part = next((part for part in state or () if isinstance(part, Tensor)), None)
    if part is not None and part.shape[0] != x.shape[0]:
        raise ValueError(
            f"x has {x.shape[0]} sequences, the state {part.shape[0]}: go on with all of them, or pick some with "
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
