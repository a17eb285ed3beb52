"""BEST-RQ: an encoder learns to predict the codes of masked frames."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.models.sequences.speech import REDUCTION, SpeechEncoder
from sciops.training.speech.masking import hidden, span_mask
from sciops.training.speech.quantizer import RandomProjectionQuantizer, stacked


class Masked(NamedTuple):
    """logits (m, codes) and targets (m,) of the m masked tokens of a batch; loss their mean cross-entropy."""

    loss: Tensor
    logits: Tensor
    targets: Tensor


class BestRQ(nn.Module):
    """Pre-training of a speech encoder by BEST-RQ: it predicts the codes of masked frames (arXiv:2202.01855).

    L = −mean_{i masked} log softmax(W·encoder(masked x)_i)_{k(x_i)}, x_i four stacked frames.

    encoder : the `SpeechEncoder` to be trained
    codes, code_channels, seed : of the `RandomProjectionQuantizer`, published 8192 and 16
    probability, length, per_sequence : of `span_mask`. deviation : of the noise in masked frames

    forward(mel (batch, frames, bins), frames (batch,), generator=None) → `Masked`

    The targets come from the normalised frames before any is hidden; they move while the running mean and variance do,
    so let those settle first (`updates`, or ``encoder.bin_norm.update``). A last token of less than four frames is
    never a target.
    """

    def __init__(
        self,
        encoder: SpeechEncoder,
        *,
        codes: int = 8192,
        code_channels: int = 16,
        probability: float = 0.15,
        length: int = 4,
        per_sequence: bool = True,
        deviation: float = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.quantizer = RandomProjectionQuantizer(
            REDUCTION * encoder.bins, codes=codes, code_channels=code_channels, seed=seed
        )
        self.head = nn.Linear(encoder.out_channels, codes)
        self.masking: dict[str, Any] = dict(probability=probability, length=length, per_sequence=per_sequence)
        self.deviation = deviation

    def forward(self, mel: Tensor, frames: Tensor, generator: torch.Generator | None = None) -> Masked:
        x = self.encoder.normalize(mel, frames)
        targets = self.quantizer(stacked(x, REDUCTION))
        mask = span_mask(frames // REDUCTION, **self.masking, generator=generator)
        z, _ = self.encoder.encode(hidden(x, mask, deviation=self.deviation, generator=generator), frames)
        logits, asked = self.head(z[:, : mask.shape[1]][mask]), targets[:, : mask.shape[1]][mask]
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return Masked(F.cross_entropy(wide, asked), logits, asked)
