"""`SpeechCorpus`: utterances with texts, speakers and phonemes at known samples, in one file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sciops.files.budget import Budget, within_budget
from sciops.files.digest import is_sealed, is_whole, sealed
from sciops.files.json_files import plain, write_atomically
from sciops.files.tensor_files import opened_tensors
from sciops.files.untrusted import check_regular, parse_json, refusing
from sciops.files.writable import writable_file

FORMAT, BEFORE = "sciops.speech.2", "sciops.speech.1"


class Utterance(NamedTuple):
    """audio : (samples,) float32 in [−1, 1). phonemes : symbols in order, starts : (phonemes,) their first samples, and
    both empty where they are not known. speaker, sentence : names that utterances share."""

    audio: np.ndarray
    sample_rate: int
    text: str
    speaker: str
    sentence: str
    phonemes: tuple[str, ...] = ()
    starts: np.ndarray = np.zeros(0, np.int64)


@dataclass(frozen=True)
class SpeechCorpus:
    """Recordings one after another, and what is known of each.

    audio : (all samples,) int16; ends : (n,) int64, where each utterance ends in it
    phonemes : (all phonemes,) int32, numbers in `symbols`; starts : their first samples, counted from the beginning of
        their utterance; phoneme_ends : (n,) int64, where each utterance's phonemes end
    texts, speakers, sentences : n names each
    factors : name → n values, such as accent, rate and pitch
    about : how it was made, anything JSON can hold

    corpus[i] is an `Utterance`; ``len`` their number.
    """

    audio: np.ndarray
    ends: np.ndarray
    sample_rate: int
    texts: tuple[str, ...]
    speakers: tuple[str, ...]
    sentences: tuple[str, ...]
    phonemes: np.ndarray
    starts: np.ndarray
    phoneme_ends: np.ndarray
    symbols: tuple[str, ...]
    factors: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> Utterance:
        i = range(len(self))[index]
        first, least = (int(e[i - 1]) if i else 0 for e in (self.ends, self.phoneme_ends))
        inside = slice(least, int(self.phoneme_ends[i]))
        return Utterance(
            self.audio[first : self.ends[i]].astype(np.float32) / 32768,
            self.sample_rate,
            self.texts[i],
            self.speakers[i],
            self.sentences[i],
            tuple(self.symbols[k] for k in self.phonemes[inside]),
            self.starts[inside],
        )

    @property
    def seconds(self) -> float:
        return len(self.audio) / self.sample_rate

    def hash(self) -> str:
        """SHA-256 of the recordings, phonemes, texts, speakers and factors: two makings of one corpus have the same."""
        digest = hashlib.sha256()
        for array, kind in self._arrays():
            digest.update(np.ascontiguousarray(array, kind).tobytes())
        digest.update(json.dumps(self._named(), sort_keys=True).encode())
        return digest.hexdigest()

    def _arrays(self):
        kinds = ("<i2", "<i8", "<i4", "<i8", "<i8")
        return zip((self.audio, self.ends, self.phonemes, self.starts, self.phoneme_ends), kinds)

    def _named(self) -> dict[str, Any]:
        names = ("sample_rate", "texts", "speakers", "sentences", "symbols", "factors")
        return plain({name: getattr(self, name) for name in names})


def joined(utterances: Sequence[Utterance], *, factors: Mapping[str, Sequence[Any]] | None = None, **about: Any):
    """The `SpeechCorpus` of utterances of one sample rate; audio is rounded to 16 bits and clipped.

    Raises ValueError for none at all, for different sample rates, for factors of another length, and for an utterance
    whose audio is not (samples,) finite numbers or whose phonemes do not each have a first sample.
    """
    if not utterances:
        raise ValueError("no utterances: expected at least one")
    rates = {u.sample_rate for u in utterances}
    if len(rates) > 1:
        raise ValueError(f"utterances of {sorted(rates)} Hz: expected one sample rate; see resampled")
    for name, values in (factors or {}).items():
        if len(values) != len(utterances):
            raise ValueError(f"factor {name!r} has {len(values)} values for {len(utterances)} utterances")
    for i, one in enumerate(utterances):
        if one.audio.ndim != 1 or not len(one.audio):
            raise ValueError(f"utterance {i} has audio of shape {one.audio.shape}: expected (samples,), one channel")
        if len(one.starts) != len(one.phonemes):
            raise ValueError(
                f"utterance {i} has {len(one.phonemes)} phonemes and {len(one.starts)} starts: expected one for each"
            )
    symbols = tuple(sorted({p for u in utterances for p in u.phonemes}))
    number = {symbol: i for i, symbol in enumerate(symbols)}
    return SpeechCorpus(
        audio=np.concatenate([pcm(u.audio) for u in utterances]),
        ends=np.cumsum([len(u.audio) for u in utterances], dtype=np.int64),
        sample_rate=int(rates.pop()),
        texts=tuple(u.text for u in utterances),
        speakers=tuple(u.speaker for u in utterances),
        sentences=tuple(u.sentence for u in utterances),
        phonemes=np.array([number[p] for u in utterances for p in u.phonemes], np.int32),
        starts=np.concatenate([np.asarray(u.starts, np.int64) for u in utterances]),
        phoneme_ends=np.cumsum([len(u.phonemes) for u in utterances], dtype=np.int64),
        symbols=symbols,
        factors={name: list(values) for name, values in (factors or {}).items()},
        about=about,
    )


def pcm(audio: np.ndarray) -> np.ndarray:
    """(samples,) int16 of float audio, ±1 being full scale; int16 stays as it is.

    Raises ValueError for other integers, whose full scale is not known, and for samples that are not finite.
    """
    if audio.dtype == np.int16:
        return audio
    if audio.dtype.kind != "f" or not np.isfinite(audio).all():
        problem = "not finite" if audio.dtype.kind == "f" else f"of {audio.dtype}"
        raise ValueError(f"samples {problem}: expected int16, or floats with ±1 as full scale")
    return np.clip(np.rint(audio * 32768.0), -32768, 32767).astype(np.int16)


def save_corpus(corpus: SpeechCorpus, path: str | Path) -> Path:
    """Writes one safetensors file, arrays and JSON with a digest over all of it; it appears only when whole."""
    from safetensors.numpy import save

    names = ("audio", "ends", "phonemes", "starts", "phoneme_ends")
    arrays = {name: np.ascontiguousarray(getattr(corpus, name)) for name in names}
    header = {"format": FORMAT, "hash": corpus.hash()}
    header |= {"named": json.dumps(corpus._named()), "about": json.dumps(plain(corpus.about))}
    return write_atomically(path, save(arrays, sealed(header, arrays)))


@within_budget
def load_corpus(path: str | Path, *, budget: Budget | None = None) -> SpeechCorpus:
    """What `save_corpus` wrote; `budget` as in `sciops.open_dataset`.

    Raises FileNotFoundError for a missing file, ValueError in one line for one that is damaged or something else.
    Files of format 1 have the corpus's hash alone, which leaves out `about`.
    """
    path = Path(path)
    check_regular(path, missing=f": no corpus here; python -m data_gen.speech --output {path} makes one")
    refused = f"{path}: not a whole speech corpus ({{error}}); make it again"
    with refusing(refused, ValueError, KeyError, TypeError, AttributeError):
        return _corpus(path)


def _corpus(path: Path) -> SpeechCorpus:
    with opened_tensors(path, framework="numpy") as file:
        header = file.metadata() or {}
        arrays = {name: file.get_tensor(name) for name in file.keys()}
    if header.get("format") not in (FORMAT, BEFORE):
        raise ValueError(f"its format is {header.get('format')!r}, expected {FORMAT!r}")
    if (is_sealed(header) or header["format"] == FORMAT) and not is_whole(header, arrays):
        raise ValueError("it changed since it was written")
    named = parse_json(header["named"], source=path)
    for name in ("texts", "speakers", "sentences", "symbols"):
        named[name] = tuple(named[name])
    corpus = SpeechCorpus(**arrays, **named, about=parse_json(header["about"], source=path))
    if corpus.hash() != header["hash"]:
        raise ValueError("its content does not have the hash it was written with")
    _check(corpus)
    return corpus


def _check(corpus: SpeechCorpus) -> None:
    """Raises ValueError unless every utterance lies in the recordings and has its names: a digest shows that a file is
    what was written, not that what was written holds together."""
    n = len(corpus.ends)
    for name, kind in (
        ("audio", "int16"),
        ("ends", "int64"),
        ("phonemes", "int32"),
        ("starts", "int64"),
        ("phoneme_ends", "int64"),
    ):
        values = getattr(corpus, name)
        if values.ndim != 1 or values.dtype != np.dtype(kind):
            raise ValueError(f"{name} is {values.dtype} of shape {values.shape}, expected {kind} of one axis")
    for name, ends, held in (
        ("ends", corpus.ends, len(corpus.audio)),
        ("phoneme_ends", corpus.phoneme_ends, len(corpus.phonemes)),
    ):
        steps = np.diff(ends, prepend=0)
        if ends.shape != (n,) or (steps < 0).any() or (n and ends[-1] != held):
            raise ValueError(f"{name} does not divide its {held} values among {n} utterances")
    named = {name: getattr(corpus, name) for name in ("texts", "speakers", "sentences")} | dict(corpus.factors)
    for name, values in named.items():
        if len(values) != n or (name in ("texts", "speakers", "sentences") and not all(map(_is_text, values))):
            raise ValueError(f"{name} is not one for each of {n} utterances")
    numbers = corpus.phonemes
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(corpus.symbols):
        raise ValueError(f"phonemes are numbered {numbers.min()} … {numbers.max()} among {len(corpus.symbols)} symbols")
    if len(corpus.starts) != len(numbers) or type(corpus.sample_rate) is not int or corpus.sample_rate < 1:
        raise ValueError(f"{len(corpus.starts)} starts of {len(numbers)} phonemes at {corpus.sample_rate!r} Hz")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def cached_corpus(path: str | Path, made_by: Mapping[str, Any], make) -> SpeechCorpus:
    """The corpus at `path` where its ``about["made_by"]`` is `made_by`; else make(), saved there.

    Raises ValueError where the file was made by something else: it is not written over; OSError, before anything is
    made, where it cannot be written.
    """
    path, made_by = Path(path), plain(made_by)
    if not path.exists():
        writable_file(path)
        save_corpus(make(), path)
    corpus = load_corpus(path)
    if corpus.about.get("made_by") != made_by:
        before = corpus.about.get("made_by") or {}
        names = [key for key in {**before, **made_by} if before.get(key) != made_by.get(key)]
        raise ValueError(f"{path} was made with other values of {', '.join(names)}: remove it, or choose another file")
    return corpus


def resampled(corpus: SpeechCorpus, sample_rate: int) -> SpeechCorpus:
    """The corpus at another sample rate, by a polyphase filter (`scipy.signal.resample_poly`); phonemes move along."""
    from math import gcd

    from scipy.signal import resample_poly

    if sample_rate == corpus.sample_rate:
        return corpus
    if sample_rate < 1:
        raise ValueError(f"sample_rate={sample_rate}: expected samples a second, such as 16000")
    common = gcd(sample_rate, corpus.sample_rate)
    up, down = sample_rate // common, corpus.sample_rate // common
    utterances = []
    for i in range(len(corpus)):
        one = corpus[i]
        audio = resample_poly(one.audio.astype(np.float64), up, down).astype(np.float32)
        utterances.append(one._replace(audio=audio, sample_rate=sample_rate, starts=one.starts * up // down))
    return joined(utterances, factors=corpus.factors, **corpus.about)


def concatenated(corpora: Sequence[SpeechCorpus], **about: Any) -> SpeechCorpus:
    """Corpora of one sample rate one after another, with the factors that all of them have."""
    shared = set.intersection(*(set(c.factors) for c in corpora))
    factors = {name: [v for c in corpora for v in c.factors[name]] for name in sorted(shared)}
    return joined([c[i] for c in corpora for i in range(len(c))], factors=factors, **about)
