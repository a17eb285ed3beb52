"""Real texts with summaries as tokens: pairs to fine-tune on, and gap sentences of the same training texts alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from sciops.datasets import tokenizer_for
from sciops.datasets.text.gap_sentences import gap_pair, principal_sentences, sentences
from sciops.datasets.text.summaries import (
    Summarised,
    docstrings,
    package_descriptions,
    split_summaries,
    without_repeats,
)
from sciops.datasets.text.words import words
from sciops.evaluation import mean_rouge
from sciops.files.digest import digest_of
from sciops.files.json_files import write_atomically, write_json
from sciops.files.untrusted import parse_json, read_json, read_text

Pair = tuple[np.ndarray, np.ndarray]  # tokens of a source and of its target, the end included


@dataclass(frozen=True)
class Corpus:
    """gaps : pairs made of training texts alone; train, validation, test : texts with summaries, as pairs, and
    those of the test as they are; other : those of "train" and "validation"; counts : how many there are of what, for
    the report"""

    tokenizer: Any
    start: int
    mask: int
    gaps: list[Pair]
    train: list[Pair]
    validation: list[Pair]
    test: list[Pair]
    texts: list[Summarised]
    other: dict[str, list[Summarised]]
    counts: dict[str, Any]

    @property
    def symbols(self) -> int:
        return len(self.tokenizer) + 2

    def written(self, tokens: Sequence[int]) -> str:
        """The text of tokens up to the end, without what only the model knows."""
        kept = []
        for token in tokens:
            if token == self.tokenizer.end:
                break
            if token < len(self.tokenizer):
                kept.append(int(token))
        return self.tokenizer.decode(kept).strip()


def pairs_of(sources: Sequence[str], path: Path) -> Path:
    """The file of the texts with summaries of the sources, "debian" and names of packages, one a line; made where it is
    not there. What an installed package says differs between its versions, so that a run keeps what it has read, and
    beside it of which sources. Raises ValueError where these are others."""
    note = path.with_suffix(".sources.json")
    if path.exists() and note.exists():
        about = read_note(note)
        if about["sources"] != list(sources):
            named = ", ".join(map(str, about["sources"]))
            raise ValueError(f"{path} is of {named}, not of {', '.join(sources)}: pass another --output")
        if about["digest"] not in (None, digest_of({}, read_text(path))):
            raise ValueError(f"{path} changed since it was written: delete it, or pass another --output")
    if not path.exists():
        pairs = package_descriptions() if "debian" in sources else []
        packages = [name for name in sources if name != "debian"]
        pairs += docstrings(packages) if packages else []
        lines = [json.dumps(pair._asdict(), ensure_ascii=False) for pair in without_repeats(pairs)]
        text = "\n".join(lines)
        write_json(note, {"sources": list(sources), "digest": digest_of({}, text)})
        write_atomically(path, text.encode())
    return path


def read_note(path: Path) -> dict[str, Any]:
    """{"sources", "digest"} of the pairs beside it; the digest is None in notes of before there was one."""
    try:
        about = read_json(path)
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): delete it, and the pairs beside it") from None
    about = {"sources": about, "digest": None} if isinstance(about, list) else about
    if not isinstance(about, dict) or not isinstance(about.get("sources"), list) or "digest" not in about:
        raise ValueError(f"{path} does not say of which sources the pairs are: delete it, and the pairs beside it")
    return about


def corpus_of(path: Path, *sizes: int, **options: Any) -> Corpus:
    """The corpus of the pairs in a file of `pairs_of`; read once for a content, see `_corpus`."""
    try:
        return _corpus(read_text(path), *sizes, **options)
    except (TypeError, json.JSONDecodeError, UnicodeDecodeError) as error:  # a line that is not a pair
        raise ValueError(f"{path} does not hold pairs of a text and its summary ({error}): delete it") from None


@lru_cache(maxsize=2)  # of the text itself, not of its path: a file may change
def _corpus(
    text: str, symbols: int, source_length: int, target_length: int, *, ratio: float, kept: float, held_out: int
) -> Corpus:
    """text : a pair a line; kept : share of the gap sentences that stay in the source; held_out : greatest number of
    pairs for validation, and for testing. The tokenizer has seen the training texts alone."""
    split = split_summaries([Summarised(**parse_json(line)) for line in text.splitlines()])
    tokenizer = tokenizer_for([pair.text for pair in split.train], symbols - 2)
    start, mask = len(tokenizer), len(tokenizer) + 1
    random = np.random.default_rng(0)

    def ended(tokens: np.ndarray) -> np.ndarray:
        return np.append(tokens[: target_length - 1], tokenizer.end)

    def encoded(part: list[Summarised]) -> list[Pair]:
        return [(tokenizer.encode(p.text)[:source_length], ended(tokenizer.encode(p.summary))) for p in part]

    def some(part: list[Summarised]) -> list[Summarised]:
        return [part[i] for i in sorted(random.permutation(len(part))[:held_out])]

    gaps = []
    for pair in split.train:
        for window in _windows(sentences(pair.text), tokenizer, source_length):
            chosen = principal_sentences(window, ratio=ratio)
            if chosen:
                stay = [i for i in chosen if random.random() < kept]
                source, target = gap_pair(window, chosen, tokenizer.encode, mask=mask, kept=stay)
                gaps.append((source[:source_length], ended(target)))
    validation, test = some(split.validation), some(split.test)
    counts = {
        "training texts": len(split.train),
        "characters of training texts": sum(len(p.text) for p in split.train),
        "gap pairs": len(gaps),
        "validation": len(validation),
        "test": len(test),
        "left out for a summary that stands in a training text": len(split.left_out),
        "symbols": len(tokenizer) + 2,
        "copied": copied([p.summary for p in test], [p.text for p in test]),
        "whole sources": sum(len(tokenizer.encode(p.text)) <= source_length for p in test) / len(test),
    }
    other = {"train": split.train, "validation": validation}
    parts = [encoded(part) for part in (split.train, validation, test)]
    return Corpus(tokenizer, start, mask, gaps, *parts, test, other, counts)


def lead_scores(corpus: Corpus) -> dict[str, list[float]]:
    """ROUGE of what needs no training, on the test part: the first sentence, and as many first words as the training
    summaries have on average."""
    lengths = [len(corpus.written(target).split()) for _, target in corpus.train]
    most = round(float(np.mean(lengths)))
    references = [pair.summary for pair in corpus.texts]
    first = [sentences(pair.text)[0] for pair in corpus.texts]
    some = [" ".join(pair.text.split()[:most]) for pair in corpus.texts]
    return {
        "first sentence": list(mean_rouge(first, references)),
        f"first {most} words": list(mean_rouge(some, references)),
    }


def copied(written: Sequence[str], sources: Sequence[str]) -> float:
    """Share of the words of what is written that stand in its source; nan where nothing is."""
    found = []
    for said, source in zip(written, sources):
        known = set(words(source))
        found += [word in known for word in words(said)]
    return float(np.mean(found)) if found else float("nan")


def _windows(parts: list[str], tokenizer: Any, most: int) -> list[list[str]]:
    """Stretches of at least two sentences, of at most `most` tokens where no sentence is longer by itself."""
    windows: list[list[str]] = [[]]
    used = 0
    for part in parts:
        size = len(tokenizer.encode(part))
        if used + size > most and windows[-1]:
            windows.append([])
            used = 0
        windows[-1].append(part)
        used += size
    return [window for window in windows if len(window) > 1]
