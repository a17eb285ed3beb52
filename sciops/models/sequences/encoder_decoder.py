"""`EncoderDecoder`: sequence to sequence, with any sequence mixer in the encoder and a T5 decoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.mixers.sequence import only_tokens
from sciops.models.apply import evaluating
from sciops.models.sequences.generation import Generated, beam_search, generate
from sciops.models.sequences.stack import SequenceStack
from sciops.models.sequences.t5_decoder import DecoderState, T5Decoder
from sciops.models.sequences.tokens import embedded, of_last
from sciops.models.spine import description, hidden_width
from sciops.models.summary import model_text
from sciops.options import Count, CountOrZero, Probability, Within, read_options
from sciops.values import check_whole


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderOptions:
    """Options of `EncoderDecoder`.

    Parameters
    ----------
    symbols : int
        Number of different tokens.
    width, encoder_depth, decoder_depth, mlp_ratio : int, float
        Number of channels and of blocks, and hidden width over width, of both sides.
    mixer, mixer_options, local
        Of the encoder, see `StackOptions`. Mixers that are not order-aware need an option that makes them so, such as
        attention's positions="rope".
    heads, head_width : int
        Of the decoder; head_width is width/heads where None.
    buckets, max_distance : int
        Buckets of relative positions; keys further back than max_distance share one bucket.
    scaled : bool
        Multiplies scores by 1/√head_width. T5 does not, and initialises queries that much smaller.
    tied : bool
        Logits are E h/√width, as in T5; otherwise a separate map, initialised with that deviation.
    dropout : float
        Probability of zeroing an entry of embedded tokens and of every branch in training.
    start, end : int
        The token before a target, and the token that ends one.
    """

    symbols: Count
    width: Count = 128
    encoder_depth: CountOrZero = 2
    decoder_depth: CountOrZero = 2
    mixer: str | Sequence[str] = "state_space"
    mixer_options: Mapping[str, Any] | None = None
    local: CountOrZero = 0
    mlp_ratio: float = 2.0
    heads: Count = 4
    head_width: Count | None = None
    buckets: Annotated[int, Within(2)] = 32
    max_distance: Count = 128
    scaled: bool = False
    tied: bool = True
    dropout: Probability = 0.0
    start: CountOrZero = 0
    end: CountOrZero = 1

    def __post_init__(self) -> None:
        if self.head_width is None and self.width % self.heads:
            raise ValueError(f"heads={self.heads} do not divide width={self.width}: pass heads that do, or head_width")
        if self.max_distance <= self.buckets // 2:
            raise ValueError(
                f"buckets={self.buckets}, max_distance={self.max_distance}: expected a distance above buckets / 2"
            )
        if max(self.start, self.end) >= self.symbols:
            raise ValueError(f"start={self.start}, end={self.end}: expected two of the symbols 0 … {self.symbols - 1}")


class EncoderDecoder(nn.Module):
    """Targets y of sources x, p(y | x) = Π_t softmax(logits_t)[y_t] with logits_t = E·D(start, y_1 … y_{t−1}; S(x)).

    S is a bidirectional `SequenceStack`; with "state_space" it is that of LOCOST (arXiv:2401.17919) except for
    feed-forward maps with biases and the exact GELU. D is T5's decoder (arXiv:1910.10683): no biases, gated GELU (tanh
    form), RMSNorm, and one table of biases by head and relative position shared by all its layers. E embeds source and
    target.

    ``forward(source (batch, m), target_in (batch, n), source_mask=None, target_mask=None)`` → logits (batch, n,
    symbols), where `target_in` is `shifted(target)`. Masks are True where there is a token; padding stands at the end,
    is not read, and its logits are 0. Weights of the decoder are initialised as in T5, the embedding with deviation 1.

    Parameters
    ----------
    symbols : int
        Number of different tokens.
    **options
        The other fields of `EncoderDecoderOptions`.

    Raises
    ------
    TypeError
        For an unknown option.
    ValueError
        For sizes, names and tokens that do not fit.
    """

    __repr__ = model_text

    def __init__(self, symbols: int, **options: Any) -> None:
        super().__init__()
        o = read_options(EncoderDecoderOptions, "encoder_decoder", dict(options, symbols=symbols))
        self.symbols, self.start, self.end = symbols, o.start, o.end
        self.embedding = nn.Embedding(symbols, o.width)  # torch's own deviation of 1 is T5's
        self.dropout = nn.Dropout(o.dropout)
        of_encoder = {name: getattr(o, name) for name in ("mixer", "mixer_options", "mlp_ratio", "local", "dropout")}
        self.encoder = SequenceStack(o.width, o.encoder_depth, **of_encoder)
        self.decoder = T5Decoder(
            o.width,
            o.decoder_depth,
            hidden=hidden_width(o.mlp_ratio, o.width),
            heads=o.heads,
            head_width=o.width // o.heads if o.head_width is None else o.head_width,
            buckets=o.buckets,
            max_distance=o.max_distance,
            scaled=o.scaled,
            dropout=o.dropout,
        )
        self.head = None if o.tied else nn.Linear(o.width, symbols, bias=False)
        if self.head is not None:
            nn.init.normal_(self.head.weight, std=o.width**-0.5)
        encoder = self.encoder.options
        self.config = description(
            "encoder_decoder", replace(o, mixer=encoder.mixer, mixer_options=encoder.mixer_options)
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
        """The decoder of these sources, with `prefill` and `step`; encodes the sources once."""
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
        """Generates a target of at most `tokens` tokens for each source, ended by the token `end`.

        Parameters
        ----------
        beams : int
            1 samples with `sciops.models.generate`, at temperature 0 the likeliest token. More run
            `sciops.models.beam_search` with `length_power` and return all beams, the best first: tokens (batch, beams,
            tokens).

        Raises
        ------
        ValueError
            For several beams together with a temperature, top_k or top_p.
        """
        check_whole(beams=beams)
        draws = temperature != 0 or top_k is not None or top_p is not None
        if beams > 1 and draws:
            raise ValueError(f"beams={beams}: beam search does not sample; pass no temperature, top_k and top_p")
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
    """The decoder of encoded sources, with the interface of `LanguageModel`: logits of the next token.

    * ``prefill(tokens (batch, n), states=None, *, mask=None, last=False)`` → logits (batch, n, symbols), states;
      last=True gives only those after the last token, (batch, symbols)
    * ``step(tokens (batch,), states=None)`` → logits (batch, symbols), states

    Sequence b initially belongs to source b. Keys and values of the sources are computed once and kept here, so that
    `selected(states, rows)` copies only the decoded part. States passed in may be overwritten in place.
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
    """0 for tokens (sources, m), the least number for padding: −∞ would give NaN for an empty source."""
    if mask is None:
        return None
    least = torch.finfo(dtype).min
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, least)[:, None, None]
