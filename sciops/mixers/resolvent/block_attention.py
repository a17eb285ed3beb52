"""`BlockResolventAttention`: the resolvent of attention block by block, or of an attention that is cheaper to solve."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.mixers.bounds import SCORES
from sciops.mixers.checks import check_choice
from sciops.mixers.precision import full_precision
from sciops.mixers.resolvent.attention import Bidirectional, ResolventAttention
from sciops.mixers.resolvent.block_decoding import prefilled, stepped
from sciops.mixers.resolvent.block_exact import exact
from sciops.mixers.resolvent.block_layout import backwards, block_size, in_blocks, tile_order
from sciops.mixers.resolvent.block_routes import Blocks, routes_of
from sciops.mixers.resolvent.block_solve import Routes, applied, lifted, reduced, spread, structured_solve, summaries
from sciops.mixers.resolvent.dense import iterations, solve, unstable
from sciops.mixers.sequence.base import lengths_of
from sciops.mixers.sequence.self_attention import Positions

Level = Literal[0, 1, 2]
Combine = Literal["woodbury", "additive"]
Query = Literal["first", "prev", "mean", None]
Summary = Literal["mean", "learned"]


class BlockResolventAttention(ResolventAttention):
    """`ResolventAttention` block by block, exact at level 0, or with a structured attention matrix that is cheaper to
    solve.

    Y = (1−γ) A (I − γA)⁻¹ V in blocks of m tokens, with the rows of every A summing to 1:

    * level 0: A in full, solved block after block: the numbers of `ResolventAttention` for half its work and O(mn)
      memory
    * level 1: A = D + ρ C W. D is (1−ρ)·softmax over the tokens of the own block; W, the mean of a block; C, softmax of
      the query of a block over the keys of earlier blocks; ρ = sigmoid, a gate per token and head, 0 where there are no
      earlier blocks. O(nmd + (n/m)²d), that is n^{4/3}d for m = n^{1/3}
    * level 2: A = D + E W with one softmax over own tokens and earlier blocks. O(nmd + n²d/m), n^{3/2}d for m = √n

    Parameters
    ----------
    channels, heads, gamma, causal, positions, tolerance
        As in `ResolventAttention`.
    level : {0, 1, 2}
        Structure of A.
    block : int or "auto"
        m; "auto" is n^{1/3} at level 1, √n at level 2, 128 to 256 at level 0. At levels 1 and 2 the result for a token
        then depends on the length of its sequence too, and decoding needs a number.
    overlap : bool
        Tokens of the block before are read one by one as well: links up to m tokens back are exact wherever the borders
        of blocks lie. Solved block after block, at the same order of work.
    reduced : bool
        Whether tokens receive the summaries of earlier blocks. False leaves the reduced system out, an ablation: the
        tiles alone, with `overlap` and those before them; levels 1 and 2 are then the same operator.
    combine : {"woodbury", "additive"}
        "additive": S_γ(D) V plus the part of blocks alone, without paths that go through both.
    query : {"first", "prev", "mean"}, optional
        Query of a block at level 1: "first", of its first token, the default where causal; "prev", the mean of the
        block before; "mean", of its own tokens, which lets a token read later ones: for bidirectional mixers, their
        default.
    summary : {"mean", "learned"}
        W; "learned" is the softmax of a linear score of the tokens.
    bidirectional : {"sum", "fixed_point", "dense"}
        "sum": ½(past + future), each causal. "fixed_point" and "dense": D has whole tiles, inverted by LU, C or E have
        all other blocks, and the reduced system is solved by iterations or by LU.

    Raises
    ------
    ValueError
        As `ResolventAttention`, and for options that exclude each other.

    Notes
    -----
    Levels 1 and 2 are solved exactly by Woodbury's formula through a system with one row per block. Fields of more axes
    are cut into tiles, and their tokens ordered tile by tile; positions count along that order.

    References
    ----------
    The split into blocks and a reduced system, arXiv:2605.22476; the algebra is not taken from it.
    """

    lipschitz_rule = SCORES

    def __init__(
        self,
        channels: int,
        *,
        heads: int = 4,
        gamma: float | Literal["learned"] = 0.9,
        level: Level = 1,
        block: int | Literal["auto"] = "auto",
        overlap: bool = False,
        reduced: bool = True,
        combine: Combine = "woodbury",
        query: Query = None,
        summary: Summary = "mean",
        causal: bool = False,
        positions: Positions = "none",
        bidirectional: Bidirectional = "sum",
        tolerance: float = 1e-6,
    ) -> None:
        super().__init__(
            channels,
            heads=heads,
            gamma=gamma,
            causal=causal,
            positions=positions,
            bidirectional=bidirectional,
            tolerance=tolerance,
        )
        for name, value, choices in (
            ("level", level, Level),
            ("combine", combine, Combine),
            ("query", query, Query),
            ("summary", summary, Summary),
        ):
            check_choice(name, value, choices)
        if block != "auto" and (not isinstance(block, Integral) or block < 1):
            raise ValueError(f"block={block!r}: expected a positive whole number of tokens or 'auto'")
        if causal and query == "mean":
            raise ValueError("query='mean' lets a token see later ones of its block: pass 'first' or 'prev'")
        if not reduced and level == 0:
            raise ValueError("reduced=False at level 0, which has no reduced system: pass level=1 or level=2")
        if overlap and not causal and bidirectional != "sum":
            raise ValueError(f"overlap=True goes block after block: pass bidirectional='sum', not {bidirectional!r}")
        self.level, self.block, self.overlap, self.combine = level, block, overlap, combine
        self.reduced = reduced
        self.query, self.summary = query or ("first" if causal else "mean"), summary
        if level == 1:
            self.lift = nn.Linear(channels, heads)
            nn.init.constant_(self.lift.bias, -1.0)
        if level and summary == "learned":
            self.score = nn.Linear(channels, heads, bias=False)

    def mix(self, x: Tensor, mask: Tensor | None, grid: Any) -> Tensor:
        if self.level == 0 and not self.causal and self.bidirectional != "sum":
            return super().mix(x, mask, grid)
        if self.level == 0 or self.block != "auto" or mask is None or not x.shape[0]:
            return self._mixed(x, mask, block_size(self.block, self.level, x.shape[1]))
        # the block belongs to a sequence's own length, whatever it is padded to
        rows_of: dict[int, list[int]] = {}
        lengths = lengths_of(x, mask).tolist()
        for row, n in enumerate(lengths):
            rows_of.setdefault(block_size("auto", self.level, n), []).append(row)
        parts = []
        for m, rows in rows_of.items():
            at, longest = torch.tensor(rows, device=x.device), max(1, *(lengths[row] for row in rows))
            part = self._mixed(x[at, :longest], mask[at, :longest], m)
            parts.append(F.pad(part, (0, 0, 0, x.shape[1] - part.shape[1])))
        order = torch.tensor([row for rows in rows_of.values() for row in rows], device=x.device)
        return torch.cat(parts)[order.argsort()]

    def mix_grid(self, x: Tensor, grid: Any) -> Tensor:
        if self.level == 0:
            return super().mix_grid(x, grid)
        shape = x.shape[1:-1]
        order = tile_order(shape, block_size(self.block, self.level, shape.numel()), x.device)
        there = order >= 0
        tokens = x.flatten(1, -2)[:, order.clamp_min(0).flatten()]
        y = self._mixed(tokens, None, order.shape[1], there[None, None])
        places = order.flatten().argsort()[-shape.numel() :]  # −1 comes first
        return y[:, places].reshape(x.shape)

    def extend(self, x: Tensor, state: Any, mask: Tensor | None) -> tuple[Tensor, Any]:
        return super().extend(x, state, mask) if self.level == 0 else prefilled(self, x, state, mask)

    def advance(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        return super().advance(x, state) if self.level == 0 or state is None else stepped(self, x, state)

    def _mixed(self, x: Tensor, mask: Tensor | None, m: int, there: Tensor | None = None) -> Tensor:
        """there : (1, 1, K, m), which of the tokens stand for one, where they are tiles; with a mask they are all."""
        q, k, v = self._projected(x, None)
        gamma, gate, score = self._gamma(q), *self.gates(x, q.dtype)
        lengths, tiled = lengths_of(x, mask), there is not None

        def causal(q: Tensor, k: Tensor, v: Tensor, gate: Tensor, score: Tensor, there: Tensor | None) -> Tensor:
            if self.level == 0:
                return self._past(q, k, v, gamma)
            return self._structured(q, k, v, gate, score, there, m, "lower")

        if not self.causal and there is None:
            there = in_blocks(torch.arange(x.shape[1], device=x.device) < lengths[:, None, None], m)
        with full_precision(x):
            parts = (q, k, v, gate, score)
            if self.causal:
                y = causal(*parts, there)
            elif self.bidirectional == "sum":
                turned = [backwards(z, lengths) for z in parts]
                future = causal(*turned, there.flip(2, 3) if tiled else there)
                y = (causal(*parts, there) + backwards(future, lengths)) / 2
            else:
                how = "dense" if self.bidirectional == "dense" else iterations(gamma, self.tolerance)
                y = self._structured(*parts, there, m, how)
        return self._merged(y, x)

    def _past(self, q: Tensor, k: Tensor, v: Tensor, gamma: Tensor | float) -> Tensor:
        # of level 0 alone
        slopes = self.slopes if self.positions == "alibi" else None
        return exact(q, k, v, gamma, block=block_size(self.block, 0, q.shape[2]), slopes=slopes)

    def _structured(
        self, q: Tensor, k: Tensor, v: Tensor, gate: Tensor, score: Tensor, there: Tensor | None, m: int, how: str | int
    ) -> Tensor:
        n = q.shape[2]
        q, k, v, gate, score = (in_blocks(z, m) for z in (q, k, v, gate, score))
        routes, _, _ = routes_of(
            Blocks(q, k, gate, score, there),
            level=self.level,
            causal=how == "lower",
            overlap=self.overlap,
            reduced=self.reduced,
            query=self.query,
            slopes=self.slopes if self.positions == "alibi" else None,
        )
        y, _, _ = self.solved(routes, v, how=how)
        return y.flatten(2, 3)[:, :, :n]

    def solved(
        self,
        routes: Routes,
        v: Tensor,
        *,
        how: str | int,
        past: Tensor | None = None,
        known: tuple[Tensor, Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Y, X and U (batch, heads, K, m, d) from values v of that shape; X is what tokens pass on, U what blocks do.

        past : what blocks before these give (`routes_of`)
        known : which tokens' X and U are known (batch, 1, K, m), and these
        """
        gamma = self._gamma(v)
        wide = gamma.unsqueeze(-1) if isinstance(gamma, Tensor) else gamma
        which, known_x, known_u = known if known is not None else (None, None, None)

        def given(new: Tensor, old: Tensor | None) -> Tensor:
            return new if which is None else torch.where(which.unsqueeze(-1), old, new)

        def with_past(z: Tensor, lift: Tensor | None, rate: Tensor | float) -> Tensor:
            return z if past is None else z + rate * lifted(lift, past)

        if self.combine == "woodbury":
            x = structured_solve(routes, given(with_past(v, routes.lift, wide), known_x), wide, how)
            if unstable(gamma):
                return (1 - wide) * with_past(applied(routes, x), routes.lift, 1), x, x
            return (x - v) * ((1 - gamma) / gamma), x, x
        alone, coarse = routes._replace(far=torch.zeros_like(routes.far)), routes
        if self.level == 1:  # blocks pass on what they have without the tokens' gates
            free = torch.ones_like(routes.lift) if which is None else (~which).to(v.dtype).expand_as(routes.lift)
            coarse = routes._replace(lift=free)
        x = structured_solve(alone, given(v, known_x), wide, how)
        u = given(with_past(v, coarse.lift, wide), known_u)
        s = solve(reduced(coarse, routes.weights), summaries(routes.weights, u), gamma, how)
        y = applied(alone, x) + with_past(spread(routes, s), routes.lift, 1)
        return (1 - wide) * y, x, u + wide * spread(coarse, s)

    def gates(self, x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """(batch, heads, n) each: a token's ρ before its sigmoid, its weight in the summary before the softmax."""
        none = x.new_zeros(*x.shape[:2], self.heads)
        gate = self.lift(x) if self.level == 1 else none
        score = self.score(x) if self.level and self.summary == "learned" else none
        return gate.mT.to(dtype), score.mT.to(dtype)

    def extra_repr(self) -> str:
        block = f"level={self.level}, block={self.block}, overlap={self.overlap}, combine={self.combine!r}"
        if not self.reduced:
            block += ", reduced=False"
        return f"{super().extra_repr()}, {block}"


def multiply_adds(
    n: int, *, channels: int, heads: int, level: int, block: int, overlap: bool = False
) -> dict[str, int]:
    """Number of multiply-adds of one causal forward pass over a sequence, by the formulas, without projections.

    Blocks count as whole, the last one too. level −1 counts `ResolventAttention`: all scores of the matrix, AV left
    out, and one triangular solve.

    Returns
    -------
    dict
        "scores", queries with keys; "local", solving with the tiles; "blocks", summaries and the reduced system;
        "total".
    """
    d = channels // heads
    if level == -1:
        parts = {"scores": n * n * d, "local": n * (n + 1) // 2 * d, "blocks": 0}
    else:
        m, k = block, -(-n // block)
        triangle, pairs = m * (m + 1) // 2, k * (k - 1) // 2
        if level == 0:
            parts = {"scores": (m * m * (pairs + k)) * d, "local": (m * m * pairs + 2 * k * triangle) * d, "blocks": 0}
        else:
            seen = k + (k - 1) * overlap
            local = k * triangle * (1 + d) + (k - 1) * overlap * m * m * d
            rows = 1 if level == 1 else m
            far = rows * pairs * d + k * m * d  # E s or C s, and W X
            reduced_system = (k * m if level == 1 else m * pairs) + pairs * d
            parts = {"scores": (seen * m * m + rows * pairs) * d, "local": local, "blocks": far + reduced_system}
    counted = {name: heads * count for name, count in parts.items()}
    return counted | {"total": sum(counted.values())}
