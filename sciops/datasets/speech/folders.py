"""Recordings in folders: LibriSpeech's layout, and audio with one text file each."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np

from sciops.datasets.speech.corpus import Utterance
from sciops.datasets.speech.sentences import normalized
from sciops.files.budget import Budget, Spending, current_budget
from sciops.files.messages import shown
from sciops.files.untrusted import check_regular, read_text, refusing

SUFFIXES = (".flac", ".wav")
_DAMAGED = "{}: not a recording that can be read ({{error}}); remove or replace it"


class SpeechFiles:
    """Recordings that are read when they are asked for: files[i] is an `Utterance`, without phonemes.

    paths, texts, speakers : of n recordings. Texts are lower-cased and stripped of punctuation; `sentences` are they.
    Several channels of a recording are averaged.
    budget : of opening each recording, as in `sciops.open_dataset`; how many there are is not limited
    """

    def __init__(
        self, paths: list[Path], texts: list[str], speakers: list[str], *, budget: Budget | None = None
    ) -> None:
        self.budget = budget or current_budget()
        self.paths, self.texts, self.speakers = tuple(paths), tuple(map(normalized, texts)), tuple(speakers)
        self.sentences, self.factors = self.texts, {}

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Utterance:
        i = range(len(self))[index]
        audio, rate = read_audio(self.paths[i], budget=self.budget)
        return Utterance(audio, rate, self.texts[i], self.speakers[i], self.sentences[i])


def read_librispeech(folder: str | os.PathLike, *, budget: Budget | None = None) -> SpeechFiles:
    """A folder speaker/chapter/*.flac|wav with *.trans.txt beside them, lines of "NAME THE TEXT"; `budget` is that of
    each file.

    Raises FileNotFoundError for a missing folder, ValueError for a recording without a text, a text without a
    recording, and a line without a text, naming the file.
    """
    folder = _existing(folder)
    paths, texts, speakers = [], [], []
    for listing in sorted(folder.glob("*/*/*.trans.txt")):
        for number, line in enumerate(_lines(listing, budget), 1):
            name, _, text = line.strip().partition(" ")
            if not text.strip():
                raise ValueError(f"{listing}: line {number} has no text; expected a recording's name and what is said")
            found = [listing.parent / (name + suffix) for suffix in SUFFIXES]
            found = [path for path in found if path.is_file()]
            if not found or "/" in name:
                raise ValueError(f"{listing}: no recording {shown(name, 80)}{' or '.join(SUFFIXES)} beside it")
            paths.append(found[0])
            texts.append(text)
            speakers.append(listing.parent.parent.name)
    known = set(paths)
    for path in sorted(folder.glob("*/*/*")):
        if path.suffix in SUFFIXES and path not in known and path.with_suffix(".flac") not in known:
            raise ValueError(f"{path} has no text: expected a line for it in a .trans.txt beside it")
    if not paths:
        raise ValueError(f"{folder} holds no speaker/chapter/*.trans.txt with recordings")
    return SpeechFiles(paths, texts, speakers, budget=budget)


def read_flat(folder: str | os.PathLike, *, budget: Budget | None = None) -> SpeechFiles:
    """A folder of name.wav|flac with name.txt beside each; a file's speaker is its name up to the first "_" or "-".
    `budget` is that of each file.

    Raises FileNotFoundError for a missing folder, ValueError for a recording without a text and a text without a
    recording, naming the file.
    """
    folder = _existing(folder)
    paths = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in SUFFIXES]
    texts = []
    for path in paths:
        text = path.with_suffix(".txt")
        if not text.is_file():
            raise ValueError(f"{path} has no text: expected {text.name} beside it")
        texts.append(" ".join(_lines(text, budget)))
    stems = {path.stem for path in paths}
    for text in sorted(folder.glob("*.txt")):
        if text.stem not in stems:
            raise ValueError(f"{text} has no recording: expected {text.stem}{' or '.join(SUFFIXES)} beside it")
    if not paths:
        raise ValueError(f"{folder} holds no recordings ({', '.join(SUFFIXES)})")
    speakers = [path.stem.replace("-", "_").partition("_")[0] for path in paths]
    return SpeechFiles(paths, texts, speakers, budget=budget)


def read_audio(path: str | os.PathLike, *, budget: Budget | None = None) -> tuple[np.ndarray, int]:
    """(audio (samples,) float32, sample rate) of a .wav or .flac file.

    budget : of opening the file, as in `sciops.open_dataset`: what its samples take, by their number in the header

    Raises FileNotFoundError for a missing file, ValueError for one that cannot be read to its end or takes more than
    its budget, ImportError without soundfile for one that is no WAV file.
    """
    path = Path(path)
    if path.suffix.lower() == ".wav":
        return read_wav(path, budget=budget)
    spent = Spending(check_regular(path, missing=": no such file"), budget=budget)
    try:
        import soundfile
    except (ImportError, OSError):
        raise ImportError(f"{path}: files of {path.suffix} need soundfile: pip install 'sciops[speech]'") from None
    with refusing(_DAMAGED.format(path)), soundfile.SoundFile(path) as file:
        bands, rate, stated = file.channels, file.samplerate, file.frames
        spent.take(bytes=4 * stated * (bands + (bands > 1)), what=f"{stated} samples of {bands} channels")
        audio = file.read(dtype="float32")
        if len(audio) != stated:
            raise ValueError(f"its header states {stated} samples, it has {len(audio)}")
    spent.take(what=f"{stated} samples")
    return _one_channel(path, audio), int(rate)


def read_wav(path: str | os.PathLike, *, budget: Budget | None = None) -> tuple[np.ndarray, int]:
    """(audio (samples,) float32 in [−1, 1), sample rate) of a WAV file of 8, 16, 24 or 32 bits, or floats.

    budget : of opening the file, as in `sciops.open_dataset`
    """
    from scipy.io import wavfile

    path = Path(path)
    spent = Spending(check_regular(path, missing=": no such file"), budget=budget)
    _count_chunks(path, spent)
    with refusing(_DAMAGED.format(path)), warnings.catch_warnings():
        warnings.simplefilter("error")  # a file cut short is a warning to scipy
        warnings.filterwarnings("ignore", message="Chunk .*not understood")
        rate, samples = wavfile.read(path)
    spent.take(bytes=4 * samples.size, what=f"{len(samples)} samples")
    audio = samples.astype(np.float32)
    if samples.dtype == np.uint8:
        audio -= 128
        audio /= 128
    elif samples.dtype.kind == "i":
        audio /= float(2 ** (8 * samples.dtype.itemsize - 1))  # a power of two: nothing is rounded a second time
    return _one_channel(path, audio), int(rate)


def _count_chunks(path: Path, spent: Spending) -> None:
    """Counts the chunks of a RIFF file, each of which takes a reader a while, as objects."""
    at, size = 12, spent.size
    with open(path, "rb") as file:
        order = "big" if file.read(4) == b"RIFX" else "little"
        while at + 8 <= size:
            spent.take(objects=1, what="its chunks")
            file.seek(at + 4)
            length = int.from_bytes(file.read(4), order)
            at += 8 + length + length % 2


def _one_channel(path: Path, audio: np.ndarray) -> np.ndarray:
    if not audio.size or not np.isfinite(audio).all():
        raise ValueError(f"{path}: {'no samples' if not audio.size else 'samples that are not finite'}; remove it")
    return np.ascontiguousarray(audio if audio.ndim == 1 else audio.mean(1))


def _existing(folder: str | os.PathLike) -> Path:
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder")
    return folder


def _lines(path: Path, budget: Budget | None) -> list[str]:
    with refusing(f"{path}: not text in UTF-8", UnicodeDecodeError):
        text = read_text(path, Spending(check_regular(path), budget=budget))
    return [line for line in text.splitlines() if line.strip()]
