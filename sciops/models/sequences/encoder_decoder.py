"""`EncoderDecoder`: a sequence in, another one out, with any mixer in the encoder and a decoder of T5's kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.mixers.sequence import only_tokens
from sciops.models.apply import evaluating
from sciops.models.sequences.generation import Generated, _check_count, beam_search, generate
from sciops.models.sequences.language import _without_causal
from sciops.models.sequences.stack import SequenceStack
from sciops.models.sequences.t5_decoder import DecoderState, T5Decoder
from sciops.models.sequences.tokens import check_depths, check_positive, embedded, of_last
from sciops.models.spine.blocks import hidden_width
from sciops.models.spine.operator import description


class EncoderDecoder(nn.Module):
    """p(y | x) = Π_t softmax(logits_t)[y_t] with logits_t = E·D(start, y_1 … y_{t−1}; S(x)): a target y of a source x.

    S is a bidirectional `SequenceStack`, with "state_space" that of LOCOST (arXiv:2401.17919) but for feed-forward maps
    with biases and the exact GELU; D is T5's decoder (arXiv:1910.10683): no biases, gated GELU (tanh form), RMSNorm,
    and one table of biases by head and relative position that all its layers share. E embeds source and target.

    symbols : how many different tokens there are
    width, encoder_depth, decoder_depth, mlp_ratio : of both sides
    mixer, mixer_options, local : of the encoder; several mixers alternate block by block. Mixers that do not know order
        by themselves need an option that tells it, as attention's positions="rope"
    heads, head_width : of the decoder; head_width is width/heads where None
    buckets, max_distance : of relative positions; keys further back than max_distance are one bucket
    scaled : scores times 1/√head_width. T5 has none, and starts with queries that much smaller
    tied : logits are E h/√width, as T5's; else a map of its own, which starts with that spread
    dropout : of embedded tokens and of every branch, in training
    start, end : the token before a target, and that which ends one

    forward(source (batch, m), target_in (batch, n), source_mask=None, target_mask=None) → logits (batch, n, symbols)

    where `target_in` is `shifted(target)`. Masks are True where there is a token; padding stands at the end, is not
    read, and its logits are 0. Weights of the decoder start as T5's, the embedding with deviation 1.

    Raises ValueError for sizes, names and tokens that do not fit.
    """

    def __init__(
        self,
        symbols: int,
        *,
        width: int = 128,
        encoder_depth: int = 2,
        decoder_depth: int = 2,
        mixer: str | Sequence[str] = "state_space",
        mixer_options: Mapping[str, Any] | None = None,
        local: int = 0,
        mlp_ratio: float = 2.0,
        heads: int = 4,
        head_width: int | None = None,
        buckets: int = 32,
        max_distance: int = 128,
        scaled: bool = False,
        tied: bool = True,
        dropout: float = 0.0,
        start: int = 0,
        end: int = 1,
    ) -> None:
        super().__init__()
        check_positive(symbols=symbols, width=width, heads=heads, head_width=1 if head_width is None else head_width)
        check_depths(encoder_depth=encoder_depth, decoder_depth=decoder_depth)
        _check_options(symbols, width, heads, head_width, buckets, max_distance, start, end)
        self.symbols, self.start, self.end = symbols, start, end
        self.embedding = nn.Embedding(symbols, width)  # torch's own deviation of 1 is T5's
        self.dropout = nn.Dropout(dropout)
        self.encoder = SequenceStack(
            width,
            encoder_depth,
            mixer=mixer,
            mixer_options=mixer_options,
            mlp_ratio=mlp_ratio,
            local=local,
            dropout=dropout,
        )
        self.decoder = T5Decoder(
            width,
            decoder_depth,
            hidden=hidden_width(mlp_ratio, width),
            heads=heads,
            head_width=width // heads if head_width is None else head_width,
            buckets=buckets,
            max_distance=max_distance,
            scaled=scaled,
            dropout=dropout,
        )
        self.head = None if tied else nn.Linear(width, symbols, bias=False)
        if self.head is not None:
            nn.init.normal_(self.head.weight, std=width**-0.5)
        names = (mixer,) if isinstance(mixer, str) else tuple(mixer)
        self.config = description(
            "encoder_decoder",
            symbols=symbols,
            width=width,
            encoder_depth=encoder_depth,
            decoder_depth=decoder_depth,
            mixer=names[0] if len(names) == 1 else names,
            mixer_options=_without_causal(self.encoder.mixer_options, names),
            local=local,
            mlp_ratio=mlp_ratio,
            heads=heads,
            head_width=head_width,
            buckets=buckets,
            max_distance=max_distance,
            scaled=scaled,
            tied=tied,
            dropout=dropout,
            start=start,
            end=end,
        )

    def forward(
        self,
        source: Tensor,
        target_in: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
    ) -> Tensor:
        if source.shape[0] != target_in.shape[0]:
            raise ValueError(
                f"{source.shape[0]} sources and {target_in.shape[0]} targets: expected one target a source"
            )
        encoded = self.encode(source, source_mask)
        x = self.embedded(target_in, target_mask)
        h = self.decoder(x, self.decoder.memories(encoded), _memory_bias(source_mask, encoded.dtype))
        return self.logits(h, target_mask)

    def encode(self, source: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """States of the source, (batch, m, width); 0 at padding."""
        h = self.encoder(self.embedded(source, source_mask), source_mask)
        return only_tokens(h, source_mask)

    def given(self, source: Tensor, source_mask: Tensor | None = None) -> GivenSource:
        """The decoder of these sources, with `prefill` and `step`; the sources are encoded here, once."""
        return GivenSource(self, self.encode(source, source_mask), source_mask)

    def generate(
        self,
        source: Tensor,
        *,
        tokens: int,
        source_mask: Tensor | None = None,
        beams: int = 1,
        length_power: float = 1.0,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        generator: torch.Generator | None = None,
    ) -> Generated:
        """A target of at most `tokens` tokens for each source, ended by the token `end`.

        beams : 1 takes the likeliest token at temperature 0 and draws above it, as `sciops.models.generate`;
            more look for the likeliest targets, as its `beam_search` with `length_power`, and return all beams, the
            best one first: tokens (batch, beams, tokens)

        Raises ValueError for beams together with what draws.
        """
        _check_count("beams", beams)
        draws = temperature != 0 or top_k is not None or top_p is not None
        if beams > 1 and draws:
            raise ValueError(f"beams={beams} look for the likeliest target: pass no temperature, top_k and top_p")
        with torch.no_grad(), evaluating(self):
            given = self.given(source, source_mask)
            start = torch.full((source.shape[0], 1), self.start, dtype=torch.int64, device=source.device)
            if beams > 1:
                return beam_search(given, start, tokens=tokens, beams=beams, stop=self.end, length_power=length_power)
            return generate(
                given,
                start,
                tokens=tokens,
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                stop=self.end,
                generator=generator,
            )

    def shifted(self, target: Tensor) -> Tensor:
        """(start, target_1, …, target_{n−1}) of targets (batch, n): what the decoder reads to predict them."""
        return F.pad(target[:, :-1], (1, 0), value=self.start)

    def embedded(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        return self.dropout(embedded(self.embedding, tokens, mask))

    def logits(self, h: Tensor, mask: Tensor | None = None) -> Tensor:
        """(batch, n, symbols) of decoder states h."""
        if self.head is None:
            z = F.linear(h * self.embedding.embedding_dim**-0.5, self.embedding.weight)
        else:
            z = self.head(h)
        return only_tokens(z, mask)


class GivenSource(nn.Module):
    """A decoder whose sources are encoded: tokens in, logits of the next one out, as a `LanguageModel` has them.

    prefill(tokens (batch, n), states=None, *, mask=None, last=False) → logits (batch, n, symbols), states; last=True
        gives those after the last token alone, (batch, symbols)
    step(tokens (batch,), states=None) → logits (batch, symbols), states

    Sequence b starts as that of source b. Its keys and values for the sources are computed once and stay here, so that
    `selected(states, rows)` moves what was decoded alone. States that were passed on are spent.
    """

    def __init__(self, model: EncoderDecoder, encoded: Tensor, source_mask: Tensor | None) -> None:
        super().__init__()
        self.model, self.sources = model, len(encoded)
        self.memories = model.decoder.memories(encoded)
        self.memory_bias = _memory_bias(source_mask, encoded.dtype)

    def prefill(
        self,
        tokens: Tensor,
        states: DecoderState | None = None,
        *,
        mask: Tensor | None = None,
        last: bool = False,
    ) -> tuple[Tensor, DecoderState]:
        x = self.model.embedded(tokens, mask)
        if states is None and tokens.shape[0] > self.sources:
            raise ValueError(
                f"{tokens.shape[0]} sequences of {self.sources} sources: expected one of each to start with"
            )
        h, states = self.model.decoder.advance(x, self.memories, self.memory_bias, states, mask)
        logits = self.model.logits(of_last(h, mask)) if last else self.model.logits(h, mask)
        return logits, states

    def step(self, tokens: Tensor, states: DecoderState | None = None) -> tuple[Tensor, DecoderState]:
        if tokens.ndim != 1:
            raise ValueError(f"tokens have shape {tuple(tokens.shape)}: expected (batch,), one a sequence")
        logits, states = self.prefill(tokens.unsqueeze(1), states)
        return logits.squeeze(1), states


def _memory_bias(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Added to scores: 0 for tokens (sources, m), the least number for padding; −∞ gives an empty source NaN."""
    if mask is None:
        return None
    least = torch.finfo(dtype).min
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, least)[:, None, None]


def _check_options(
    symbols: int, width: int, heads: int, head_width: int | None, buckets: int, max_distance: int, start: int, end: int
) -> None:
    if head_width is None and width % heads:
        raise ValueError(f"heads={heads} do not divide width={width}: pass heads that do, or head_width")
    if buckets < 2 or max_distance <= buckets // 2:
        raise ValueError(
            f"buckets={buckets}, max_distance={max_distance}: expected 2 buckets, and a distance above half of them"
        )
    if not (0 <= start < symbols and 0 <= end < symbols):
        raise ValueError(f"start={start}, end={end}: expected two of the symbols 0 … {symbols - 1}")
