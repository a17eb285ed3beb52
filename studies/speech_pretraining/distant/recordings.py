"""Recordings of spoken words whose targets need the whole recording: words of one speaker, joined in random order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sciops.datasets.speech import (
    EspeakConfig,
    SpeechCorpus,
    TonesConfig,
    Utterance,
    espeak_corpus,
    split,
    tones_corpus,
)
from sciops.datasets.speech.corpus import cached_corpus
from sciops.datasets.speech.espeak import PAUSES
from sciops.files.json_files import plain
from sciops.models.sequences.log_mel import LogMel
from sciops.models.sequences.speech import REDUCTION
from sciops.training.speech import MelFrames
from studies.speech_pretraining.data import family_of

if TYPE_CHECKING:
    from studies.speech_pretraining import Config


class Recordings(NamedTuple):
    """Log-mel frames (frames, bins) of recordings, what is said in them, and by whom.

    place : (tokens,) int64 tensors, which word of the recording is being said at each token, from 1 on; 0 in pauses
    said : (words,) int64 arrays, the numbers of the words from 1 on: those of the vocabulary, then the key words
    speakers : a name each
    """

    frames: list[Any]
    place: list[Any]
    said: list[np.ndarray]
    speakers: list[str]


class Spoken(NamedTuple):
    """unlabelled : for training, pre-training and fine-tuning alike; validation, test : other orders by other speakers.

    targets : task → part → (words,) int64 arrays as `said`, the class of each word from 1 on, 0 where none is asked
    symbols : "words" → names of the words; task → names of its classes
    """

    unlabelled: Recordings
    validation: Recordings
    test: Recordings
    targets: dict[str, dict[str, list[np.ndarray]]]
    symbols: dict[str, tuple[str, ...]]
    sample_rate: int
    hash: str
    about: dict[str, Any]


PARTS = ("unlabelled", "validation", "test")


def counted(said: np.ndarray, vocabulary: int, most: int) -> np.ndarray:
    """How often the word at each place is said in the whole recording, `most` for that and more; 0 for key words.

    said : (words,) numbers from 1 on, of which those above `vocabulary` are key words
    """
    often = np.bincount(said, minlength=vocabulary + 1)[said]
    return np.where(said <= vocabulary, np.minimum(often, most), 0)


def permuted(said: np.ndarray, vocabulary: int, permutations: np.ndarray) -> np.ndarray:
    """The name that the first word, a key, gives to the word at each place: permutations[key, word] + 1.

    permutations : (keys, vocabulary), each row of them 0 … vocabulary − 1. The name is 0 where `after_key` is.
    """
    names = permutations[said[0] - vocabulary - 1, said[1:] - 1] + 1
    return after_key(said, np.concatenate([[0], names]))


def after_key(said: np.ndarray, values: Any) -> np.ndarray:
    """`values` at each word but the first two, which convolutions hear together: the key and the word beside it."""
    return np.where(np.arange(len(said)) > 1, values, 0)


def made_words(config: Config) -> SpeechCorpus:
    """Every word by every speaker in every manner, from its file where it is there."""
    distant, family = config.distant, family_of(config)
    every = (*distant.vocabulary, *distant.keys)
    speakers = len(distant.accents) * len(distant.voices)
    path = Path(config.corpora) / f"{family}_words_{len(every)}x{speakers}.safetensors"
    if family == "espeak":
        manner = {"rates": distant.paces, "pitches": distant.pitches}
        return espeak_corpus(EspeakConfig(every, accents=distant.accents, voices=distant.voices, **manner), path)
    tones = TonesConfig(every, speakers=speakers, each=speakers)
    return cached_corpus(path, {"program": "tones", **plain(tones)}, lambda: tones_corpus(tones))


def spoken(config: Config) -> Spoken:
    """The recordings of the three parts, and the targets of all tasks.

    A recording is a key word and `distant.words` words of the vocabulary, drawn alike but for no word twice in a row,
    by one speaker in manners of any kind, with pauses of random length before, between and after.

    Raises ValueError for words that are not all different, fewer than two of them, and no keys.
    """
    distant = config.distant
    every = (*distant.vocabulary, *distant.keys)
    if len(set(every)) < len(every) or len(distant.vocabulary) < 2 or not distant.keys:
        raise ValueError(f"words {' '.join(every)}: expected at least two and a key, all different")
    corpus = made_words(config)
    shares = {"validation": distant.validation, "test": distant.test}
    dealt = split(corpus, by="speaker", **shares, seed=config.data_seed)
    dealt["unlabelled"] = dealt.pop("train")
    mel = LogMel(sample_rate=corpus.sample_rate, bins=distant.bins)
    parts = {}
    for number, (name, size) in enumerate(zip(PARTS, (distant.recordings, distant.validated, distant.tested))):
        rng = np.random.default_rng((config.data_seed, number))
        parts[name] = _part(corpus, dealt[name], size, distant, mel, rng)
    size = len(distant.vocabulary)
    rng = np.random.default_rng((config.data_seed, len(PARTS)))
    permutations = np.stack([rng.permutation(size) for _ in distant.keys])
    named = {
        "count": lambda said: counted(said, size, distant.most),
        "name": lambda said: permuted(said, size, permutations),
        "key": lambda said: after_key(said, said[0] - size),
    }
    targets = {task: {name: [of(one) for one in parts[name].said] for name in PARTS} for task, of in named.items()}
    counts = (*map(str, range(1, distant.most)), f"{distant.most}+")
    names = tuple(f"name {i}" for i in range(1, size + 1))
    symbols = {"words": every, "count": counts, "name": names, "key": distant.keys}
    seconds = {name: [len(f) * mel.hop / corpus.sample_rate for f in parts[name].frames] for name in PARTS}
    about = {
        "family": family_of(config),
        "recordings": {name: len(parts[name].frames) for name in PARTS},
        "minutes": {name: sum(seconds[name]) / 60 for name in PARTS},
        "seconds": {name: float(np.mean(seconds[name])) for name in PARTS},
        "speakers": {name: len(set(parts[name].speakers)) for name in PARTS},
        "permutations": permutations.tolist(),
        "alone": {task: _alone(parts, targets[task]) for task in distant.tasks},
        "versions": dict(corpus.about.get("versions", {})),
    }
    digest = hashlib.sha256(corpus.hash().encode())
    for part in parts.values():
        for frames, said in zip(part.frames, part.said):
            digest.update(frames.numpy().tobytes() + said.astype("<i8").tobytes())
    rest = {"sample_rate": corpus.sample_rate, "hash": digest.hexdigest(), "about": about}
    return Spoken(**parts, targets=targets, symbols=symbols, **rest)


def _alone(parts: dict[str, Recordings], targets: dict[str, list[np.ndarray]]) -> float:
    """Errors of the test where every word gets the class that it has most often in training."""
    said, of = np.concatenate(parts["unlabelled"].said), np.concatenate(targets["unlabelled"])
    often = np.zeros((said.max() + 1, of.max() + 1), np.int64)
    np.add.at(often, (said, of), of > 0)
    test, wanted = np.concatenate(parts["test"].said), np.concatenate(targets["test"])
    return float((often.argmax(1)[test] != wanted)[wanted > 0].mean())


def _part(
    corpus: SpeechCorpus, indices: Sequence[int], size: int, distant: Any, mel: LogMel, rng: np.random.Generator
) -> Recordings:
    """`size` recordings by the speakers of these utterances, each of them in turn."""
    number = {name: i for i, name in enumerate((*distant.vocabulary, *distant.keys), 1)}
    speakings: dict[str, dict[int, list[np.ndarray]]] = {}
    for i in map(int, indices):
        one = corpus[i]
        speakings.setdefault(one.speaker, {}).setdefault(number[one.sentence], []).append(spoken_part(one))
    everyone = sorted(speakings)
    made = Recordings([], [], [], [])
    for i in range(size):
        speaker = everyone[i % len(everyone)]
        said = drawn(len(distant.vocabulary), len(distant.keys), distant.words, rng)
        audio, place = _joined(said, speakings[speaker], distant.pauses, corpus.sample_rate, rng)
        frames = MelFrames([Utterance(audio, corpus.sample_rate, "", speaker, "")], mel, keep=False)[0]
        made.frames.append(frames)
        made.place.append(_at_tokens(place, len(frames), mel.hop))
        made.said.append(said)
        made.speakers.append(speaker)
    return made


def drawn(vocabulary: int, keys: int, words: int, rng: np.random.Generator) -> np.ndarray:
    """(1 + words,) numbers from 1 on: a key, then words of the vocabulary, none the same as the one before it."""
    first = rng.integers(vocabulary)
    steps = rng.integers(1, vocabulary, size=words - 1)
    return np.concatenate([[vocabulary + rng.integers(keys)], (first + np.cumsum([0, *steps])) % vocabulary]) + 1


def spoken_part(one: Utterance) -> np.ndarray:
    """The audio of an utterance without the pauses before and after it."""
    is_said = [name not in PAUSES for name in one.phonemes]
    first = int(one.starts[is_said.index(True)])
    last = len(is_said) - is_said[::-1].index(True)
    return one.audio[first : int(one.starts[last]) if last < len(is_said) else len(one.audio)]


def _joined(
    said: np.ndarray,
    speakings: dict[int, list[np.ndarray]],
    pauses: tuple[float, float],
    sample_rate: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Audio of the words with pauses around each, and at every sample which of them is said, from 1 on, or 0."""
    parts, place = [], []
    for i, word in enumerate([*said, 0], 1):
        quiet = round(rng.uniform(*pauses) * sample_rate)
        parts.append(np.zeros(quiet, np.float32))
        place.append(np.zeros(quiet, np.int64))
        if word:
            parts.append(speakings[word][rng.integers(len(speakings[word]))])
            place.append(np.full(len(parts[-1]), i))
    return np.concatenate(parts), np.concatenate(place)


def _at_tokens(place: np.ndarray, frames: int, hop: int) -> Any:
    """The place at frame 4i, where token i of the encoder begins: (⌈frames/4⌉,) int64 tensor."""
    import torch

    return torch.from_numpy(place[np.arange(0, frames, REDUCTION) * hop])
