"""`LanguageModel`: logits of the next token, with any causal sequence mixer and decoding states."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.models.sequences.stack import BlockState, SequenceStack, StackOptions
from sciops.models.sequences.tokens import embedded, of_last
from sciops.models.spine import description
from sciops.models.summary import model_text
from sciops.options import Count, CountOrZero, part_of, read_options

_SPREAD = 0.02  # standard deviation of GPT-2's initial weights


class LanguageState(NamedTuple):
    """blocks : one state a block. count : (batch,) tokens seen of each sequence."""

    blocks: list[BlockState]
    count: Tensor  # type: ignore[assignment]  # hides the method of tuples


@dataclass(frozen=True, kw_only=True)
class LanguageOptions(StackOptions):
    """Options of `LanguageModel`: those of its causal `SequenceStack`, and

    Parameters
    ----------
    symbols : int
        Number of different tokens.
    width, depth : int
        Number of channels and of blocks.
    positions : str
        What p is. "none": the mixer is order-aware by itself (recurrences; attention with its own option "rope" or
        "alibi"). "sinusoidal" (arXiv:1706.03762): for any length, initially of the size of the embedding. "learned":
        for at most `longest` tokens.
    longest : int, optional
        Number of learned positions.
    tied : bool
        The output uses the rows of the embedding (arXiv:1608.05859); False gives it weights of its own.
    """

    symbols: Count
    width: Count = 128
    depth: CountOrZero = 4
    positions: Literal["none", "sinusoidal", "learned"] = "none"
    longest: Count | None = None
    tied: bool = True


class LanguageModel(nn.Module):
    """Logits of the next token after w_1 … w_t, E·(norm ∘ B_depth ∘ … ∘ B_1)(E[w_1] + p_1, …, E[w_t] + p_t)_t.

    * ``forward(tokens (batch, n), mask=None)`` → logits (batch, n, symbols)
    * ``prefill(tokens (batch, n), states=None, *, mask=None, last=False)`` → logits, states: a segment after what the
      states have seen; last=True gives only the logits after the last token of each sequence, (batch, symbols)
    * ``step(tokens (batch,), states=None)`` → logits (batch, symbols), states: one token

    prefill(w[:, :k]), then prefill or steps through w[:, k:], equal forward(w). The mask (batch, n) is True where there
    is a token; padding stands at the end, its tokens are not read and its logits are undefined. States passed in may be
    overwritten in place, see `SequenceMixer`.

    Weights are initialised as in GPT-2: normal with deviation 0.02, in the last map of each of the R branches that are
    added to the residual stream 0.02/√R, biases 0. Other weights inside a mixer keep the mixer's own initial values.

    Parameters
    ----------
    symbols : int
        Number of different tokens.
    **options
        The other fields of `LanguageOptions`.

    Raises
    ------
    ValueError
        For sizes and names that do not fit, tokens that are not whole numbers (batch, n), and sequences of more than
        `longest` tokens.
    TypeError
        For an unknown option, of the model or of a mixer.
    """

    __repr__ = model_text

    def __init__(self, symbols: int, **options: Any) -> None:
        super().__init__()
        o = read_options(LanguageOptions, "language", dict(options, symbols=symbols))
        if (o.longest is not None) != (o.positions == "learned"):
            raise ValueError(
                f"positions={o.positions!r} with longest={o.longest!r}: learned positions need longest, the largest "
                "number of tokens of a sequence; the others have no such limit"
            )
        self.longest: Any = o.longest
        self.symbols, self.positions = symbols, o.positions
        self.embedding = nn.Embedding(symbols, o.width)
        self.position: Any = None if o.longest is None else nn.Embedding(o.longest, o.width)
        self.dropout = nn.Dropout(o.dropout)
        self.stack = SequenceStack(o.width, o.depth, causal=True, **part_of(o, StackOptions))
        self.head = None if o.tied else nn.Linear(o.width, symbols, bias=False)
        self._initialise()
        self.config = description("language", replace(o, **vars(self.stack.options)))

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        return self._logits(self.stack(self._embedded(tokens, mask, None), mask))

    def prefill(
        self,
        tokens: Tensor,
        states: LanguageState | None = None,
        *,
        mask: Tensor | None = None,
        last: bool = False,
    ) -> tuple[Tensor, LanguageState]:
        x = self._embedded(tokens, mask, None if states is None else states.count)
        h, blocks = self.stack.prefill(x, None if states is None else states.blocks, mask=mask)
        new = tokens.new_full(tokens.shape[:1], tokens.shape[1]) if mask is None else mask.sum(1)
        h = of_last(h, mask) if last else h
        return self._logits(h), LanguageState(blocks, new if states is None else states.count + new)

    def step(self, tokens: Tensor, states: LanguageState | None = None) -> tuple[Tensor, LanguageState]:
        if tokens.ndim != 1:
            raise ValueError(f"tokens have shape {tuple(tokens.shape)}: expected (batch,), one a sequence")
        count = torch.zeros_like(tokens) if states is None else states.count
        x = self._embedded(tokens.unsqueeze(1), None, count).squeeze(1)
        h, blocks = self.stack.step(x, None if states is None else states.blocks)
        return self._logits(h), LanguageState(blocks, count + 1)

    def _embedded(self, tokens: Tensor, mask: Tensor | None, count: Tensor | None) -> Tensor:
        x = embedded(self.embedding, tokens, mask)
        if self.positions == "none":
            return self.dropout(x)
        at = torch.arange(tokens.shape[1], device=tokens.device)
        if count is not None:
            at = at + count[:, None]
        if self.positions == "sinusoidal":
            return self.dropout(x + self._waves(at).to(x.dtype))
        if mask is not None:
            at = torch.where(mask, at, 0)
        # without earlier tokens the shape suffices, and a GPU need not be synchronised
        if (count is not None or tokens.shape[1] > self.longest) and at.numel() and int(at.max()) >= self.longest:
            raise ValueError(
                f"a sequence of {int(at.max()) + 1} tokens: learned positions reach to longest={self.longest}"
            )
        return self.dropout(x + self.position(at).to(x.dtype))

    def _waves(self, at: Tensor) -> Tensor:
        """Sinusoidal p at the positions `at`, counted from 0."""
        width = self.embedding.embedding_dim
        rates = 10_000.0 ** (-2 * torch.arange(-(-width // 2), device=at.device, dtype=torch.float64) / width)
        angles = at[..., None].double() * rates
        waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., :width]
        return math.sqrt(2) * _SPREAD * waves

    def _logits(self, h: Tensor) -> Tensor:
        return F.linear(h, self.embedding.weight) if self.head is None else self.head(h)

    @torch.no_grad()
    def _initialise(self) -> None:
        nn.init.normal_(self.embedding.weight, std=_SPREAD)
        for extra in (self.position, self.head):
            if extra is not None:
                nn.init.normal_(extra.weight, std=_SPREAD)
        branches = sum(2 + (block.local is not None) for block in self.stack.blocks)
        for block in self.stack.blocks:
            inner = [block.mlp_in, block.mlp_gate]
            last = [block.mlp_out]
            if isinstance(getattr(block.mixer, "out", None), nn.Linear):  # the last map of a mixer, by agreement
                last.append(block.mixer.out)
            for layer in inner + last:
                nn.init.normal_(layer.weight, std=_SPREAD / (math.sqrt(branches) if layer in last else 1))
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
            if block.local is not None:
                block.local.weight.div_(math.sqrt(branches))
