"""Speech: corpora that installed synthesisers say, with phonemes at known samples, and recordings in folders.

`espeak_corpus` and `flite_corpus` synthesise once and keep the file; `tones_corpus` needs no program;
`read_librispeech` and `read_flat` open folders. An item of any of them is an `Utterance`.
"""

from __future__ import annotations

from sciops.datasets.speech.corpus import (
    SpeechCorpus,
    Utterance,
    concatenated,
    joined,
    load_corpus,
    resampled,
    save_corpus,
)
from sciops.datasets.speech.espeak import EspeakConfig, espeak_corpus
from sciops.datasets.speech.flite import FliteConfig, flite_corpus
from sciops.datasets.speech.folders import SpeechFiles, read_audio, read_flat, read_librispeech, read_wav
from sciops.datasets.speech.noise import add_noise, noisy
from sciops.datasets.speech.sentences import LETTERS, normalized, sentences
from sciops.datasets.speech.splitting import split
from sciops.datasets.speech.tones import TonesConfig, tones_corpus

__all__ = [
    "LETTERS",
    "EspeakConfig",
    "FliteConfig",
    "SpeechCorpus",
    "SpeechFiles",
    "TonesConfig",
    "Utterance",
    "add_noise",
    "concatenated",
    "espeak_corpus",
    "flite_corpus",
    "joined",
    "load_corpus",
    "noisy",
    "normalized",
    "read_audio",
    "read_flat",
    "read_librispeech",
    "read_wav",
    "resampled",
    "save_corpus",
    "sentences",
    "split",
    "tones_corpus",
]
