"""Models of speech: log-mel frames, two convolutions of stride 2, blocks with any sequence mixer, CTC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.mixers.sequence import only_tokens
from sciops.models.apply import evaluating
from sciops.models.sequences.ctc import beam_decode, greedy_decode
from sciops.models.sequences.log_mel import LogMel, RunningNorm
from sciops.models.sequences.stack import SequenceStack, StackOptions
from sciops.models.spine import check_input, description
from sciops.models.summary import model_text
from sciops.options import Count, CountOrZero, Within, part_of, read_options

REDUCTION = 4  # frames a token


class Subsampling(nn.Module):
    """Two 3×3 convolutions of stride 2 over (time, bin), GELU(norm(conv)) each, then a linear map of every token.

    x (batch, frames, bins), mask (batch, frames) → (batch, ⌈frames/4⌉, width), mask. Token i is centred on frame 4i
    and sees frames 4i − 3 … 4i + 3; beyond the ends of a recording frames are 0. The norm is over channels and bins of
    one time.
    """

    def __init__(self, bins: int, channels: int, width: int) -> None:
        super().__init__()
        half, quarter = -(-bins // 2), -(-bins // 4)
        self.first = nn.Conv2d(1, channels, 3, stride=2, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, stride=2, padding=1)
        self.first_norm, self.second_norm = nn.LayerNorm((channels, half)), nn.LayerNorm((channels, quarter))
        self.out = nn.Linear(channels * quarter, width)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        z = only_tokens(x, mask).unsqueeze(1)
        for convolution, norm in ((self.first, self.first_norm), (self.second, self.second_norm)):
            z, mask = convolution(z).transpose(1, 2), mask[:, ::2]  # (batch, time, channels, bins)
            z = F.gelu(norm(z)).masked_fill(~mask[..., None, None], 0).transpose(1, 2)
        z = self.out(z.transpose(1, 2).flatten(2))
        return only_tokens(z, mask), mask


@dataclass(frozen=True, kw_only=True)
class RecordingOptions(StackOptions):
    """Options of models of recordings: those of the bidirectional `SequenceStack`, and

    Parameters
    ----------
    in_channels : int
        1: recordings have one channel.
    depth : int
        Number of blocks.
    local : int
        Length of depthwise convolutions, which give the order to mixers without positions.
    front_channels : int
        Number of channels of the convolutions in front.
    sample_rate, bins, window, hop
        As in `LogMel`.
    updates : int
        Number of training batches from which the mean and variance of the bins are taken.
    """

    in_channels: Literal[1] = 1
    out_channels: Count
    depth: CountOrZero = 4
    mixer: str | Sequence[str] = "polynomial"
    local: CountOrZero = 15
    front_channels: Count = 32
    sample_rate: Count = 16_000
    bins: Count = 80
    window: float = 0.025
    hop: float = 0.010
    updates: CountOrZero = 1000


@dataclass(frozen=True, kw_only=True)
class SpeechEncoderOptions(RecordingOptions):
    """Options of `SpeechEncoder`; out_channels is the width of the vectors and of the blocks."""

    out_channels: Count = 144


@dataclass(frozen=True, kw_only=True)
class SpeechOptions(RecordingOptions):
    """Options of `SpeechRecognizer`: those of its `SpeechEncoder`, and

    Parameters
    ----------
    out_channels : int
        Number of symbols and the blank, which is 0.
    symbols : str or sequence of str, optional
        Their names, out_channels − 1 of them (a string is one name per letter), for `transcribe`: letters, or phonemes
        with separator=" ".
    separator : str
        Put between the symbols of a transcription.
    width : int
        out_channels of the encoder.
    hidden : sequence of int
        Widths of layers with LeakyReLU and dropout before the last linear map.
    """

    out_channels: Annotated[int, Within(2)] = 29
    symbols: str | Sequence[str] | None = None
    separator: str = ""
    width: Count = 144
    hidden: Sequence[Count] = ()


class SpeechEncoder(nn.Module):
    """Recordings to vectors, one for four 10 ms frames: stack ∘ subsampling ∘ norm ∘ log-mel.

    ``forward(audio (batch, samples), lengths (batch,) or None)`` → (batch, tokens, out_channels), tokens (batch,). Its
    parts, so that frames can be stored and masked: ``log_mel(audio, lengths)`` → mel, frames; ``normalize(mel,
    frames)``; ``encode(normalized, frames)``. The result for a recording depends neither on the rest of its batch nor
    on padding.

    Parameters
    ----------
    in_channels, out_channels : int
        1, and the width of the vectors and of the blocks.
    **options
        The fields of `SpeechEncoderOptions`.

    Raises
    ------
    ValueError
        For sizes that do not fit and a causal mixer.
    TypeError
        For an unknown option, of the encoder or of a mixer.
    """

    __repr__ = model_text

    def __init__(self, in_channels: int = 1, out_channels: int = 144, **options: Any) -> None:
        super().__init__()
        given = dict(options, in_channels=in_channels, out_channels=out_channels)
        o = read_options(SpeechEncoderOptions, "speech_encoder", given)
        self.out_channels, self.bins = out_channels, o.bins
        self.mel = LogMel(sample_rate=o.sample_rate, bins=o.bins, window=o.window, hop=o.hop)
        self.bin_norm = RunningNorm(o.bins, updates=o.updates)
        self.front = Subsampling(o.bins, o.front_channels, out_channels)
        self.stack = SequenceStack(out_channels, o.depth, **part_of(o, StackOptions))
        self.config = description("speech_encoder", replace(o, **vars(self.stack.options)))

    def log_mel(self, audio: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(batch, samples) → (batch, frames, bins), frames (batch,); no parameters, so it can be kept."""
        return self.mel(audio, lengths)

    def normalize(self, mel: Tensor, frames: Tensor) -> Tensor:
        """Frames less the running mean of their bins, over their deviation; 0 behind the end of a recording."""
        if mel.ndim != 3 or mel.shape[-1] != self.bins or frames.shape != mel.shape[:1]:
            raise ValueError(
                f"mel {tuple(mel.shape)}, frames {tuple(frames.shape)}: expected (batch, frames, {self.bins}), (batch,)"
            )
        return self.bin_norm(mel, mask_of(frames, mel.shape[1]))

    def encode(self, normalized: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, frames, bins) → (batch, tokens, out_channels), tokens (batch,) with tokens = ⌈frames/4⌉."""
        z, mask = self.front(normalized, mask_of(frames, normalized.shape[1]))
        z = self.stack(z, mask)
        return only_tokens(z, mask), mask.sum(1)

    def forward(self, audio: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        check_input(self, audio)
        mel, frames = self.log_mel(audio, lengths)
        return self.encode(self.normalize(mel, frames), frames)


class SpeechRecognizer(nn.Module):
    """Recordings to scores of symbols at every token, for CTC (Graves et al. 2006): head ∘ `SpeechEncoder`.

    ``forward(audio (batch, samples), lengths or None)`` → logits (batch, tokens, out_channels), tokens (batch,).
    ``scores(mel, frames)`` starts from log-mel frames. To use a pre-trained encoder, call
    ``recognizer.encoder.load_state_dict(encoder.state_dict())``.

    Parameters
    ----------
    in_channels, out_channels : int
        1, and the number of symbols and the blank.
    **options
        The fields of `SpeechOptions`.

    Raises
    ------
    ValueError
        For symbols that are not out_channels − 1 different ones.
    """

    __repr__ = model_text

    def __init__(self, in_channels: int = 1, out_channels: int = 29, **options: Any) -> None:
        super().__init__()
        given = dict(options, in_channels=in_channels, out_channels=out_channels)
        o = read_options(SpeechOptions, "speech", given)
        if o.symbols is not None and not len(o.symbols) == len(set(o.symbols)) == out_channels - 1:
            raise ValueError(
                f"out_channels={out_channels}, symbols: {len(o.symbols)}, {len(set(o.symbols))} of them different; "
                "expected a blank and one for each symbol"
            )
        self.encoder = SpeechEncoder(**part_of(o, RecordingOptions) | {"out_channels": o.width})
        self.symbols, self.separator = None if o.symbols is None else tuple(o.symbols), o.separator
        layers: list[nn.Module] = []
        for before, after in zip((o.width, *o.hidden), o.hidden):
            layers += [nn.Linear(before, after), nn.LeakyReLU(), nn.Dropout(o.dropout)]
        self.head = nn.Sequential(*layers, nn.Linear((o.width, *o.hidden)[-1], out_channels))
        self.config = description("speech", replace(o, symbols=self.symbols, **vars(self.encoder.stack.options)))

    def scores(self, mel: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        z, tokens = self.encoder.encode(self.encoder.normalize(mel, frames), frames)
        return self.head(z), tokens

    def forward(self, audio: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return self.scores(*self.encoder.log_mel(audio, lengths))

    def transcribe(self, audio: Tensor, lengths: Tensor | None = None, *, beam: int | None = None) -> list[str]:
        """Transcriptions of recordings, by the best path or by beam search with `beam` prefixes.

        Runs in evaluation mode: no dropout, and the mean of the bins is not updated. Raises ValueError for a model
        without symbols.
        """
        if self.symbols is None:
            raise ValueError("the model has no names for its symbols: build it with symbols=…")
        with torch.no_grad(), evaluating(self):
            logits, tokens = self(audio, lengths)
        if beam is None:
            found = greedy_decode(logits, tokens)
        else:
            found = [best[0][0] for best in beam_decode(logits, tokens, beam=beam)]
        return [self.separator.join(self.symbols[k - 1] for k in one) for one in found]


def mask_of(lengths: Tensor, n: int) -> Tensor:
    """(batch, n), True at the first lengths[b] of each row."""
    return torch.arange(n, device=lengths.device) < lengths[:, None]
