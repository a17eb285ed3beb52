"""The tokens that are masked in pre-training, and the noise that replaces them."""

from __future__ import annotations

import torch
from torch import Tensor

from sciops.models.sequences.speech import REDUCTION


def span_mask(
    tokens: Tensor,
    *,
    probability: float = 0.15,
    length: int = 4,
    per_sequence: bool = True,
    generator: torch.Generator | None = None,
) -> Tensor:
    """(batch, max tokens), True where a token of REDUCTION frames is hidden.

    Spans of `length` frames, a multiple of REDUCTION, begin at round(probability·REDUCTION·n) of the n tokens, drawn
    without replacement: with the published 0.15 and 4 frames 60 % of the tokens, in spans that do not overlap; longer
    ones may, and end with the recording. At least one token is hidden.

    per_sequence : a mask for each recording, for its own length. False is what the code of pom4speech does
        (arXiv:2603.00683): one mask for the whole batch, drawn for its shortest recording, so that the ends of longer
        ones are never hidden

    Raises ValueError for a length that is not a multiple of REDUCTION, a probability outside (0, 1), and no tokens.
    """
    if length < REDUCTION or length % REDUCTION or not 0 < probability < 1:
        raise ValueError(
            f"probability={probability}, length={length}: expected 0 < probability < 1 and a multiple of {REDUCTION} "
            "frames"
        )
    counts = tokens.tolist()
    if min(counts) < 1:
        raise ValueError(f"tokens {counts}: expected at least one whole token of {REDUCTION} frames a recording")
    mask = torch.zeros(len(counts), max(counts), dtype=torch.bool)
    for row, n in zip(mask, counts if per_sequence else [min(counts)]):
        starts = torch.randperm(n, generator=generator)[: max(1, min(n, round(probability * REDUCTION * n)))]
        for offset in range(length // REDUCTION):
            row[(starts + offset).clamp(max=n - 1)] = True
    if not per_sequence:
        mask = mask[:1].expand(len(counts), -1).clone()
    return mask.to(tokens.device)


def hidden(normalized: Tensor, mask: Tensor, *, deviation: float = 0.1, generator: torch.Generator | None = None):
    """Frames (batch, frames, bins) with those of masked tokens replaced by noise from N(0, deviation²)."""
    frames = torch.zeros(normalized.shape[:2], dtype=torch.bool, device=normalized.device)
    spread = mask.repeat_interleave(REDUCTION, dim=1)
    frames[:, : spread.shape[1]] = spread[:, : frames.shape[1]]
    noise = torch.randn(normalized.shape, generator=generator, dtype=torch.float32).to(normalized)
    return torch.where(frames.unsqueeze(-1), deviation * noise, normalized)
