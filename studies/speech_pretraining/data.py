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
    Utterance,
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
from sciops.models.sequences.speech import REDUCTION
from sciops.training.speech import MelFrames, has_path

if TYPE_CHECKING:
    from studies.speech_pretraining import Config


class Part(NamedTuple):
    """Log-mel frames of recordings, their texts and phonemes in numbers from 1 on, and who speaks.

    tokens : the phoneme at the middle of each token of four frames, (tokens,), 0 in pauses
    """

    frames: list[Any]
    letters: list[list[int]]
    phonemes: list[list[int]]
    speakers: list[str]
    tokens: list[Any]


class Speech(NamedTuple):
    """unlabelled, labelled : for training, the second within the first; validation, test : of other sentences by other
    speakers. lengths : seconds → the test joined to recordings of that many. about : what was said, by whom."""

    unlabelled: Part
    labelled: Part
    validation: Part
    test: Part
    lengths: dict[float, Part]
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
    name = f"{family}_{text}_{config.sentences}x{config.each}_{config.longest}"
    manners = len(config.accents) * len(config.voices) * len(config.paces) * len(config.pitches)
    name += "" if manners == 64 else f"_{manners}manners"
    path = Path(config.corpora) / f"{name}.safetensors"
    if family == "espeak":
        chosen = EspeakConfig(
            said,
            accents=config.accents,
            voices=config.voices,
            rates=config.paces,
            pitches=config.pitches,
            each=config.each,
        )
        return espeak_corpus(chosen, path), text
    tones = TonesConfig(said, speakers=len(config.accents) * len(config.voices), each=config.each)
    return cached_corpus(path, {"program": "tones", **plain(tones)}, lambda: tones_corpus(tones)), text


def recordings(corpus: SpeechCorpus, indices: Sequence[int], seconds: float) -> list[list[int]]:
    """Utterances of one speaker joined, in the order of `indices`, to recordings of at least `seconds`: their indices.

    What remains at the end of a speaker is joined to the recording before it, and stands alone where there is none.
    `seconds` of 0 leaves every utterance a recording.
    """
    if seconds <= 0:
        return [[int(i)] for i in indices]
    long = np.diff(corpus.ends, prepend=0) / corpus.sample_rate
    by_speaker: dict[str, list[list[int]]] = {}
    for i in map(int, indices):
        groups = by_speaker.setdefault(corpus.speakers[i], [[]])
        if long[groups[-1]].sum() >= seconds:
            groups.append([])
        groups[-1].append(i)
    for groups in by_speaker.values():
        if len(groups) > 1 and long[groups[-1]].sum() < seconds:
            short = groups.pop()
            groups[-1] += short
    return [group for groups in by_speaker.values() for group in groups]


def _one_of(group: Sequence[Utterance]) -> Utterance:
    """The utterances one after another as one; the space between texts is a letter."""
    if len(group) == 1:
        return group[0]
    before = np.cumsum([0, *(len(u.audio) for u in group[:-1])])
    return group[0]._replace(
        audio=np.concatenate([u.audio for u in group]),
        text=" ".join(u.text for u in group),
        sentence=" ".join(u.sentence for u in group),
        phonemes=tuple(p for u in group for p in u.phonemes),
        starts=np.concatenate([u.starts + at for u, at in zip(group, before)]),
    )


def token_phonemes(phonemes: np.ndarray, starts: np.ndarray, frames: int, hop: int) -> Any:
    """The phoneme that is being said at frame 4i, where token i of the encoder is centred: (⌈frames/4⌉,) int64 tensor.

    phonemes, starts : numbers in order, and their first samples; before the first start the number is 0
    """
    import torch

    at = np.arange(0, frames, REDUCTION) * hop
    return torch.from_numpy(np.concatenate([[0], phonemes])[np.searchsorted(starts, at, side="right")])


def channel_of(bins: int, deviation: float, seed: Sequence[int]) -> Any:
    """What a microphone and a room add to all log-mel frames of a recording: (bins,) float32, in log energy.

    Σ_k a_k cos(π k (b + ½)/bins) over k = 0 … 3, each a_k normal with this deviation
    """
    import torch

    a = np.random.default_rng(seed).normal(size=4) * deviation
    b = (np.arange(bins) + 0.5) / bins
    return torch.from_numpy(a @ np.cos(np.pi * np.arange(4)[:, None] * b)).to(torch.float32)


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

    def part(indices: Sequence[int], seconds: float) -> Part:
        nonlocal left_out
        order = np.random.default_rng(config.data_seed).permutation(indices) if seconds > 0 else indices
        kept = Part([], [], [], [], [])
        for group in recordings(corpus, order, seconds):
            one = _one_of([corpus[i] for i in group])
            frames = MelFrames([one], mel)[0]
            frames = frames + channel_of(config.bins, config.channel, (config.data_seed, group[0], len(group)))
            letters = [numbers["letters"][c] for c in one.text]
            phonemes = [numbers["phonemes"][p] for p in one.phonemes if p not in pauses]
            if not (has_path(letters, len(frames)) and has_path(phonemes, len(frames))):
                left_out += 1
                continue
            kept.frames.append(frames)
            kept.letters.append(letters)
            kept.phonemes.append(phonemes)
            kept.speakers.append(one.speaker)
            every = np.array([0 if p in pauses else numbers["phonemes"][p] for p in one.phonemes], np.int64)
            kept.tokens.append(token_phonemes(every, one.starts, len(frames), mel.hop))
        return kept

    unlabelled, validation, test = (part(parts[name], config.joined) for name in ("train", "validation", "test"))
    short = left_out
    lengths = {seconds: part(parts["test"], seconds) for seconds in config.test_seconds}
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
        "test_speakers": sorted(set(test.speakers)),
        "seconds": {name: _mean_seconds(one, mel) for name, one in (("train", unlabelled), ("test", test))},
        "length_seconds": {f"{seconds:g}": _mean_seconds(one, mel) for seconds, one in lengths.items()},
        "targets": config.targets,
        "left_out": short,
        "versions": dict(corpus.about.get("versions", {})),
    }
    parted = (unlabelled, labelled, validation, test, lengths)
    return Speech(*parted, symbols, corpus.sample_rate, corpus.hash(), about, corpus)


def _mean_seconds(part: Part, mel: LogMel) -> float:
    return float(np.mean([len(frames) for frames in part.frames])) * mel.hop / mel.sample_rate
