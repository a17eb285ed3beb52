"""Models of speech: log-mel frames, two convolutions that take every fourth, blocks with any sequence mixer, CTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.mixers.sequence import only_tokens
from sciops.models.apply import evaluating
from sciops.models.sequences.ctc import beam_decode, greedy_decode
from sciops.models.sequences.log_mel import LogMel, RunningNorm
from sciops.models.sequences.stack import SequenceStack
from sciops.models.spine.inputs import check_input
from sciops.models.spine.operator import description

__all__ = ["REDUCTION", "SpeechEncoder", "SpeechRecognizer"]

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


class SpeechEncoder(nn.Module):
    """Recordings to vectors, four 10 ms frames each: stack ∘ subsampling ∘ norm ∘ log-mel.

    in_channels : 1, recordings have one channel
    out_channels : width of the vectors and of the blocks
    depth, mixer, mixer_options, local, mlp_ratio, norm, dropout : of the `SequenceStack`, which is bidirectional;
        `local` is the length of its depthwise convolutions, which give the order that mixers without positions lack
    sample_rate, bins, window, hop : of `LogMel`. front_channels : of the convolutions in front
    updates : training batches from which the mean and variance of the bins are taken

    forward(audio (batch, samples), lengths (batch,) or None) → (batch, tokens, out_channels), tokens (batch,)

    In parts, so that frames can be kept and masked: ``log_mel(audio, lengths)`` → mel, frames; ``normalize(mel,
    frames)``; ``encode(normalized, frames)``. The result for a recording does not depend on the others of its batch nor
    on padding.

    Raises ValueError for sizes that do not fit and a causal mixer, TypeError for unknown mixer options.
    """

    def __init__(
        self,
        in_channels: int = 1,
        out_channels: int = 144,
        *,
        depth: int = 4,
        mixer: str | Sequence[str] = "polynomial",
        mixer_options: Mapping[str, Any] | None = None,
        local: int = 15,
        mlp_ratio: float = 2.0,
        norm: str = "rms",
        dropout: float = 0.0,
        front_channels: int = 32,
        sample_rate: int = 16_000,
        bins: int = 80,
        window: float = 0.025,
        hop: float = 0.010,
        updates: int = 1000,
    ) -> None:
        super().__init__()
        if in_channels != 1:
            raise ValueError(f"in_channels={in_channels}: expected 1, recordings of one channel")
        if front_channels < 1 or out_channels < 1:
            raise ValueError(f"front_channels={front_channels}, out_channels={out_channels}: expected at least 1")
        self.out_channels, self.bins = out_channels, bins
        self.mel = LogMel(sample_rate=sample_rate, bins=bins, window=window, hop=hop)
        self.bin_norm = RunningNorm(bins, updates=updates)
        self.front = Subsampling(bins, front_channels, out_channels)
        self.stack = SequenceStack(
            out_channels,
            depth,
            mixer=mixer,
            mixer_options=mixer_options,
            local=local,
            mlp_ratio=mlp_ratio,
            norm=norm,
            dropout=dropout,
        )
        self.config = description(
            "speech_encoder",
            in_channels=in_channels,
            out_channels=out_channels,
            depth=depth,
            mixer=mixer,
            mixer_options=_saved_options(self.stack, mixer),
            local=local,
            mlp_ratio=mlp_ratio,
            norm=norm,
            dropout=dropout,
            front_channels=front_channels,
            sample_rate=sample_rate,
            bins=bins,
            window=window,
            hop=hop,
            updates=updates,
        )

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

    out_channels : symbols and the blank, which is 0
    symbols : their names, out_channels − 1 of them, for `transcribe`; letters, or phonemes with separator=" "
    width : out_channels of the encoder; hidden : widths of layers with LeakyReLU and dropout before the last linear map
    options : of `SpeechEncoder`

    forward(audio (batch, samples), lengths or None) → logits (batch, tokens, out_channels), tokens (batch,)
    ``scores(mel, frames)`` starts from log-mel frames. A pre-trained encoder goes in by
    ``recognizer.encoder.load_state_dict(encoder.state_dict())``.

    Raises ValueError for symbols that are not out_channels − 1 different ones.
    """

    def __init__(
        self,
        in_channels: int = 1,
        out_channels: int = 29,
        *,
        symbols: Sequence[str] | None = None,
        separator: str = "",
        width: int = 144,
        hidden: Sequence[int] = (),
        dropout: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__()
        named = None if symbols is None else (len(symbols), len(set(symbols)))
        if out_channels < 2 or named not in (None, (out_channels - 1, out_channels - 1)):
            given = "none" if named is None else f"{named[0]}, {named[1]} of them different"
            raise ValueError(f"out_channels={out_channels}, symbols: {given}; expected a blank and one for each symbol")
        self.encoder = SpeechEncoder(in_channels, width, dropout=dropout, **options)
        self.symbols, self.separator = None if symbols is None else tuple(symbols), separator
        layers: list[nn.Module] = []
        for before, after in zip((width, *hidden), hidden):
            layers += [nn.Linear(before, after), nn.LeakyReLU(), nn.Dropout(dropout)]
        self.head = nn.Sequential(*layers, nn.Linear((width, *hidden)[-1], out_channels))
        inner = {k: v for k, v in self.encoder.config["options"].items() if k not in ("in_channels", "out_channels")}
        self.config = description(
            "speech",
            in_channels=in_channels,
            out_channels=out_channels,
            symbols=self.symbols,
            separator=separator,
            width=width,
            hidden=tuple(hidden),
            **inner,
        )

    def scores(self, mel: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        z, tokens = self.encoder.encode(self.encoder.normalize(mel, frames), frames)
        return self.head(z), tokens

    def forward(self, audio: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return self.scores(*self.encoder.log_mel(audio, lengths))

    def transcribe(self, audio: Tensor, lengths: Tensor | None = None, *, beam: int | None = None) -> list[str]:
        """What is said in each recording: of the best path, or of the likeliest labelling among `beam` prefixes.

        As in evaluation, whatever mode the model is in: nothing is dropped, and the mean of the bins stays.

        Raises ValueError for a model without symbols.
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


def _saved_options(stack: SequenceStack, mixer: str | Sequence[str]) -> dict[str, Any]:
    options = {n: {k: v for k, v in o.items() if k != "causal"} for n, o in stack.mixer_options.items()}
    return options[mixer] if isinstance(mixer, str) else options
