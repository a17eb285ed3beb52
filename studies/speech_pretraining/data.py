"""What the study of speech learns from: a corpus that is made once, its parts, and the symbols of CTC."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sciops.datasets.speech import (
    LETTERS,
    EspeakConfig,
    SpeechCorpus,
    TonesConfig,
    espeak,
    espeak_corpus,
    sentences,
    split,
    tones_corpus,
)
from sciops.datasets.speech.corpus import cached_corpus
from sciops.datasets.text import read_corpus
from sciops.files.json_files import plain
from sciops.models.sequences.log_mel import LogMel
from sciops.training.speech import MelFrames, has_path

if TYPE_CHECKING:
    from studies.speech_pretraining import Config


class Part(NamedTuple):
    """Log-mel frames of recordings, and their texts and phonemes in numbers from 1 on."""

    frames: list[Any]
    letters: list[list[int]]
    phonemes: list[list[int]]


class Speech(NamedTuple):
    """unlabelled, labelled : for training, the second within the first; validation, test : of other sentences by other
    speakers. about : what was said, by whom, in numbers."""

    unlabelled: Part
    labelled: Part
    validation: Part
    test: Part
    symbols: dict[str, tuple[str, ...]]
    sample_rate: int
    hash: str
    about: dict[str, Any]
    corpus: SpeechCorpus


def family_of(config: Config) -> str:
    """espeak or tones; "auto" is the first where it is installed."""
    if config.family != "auto":
        return config.family
    return "espeak" if espeak.installed() else "tones"


def made_corpus(config: Config) -> tuple[SpeechCorpus, str]:
    """The corpus of the configuration, from its file where it is there, and the name of its text."""
    text = config.text
    try:
        words = read_corpus(text)
    except FileNotFoundError:
        text, words = "python", read_corpus("python")  # always there
    said = sentences(words, config.sentences, shortest=config.shortest, longest=config.longest, seed=config.data_seed)
    family = family_of(config)
    path = Path(config.corpora) / f"{family}_{text}_{config.sentences}x{config.each}_{config.longest}.safetensors"
    if family == "espeak":
        chosen = EspeakConfig(said, accents=config.accents, voices=config.voices, each=config.each)
        return espeak_corpus(chosen, path), text
    tones = TonesConfig(said, speakers=len(config.accents) * len(config.voices), each=config.each)
    return cached_corpus(path, {"program": "tones", **plain(tones)}, lambda: tones_corpus(tones)), text


def prepared(config: Config) -> Speech:
    """The parts, by sentence and by speaker; recordings too short for their targets are left out, and counted.

    Raises ValueError where the training part has fewer recordings than are to be labelled.
    """
    corpus, text = made_corpus(config)
    mel = LogMel(sample_rate=corpus.sample_rate, bins=config.bins)
    parts = split(
        corpus, by=("sentence", "speaker"), validation=config.validation, test=config.test, seed=config.data_seed
    )
    pauses = {*espeak.PAUSES, "pau"}
    phonemes = tuple(name for name in corpus.symbols if name not in pauses)
    symbols = {"letters": tuple(LETTERS), "phonemes": phonemes}
    numbers = {kind: {name: i for i, name in enumerate(names, 1)} for kind, names in symbols.items()}
    left_out = 0

    def part(indices: Sequence[int]) -> Part:
        nonlocal left_out
        mels = MelFrames(corpus, mel, indices=indices, keep=False)
        kept = Part([], [], [])
        for place, i in enumerate(indices):
            frames, one = mels[place], corpus[int(i)]
            letters = [numbers["letters"][c] for c in one.text]
            said = [numbers["phonemes"][p] for p in one.phonemes if p not in pauses]
            if not (has_path(letters, len(frames)) and has_path(said, len(frames))):
                left_out += 1
                continue
            kept.frames.append(frames)
            kept.letters.append(letters)
            kept.phonemes.append(said)
        return kept

    unlabelled, validation, test = (part(parts[name]) for name in ("train", "validation", "test"))
    if len(unlabelled.frames) < config.labelled:
        raise ValueError(
            f"--labelled {config.labelled}: the training part has {len(unlabelled.frames)} recordings; "
            "make more sentences, or label fewer"
        )
    chosen = np.random.default_rng(config.data_seed).permutation(len(unlabelled.frames))[: config.labelled]
    labelled = Part(*([values[i] for i in chosen] for values in unlabelled))
    minutes = {
        name: sum(len(f) for f in one.frames) * mel.hop / corpus.sample_rate / 60
        for name, one in (("unlabelled", unlabelled), ("labelled", labelled), ("test", test))
    }
    about = {
        "family": family_of(config),
        "text": text,
        "recordings": {
            "unlabelled": len(unlabelled.frames),
            "labelled": len(labelled.frames),
            "validation": len(validation.frames),
            "test": len(test.frames),
        },
        "minutes": minutes,
        "speakers": len(set(corpus.speakers)),
        "phonemes": len(phonemes),
        "left_out": left_out,
        "versions": dict(corpus.about.get("versions", {})),
    }
    return Speech(unlabelled, labelled, validation, test, symbols, corpus.sample_rate, corpus.hash(), about, corpus)
