"""ROUGE against counts by hand, a subsequence search by brute force, and the package rouge_score."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sciops.evaluation import Rouge, mean_rouge, rouge


def drawn(random, lines, longest=9, symbols=6):
    return "\n".join(
        " ".join(f"w{k}" for k in random.integers(symbols, size=random.integers(longest))) for _ in range(lines)
    )


def test_by_hand():
    got = rouge("The cat sat; on THE mat.", "the cat, the dog")
    assert got.rouge1 == pytest.approx(2 * 3 / (6 + 4))  # the, the, cat
    assert got.rouge2 == pytest.approx(2 * 1 / (5 + 3))  # the cat
    assert got.rougeL == pytest.approx(2 * 3 / (6 + 4))  # the cat … the
    # line 1 of the reference finds a b, line 2 finds c in either line, once
    assert rouge("a b c\nc", "b a b\nc d").rougeLsum == pytest.approx(2 * 3 / (4 + 5))
    assert rouge("running files", "run file") == Rouge(0, 0, 0, 0)  # no stemmer
    assert rouge("", "a b") == rouge("ä", "ö") == Rouge(0, 0, 0, 0)
    assert rouge("a", "a") == Rouge(1, 0, 1, 1)


def test_subsequences_by_brute_force():
    random = np.random.default_rng(0)
    for _ in range(30):
        a, b = (drawn(random, 1, symbols=3).split() for _ in range(2))
        common = [n for n in range(1, len(a) + 1) if set(combinations(a, n)) & set(combinations(b, n))]
        expected = 2 * max(common) / (len(a) + len(b)) if common else 0.0
        assert rouge(" ".join(a), " ".join(b)).rougeL == pytest.approx(expected)


def test_numbers_are_those_of_rouge_score():
    scorer = pytest.importorskip("rouge_score.rouge_scorer")
    names = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
    theirs = scorer.RougeScorer(names, use_stemmer=False)
    random = np.random.default_rng(1)
    for _ in range(200):
        prediction, reference = (drawn(random, random.integers(1, 4)) for _ in range(2))
        expected = theirs.score(reference, prediction)
        assert rouge(prediction, reference) == pytest.approx([expected[name].fmeasure for name in names])
    text = "Return the 1st e.g. of a 'naïve' List_of values, re-read in-place (x_1 = 3.5)."
    expected = theirs.score("List of values: 3.5, naïve re-read.", text)
    assert rouge(text, "List of values: 3.5, naïve re-read.") == pytest.approx(
        [expected[name].fmeasure for name in names]
    )


def test_means():
    pairs = ["a b c", "d", "x"], ["a b d", "d", "y"]
    each = [rouge(p, r) for p, r in zip(*pairs)]
    assert mean_rouge(*pairs) == pytest.approx(np.mean(each, axis=0))
    with pytest.raises(ValueError, match="at least one"):
        mean_rouge([], [])
    with pytest.raises(ValueError, match="as many"):
        mean_rouge(["a"], ["a", "b"])
    with pytest.raises(ValueError, match="predictions='the cat': expected a list"):
        mean_rouge("the cat", "the dog")


@pytest.mark.parametrize("space", ["\t", "\r\n", "\N{NO-BREAK SPACE}", "\N{EM SPACE}"])
def test_any_white_space_separates_words(space):
    assert rouge(f"a{space}b", "a b") == pytest.approx(rouge("a b", "a b"))
