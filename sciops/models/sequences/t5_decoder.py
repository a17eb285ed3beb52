"""T5's decoder: causal self-attention with relative positions, attention to a source, gated feed-forward."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.mixers.sequence import lengths_of, put
from sciops.mixers.softmax_attention import attended
from sciops.models.spine.norms import RMSNorm


class Memory(NamedTuple):
    """Keys and values of the sources in a layer, (sources, heads, m, d), computed once per source."""

    keys: Tensor
    values: Tensor


class LayerState(NamedTuple):
    """Keys and values of the tokens so far, (batch, capacity, heads, d)."""

    keys: Tensor
    values: Tensor


class Rows(NamedTuple):
    """The source of every row of a batch: `each` adjacent rows per source, or `source` (batch,) row by row."""

    each: int = 1
    source: Tensor | None = None

    @classmethod
    def of(cls, source: Tensor, sources: int) -> Rows:
        each = source.shape[0] // max(sources, 1)
        side_by_side = torch.arange(sources, device=source.device).repeat_interleave(each)
        if side_by_side.shape[0] == source.shape[0] and torch.equal(side_by_side, source):
            return cls(each)
        return cls(1, source)


_ONE_EACH = Rows()


class DecoderState(NamedTuple):
    """layers : one `LayerState` a layer. source : (batch,) the source that each sequence belongs to.
    count : (batch,) tokens of each. longest : the largest count."""

    layers: list[LayerState | None]
    source: Tensor
    count: Tensor  # type: ignore[assignment]  # hides the method of tuples
    longest: int


def relative_bucket(apart: Tensor, *, buckets: int = 32, max_distance: int = 128) -> Tensor:
    """The bucket of a key `apart` tokens before its query: apart itself below h = buckets/2, then logarithmic,

        h + ⌊(buckets − h)·log(apart/h)/log(max_distance/h)⌋,  at most buckets − 1;  0 for a key after its query.

    T5's rule for decoders (arXiv:1910.10683). apart : whole numbers; returns int64 of the same shape.
    """
    exact = buckets // 2
    apart = apart.clamp(min=0)
    ratio = (apart.clamp(min=exact).double() / exact).log() / math.log(max_distance / exact)
    far = exact + (ratio * (buckets - exact)).long()
    return torch.where(apart < exact, apart, far.clamp(max=buckets - 1))


class Attention(nn.Module):
    """Attention W_o softmax(s·q kᵀ + b) v with heads of width d and no biases; s = 1 as in T5, or 1/√d if `scaled`."""

    def __init__(self, width: int, heads: int, head_width: int, *, scaled: bool) -> None:
        super().__init__()
        self.heads, self.scale = heads, head_width**-0.5 if scaled else 1.0
        self.q, self.k, self.v = (nn.Linear(width, heads * head_width, bias=False) for _ in range(3))
        self.o = nn.Linear(heads * head_width, width, bias=False)
        # T5 initialises queries smaller by √d instead of the scale
        nn.init.normal_(self.q.weight, std=width**-0.5 * (1.0 if scaled else head_width**-0.5))
        for layer in (self.k, self.v):
            nn.init.normal_(layer.weight, std=width**-0.5)
        nn.init.normal_(self.o.weight, std=(heads * head_width) ** -0.5)

    def projected(self, layer: nn.Linear, x: Tensor) -> Tensor:
        """(batch, n, heads, d)."""
        return layer(x).unflatten(-1, (self.heads, -1))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
        """q, k, v (batch, heads, n or m, d) → (batch, heads, n, d)."""
        return attended(q, k, v, bias=bias, scale=self.scale)

    def across(self, x: Tensor, memory: Memory, bias: Tensor | None, rows: Rows) -> Tensor:
        """Attention of x (batch, n, width) to the sources of its rows; rows of a source are queries of one sequence."""
        q, keys, values = self.projected(self.q, x).transpose(1, 2), *memory
        if rows.source is not None:
            keys, values = keys[rows.source], values[rows.source]
            bias = None if bias is None else bias[rows.source]
        n = q.shape[2]
        q = q.unflatten(0, (-1, rows.each)).transpose(1, 2).flatten(2, 3)
        y = self.attend(q, keys, values, bias)
        y = y.unflatten(2, (rows.each, n)).transpose(1, 2).flatten(0, 1)
        return self.o(y.transpose(1, 2).flatten(-2))


class DecoderBlock(nn.Module):
    """x ← x + self(n₁x);  x ← x + across(n₂x, source);  x ← x + W_o(gelu(W_g n₃x) ⊙ W_i n₃x), RMSNorms without bias."""

    def __init__(self, width: int, hidden: int, heads: int, head_width: int, *, scaled: bool, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (RMSNorm(width) for _ in range(3))
        self.within = Attention(width, heads, head_width, scaled=scaled)
        self.across = Attention(width, heads, head_width, scaled=scaled)
        self.gate, self.value = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.out = nn.Linear(hidden, width, bias=False)
        for layer in (self.gate, self.value):
            nn.init.normal_(layer.weight, std=width**-0.5)
        nn.init.normal_(self.out.weight, std=hidden**-0.5)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        bias: Tensor,
        memory: Memory,
        memory_bias: Tensor | None,
        rows: Rows = _ONE_EACH,
        before: LayerState | None = None,
        state: DecoderState | None = None,
    ) -> tuple[Tensor, LayerState | None]:
        z, after = self.norm1(x), None
        q, k, v = (self.within.projected(layer, z) for layer in (self.within.q, self.within.k, self.within.v))
        if state is not None:
            after = LayerState(
                *(
                    put(before and before[i], new, state.count, state.longest - x.shape[1])
                    for i, new in enumerate((k, v))
                )
            )
            k, v = (z[:, : state.longest] for z in after)
        y = self.within.attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), bias)
        x = x + self.dropout(self.within.o(y.transpose(1, 2).flatten(-2)))
        x = x + self.dropout(self.across.across(self.norm2(x), memory, memory_bias, rows))
        z = self.norm3(x)
        hidden = F.gelu(self.gate(z), approximate="tanh") * self.value(z)
        return x + self.dropout(self.out(hidden)), after


class T5Decoder(nn.Module):
    """The blocks, a bias b_{h, bucket(i − j)} per head shared by all self-attentions, and a last norm.

    * ``forward(x (batch, n, width), memories, memory_bias)`` → (batch, n, width)
    * ``advance(…, state)`` → the same for tokens that follow those of the state, and the state after them
    """

    def __init__(
        self,
        width: int,
        depth: int,
        *,
        hidden: int,
        heads: int,
        head_width: int,
        buckets: int,
        max_distance: int,
        scaled: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.positions = nn.Embedding(buckets, heads)
        nn.init.normal_(self.positions.weight, std=width**-0.5)
        self.blocks: Any = nn.ModuleList(
            DecoderBlock(width, hidden, heads, head_width, scaled=scaled, dropout=dropout) for _ in range(depth)
        )
        self.norm = RMSNorm(width)

    def memories(self, encoded: Tensor) -> list[Memory]:
        """Keys and values of every layer, for encoded sources (sources, m, width)."""
        return [
            Memory(*(b.across.projected(layer, encoded).transpose(1, 2) for layer in (b.across.k, b.across.v)))
            for b in self.blocks
        ]

    def forward(self, x: Tensor, memories: list[Memory], memory_bias: Tensor | None) -> Tensor:
        at = torch.arange(x.shape[1], device=x.device)
        bias = self.bias(at, at).to(x.dtype).unsqueeze(0)  # with fewer axes torch uses none of its fused kernels
        for block, memory in zip(self.blocks, memories):
            x, _ = block(x, bias, memory, memory_bias)
        return self.norm(x)

    def advance(
        self,
        x: Tensor,
        memories: list[Memory],
        memory_bias: Tensor | None,
        state: DecoderState | None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, DecoderState]:
        if state is None:
            first = torch.arange(x.shape[0], device=x.device)
            state = DecoderState([None] * len(self.blocks), first, torch.zeros_like(first), 0)
        longest = state.longest + x.shape[1]
        now = state._replace(longest=longest)
        at = state.count[:, None] + torch.arange(x.shape[1], device=x.device)
        bias = self.bias(at, torch.arange(longest, device=x.device)).to(x.dtype)
        rows = Rows.of(state.source, len(memories[0].keys)) if memories else _ONE_EACH
        layers = []
        for block, memory, before in zip(self.blocks, memories, state.layers):
            x, after = block(x, bias, memory, memory_bias, rows, before, now)
            layers.append(after)
        return self.norm(x), DecoderState(layers, state.source, state.count + lengths_of(x, mask), longest)

    def bias(self, at: Tensor, of_keys: Tensor) -> Tensor:
        """b of queries at `at` (…, n) and keys at `of_keys` (m,), −∞ for later keys: (…, heads, n, m)."""
        apart = at[..., :, None] - of_keys
        bucket = relative_bucket(apart, buckets=self.positions.num_embeddings, max_distance=self.max_distance)
        return self.positions(bucket).movedim(-1, -3).masked_fill((apart < 0).unsqueeze(-3), -torch.inf)
