"""Texts as people say them: pieces of real text in letters, apostrophes and single spaces."""

from __future__ import annotations

import re

import numpy as np

LETTERS = " 'abcdefghijklmnopqrstuvwxyz"  # with the blank of CTC 29 symbols, as usual for LibriSpeech


def normalized(text: str) -> str:
    """The text in lower case, without punctuation, with single spaces; other letters are left out.

    >>> normalized("“Don't,” she said — twice.")
    "don't she said twice"
    """
    text = text.lower().replace("’", "'")
    text = re.sub(r"[^a-z' ]+", " ", text)
    text = re.sub(r"(?<![a-z])'|'(?![a-z])", " ", text)  # quotes, not apostrophes
    return " ".join(text.split())


def sentences(
    text: str, count: int, *, shortest: int = 20, longest: int = 60, seed: int = 0, most_words: int = 40
) -> tuple[str, ...]:
    """`count` different pieces of `text` of `shortest` to `longest` characters, cut at punctuation and between words.

    Pieces with digits, which are said as words, or with signs that are not are passed over, and so are words longer
    than 16 letters. Which pieces: drawn without replacement, by `seed`.

    Raises ValueError where the text has fewer.
    """
    if not 1 <= shortest <= longest:
        raise ValueError(f"shortest={shortest}, longest={longest}: expected 1 ≤ shortest ≤ longest characters")
    found: dict[str, None] = {}
    for clause in re.split(r"[.!?;:\n()\[\]\"“”]+", text):
        if re.search(r"[^A-Za-z'’,\s—–-]", clause):
            continue
        words = normalized(clause).split()
        if any(len(word) > 16 for word in words):
            continue
        piece: list[str] = []
        for word in [*words, None]:
            full = word is None or len(" ".join([*piece, word])) > longest or len(piece) == most_words
            if full:
                said = " ".join(piece)
                if shortest <= len(said) <= longest:
                    found[said] = None
                piece = []
            if word is not None:
                piece.append(word)
    if len(found) < count:
        raise ValueError(
            f"the text has {len(found)} pieces of {shortest} to {longest} characters, {count} are asked for: "
            "ask for fewer, or allow other lengths"
        )
    kept = np.random.default_rng(seed).permutation(len(found))[:count]
    pieces = list(found)
    return tuple(pieces[i] for i in kept)
