"""A language of tones, for machines without a synthesiser: every letter is a chord that glides and trembles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sciops.datasets.speech.corpus import SpeechCorpus, Utterance, joined
from sciops.files.json_files import plain

SAMPLE_RATE = 16_000


@dataclass(frozen=True)
class TonesConfig:
    """What is said, and by how many."""

    sentences: tuple[str, ...]
    """what is said"""
    speakers: int = 8
    """who differ in pitch (±20 %), pace (±15 %) and loudness of the upper tone"""
    each: int = 2
    """speakers that say each sentence"""
    snr: float = 20.0
    """dB of white noise"""
    seed: int = 0
    """of the letters' sounds, the speakers and who says what"""


def tones_corpus(config: TonesConfig) -> SpeechCorpus:
    """Σ_{k=1,2} a_k(t)·sin(2π∫f_k dt): letter c has frequencies f_k(t) = p·(b_k + g_k·t/T) that glide (FM) and an
    amplitude 1 + m·sin(2πrt) that trembles (AM), for T = 60 to 110 ms with raised-cosine ends; a space is silence.

    Speech-like for learning, in that sounds have durations, transitions, speakers and noise, and no more. Phonemes are
    the letters and "_" for the silence. Always the same for one configuration on one machine.

    Raises ValueError for more speakers a sentence than there are.
    """
    if not 1 <= config.each <= config.speakers or not config.sentences:
        raise ValueError(f"each={config.each}, speakers={config.speakers}: expected 1 ≤ each ≤ speakers, and sentences")
    rng = np.random.default_rng(config.seed)
    letters = sorted(set("".join(config.sentences)) - {" "})
    sounds = {c: _Sound.drawn(rng) for c in letters}
    voices = [(rng.uniform(0.8, 1.2), rng.uniform(0.85, 1.15), rng.uniform(0.4, 1.0)) for _ in range(config.speakers)]
    utterances = []
    for text in config.sentences:
        for who in sorted(rng.permutation(config.speakers)[: config.each]):
            audio, starts = _said(text, sounds, *voices[who], rng)
            power = np.mean(audio**2) * 10 ** (-config.snr / 10)
            audio = audio + np.sqrt(power) * rng.standard_normal(len(audio))
            phonemes = tuple("_" if c == " " else c for c in text)
            audio = (0.5 * audio / max(np.abs(audio).max(), 1e-9)).astype(np.float32)
            utterances.append(Utterance(audio, SAMPLE_RATE, text, f"voice{who}", text, phonemes, starts))
    return joined(utterances, made_by={"program": "tones", **plain(config)})


@dataclass(frozen=True)
class _Sound:
    base: tuple[float, float]
    glide: tuple[float, float]
    tremor: float
    depth: float
    seconds: float

    @staticmethod
    def drawn(rng: np.random.Generator) -> _Sound:
        low, high = rng.uniform(200, 900), rng.uniform(1000, 3500)
        glide = (rng.uniform(-150, 150), rng.uniform(-800, 800))
        return _Sound((low, high), glide, rng.uniform(20, 60), rng.uniform(0, 0.8), rng.uniform(0.06, 0.11))


def _said(text: str, sounds, pitch: float, pace: float, upper: float, rng) -> tuple[np.ndarray, np.ndarray]:
    parts, starts, at = [], [], 0
    for c in text:
        seconds = (sounds[c].seconds if c != " " else 0.06) * pace * rng.uniform(0.9, 1.1)
        t = np.arange(max(16, round(seconds * SAMPLE_RATE))) / SAMPLE_RATE
        part = np.zeros(len(t)) if c == " " else _sound(sounds[c], t, pitch, upper)
        starts.append(at)
        parts.append(part)
        at += len(part)
    return np.concatenate(parts), np.array(starts, np.int64)


def _sound(sound: _Sound, t: np.ndarray, pitch: float, upper: float) -> np.ndarray:
    wave = np.zeros(len(t))
    for base, glide, loud in zip(sound.base, sound.glide, (1.0, upper)):
        wave += loud * np.sin(2 * np.pi * pitch * (base * t + glide * t**2 / (2 * t[-1])))
    ends = np.minimum(1.0, np.minimum(t, t[-1] - t) / 0.008)
    return wave * (1 + sound.depth * np.sin(2 * np.pi * sound.tremor * t)) * (0.5 - 0.5 * np.cos(np.pi * ends))
