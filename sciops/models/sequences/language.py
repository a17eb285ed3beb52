"""`LanguageModel`: tokens in, logits of the next token out, with any causal mixer, and states to go on from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.models.sequences.stack import BlockState, SequenceStack
from sciops.models.sequences.tokens import check_depths, check_positive, embedded, of_last
from sciops.models.spine.operator import description

_SPREAD = 0.02  # standard deviation of GPT-2's initial weights


class LanguageState(NamedTuple):
    """blocks : one state a block. count : (batch,) tokens seen of each sequence."""

    blocks: list[BlockState]
    count: Tensor


class LanguageModel(nn.Module):
    """logits_t = E·(norm ∘ B_depth ∘ … ∘ B_1)(E[w_1] + p_1, …, E[w_t] + p_t)_t: the next token after w_1 … w_t.

    symbols : how many different tokens there are
    width, depth, mixer, mixer_options, norm, mlp_ratio, local, dropout : of the causal `SequenceStack`; several mixers
        alternate block by block
    positions : what p is. "none": mixers that know order do so by themselves (recurrences; attention with "rope" or
        "alibi" as its own option); "sinusoidal" (arXiv:1706.03762), for any length, of the size of the
        embedding at the start; "learned", for at most `longest` tokens
    longest : tokens that learned positions reach to
    tied : the output uses the rows of the embedding (arXiv:1608.05859); False gives it weights of its own

    forward(tokens (batch, n), mask=None) → logits (batch, n, symbols)
    prefill(tokens (batch, n), states=None, *, mask=None, last=False) → logits, states : a stretch after what the states
        have seen; last=True gives the logits after the last token of each sequence alone, (batch, symbols)
    step(tokens (batch,), states=None) → logits (batch, symbols), states : one token

    with prefill(w[:, :k]), then prefill or steps through w[:, k:], equal to forward(w). mask : (batch, n), True where
    there is a token; padding stands at the end, its tokens are not read and its logits mean nothing. States that were
    passed on are spent, as `SequenceMixer` says.

    Weights start as GPT-2's: normal of deviation 0.02, in the last map of each of the R branches that are added to the
    residual stream 0.02/√R, biases 0. What else is inside a mixer keeps the mixer's own initial values.

    Raises ValueError for sizes and names that do not fit, tokens that are not whole numbers (batch, n), and sequences
    beyond `longest`; TypeError for unknown mixer options.
    """

    def __init__(
        self,
        symbols: int,
        *,
        width: int = 128,
        depth: int = 4,
        mixer: str | Sequence[str] = "self_attention",
        mixer_options: Mapping[str, Any] | None = None,
        norm: str = "rms",
        mlp_ratio: float = 2.0,
        local: int = 0,
        dropout: float = 0.0,
        positions: Literal["none", "sinusoidal", "learned"] = "none",
        longest: int | None = None,
        tied: bool = True,
    ) -> None:
        super().__init__()
        check_positive(symbols=symbols, width=width, **({} if longest is None else {"longest": longest}))
        check_depths(depth=depth)
        if positions not in ("none", "sinusoidal", "learned"):
            raise ValueError(f"positions={positions!r}: expected 'none', 'sinusoidal' or 'learned'")
        if (longest is not None) != (positions == "learned"):
            raise ValueError(
                f"positions={positions!r} with longest={longest!r}: learned positions need longest, the most tokens of "
                "a sequence, and others have no such limit"
            )
        self.symbols, self.positions, self.longest = symbols, positions, longest
        self.embedding = nn.Embedding(symbols, width)
        self.position = nn.Embedding(longest, width) if positions == "learned" else None
        self.dropout = nn.Dropout(dropout)
        self.stack = SequenceStack(
            width,
            depth,
            mixer=mixer,
            mixer_options=mixer_options,
            causal=True,
            norm=norm,
            mlp_ratio=mlp_ratio,
            local=local,
            dropout=dropout,
        )
        self.head = None if tied else nn.Linear(width, symbols, bias=False)
        self._initialise()
        names = (mixer,) if isinstance(mixer, str) else tuple(mixer)
        self.config = description(
            "language",
            symbols=symbols,
            width=width,
            depth=depth,
            mixer=names[0] if len(names) == 1 else names,
            mixer_options=_without_causal(self.stack.mixer_options, names),
            norm=norm,
            mlp_ratio=mlp_ratio,
            local=local,
            dropout=dropout,
            positions=positions,
            longest=longest,
            tied=tied,
        )

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
        # where nothing came before, the shape tells, and a GPU need not wait
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


def _without_causal(options: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """The options as they were given: one dict for one mixer, by name for several; the stack adds `causal`."""
    kept = {name: {k: v for k, v in given.items() if k != "causal"} for name, given in options.items()}
    return kept[names[0]] if len(set(names)) == 1 else kept
