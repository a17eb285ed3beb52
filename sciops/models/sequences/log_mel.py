"""Recordings as log-mel spectrograms, and the running mean and variance of their bins."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from sciops.arrays.compiling import constant, kept
from sciops.mixers.precision import full_precision
from sciops.models.apply import check_tensor


def mel_filters(sample_rate: int, n_fft: int, bins: int) -> Tensor:
    """H (bins, n_fft // 2 + 1), float64: triangles over frequency that peak at 1, with corners equally spaced in mel.

    mel(f) = 2595·log₁₀(1 + f/700) (HTK's); filter b rises from corner b to b + 1 and falls to b + 2 of the bins + 2
    corners between 0 and sample_rate / 2, linearly in Hz.

    Raises ValueError where a filter holds no frequency of the transform.
    """
    kind: Any = dict(dtype=torch.float64, device="cpu")
    top = math.log10(1 + sample_rate / 2 / 700)  # mel / 2595
    corners = 700 * (10 ** (torch.linspace(0, 1, bins + 2, **kind) * top) - 1)
    f = torch.arange(n_fft // 2 + 1, **kind) * sample_rate / n_fft
    low, peak, high = (corners[i : i + bins, None] for i in range(3))
    filters = torch.minimum((f - low) / (peak - low), (high - f) / (high - peak)).clamp(min=0)
    if not (filters.sum(1) > 0).all():
        raise ValueError(f"bins={bins} are too many for {n_fft} samples at {sample_rate} Hz: pass fewer")
    return filters


class LogMel(nn.Module):
    """Log-mel frames of recordings, y_{tb} = log max(Σ_k H_{bk} |Σ_i w_i x_{t·hop+i} e^{−2πik/n}|², 10⁻⁶).

    w is Hann's window and H is `mel_filters`.

    ``forward(audio (batch, samples), lengths (batch,) or None)`` → (batch, frames, bins), frames (batch,) int64. A
    frame is a window inside the recording: there are 1 + ⌊(length − window)/hop⌋, one for a shorter recording. Padding
    behind a recording's end has no effect. Half precision is computed in float32, under autocast too.

    Parameters
    ----------
    sample_rate, bins : int
        Samples per second, number of mel bins.
    window, hop : float
        Seconds, rounded to samples; n is the smallest power of 2 that is not smaller than a window.

    Raises
    ------
    ValueError
        For audio of another shape and lengths that do not fit it.
    """

    def __init__(self, *, sample_rate: int = 16_000, bins: int = 80, window: float = 0.025, hop: float = 0.010) -> None:
        super().__init__()
        self.sample_rate, self.window, self.hop = sample_rate, round(window * sample_rate), round(hop * sample_rate)
        if self.window < 2 or self.hop < 1 or bins < 1:
            raise ValueError(
                f"sample_rate={sample_rate}, window={window}, hop={hop}, bins={bins}: expected at least 2 samples a "
                "window, 1 a hop, and 1 bin"
            )
        self.n_fft = 1 << (self.window - 1).bit_length()
        self.bins = bins
        mel_filters(sample_rate, self.n_fft, bins)  # refuses bins without a frequency

    def frames_of(self, lengths: Tensor) -> Tensor:
        """Number of frames of recordings with these numbers of samples."""
        return 1 + (lengths - self.window).clamp(min=0) // self.hop

    def forward(self, audio: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        check_tensor(audio)
        if audio.ndim != 2 or not audio.is_floating_point():
            raise ValueError(f"audio of {audio.dtype}, shape {tuple(audio.shape)}: expected floats (batch, samples)")
        if lengths is None:
            lengths = torch.full((audio.shape[0],), audio.shape[1], dtype=torch.int64, device=audio.device)
        else:
            lengths = torch.as_tensor(lengths).to(audio.device, torch.int64)
            if lengths.shape != audio.shape[:1] or (lengths < 1).any() or (lengths > audio.shape[1]).any():
                raise ValueError(f"lengths {lengths.tolist()} for audio {tuple(audio.shape)}: expected one a recording")
        x = audio.to(torch.promote_types(audio.dtype, torch.float32))
        x = x.masked_fill(torch.arange(x.shape[1], device=x.device) >= lengths[:, None], 0)
        if x.shape[1] < self.window:
            x = nn.functional.pad(x, (0, self.window - x.shape[1]))
        # no buffers: those of a model made float64 would keep the digits of float32
        taper, filters = _tables(self.sample_rate, self.window, self.n_fft, self.bins, x.dtype, x.device)
        windows = x.unfold(-1, self.window, self.hop)
        if not x.shape[0]:  # FFTs of nothing are refused
            return audio.new_zeros(0, windows.shape[1], filters.shape[1]), self.frames_of(lengths)
        with full_precision(x):
            spectrum = torch.fft.rfft(windows * taper, self.n_fft)
            power = spectrum.real.square() + spectrum.imag.square()
            return (power @ filters).clamp(min=1e-6).log().to(audio.dtype), self.frames_of(lengths)


@constant
@kept(16)
def _tables(
    sample_rate: int, window: int, n_fft: int, bins: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """The taper (window,) and the filters (frequencies, bins)."""
    hann = torch.hann_window(window, periodic=True, dtype=torch.float64)
    filters = mel_filters(sample_rate, n_fft, bins).T.contiguous()
    return hann.to(device=device, dtype=dtype), filters.to(device=device, dtype=dtype)


class RunningNorm(nn.Module):
    """Normalisation (x − m)/√(v + 10⁻⁵) with mean m and variance v of every bin over all frames of training so far.

    updates : number of first training batches from which m and v are taken; before any, m = 0 and v = 1

    forward(x (batch, frames, bins), mask (batch, frames)) → same, 0 where the mask is False
    """

    mean: Tensor
    variance: Tensor
    frames: Tensor
    batches: Tensor

    def __init__(self, bins: int, *, updates: int = 1000) -> None:
        super().__init__()
        self.updates = updates
        self.register_buffer("mean", torch.zeros(bins))
        self.register_buffer("variance", torch.ones(bins))
        self.register_buffer("frames", torch.zeros((), dtype=torch.int64))
        self.register_buffer("batches", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        if self.training and self.batches < self.updates:
            self.update(x, mask)
        y = (x - self.mean.to(x.dtype)) * (self.variance.to(x.dtype) + 1e-5).rsqrt()
        return y.masked_fill(~mask.unsqueeze(-1), 0)

    @torch.no_grad()
    def update(self, x: Tensor, mask: Tensor) -> None:
        """Adds the frames of a batch to the mean and variance (Chan, Golub and LeVeque's formula for two parts)."""
        new = x[mask].double()
        if not len(new):
            return
        before, more = int(self.frames), len(new)
        total = before + more
        mean, gap = new.mean(0), new.mean(0) - self.mean.double()
        spread = self.variance.double() * before + (new - mean).square().sum(0) + gap.square() * before * more / total
        self.mean.copy_(self.mean.double() + gap * more / total)
        self.variance.copy_(spread / total)
        self.frames += more
        self.batches += 1
