"""Patterns of links: sets that a cache can be pruned to, in whole numbers, and how many hops they need."""

import math
from fractions import Fraction
from itertools import count, takewhile

import pytest
import torch

from sciops.mixers.recurrence.links import Links, lattice

FORMULAS = {"powers": lambda k: 2**k, "squares": lambda k: k * k + 1, "dense": lambda k: k + 1}
RISING = (1, 4, 5, 11, 100, 1000)


def offsets_of(pattern, below):
    if isinstance(pattern, tuple):
        return [f for f in pattern if f < below]
    return list(takewhile(lambda f: f < below, map(FORMULAS[pattern], count())))


def links_of(pattern, i, cache_efficient):
    """The links of token i, counted from 1, in exact fractions."""
    f = offsets_of(pattern, i)
    if not cache_efficient:
        return {i - one for one in f}
    a, linked = 1, set()
    for k, one in enumerate(f):
        if k:
            a *= math.ceil(Fraction(one - f[k - 1], a))
        linked.add(a * math.ceil(Fraction(i - one, a)))
    return linked


def rows(links, n):
    """{1-based positions} by token, from the table; no position may come twice."""
    out = []
    for row in links.table(torch.arange(n), n - 1).tolist():
        found = [j + 1 for j in row if j >= 0]
        assert len(found) == len(set(found))
        out.append(set(found))
    return out


@pytest.mark.parametrize("efficient", [True, False])
@pytest.mark.parametrize("pattern", ["powers", "squares", "dense", RISING])
def test_tables_hold_the_sets_of_the_formula(pattern, efficient):
    got = rows(Links(pattern, efficient), 300)
    assert got == [links_of(pattern, i, efficient) for i in range(1, 301)]


def test_the_sets_of_the_paper():
    assert rows(Links("powers", True), 20)[-1] == {8, 12, 16, 18, 19}
    assert rows(Links("squares", True), 20)[-1] == {12, 15, 18, 19}
    assert lattice([2**k for k in range(6)]) == [1, 1, 2, 4, 8, 16]
    assert lattice([k * k + 1 for k in range(8)]) == [1, 1, 3, 6, 12, 12, 12, 24]
    assert max(map(len, rows(Links("squares", True), 100))) == 9


@pytest.mark.parametrize("pattern", ["powers", "squares", RISING])
def test_what_is_asked_for_was_kept(pattern):
    """S_{i+1} ⊆ S_i ∪ {i} and max S_i < i, to i = 10⁴."""
    n = 10_000
    table = Links(pattern, True).table(torch.arange(n), n - 1)
    assert (table < torch.arange(n)[:, None]).all()
    for start in range(0, n - 1, 1000):
        now, after = table[start : start + 1000], table[start + 1 : start + 1001]
        now = now[: len(after)]
        known = (after[..., None] == now[:, None]).any(-1)
        just_now = after == torch.arange(start, start + len(after))[:, None]
        assert (known | just_now | (after < 0)).all()


@pytest.mark.parametrize("pattern", ["powers", "squares"])
def test_a_cache_that_forgets_never_misses(pattern):
    links, cache, n = Links(pattern, True), {}, 600
    for i in range(n):
        needed = [j for j in links.table(torch.tensor(i), i).tolist() if j >= 0]
        assert all(cache[j] == j for j in needed)
        cache[i] = i
        keep = [j for j in links.kept(torch.tensor(i + 1), i + 1).tolist() if j >= 0]
        assert keep == sorted(keep)
        cache = {j: cache[j] for j in keep}
        assert len(cache) <= len(offsets_of(pattern, i + 2))


def test_hops():
    """Shortest ways back: as many as there are ones in the distance (2^k), at most four (k² + 1)."""
    n = 5001
    hops = {name: [0] for name in ("powers", "squares")}
    for name, found in hops.items():
        offsets = offsets_of(name, n)
        for distance in range(1, n):
            found.append(1 + min(found[distance - f] for f in offsets if f <= distance))
    assert hops["powers"] == [distance.bit_count() for distance in range(n)]
    assert max(hops["squares"]) == 4


@pytest.mark.parametrize("pattern, most, mean", [("powers", 9, 4.5), ("squares", 5, 3.3)])
def test_the_lattice_still_reaches_everything(pattern, most, mean):
    n, far = 512, {512: 0}
    linked = rows(Links(pattern, True), 512)
    for i in range(512, 0, -1):
        for j in linked[i - 1]:
            if i in far:
                far[j] = min(far.get(j, n), far[i] + 1)
    assert len(far) == 512 and max(far.values()) == most
    assert sum(far.values()) / 512 == pytest.approx(mean, abs=0.06)


def test_windows_and_rows():
    links = Links((2, 5))
    assert links.kept(torch.tensor([1, 9]), 9).tolist() == [[-1, -1, -1, -1, 0], [4, 5, 6, 7, 8]]
    assert Links("powers").kept(torch.tensor(9), 9) is None
    table = Links("powers").table(torch.arange(9), 8, row=4)  # 4 is 2² already
    assert (table[:, -1] == -1).all()
    table = Links("powers").table(torch.arange(9), 8, row=3)
    assert table[:, -1].tolist() == [-1, -1, -1, 0, 1, 2, 3, 4, 5]
