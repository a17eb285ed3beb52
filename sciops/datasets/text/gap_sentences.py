"""Gap sentences: a text without its principal sentences, and these as what to write (PEGASUS, arXiv:1912.08777)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence

import numpy as np

from sciops.datasets.text.words import words

__all__ = ["gap_pair", "principal_sentences", "sentences"]

_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9])")
_ABBREVIATED = re.compile(
    r"(?:^|[\s(\[])(?:[A-Z]|e\.g|i\.e|cf|vs|etc|approx|resp|al|Dr|Mr|Mrs|Ms|Prof|St|No|Nos|Fig|Figs|Eq|Eqs|Sec|Vol|pp?)\.$"
)


def sentences(text: str) -> list[str]:
    """The sentences of a text, in order; a line ends one too.

    A sentence ends at . ! or ? before white space and a capital letter or digit, closing quotes and brackets included,
    but not after an initial or a common English abbreviation (e.g., i.e., Fig., et al.).

    >>> sentences("It has two parts, e.g. A and B. Is it fast? It is.")
    ['It has two parts, e.g. A and B.', 'Is it fast?', 'It is.']
    """
    found = []
    for line in text.split("\n"):
        start = 0
        for end in _END.finditer(line):
            if not _ABBREVIATED.search(line[start : end.start()]):
                found.append(line[start : end.end()].strip())
                start = end.end()
        found.append(line[start:].strip())
    return [sentence for sentence in found if sentence]


def principal_sentences(sentences: Sequence[str], *, ratio: float = 0.3) -> list[int]:
    """The places, in order, of the max(1, round(ratio·n)) of n sentences that share most with the rest of the text:

        F_i = ROUGE-1 F of sentence i and all others together, each sentence on its own; the earlier of equal ones.

    The published choice "Ind-Orig", of O(words) work. One sentence at least stays: a text of one sentence has none.

    Raises ValueError for a ratio outside 0 < ratio < 1.
    """
    if not 0 < ratio < 1:
        raise ValueError(f"ratio={ratio!r}: expected a share of the sentences between 0 and 1")
    counts = [Counter(words(sentence)) for sentence in sentences]
    whole: Counter[str] = Counter()
    for count in counts:
        whole.update(count)
    size = whole.total()
    shared = [sum(min(n, whole[word] - n) for word, n in count.items()) for count in counts]
    scores = [2 * both / size if both else 0.0 for both in shared]  # |sentence| + |rest| is |text| for all
    most = min(max(1, round(ratio * len(sentences))), len(sentences) - 1)
    best = sorted(range(len(sentences)), key=lambda i: (-scores[i], i))[: max(0, most)]
    return sorted(best)


def gap_pair(
    sentences: Sequence[str],
    chosen: Collection[int],
    encode: Callable[[str], Sequence[int]],
    *,
    mask: int,
    kept: Collection[int] = (),
) -> tuple[np.ndarray, np.ndarray]:
    """(source, target) tokens: the sentences with the token `mask` in the place of each chosen one, and those chosen.

    encode : tokens of a string; a space goes before every sentence but the first of each side
    kept : of the chosen ones, those that stay in the source too, so that copying is learned (PEGASUS: one in five)
    """
    source: list[int] = []
    target: list[int] = []
    for i, sentence in enumerate(sentences):
        if i in chosen:
            target += list(encode(f" {sentence}" if target else sentence))
        if i in chosen and i not in kept:
            source.append(mask)
        else:
            source += list(encode(f" {sentence}" if source else sentence))
    return np.array(source, dtype=np.int64), np.array(target, dtype=np.int64)
