"""`ResolventAttention`: attention that follows chains of any length in one layer, by solving with its own matrix."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from sciops.mixers.bounds import SCORES
from sciops.mixers.checks import check_choice
from sciops.mixers.precision import full_precision, working_dtype
from sciops.mixers.resolvent.dense import iterations, resolvent, solve
from sciops.mixers.sequence.base import SequenceMixer, lengths_of, put
from sciops.mixers.sequence.self_attention import Positions, alibi_slopes, check_positions, projected

LEARNED_LIMIT = 0.999  # of a learned γ, so that 1/(1 − γ), the condition number, stays bounded

Bidirectional = Literal["sum", "fixed_point", "dense"]


class ResolventState(NamedTuple):
    """keys, z : (batch, capacity, heads, d), z = γy + (1−γ)v, the first `count` entries of every sequence written.
    count : (batch,). longest : largest count."""

    keys: Tensor
    z: Tensor
    count: Tensor
    longest: int


class ResolventAttention(SequenceMixer):
    """Attention that follows chains of any length in one layer, by solving a linear system with its own matrix.

    Y = (1−γ) A (I − γA)⁻¹ V = (1−γ) Σ_{ℓ≥1} γ^{ℓ−1} A^ℓ V with A the matrix of softmax attention. A^ℓ counts paths of ℓ
    links: following a chain through n tokens takes log₂ n layers of attention, and one of these. The weight of the end
    of a chain falls as γ^ℓ; the rows of the whole operator sum to 1. x : (batch, n, channels) → same, in
    O(n²·channels). A field of more axes is read row by row. Half precision is solved in float32.

    Parameters
    ----------
    channels : int
        Number of channels, a multiple of `heads`.
    heads : int
        Number of heads.
    gamma : float or "learned"
        0 ≤ γ < 1, where 0 is softmax attention; "learned": one per head, 0.999·sigmoid(g), starting at 0.9.
    causal : bool
        A_{ij} = 0 for j > i; one triangular solve.
    strict : bool
        A_{ii} = 0 as well. Rows then sum to less than 1, and y of the first token is 0.
    positions : {"none", "rope", "alibi"}
        As in `SelfAttention`.
    bidirectional : {"sum", "fixed_point", "dense"}
        What a mixer computes that is not causal.

        * "sum": ½(Y_past + Y_future), A over the tokens up to i and from i on: two triangular solves
        * "fixed_point": A over all tokens, by Z ← A(γZ + (1−γ)V) until γ^T ≤ tolerance, so that ‖Y − Z‖ ≤ tolerance·‖Y‖
          in the largest entry; T = 132 for γ = 0.9 and 1e-6
        * "dense": A over all tokens, by an LU decomposition: O(n³)
    tolerance : float
        Of "fixed_point".

    Raises
    ------
    ValueError
        When heads do not divide channels, for γ outside [0, 1), and for other options.

    References
    ----------
    ChaCAL, arXiv:2410.05565.
    """

    lipschitz_rule = SCORES

    def __init__(
        self,
        channels: int,
        *,
        heads: int = 4,
        gamma: float | Literal["learned"] = 0.9,
        causal: bool = False,
        strict: bool = False,
        positions: Positions = "none",
        bidirectional: Bidirectional = "sum",
        tolerance: float = 1e-6,
    ) -> None:
        super().__init__(channels, causal=causal)
        check_positions(channels, heads, positions)
        check_choice("bidirectional", bidirectional, Bidirectional)
        if gamma != "learned" and (isinstance(gamma, str) or not 0 <= gamma < 1):
            raise ValueError(f"gamma={gamma!r}: expected 0 ≤ γ < 1 or 'learned'")
        if not 0 < tolerance < 1:
            raise ValueError(f"tolerance={tolerance}: expected 0 < tolerance < 1")
        self.heads, self.gamma, self.strict, self.positions = heads, gamma, strict, positions
        self.bidirectional, self.tolerance = bidirectional, tolerance
        self.qkv = nn.Linear(channels, 3 * channels, bias=False)
        self.out = nn.Linear(channels, channels)
        if gamma == "learned":
            self.gate = nn.Parameter(torch.full((heads, 1, 1), math.log(0.9 / (LEARNED_LIMIT - 0.9))))
        if positions == "alibi":
            self.register_buffer("slopes", alibi_slopes(heads), persistent=False)

    def mix(self, x: Tensor, mask: Tensor | None, grid: Any) -> Tensor:
        q, k, v = self._projected(x, None)
        n, gamma = x.shape[1], self._gamma(q)
        at = torch.arange(n, device=x.device)
        i, j = at[:, None], at
        with full_precision(x):
            if self.causal:
                y = self._past(q, k, v, gamma)
            elif self.bidirectional == "sum":
                past = self._past(q, k, v, gamma)
                future = self._attention(q, k, i, j, with_tokens(j >= i + self.strict, mask, i == j))
                y = (past + resolvent(future, v, gamma, "upper")) / 2
            else:
                others = i != j if self.strict else torch.ones(n, n, dtype=torch.bool, device=x.device)
                A = self._attention(q, k, i, j, with_tokens(others, mask, i == j))
                how = "dense" if self.bidirectional == "dense" else iterations(gamma, self.tolerance)
                y = resolvent(A, v, gamma, how)
        return self._merged(y, x)

    def extend(self, x: Tensor, state: Any, mask: Tensor | None) -> tuple[Tensor, Any]:
        lengths, n = lengths_of(x, mask), x.shape[1]
        count = torch.zeros_like(lengths) if state is None else state.count
        longest = 0 if state is None else state.longest
        q, k, v = self._projected(x, count)
        gamma = self._gamma(q)
        own = torch.arange(n, device=x.device)
        at = count[:, None] + own
        past = own[:, None] >= own + self.strict
        with full_precision(x):
            if longest:
                before = torch.arange(longest, device=x.device).expand(x.shape[0], -1)
                known = (before < count[:, None])[:, None].expand(-1, n, -1)
                seen = torch.cat([known, past.expand(x.shape[0], n, n)], -1)
                keys = torch.cat([state.keys[:, :longest].transpose(1, 2).to(k.dtype), k], 2)
                A = self._attention(q, keys, at[..., None], torch.cat([before, at], -1)[:, None], seen)
                A, known = A[..., longest:], A[..., :longest] @ state.z[:, :longest].transpose(1, 2).to(v.dtype)
                y = solve(A, known + (1 - gamma) * (A @ v), gamma, "lower")
            else:
                y = self._past(q, k, v, gamma)
            z = gamma * y + (1 - gamma) * v
        old = (None, None) if state is None else (state.keys, state.z)
        keys, z = (put(before, new.transpose(1, 2), count, longest) for before, new in zip(old, (k, z)))
        return self._merged(y, x), ResolventState(keys, z, count + lengths, longest + n)

    def _past(self, q: Tensor, k: Tensor, v: Tensor, gamma: Tensor | float) -> Tensor:
        """Y with A over the tokens up to i, (batch, heads, n, d)."""
        j = torch.arange(q.shape[2], device=q.device)
        i = j[:, None]
        return resolvent(self._attention(q, k, i, j, i >= j + self.strict), v, gamma, "lower")

    def _gamma(self, like: Tensor) -> Tensor | float:
        if self.gamma == "learned":
            return LEARNED_LIMIT * self.gate.to(like.dtype).sigmoid()
        return self.gamma

    def _projected(self, x: Tensor, first: Tensor | None) -> list[Tensor]:
        """q, k, v (batch, heads, n, d) in the working precision, turned to the positions first … first + n − 1."""
        return [z.transpose(1, 2) for z in projected(self, x, first, working_dtype(x))]

    def _attention(self, q: Tensor, k: Tensor, i: Tensor, j: Tensor, seen: Tensor) -> Tensor:
        """softmax_j(q_i·k_j/√d − slope·|i − j|) over the j that i sees, 0 elsewhere: (batch, heads, n, m).

        q : (batch, heads, n, d), k : (batch, heads, m, d); i, j, seen : broadcast to (n, m) or (batch, n, m)
        """
        i, j, seen = (z if z.ndim <= 2 else z.unsqueeze(1) for z in (i, j, seen))
        scores = (q * q.shape[-1] ** -0.5) @ k.mT
        if self.positions == "alibi":
            scores -= self.slopes.to(scores.dtype) * (i - j).abs()
        A = scores.masked_fill_(~seen, torch.finfo(scores.dtype).min).softmax(-1)
        return A * seen.any(-1, keepdim=True) if self.strict else A  # a row that sees none is 0

    def _merged(self, y: Tensor, x: Tensor) -> Tensor:
        return self.out(y.transpose(1, 2).flatten(-2).to(x.dtype))

    def extra_repr(self) -> str:
        direction = "causal" if self.causal else self.bidirectional
        return f"{self.channels}, heads={self.heads}, gamma={self.gamma}, {direction}, positions={self.positions!r}"


def with_tokens(seen: Tensor, mask: Tensor | None, itself: Tensor) -> Tensor:
    """seen (n, n) among tokens; padding reads itself alone, so that its row is no softmax of nothing."""
    if mask is None:
        return seen
    return torch.where(mask[:, :, None], seen & mask[:, None, :], itself)
