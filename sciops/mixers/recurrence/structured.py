"""`StructuredRecurrence`: outputs that depend on earlier outputs along a chosen pattern of links."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from sciops.mixers.bounds import SCORES
from sciops.mixers.checks import check_choice, check_heads
from sciops.mixers.precision import full_precision, working_dtype
from sciops.mixers.recurrence.linked import gathered, linked_products
from sciops.mixers.recurrence.links import Links, offsets_of, slots_of
from sciops.mixers.recurrence.token_mixing import linked_solution, solve_mixing
from sciops.mixers.sequence.base import SequenceMixer, lengths_of, put

_BIASES = 128  # offsets with a bias of their own; those after share the last

Coefficients = Literal["softmax", "chacal"]
Merge = Literal["sum", "concatenate"]


class RecurrenceState(NamedTuple):
    """keys, outputs : (batch, slots, heads, d), of the tokens that later ones can be linked to. at : (batch, slots),
    their rising positions, −1 in empty slots in front; None where all tokens are kept, slot p the token p. count :
    (batch,). longest : largest count."""

    keys: Tensor
    outputs: Tensor
    at: Tensor | None
    count: Tensor
    longest: int


class DecodeCost(NamedTuple):
    """What one more token costs. links : earlier outputs it reads. kept : tokens in the cache. multiply_adds : of the
    query with keys, and of weights with outputs and the value. numbers : keys and outputs in the cache."""

    links: int
    kept: int
    multiply_adds: int
    numbers: int


class StructuredRecurrence(SequenceMixer):
    """Linear recurrence in which a token reads the outputs of earlier tokens along a chosen pattern of links.

    y_i = p_ii v_i + Σ_{j ∈ links(i)} p_ij y_j in every head, then W_o y, that is Y = (I − B)^{-1} diag(p_ii) V. p_i is
    the softmax over {i} ∪ links(i) of w·x_i for the token itself and of q_i·k_j/√d + b_k − log r_i for the link of
    index k among r_i: a token starts with half of its weight on itself, and no output is larger than the largest value.
    x : (batch, n, channels) → same, in O(n r d) time and O(n r) memory for r links per token; "dense" O(n² d) and
    O(n²). Half precision is solved in float32.

    Parameters
    ----------
    channels : int
        Number of channels, a multiple of `heads`.
    heads : int
        Number of heads.
    pattern : str or sequence of int
        Links to i − f(k): "powers" f = 2^k, "squares" k² + 1, "dense" all earlier tokens, "first_order" i − 1 alone, a
        gated recurrence, "order" the last `order` tokens; or a tuple of rising offsets.
    order : int
        Of the pattern "order".
    cache_efficient : bool
        f(k) is rounded to a lattice, so that the cache holds the links of the next token and no others: O(log n) tokens
        for "powers", O(√n) for "squares". Without it these patterns keep all tokens, and others the last max f.
    coefficients : {"softmax", "chacal"}
        "softmax", above; "chacal": Y = (1 − γ)P(I − γP)^{-1}V for the same P = (p_ij), with fewer links than published.
    gamma : float
        γ of "chacal".
    causal : bool
        Without it a second recurrence, with biases and w of its own, runs from the end.
    merge : {"sum", "concatenate"}
        Of the two directions, before W_o.
    rows : bool
        On grids of more axes, which are read row by row, a token is also linked to the one in the row before.

    Raises
    ------
    ValueError
        For heads that do not divide channels, other options, offsets that do not rise from at least 1 (from 1 with
        cache_efficient), an order below 1, γ outside 0.05 ≤ γ < 1, and a cache-efficient "dense" pattern.

    References
    ----------
    The recurrence, arXiv:2605.31367, here with other coefficients; ChaCAL, arXiv:2410.05565.
    """

    lipschitz_rule = SCORES

    def __init__(
        self,
        channels: int,
        *,
        heads: int = 4,
        pattern: str | Sequence[int] = "powers",
        order: int = 4,
        cache_efficient: bool = False,
        coefficients: Coefficients = "softmax",
        gamma: float = 0.9,
        causal: bool = False,
        merge: Merge = "sum",
        rows: bool = True,
    ) -> None:
        super().__init__(channels, causal=causal)
        check_heads(channels, heads)
        check_choice("coefficients", coefficients, Coefficients)
        if not 0.05 <= gamma < 1:
            raise ValueError(f"gamma={gamma}: expected 0.05 ≤ γ < 1")
        check_choice("merge", merge, Merge)
        if pattern == "dense" and cache_efficient:
            raise ValueError("pattern='dense' is linked to all tokens: cache_efficient=True needs another pattern")
        offsets = offsets_of(pattern, order)
        if cache_efficient and not isinstance(offsets, str) and offsets[0] != 1:
            raise ValueError(f"pattern={offsets} with cache_efficient=True: expected 1 as the first offset")
        self.links = Links(offsets, cache_efficient)
        self.heads, self.coefficients, self.gamma, self.merge, self.rows = heads, coefficients, gamma, merge, rows
        directions = 1 if causal else 2
        table = _BIASES if isinstance(self.links.pattern, str) else min(_BIASES, len(self.links.pattern))
        self.qkv = nn.Linear(channels, 3 * channels, bias=False)
        self.itself = nn.Linear(channels, directions * heads)
        nn.init.zeros_(self.itself.bias)
        self.biases = nn.Parameter(torch.zeros(directions, heads, table + 1))  # the last is that of a row before
        self.out = nn.Linear(2 * channels if merge == "concatenate" and not causal else channels, channels)

    def mix(self, x: Tensor, mask: Tensor | None, grid: Any) -> Tensor:
        return self._both(x, mask, None)

    def mix_grid(self, x: Tensor, grid: Any) -> Tensor:
        return self._both(x.flatten(1, -2), None, x.shape[-2] if self.rows else None).reshape(x.shape)

    def extend(self, x: Tensor, state: RecurrenceState | None, mask: Tensor | None) -> tuple[Tensor, RecurrenceState]:
        q, k, v, itself = self._projected(x)
        itself = itself[0]
        if state is None:
            y, z = self._solved(q, k, v, itself, 0, None)
        else:
            # all earlier tokens in front of the new ones: slots 0 … m − 1, then m …
            m = state.longest if state.at is None else state.at.shape[1]
            keys = torch.cat([state.keys[:, :m].transpose(1, 2), k], 2)
            z = self._continued(q, keys, v, itself, state.outputs[:, :m].transpose(1, 2), state)
            y = self._read(z, v)
        return self._merged(y, x.dtype), self._after(state, k, z, lengths_of(x, mask))

    def advance(self, x: Tensor, state: RecurrenceState | None) -> tuple[Tensor, RecurrenceState]:
        if state is None:
            return super().advance(x, state)
        q, k, v, itself = self._projected(x.unsqueeze(1))
        linked = self.links.table(state.count[:, None], state.longest)
        slots = slots_of(linked, state.at, state.count, state.keys.shape[1])
        near = slots[:, 0]
        keys, outputs = (gathered(part.transpose(1, 2), near) for part in (state.keys, state.outputs))
        at = torch.arange(near.shape[1], device=x.device).where(near >= 0, -1)
        p_self, p = self._weights(q, keys, at[:, None], itself[0], 0)
        alpha, weights = self._coefficients(p_self, p)
        with full_precision(x):
            z = alpha.unsqueeze(-1) * v + weights @ outputs
        after = self._after(state, k, z, torch.ones_like(state.count))
        return self._merged(self._read(z, v), x.dtype).squeeze(1), after

    def _after(self, state: RecurrenceState | None, k: Tensor, z: Tensor, lengths: Tensor) -> RecurrenceState:
        """The state after the first `lengths` tokens of each sequence, with keys k and outputs z."""
        new = [part.transpose(1, 2) for part in (k, z)]
        old = [part[:, :0] for part in new] if state is None else [state.keys, state.outputs]
        count, seen, at = (0 * lengths, 0, None) if state is None else (state.count, state.longest, state.at)
        after, longest = count + lengths, seen + k.shape[2]
        kept = self.links.kept(after, longest)
        if kept is None:
            stored = (None, None) if state is None else old
            keys, outputs = (put(before, part, count, seen) for before, part in zip(stored, new))
        else:
            slots = slots_of(kept, at, count, old[0].shape[1])
            empty = (slots < 0)[:, None, :, None]
            keys, outputs = (
                gathered(torch.cat(pair, 1).transpose(1, 2), slots).masked_fill(empty, 0).transpose(1, 2)
                for pair in zip(old, new)
            )
        return RecurrenceState(keys, outputs, kept, after, longest)

    def decode_cost(self, seen: int) -> DecodeCost:
        """What the token after `seen` ≥ 0 others costs, in all heads, counted from the links; projections left out."""
        position = torch.tensor([seen])
        links = int((self.links.table(position, seen) >= 0).sum())
        kept = self.links.kept(position, seen)
        kept = seen if kept is None else int((kept >= 0).sum())
        return DecodeCost(links, kept, (2 * links + 1) * self.channels, 2 * kept * self.channels)

    def _both(self, x: Tensor, mask: Tensor | None, row: int | None) -> Tensor:
        q, k, v, itself = self._projected(x)
        outputs = [self._solved(q, k, v, itself[0], 0, row)[0]]
        if not self.causal:
            n = x.shape[1]
            at = torch.arange(n, device=x.device)
            if mask is not None:
                at = mask.sum(1, keepdim=True) - 1 - at
                at = torch.where(at < 0, torch.arange(n, device=x.device), at)  # padding stays where it is
            else:
                at = n - 1 - at
            q, k, v, own = (gathered(part, at) for part in (q, k, v, itself[1].unsqueeze(-1)))
            outputs.append(gathered(self._solved(q, k, v, own.squeeze(-1), 1, row)[0], at))
        if self.merge == "sum" or self.causal:
            outputs = [sum(outputs)]
        return self._merged(torch.cat(outputs, 1), x.dtype)

    def _projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """q, k, v (batch, heads, n, d) and the logits of tokens themselves (directions, batch, heads, n)."""
        dtype = working_dtype(x)
        q, k, v = self.qkv(x).to(dtype).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        itself = self.itself(x).to(dtype).unflatten(-1, (-1, self.heads)).permute(2, 0, 3, 1)
        return q, k, v, itself

    def _solved(
        self, q: Tensor, k: Tensor, v: Tensor, itself: Tensor, direction: int, row: int | None
    ) -> tuple[Tensor, Tensor]:
        """(y, what later tokens add up, which is y too but for "chacal") of whole sequences."""
        n = q.shape[2]
        with full_precision(q):
            if self.links.pattern == "dense":
                p = self._dense(q, k, itself, direction)
                alpha, b = self._coefficients(p.diagonal(dim1=-2, dim2=-1), p)
                z = solve_mixing(alpha, b, v, diagonal=True)
            else:
                links = self.links.table(torch.arange(n, device=q.device), n - 1, row)
                alpha, weights = self._coefficients(*self._weights(q, k, links, itself, direction, row))
                z = linked_solution(alpha, weights, links, v)
            return self._read(z, v), z

    def _continued(
        self, q: Tensor, keys: Tensor, v: Tensor, itself: Tensor, old: Tensor, state: RecurrenceState
    ) -> Tensor:
        """z of new tokens, with the outputs `old` (batch, heads, m, d) and the keys of old and new ones."""
        n, m, count = q.shape[2], old.shape[2], state.count
        if self.links.pattern == "dense":
            with full_precision(q):
                p = self._dense(q, keys, itself, 0, count)
                alpha, b = self._coefficients(p[..., m:].diagonal(dim1=-2, dim2=-1), p)
                known = alpha.unsqueeze(-1) * v + b[..., :m] @ old
                return solve_mixing(torch.ones_like(alpha), b[..., m:], known, diagonal=True)
        linked = self.links.table(count[:, None] + torch.arange(n, device=q.device), state.longest + n - 1)
        slots = slots_of(linked, state.at, count, m)
        alpha, weights = self._coefficients(*self._weights(q, keys, slots, itself, 0))
        known = alpha.unsqueeze(-1) * v
        before = slots.masked_fill(slots >= m, -1)
        for c in range(slots.shape[-1]) if m else ():
            weight = weights[..., c].masked_fill((before[..., c] < 0)[:, None], 0)
            known = known + weight.unsqueeze(-1) * gathered(old, before[..., c])
        return linked_solution(torch.ones_like(alpha), weights, (slots - m).clamp(min=-1), known)

    def _dense(self, q: Tensor, k: Tensor, itself: Tensor, direction: int, count: Tensor | None = None) -> Tensor:
        """p (batch, heads, n, m) with links to all earlier tokens.

        count : (batch,) tokens that are known, whose keys are the first of the m; the last n are those of the queries
        """
        n, m = q.shape[2], k.shape[2]
        at = torch.arange(n, device=q.device)
        apart = at[:, None] - at
        if m > n:
            before = torch.arange(m - n, device=q.device)
            at = count[:, None] + at
            earlier = (at[..., None] - before).masked_fill((before >= count[:, None])[:, None], -1)
            apart = torch.cat([earlier, apart.expand(q.shape[0], n, n)], -1)
        bias = self.biases[direction].to(q.dtype)[:, (apart - 1).clamp(0, _BIASES - 1)]
        amount = at.clamp(min=1).to(q.dtype).log()[..., None]
        if m > n:
            bias, amount, apart = bias.transpose(0, 1), amount.unsqueeze(1), apart.unsqueeze(1)
        scores = q @ k.mT / math.sqrt(q.shape[-1]) + bias - amount
        scores = torch.where(apart == 0, itself.unsqueeze(-1), scores)
        return scores.masked_fill(apart < 0, -torch.inf).softmax(-1)

    def _weights(
        self, q: Tensor, keys: Tensor, links: Tensor, itself: Tensor, direction: int, row: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """p_ii (batch, heads, n) and p_ij (batch, heads, n, r) for links (n, r) or (batch, n, r) into the keys."""
        r, table = links.shape[-1], self.biases.shape[-1] - 1
        index = torch.arange(r, device=q.device).clamp(max=table - 1)
        if row is not None:
            index[-1] = table
        there = links >= 0
        amount = there.sum(-1, keepdim=True).clamp(min=1).to(q.dtype).log()
        there, amount = (t if t.ndim == 2 else t.unsqueeze(1) for t in (there, amount))
        with full_precision(q):
            scores = linked_products(q, keys, links) / math.sqrt(q.shape[-1])
            scores = scores + self.biases[direction].to(q.dtype)[:, index].unsqueeze(-2) - amount
            scores = scores.masked_fill(~there, -torch.inf)
            p = torch.cat([itself.unsqueeze(-1), scores], -1).softmax(-1)
        return p[..., 0], p[..., 1:]

    def _coefficients(self, p_self: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        """α_i and β_ij of z_i = α_i v_i + Σ β_ij z_j.

        "chacal" solves for z = γy + (1 − γ)v: (1 − γ p_ii) z_i = (1 − γ)v_i + γ Σ_{j<i} p_ij z_j
        """
        if self.coefficients == "softmax":
            return p_self, p
        rest = 1 - self.gamma * p_self
        return (1 - self.gamma) / rest, self.gamma * p / rest.unsqueeze(-1)

    def _read(self, z: Tensor, v: Tensor) -> Tensor:
        return z if self.coefficients == "softmax" else (z - (1 - self.gamma) * v) / self.gamma

    def _merged(self, y: Tensor, dtype: torch.dtype) -> Tensor:
        return self.out(y.transpose(1, 2).flatten(2).to(dtype))

    def extra_repr(self) -> str:
        kind = f"{self.links.pattern!r}, cache_efficient={self.links.cache_efficient}, {self.coefficients!r}"
        return f"{self.channels}, heads={self.heads}, pattern={kind}, causal={self.causal}"
