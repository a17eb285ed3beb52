"""Error rates of transcripts, by jiwer: (substitutions + deletions + insertions) ÷ symbols of the references."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_SPACE = re.compile(r"\r\n|\s")


def character_error_rate(references: Sequence[str], hypotheses: Sequence[str]) -> float:
    """Levenshtein distance of characters over all pairs ÷ characters of all references.

    Every white-space character within a text (line break, tab, no-break space, …) counts as one space; those at its
    ends do not count. Characters are code points: normalize texts (``unicodedata.normalize``) that write accents
    differently.

    Raises ValueError for one text in place of a list of texts, for numbers of texts that differ, and for references
    that are all empty; a single empty reference or hypothesis is counted.
    """
    _check(references, hypotheses)
    said, heard = ([_SPACE.sub(" ", text.strip()) for text in texts] for texts in (references, hypotheses))
    return float(_jiwer().cer(said, heard))


def word_error_rate(references: Sequence[str], hypotheses: Sequence[str]) -> float:
    """Levenshtein distance of words over all pairs ÷ words of all references.

    Words are separated by white space of any kind and length, as ``str.split`` has it. Case and punctuation count.
    Raises ValueError as `character_error_rate` does.
    """
    _check(references, hypotheses)
    said, heard = ([" ".join(text.split()) for text in texts] for texts in (references, hypotheses))
    return float(_jiwer().wer(said, heard))


def phoneme_error_rate(references: Sequence[Sequence[str]], hypotheses: Sequence[Sequence[str]]) -> float:
    """Levenshtein distance of phonemes over all pairs ÷ phonemes of all references; no phoneme holds a space."""
    for one in (*references, *hypotheses):
        for phoneme in one:
            if not phoneme or any(c.isspace() for c in phoneme):
                raise ValueError(f"phoneme {phoneme!r}: expected names without spaces")
    return word_error_rate([" ".join(one) for one in references], [" ".join(one) for one in hypotheses])


def _check(references: Sequence[str], hypotheses: Sequence[str]) -> None:
    for name, texts in (("references", references), ("hypotheses", hypotheses)):
        if isinstance(texts, str) or not all(isinstance(one, str) for one in texts):
            raise ValueError(f"{name}={texts!r:.60}: expected a list of texts, such as [{'a text'!r}]")
    if len(references) != len(hypotheses) or not any(one.strip() for one in references):
        raise ValueError(
            f"{len(references)} references, {len(hypotheses)} hypotheses: expected one for each, and "
            "references that are not all empty"
        )


def _jiwer() -> Any:
    try:
        import jiwer
    except ImportError:
        raise ImportError("error rates need jiwer: pip install 'sciops[speech]'") from None
    return jiwer
