"""Additive noise at a given ratio."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sciops.datasets.speech.corpus import SpeechCorpus, joined


def add_noise(
    audio: np.ndarray, snr: float, rng: np.random.Generator, *, kind: Literal["white", "pink"] = "white"
) -> np.ndarray:
    """x + g·n with 10 log₁₀(Σx²/Σ(g·n)²) = snr exactly, pauses included; (samples,) float → same.

    snr : dB. kind : "white", or "pink" with power ∝ 1/frequency, nearer to what rooms sound like

    A silent recording stays silent. Raises ValueError for another kind and for a ratio that is not finite.
    """
    if kind not in ("white", "pink") or not np.isfinite(snr):
        raise ValueError(f"kind={kind!r}, snr={snr}: expected 'white' or 'pink', and a finite number of dB")
    noise = rng.standard_normal(len(audio))
    if kind == "pink" and len(audio) > 1:
        spectrum = np.fft.rfft(noise)
        spectrum[0] = 0
        spectrum[1:] /= np.sqrt(np.arange(1, len(spectrum)))
        noise = np.fft.irfft(spectrum, len(audio))
    power, of_noise = (float(np.sum(np.square(v, dtype=np.float64))) for v in (audio, noise))
    if power == 0 or of_noise == 0:
        return audio.copy()
    gain = np.sqrt(power / of_noise * 10 ** (-snr / 10))
    return (audio + gain * noise).astype(audio.dtype)


def noisy(corpus: SpeechCorpus, snr: float, *, kind: Literal["white", "pink"] = "white", seed: int = 0) -> SpeechCorpus:
    """The corpus with `add_noise` on every recording, what the noise is depending on the seed and its number alone."""
    recordings = []
    for i in range(len(corpus)):
        one = corpus[i]
        audio = add_noise(one.audio, snr, np.random.default_rng((seed, i)), kind=kind)
        recordings.append(one._replace(audio=audio))
    about = {**corpus.about, "noise": {"snr": snr, "kind": kind, "seed": seed}}
    return joined(recordings, factors=corpus.factors, **about)
