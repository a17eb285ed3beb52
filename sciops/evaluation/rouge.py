"""ROUGE: the words, pairs of words and common subsequences that a summary shares with a reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from sciops.datasets.text.words import words


class Rouge(NamedTuple):
    """F-scores between 0 and 1: of words, of pairs of words, of the longest common subsequence, and of its union over
    the sentences."""

    rouge1: float
    rouge2: float
    rougeL: float
    rougeLsum: float


def rouge(prediction: str, reference: str) -> Rouge:
    """ROUGE scores of a summary against a reference (Lin 2004).

    F = 2PR/(P + R) with P = shared/(of the prediction) and R = shared/(of the reference).

    rouge1, rouge2 : shared words, or pairs of neighbouring words, each as often as it is in both
    rougeL : length of the longest common subsequence of the words
    rougeLsum : for every sentence of the reference, the words that lie in its longest common subsequence with any
        sentence of the prediction, each word counted at most as often as both texts have it. Sentences stand on lines
        of their own; texts of one line have rougeLsum = rougeL

    Words are runs of a–z and 0–9 in lower case, without a stemmer: those of the package rouge_score with
    use_stemmer=False, whose numbers these are. 0 where either text has no words, which is every text without a letter
    a–z or a digit: other alphabets need another measure.
    """
    a, b = words(prediction), words(reference)
    lines = [[w for w in map(words, text.split("\n")) if w] for text in (prediction, reference)]
    one, two = (_f(_shared(_grams(a, n), _grams(b, n)), len(a) + 1 - n, len(b) + 1 - n) for n in (1, 2))
    return Rouge(
        one,
        two,
        _f(_table(a, b)[-1][-1], len(a), len(b)),
        _f(_union(*lines), len(a), len(b)),
    )


def mean_rouge(predictions: Sequence[str], references: Sequence[str]) -> Rouge:
    """The mean over pairs of texts. Raises ValueError for none, for numbers that differ, and for one text alone."""
    for name, texts in (("predictions", predictions), ("references", references)):
        if isinstance(texts, str):
            raise ValueError(f"{name}={texts!r:.60}: expected a list of texts; `rouge` takes one pair")
    if len(predictions) != len(references) or not len(references):
        raise ValueError(
            f"{len(predictions)} predictions, {len(references)} references: expected as many, at least one of each"
        )
    scores = [rouge(p, r) for p, r in zip(predictions, references)]
    return Rouge(*(sum(column) / len(scores) for column in zip(*scores)))


def _f(shared: int, of_prediction: int, of_reference: int) -> float:
    return 2 * shared / (of_prediction + of_reference) if shared else 0.0


def _grams(tokens: list[str], n: int) -> Counter:
    return Counter(zip(*(tokens[i:] for i in range(n))))


def _shared(a: Counter, b: Counter) -> int:
    return (a & b).total()


def _table(a: list[str], b: list[str]) -> list[list[int]]:
    """t[i][j]: length of the longest common subsequence of the first i words of a and the first j of b."""
    table = [[0] * (len(b) + 1)]
    for word in a:
        above, row = table[-1], [0]
        for j, other in enumerate(b):
            row.append(above[j] + 1 if word == other else max(above[j + 1], row[j]))
        table.append(row)
    return table


def _places(reference: list[str], prediction: list[str]) -> set[int]:
    """Places in the reference of one longest common subsequence; where there are several, rouge_score's."""
    table, i, j, places = _table(reference, prediction), len(reference), len(prediction), set()
    while i and j:
        if reference[i - 1] == prediction[j - 1]:
            i, j = i - 1, j - 1
            places.add(i)
        elif table[i][j - 1] > table[i - 1][j]:
            j -= 1
        else:
            i -= 1
    return places


def _union(predictions: list[list[str]], references: list[list[str]]) -> int:
    left = [Counter(w for line in lines for w in line) for lines in (predictions, references)]
    shared = 0
    for reference in references:
        for place in sorted(set().union(*(_places(reference, p) for p in predictions))):
            word = reference[place]
            if left[0][word] and left[1][word]:
                shared += 1
                left[0][word] -= 1
                left[1][word] -= 1
    return shared
