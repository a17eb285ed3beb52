"""What opening a file may take: limits, what is said where one is passed, and where a budget holds."""

from __future__ import annotations

from pathlib import Path

import pytest

import sciops
from sciops.files.budget import (
    MOST_DIMENSIONS,
    Budget,
    OverBudget,
    Spending,
    check_rank,
    current_budget,
    opening_within,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.npz"
    path.write_bytes(b"0" * 100)
    return path


def test_a_file_may_take_its_own_size_and_the_budget_besides(file: Path) -> None:
    spent = Spending(file, budget=Budget(bytes=1000))
    spent.take(bytes=600)
    spent.take(bytes=500)
    with pytest.raises(OverBudget, match=r"a\.npz: b takes 1\.1e\+03 bytes of memory, more than the 1000 besides"):
        spent.take(bytes=1, what="b")


def test_objects_and_time_are_counted_together(file: Path) -> None:
    spent = Spending(file, budget=Budget(objects=10))
    for _ in range(10):
        spent.take(objects=1)
    with pytest.raises(OverBudget, match=r"takes 11 objects .* more than the 10 that .*--budget objects=4e1"):
        spent.take(objects=1)
    with pytest.raises(OverBudget, match=r"seconds of computing, more than the 1e-09 .*Budget\(seconds=\de-\d+\)"):
        spent = Spending(file, budget=Budget(seconds=1e-9))
        for _ in range(10_000):
            spent.take(objects=1)


def test_a_budget_holds_in_its_block_alone() -> None:
    assert sciops.Budget is Budget
    with opening_within(Budget(bytes=5)) as outer, opening_within(None) as inner:
        assert inner == outer == current_budget() == Budget(bytes=5)
    assert current_budget() == Budget()


@pytest.mark.parametrize("text", ["bytes", "bytes=many", "bytes=0", "bytes=nan", "files=3", "bytes=1;seconds=2"])
def test_limits_of_no_meaning_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected limits such as bytes=8e9"):
        Budget.parse(text)


def test_limits_that_are_not_named_keep_their_defaults() -> None:
    assert Budget.parse("bytes=8e9, seconds=60") == Budget(bytes=8e9, seconds=60)
    assert Budget.parse("") == Budget()


def test_arrays_of_very_many_dimensions_are_refused(file: Path) -> None:
    check_rank(file, "u", MOST_DIMENSIONS)
    with pytest.raises(ValueError, match="u has 33 dimensions, at most 32"):
        check_rank(file, "u", MOST_DIMENSIONS + 1)
