"""Corrected p values: those of the definitions, in the order given, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sciops.evaluation.multiplicity import adjusted_p

pytest.importorskip("statsmodels")


def holm(p):
    """By the definition: the largest of the smaller ones, each times the number of tests that are left."""
    return [max(min(1.0, sum(other >= q for other in p) * q) for q in p if q <= mine) for mine in p]


def benjamini_hochberg(p):
    return [min(min(1.0, len(p) * q / sum(other <= q for other in p)) for q in p if q >= mine) for mine in p]


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_corrections_are_those_of_their_authors(count):
    p = np.random.default_rng(count).random(count) ** 3
    np.testing.assert_allclose(adjusted_p(p.tolist()), holm(p), rtol=1e-12)
    np.testing.assert_allclose(adjusted_p(p, "benjamini-hochberg"), benjamini_hochberg(p), rtol=1e-12)
    assert adjusted_p(p, "none") == p.tolist()


def test_edges():
    assert [adjusted_p([], name) for name in ("holm", "benjamini-hochberg", "none")] == [[], [], []]
    assert adjusted_p([1.0, 1.0, 0.0]) == [1.0, 1.0, 0.0]
    assert adjusted_p([0.5, 0.5]) == [1.0, 1.0] and adjusted_p([0.5, 0.5], "benjamini-hochberg") == [0.5, 0.5]


@pytest.mark.parametrize(
    ("p", "correction", "message"),
    [
        ([0.1, 1.2], "holm", "p=1.2: expected p values between 0 and 1"),
        ([math.nan], "none", "p=nan"),
        ([0.1], "bonferroni", "correction='bonferroni': expected one of holm"),
    ],
)
def test_what_is_no_p_value(p, correction, message):
    with pytest.raises(ValueError, match=message):
        adjusted_p(p, correction)
