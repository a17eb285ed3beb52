"""Which earlier tokens a token is linked to, and which ones later tokens will still ask for: whole numbers only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral

import torch
from torch import Tensor

from sciops.values import check_whole

FOREVER = {"powers": lambda k: 2**k, "squares": lambda k: k * k + 1, "dense": lambda k: k + 1}


@dataclass(frozen=True)
class Links:
    """Offsets f(0) < f(1) < …: token i is linked to i − f(k), or, where `cache_efficient`, to the set (1-based i)

        S_i = { a_k ⌈(i − f(k))/a_k⌉ : f(k) < i },  a_0 = 1,  a_{k+1} = a_k ⌈(f(k+1) − f(k))/a_k⌉

    for which S_{i+1} ⊆ S_i ∪ {i} where f(0) = 1 (arXiv:2605.31367): what is not in it now is never asked for again.

    pattern : "powers" f = 2^k, "squares" k² + 1, "dense" k + 1, or finitely many offsets

    Positions in arguments and results count from 0; −1 is no token.
    """

    pattern: str | tuple[int, ...]
    cache_efficient: bool = False

    def offsets(self, below: int) -> list[int]:
        """Every f(k) < below."""
        if not isinstance(self.pattern, str):
            return [f for f in self.pattern if f < below]
        found, f = list[int](), FOREVER[self.pattern]
        while f(len(found)) < below:
            found.append(f(len(found)))
        return found

    @property
    def window(self) -> int | None:
        """How far back links reach; None without end."""
        return None if isinstance(self.pattern, str) else max(self.pattern)

    def table(self, at: Tensor, largest: int, row: int | None = None) -> Tensor:
        """(…, r) positions that tokens at the positions `at` (…) are linked to, none twice; column k belongs to f(k).

        largest : at least the largest of `at`; decides r. row : one more column, the token `row` before
        """
        f = self.offsets(largest + 1)
        offsets = torch.tensor(f, dtype=torch.int64, device=at.device)
        linked = at[..., None] - offsets
        if self.cache_efficient and f:
            step = torch.tensor(lattice(f), dtype=torch.int64, device=at.device)
            linked = step * ((linked + step).div(step, rounding_mode="floor")) - 1  # 1-based ⌈i/a⌉ = ⌊(i − 1)/a⌋ + 1
            linked[at[..., None] < offsets] = -1
            # the positions fall with k, as a_k divides a_{k+1} and a_{k+1} ≥ f(k+1) − f(k)
            again = linked[..., 1:] == linked[..., :-1]
            linked[..., 1:].masked_fill_(again, -1)
        if row is not None:
            before = at[..., None] - row
            known = (linked == before).any(-1, keepdim=True)
            linked = torch.cat([linked, before.masked_fill(known, -1)], dim=-1)
        return linked.clamp(min=-1)

    def kept(self, count: Tensor, largest: int) -> Tensor | None:
        """(…, m) rising positions, −1s first, that tokens from `count` (…) on may be linked to; None: all of them.

        largest : at least the largest of `count`
        """
        if self.cache_efficient:
            return self.table(count, largest).sort(-1).values
        if self.window is None:
            return None
        return (count[..., None] - torch.arange(self.window, 0, -1, device=count.device)).clamp(min=-1)


def lattice(offsets: Sequence[int]) -> list[int]:
    """a_k of `Links` for strictly rising offsets f(k)."""
    steps = [1]
    for before, after in zip(offsets, offsets[1:]):
        steps.append(steps[-1] * -(-(after - before) // steps[-1]))
    return steps


def offsets_of(pattern: str | Sequence[int], order: int) -> str | tuple[int, ...]:
    """The pattern of `Links` that a name or offsets stand for; raises ValueError for others."""
    if pattern == "first_order":
        return (1,)
    if pattern == "order":
        check_whole(order=order)
        return tuple(range(1, order + 1))
    if isinstance(pattern, str):
        if pattern not in FOREVER:
            raise ValueError(f"pattern={pattern!r}: expected {', '.join(FOREVER)}, first_order, order, or offsets")
        return pattern
    offsets = tuple(pattern) if isinstance(pattern, Iterable) else ()
    whole = all(isinstance(f, Integral) for f in offsets)
    if not offsets or not whole or offsets[0] < 1 or any(a >= b for a, b in zip(offsets, offsets[1:])):
        raise ValueError(f"pattern={pattern!r}: expected rising whole offsets of at least 1, such as (1, 4, 9)")
    return tuple(int(f) for f in offsets)


def slots_of(positions: Tensor, at: Tensor | None, count: Tensor, m: int) -> Tensor:
    """Slots of positions (batch, …): of `at` (batch, m) for those below count (batch,), m + position − count after."""
    count = count.view(-1, *(1,) * (positions.ndim - 1))
    before = positions if at is None else torch.searchsorted(at, positions.flatten(1)).reshape(positions.shape)
    slots = torch.where(positions >= count, m + positions - count, before)
    return slots.masked_fill(positions < 0, -1)
