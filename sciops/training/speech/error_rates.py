"""Error rates of transcripts, by jiwer: (substitutions + deletions + insertions) ÷ symbols of the references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def character_error_rate(references: Sequence[str], hypotheses: Sequence[str]) -> float:
    """Levenshtein distance of characters, spaces within included, over all pairs ÷ characters of all references."""
    _check(references, hypotheses)
    return float(_jiwer().cer(list(references), list(hypotheses)))


def word_error_rate(references: Sequence[str], hypotheses: Sequence[str]) -> float:
    """Levenshtein distance of words over all pairs ÷ words of all references."""
    _check(references, hypotheses)
    return float(_jiwer().wer(list(references), list(hypotheses)))


def phoneme_error_rate(references: Sequence[Sequence[str]], hypotheses: Sequence[Sequence[str]]) -> float:
    """Levenshtein distance of phonemes over all pairs ÷ phonemes of all references; no phoneme holds a space."""
    for one in (*references, *hypotheses):
        for phoneme in one:
            if not phoneme or any(c.isspace() for c in phoneme):
                raise ValueError(f"phoneme {phoneme!r}: expected names without spaces")
    return word_error_rate([" ".join(one) for one in references], [" ".join(one) for one in hypotheses])


def _check(references: Sequence[str], hypotheses: Sequence[str]) -> None:
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
