"""Accents of synthetic voices, an encoder pre-trained mostly on one of them, and its states at known phonemes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.datasets.speech import EspeakConfig, SpeechCorpus, add_noise, espeak_corpus, sentences
from sciops.datasets.speech.espeak import PAUSES
from sciops.datasets.text import read_corpus
from sciops.evaluation.probes import hidden_states
from sciops.models.sequences.speech import REDUCTION, SpeechEncoder
from sciops.training.objectives.adversarial import DomainHead, reversal_strength
from sciops.training.speech import BestRQ, MelFrames, SpeechTraining, fit_steps, pretrain
from sciops.training.speech.frames import padded

REFERENCE = "en-US"
ACCENTS = {"en-US": "gmw/en-US", "en-GB-x-rp": "gmw/en-GB-x-rp", "en-029": "gmw/en-029"}
OPTIONS = "sentences voices classes snr depth width pretrain_steps tune_steps batch rate tune_rate share"
TUNED = {"fine-tuned": 0.0, "adversarial": 1.0}  # arm → strength of the reversed gradient


class Segments(NamedTuple):
    """Phonemes at known places, one row each.

    utterance, first, last : recording, and frames [first, last)
    phoneme : as the reference accent says it (canonical); surface : as it was said
    speaker, accent, sentence : names
    """

    utterance: np.ndarray
    first: np.ndarray
    last: np.ndarray
    phoneme: np.ndarray
    speaker: np.ndarray
    accent: np.ndarray
    sentence: np.ndarray
    surface: np.ndarray

    def jittered(self, by: int, seed: int) -> Segments:
        """The segments with each end moved by up to `by` frames, at least one frame long and never before the start."""
        rng = np.random.default_rng([seed, 9])
        moves = rng.integers(-by, by + 1, (2, len(self.first)))
        first = np.maximum(self.first + moves[0], 0)
        # a mean over a segment leaves out what lies beyond the recording
        first = np.minimum(first, self.last - 1)
        return self._replace(first=first, last=np.maximum(self.last + moves[1], first + 1))


def accents_corpus(folder: Path, options: Mapping[str, Any]) -> SpeechCorpus:
    """Every voice of every accent, or "each" of them, says every sentence; from its file where it is there."""
    said = _said(options["sentences"])
    chosen = EspeakConfig(
        said,
        accents=tuple(ACCENTS.values()),
        voices=tuple(options["voices"]),
        rates=(175,),
        pitches=(50,),
        each=options.get("each"),
    )
    return espeak_corpus(chosen, folder / "accents.safetensors")


@cache
def _said(count: int) -> tuple[str, ...]:
    try:
        words = read_corpus("bible")
    except FileNotFoundError:
        words = read_corpus("python")  # always there
    return tuple(sentences(words, count, shortest=12, longest=24, seed=0))


def log_mels(corpus: SpeechCorpus, encoder: SpeechEncoder, snr: float) -> list[Tensor]:
    """Frames of the recordings, each with white noise at `snr` dB that is its own."""
    noisy = [
        corpus[i]._replace(audio=add_noise(corpus[i].audio, snr, np.random.default_rng(i))) for i in range(len(corpus))
    ]
    return [*MelFrames(noisy, encoder.mel)]


def segments_of(corpus: SpeechCorpus, frames: list[Tensor], hop: int, classes: int) -> Segments:
    """The most frequent phonemes, labelled as the reference accent says the sentence (canonical labels).

    Phonemes are matched by their place in the sentence; recordings with another number of them are left out.
    """
    spoken = []
    for i in range(len(corpus)):
        one = corpus[i]
        ends = [*one.starts[1:], len(one.audio)]
        spoken.append([(p, s, e) for p, s, e in zip(one.phonemes, one.starts, ends) if p not in PAUSES])
    accent = [name.split("+")[0] for name in corpus.speakers]
    canonical = {
        corpus.sentences[i]: [p for p, _, _ in said] for i, said in enumerate(spoken) if accent[i] == REFERENCE
    }
    common = Counter(p for names in canonical.values() for p in names)
    chosen = {p for p, _ in common.most_common(classes)}
    rows = []
    for i, said in enumerate(spoken):
        names = canonical.get(corpus.sentences[i])  # None where no voice of the reference says it
        if names is None or len(names) != len(said):
            continue
        for name, (heard, start, end) in zip(names, said):
            first = min(int(start) // hop, len(frames[i]) - 1)
            last = min(max(first + 1, round(int(end) / hop)), len(frames[i]))
            if name in chosen:
                rows.append((i, first, last, name, corpus.speakers[i], accent[i], corpus.sentences[i], heard))
    return Segments(*(np.array(column) for column in zip(*rows)))


def pooled_segments(states: Any, segments: Segments, stride: int) -> np.ndarray:
    """(segments, D): mean of the states, (recordings, positions, D), over each segment; `stride` frames a position."""
    begin = segments.first // stride
    end = np.maximum(begin + 1, -(-segments.last // stride))
    found = np.empty((len(begin), states[0].shape[-1]))
    for i in np.unique(segments.utterance):
        rows = segments.utterance == i
        one = states[int(i)].double().numpy()
        sums = np.concatenate([np.zeros((1, one.shape[1])), one.cumsum(axis=0)])
        stop = np.minimum(end[rows], len(one))
        found[rows] = (sums[stop] - sums[begin[rows]]) / (stop - begin[rows])[:, None]
    return found


def accent_states(
    folder: Path,
    seed: int,
    options: Mapping[str, Any],
    *,
    tuned: Mapping[str, float] = TUNED,
    jitters: Sequence[int] = (),
    snrs: Sequence[float] = (),
    hold_sentences: bool = False,
    head_steps: int = 0,
) -> tuple[Segments, dict[str, Any], dict]:
    """(segments, arm → layer → (segments, D), record): states of one seed's encoders.

    Arms are "log-mel", "random" (before training), "pre-trained" and those of `tuned`. Pre-training (BEST-RQ) hears the
    reference accent, and a share of the others. Fine-tuning learns the phonemes of the training speakers; adversarial
    fine-tuning learns the same while a reversed gradient removes the accent, and one of negative strength makes it
    easier to read. The training speakers, half of the voices of every accent, are those of `train_rows`.

    jitters : frames by which the ends of segments are moved, for arms "log-mel, ±1" and "pre-trained, ±1"
    snrs : dB of white noise, for arms "log-mel, 0 dB"
    hold_sentences : fine-tunes on half of the sentences, see `blocks`
    head_steps : further steps of the domain head on each batch, before its gradient is reversed
    """
    torch.set_num_threads(1)
    corpus = accents_corpus(folder, options)
    encoder = _encoder(options, corpus.sample_rate, seed)
    frames = log_mels(corpus, encoder, options["snr"])
    segments = segments_of(corpus, frames, encoder.mel.hop, options["classes"])
    accent = np.array([name.split("+")[0] for name in corpus.speakers])
    rng = np.random.default_rng([seed, 5])
    heard = np.flatnonzero((accent == REFERENCE) | (rng.uniform(size=len(accent)) < options["share"]))
    every = torch.cat([frames[i] for i in heard])[None]
    encoder.bin_norm.update(every, torch.ones(every.shape[:2], dtype=torch.bool))
    found: dict[str, Any] = {"log-mel": {"log-mel": pooled_segments(frames, segments, 1)}}
    for by in jitters:
        found[f"log-mel, ±{by}"] = {"log-mel": pooled_segments(frames, segments.jittered(by, seed), 1)}
    for snr in snrs:
        found[f"log-mel, {snr:g} dB"] = {"log-mel": pooled_segments(log_mels(corpus, encoder, snr), segments, 1)}
    found["random"] = _states(encoder, frames, segments)
    torch.manual_seed(10_000 + seed)
    model = BestRQ(encoder, codes=256, seed=seed)
    length = SpeechTraining(steps=options["pretrain_steps"], batch=options["batch"], rate=options["rate"], seed=seed)
    run = pretrain(model, [frames[i] for i in heard], length)
    found["pre-trained"] = _states(encoder, frames, segments)
    for by in jitters:
        found[f"pre-trained, ±{by}"] = _states(encoder, frames, segments.jittered(by, seed), last=True)
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    record = {"masked accuracy": float(np.mean([row["accuracy"] for row in run["history"][-10:]]))}
    for arm, strength in tuned.items():
        encoder.load_state_dict(before)
        train = blocks(segments, seed)[0][0] if hold_sentences else train_rows(segments, seed)
        record[arm] = _tuned(encoder, frames, segments, train, strength, seed, options, head_steps)
        found[arm] = _states(encoder, frames, segments)
    return segments, found, record


def train_rows(segments: Segments, seed: int) -> np.ndarray:
    """(segments,) True for the training voices, one half, the same voices in every accent."""
    voice = np.array([name.split("+")[1] for name in segments.speaker])
    names = np.unique(voice)
    chosen = np.random.default_rng([seed, 6]).permutation(names)[: len(names) // 2]
    return np.isin(voice, chosen)


def blocks(segments: Segments, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """[(training rows, test rows)] that share neither voices nor sentences; four folds, which test every segment.

    All voices say the same sentences, and a synthesiser says them alike: a probe that was trained on a sentence knows
    its phonemes by heart in any voice.
    """
    voices, said = train_rows(segments, seed), np.unique(segments.sentence)
    half = np.isin(segments.sentence, np.random.default_rng([seed, 10]).permutation(said)[: len(said) // 2])
    return [((voices == v) & (half == s), (voices != v) & (half != s)) for v in (True, False) for s in (True, False)]


def _encoder(options: Mapping[str, Any], sample_rate: int, seed: int) -> SpeechEncoder:
    torch.manual_seed(seed)
    return SpeechEncoder(
        out_channels=options["width"],
        depth=options["depth"],
        local=7,
        front_channels=6,
        bins=40,
        dropout=0.0,
        sample_rate=sample_rate,
        updates=0,
    )


def _states(
    encoder: SpeechEncoder, frames: list[Tensor], segments: Segments, last: bool = False
) -> dict[str, np.ndarray]:
    mel, lengths = padded(frames)

    def call(rows: Tensor) -> Any:
        return encoder.encode(encoder.normalize(mel[rows], lengths[rows]), lengths[rows])

    names = ["front", *(f"stack.blocks.{i}" for i in range(len(encoder.stack.blocks)))]
    names = names[-1:] if last else names
    states = hidden_states(encoder, torch.arange(len(frames)), layers=names, call=call)
    shown = {name: f"block {int(name.rsplit('.', 1)[1]) + 1}" if "." in name else name for name in names}
    return {shown[name]: pooled_segments(value, segments, REDUCTION) for name, value in states.items()}


def _tuned(
    encoder: SpeechEncoder,
    frames: list[Tensor],
    segments: Segments,
    train: np.ndarray,
    strength: float,
    seed: int,
    options: Mapping[str, Any],
    head_steps: int = 0,
) -> dict[str, float]:
    torch.manual_seed(20_000 + seed)
    phonemes, phoneme = np.unique(segments.phoneme, return_inverse=True)
    accents, accent = np.unique(segments.accent, return_inverse=True)
    recordings = np.unique(segments.utterance[train])
    of = {int(i): np.flatnonzero(segments.utterance == i) for i in recordings}
    model = nn.ModuleDict(
        {
            "encoder": encoder,
            "task": nn.Linear(encoder.out_channels, len(phonemes)),
            "domain": DomainHead(encoder.out_channels, len(accents), width=64),
        }
    )
    step, total = 0, options["tune_steps"]
    own = torch.optim.Adam(model["domain"].parameters(), lr=1e-2)

    def loss(mel: Tensor, lengths: Tensor, indices: Any, generator: torch.Generator) -> tuple[Tensor, dict]:
        nonlocal step
        z, _ = encoder.encode(encoder.normalize(mel, lengths), lengths)
        h, rows = [], []
        for states, index in zip(z, indices):
            for row in of[int(recordings[index])]:
                begin = int(segments.first[row]) // REDUCTION
                h.append(states[begin : max(begin + 1, -(-int(segments.last[row]) // REDUCTION))].mean(0))
                rows.append(row)
        vectors = torch.stack(h)
        task = F.cross_entropy(model["task"](vectors), torch.from_numpy(phoneme[rows]))
        for _ in range(head_steps):
            own.zero_grad()
            F.cross_entropy(model["domain"](vectors.detach()), torch.from_numpy(accent[rows])).backward()
            own.step()
        reverse = reversal_strength(min(1.0, step / total), largest=strength) if strength else 0.0
        guess = model["domain"](vectors, reverse)
        domain = F.cross_entropy(guess, torch.from_numpy(accent[rows]))
        step += 1
        right = float((guess.argmax(-1).numpy() == accent[rows]).mean())
        return task + domain, {"task": float(task.detach()), "own head": right}

    length = SpeechTraining(steps=total, batch=options["batch"], rate=options["tune_rate"], seed=seed)
    run = fit_steps(model, [frames[i] for i in recordings], loss, length)
    return {name: float(np.mean([row[name] for row in run["history"][-10:]])) for name in ("task", "own head")}
